//! Checks the tapes of a plan and counts this share's operations.

use std::path::Path;

use kvmark_plan::{Arrival, Plan, Share, TapeOrder};
use kvmark_trace::tape::{Block, TapeError, TapeReader};
use kvmark_workload::NumberPartition;

use crate::error::EngineError;
use crate::sequence::turns;
use crate::tape::{TapeCounts, is_of_share};

/// Checks that the tapes of a plan exist and are long enough. Returns the number of this share's
/// operations.
pub(crate) fn check(plan: &Plan) -> Result<TapeCounts, EngineError> {
    let mut taped = TapeCounts::new();
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
            let own = match turns.tape_share(0, 1) {
                Some(share) => own(path, once, wanted, share, *order),
                None => Ok(0),
            };
            let own = own.map_err(|problem| tape(problem.to_string()))?;
            taped.insert((index, active.group), own);
        }
    }
    Ok(taped)
}

/// How many of the first `wanted` operations belong to a share. The tape has `once` operations and
/// is repeated.
fn own(
    path: &str,
    once: u64,
    wanted: u64,
    share: Share,
    order: TapeOrder,
) -> Result<u64, TapeError> {
    if share.of == 1 {
        return Ok(wanted);
    }
    if order == TapeOrder::None {
        return Ok(NumberPartition::of_share(share).of_first(wanted));
    }
    let (times, rest) = (wanted / once.max(1), wanted % once.max(1));
    let (mut reader, mut block) = (TapeReader::open(Path::new(path))?, Block::default());
    let (mut number, mut of_each, mut of_rest) = (0, 0, 0);
    while reader.next_block(&mut block)? {
        for record in (0..block.len()).filter_map(|index| block.record(index)) {
            let has = u64::from(is_of_share(share, &record, number, order));
            of_each += has;
            of_rest += if number < rest { has } else { 0 };
            number += 1;
        }
    }
    Ok(times * of_each + of_rest)
}

/// Number of operations on a tape, from its block headers.
fn operations(path: &str) -> Result<u64, TapeError> {
    let (mut reader, mut there) = (TapeReader::open(Path::new(path))?, 0);
    while let Some(head) = reader.skip_block()? {
        there += head.records as u64;
    }
    Ok(there)
}
