//! Draws a plan's operations without executing them.

use kvmark_plan::{Kind, PhaseName, Plan};
use kvmark_workload::{InsertSequence, Stream};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::raise;

type Drawn<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The first `count` operations of a group in a phase, both by index, drawn by the engine's own
/// code with the records as they are before the phase; each insert succeeds before the next.
///
/// Returns each operation's kind (a byte, by its place among the plan's kinds), its record's
/// ordinal (8 bytes), and the length of the first field's value where it writes one as a system's
/// own update does (8 bytes); all in little endian.
///
/// Raises `kvmark.errors.PlanError` when the plan can't be carried out, `ValueError` when it has no
/// such phase or group.
#[pyfunction]
pub(crate) fn draw_operations<'py>(
    py: Python<'py>,
    plan: &str,
    phase: usize,
    group: usize,
    count: u64,
) -> PyResult<Drawn<'py>> {
    let plan = Plan::from_json(plan).map_err(|error| raise(py, error))?;
    let wrong = |problem: String| PyValueError::new_err(problem);
    let stream = Stream::new(&plan, phase, group).map_err(|problem| wrong(problem.to_string()))?;
    let name = plan.phases.get(phase).map(|phase| phase.name);
    let name = name.ok_or_else(|| wrong(format!("there is no phase {phase}")))?;
    let loaded = if name == PhaseName::Load { 0 } else { plan.dataset.count };
    let inserts = InsertSequence::new(plan.dataset.start + loaded, plan.share);
    let inserts = inserts.ending_at(plan.dataset.full_at);
    let drawn = py.detach(|| drawn(&stream, &inserts, count));
    let [kinds, ordinals, lengths] = drawn.map(|bytes| PyBytes::new(py, &bytes));
    Ok((kinds, ordinals, lengths))
}

fn drawn(stream: &Stream, inserts: &InsertSequence, count: u64) -> [Vec<u8>; 3] {
    let [mut kinds, mut ordinals, mut lengths] = [const { Vec::new() }; 3];
    for number in 0..count {
        let mut draw = stream.draw(number, inserts);
        if draw.kind == Kind::Insert {
            stream.insert_into(&mut draw, inserts);
            if draw.kind == Kind::Insert {
                inserts.acknowledge(draw.ordinal);
            }
        }
        kinds.push(draw.kind as u8);
        ordinals.extend_from_slice(&draw.ordinal.to_le_bytes());
        lengths.extend_from_slice(&stream.records().first_value_length(number).to_le_bytes());
    }
    [kinds, ordinals, lengths]
}
