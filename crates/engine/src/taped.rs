//! What of the tapes of a plan there is, and what of them is this share's.

use std::path::Path;

use kvmark_plan::{Arrival, Plan, Share, TapeOrder};
use kvmark_trace::tape::{Block, TapeError, TapeReader};

use crate::error::EngineError;
use crate::phase::turns;
use crate::source::part_of;
use crate::tape::{Owner, Taped};

/// Looks whether the tapes of a plan are there, whole, and long enough, and what of them is this
/// share's.
pub(crate) fn check(plan: &Plan) -> Result<Taped, EngineError> {
    let mut taped = Taped::new();
    for (index, phase) in plan.phases.iter().enumerate() {
        for (active, turns) in phase.groups.iter().zip(turns(plan, phase, plan.share)) {
            let arrival = &plan.groups[active.group as usize].arrival;
            let Arrival::Tape { path, loops, order, .. } = arrival else { continue };
            let tape = |problem: String| EngineError::Tape { path: path.clone(), problem };
            let once = operations(path).map_err(|problem| tape(problem.to_string()))?;
            let there = once * u64::from(*loops);
            let wanted = active.operations.unwrap_or(there);
            if wanted > there {
                return Err(tape(format!("it ends after {there} operations")));
            }
            let own = match turns.owner(0, 1) {
                Some(owner) => own(path, once, wanted, owner, *order),
                None => Ok(0),
            };
            let own = own.map_err(|problem| tape(problem.to_string()))?;
            taped.insert((index, active.group), own);
        }
    }
    Ok(taped)
}

/// How many of the first `wanted` operations of a tape, which has `once` and begins anew behind
/// them, are an owner's.
fn own(
    path: &str,
    once: u64,
    wanted: u64,
    owner: Owner,
    order: TapeOrder,
) -> Result<u64, TapeError> {
    if owner == Owner::ONLY {
        return Ok(wanted);
    }
    if order == TapeOrder::None {
        return Ok(part_of(wanted, Share { index: owner.index, of: owner.of }));
    }
    let (times, rest) = (wanted / once.max(1), wanted % once.max(1));
    let (mut reader, mut block) = (TapeReader::open(Path::new(path))?, Block::default());
    let (mut number, mut of_each, mut of_rest) = (0, 0, 0);
    while reader.next_block(&mut block)? {
        for record in (0..block.len()).filter_map(|index| block.record(index)) {
            let has = u64::from(owner.has(&record, number, order));
            of_each += has;
            of_rest += if number < rest { has } else { 0 };
            number += 1;
        }
    }
    Ok(times * of_each + of_rest)
}

/// The operations of a tape, by its heads.
fn operations(path: &str) -> Result<u64, TapeError> {
    let (mut reader, mut there) = (TapeReader::open(Path::new(path))?, 0);
    while let Some(head) = reader.skip_block()? {
        there += head.records as u64;
    }
    Ok(there)
}
