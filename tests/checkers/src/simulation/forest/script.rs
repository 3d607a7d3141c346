//! What all ranks do in a season, in this order.

use fampi::sim::Draw;

/// One step of a script, which all ranks follow; blocks are named by their order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Start {
        node: usize,
    },
    Exchange(usize),
    Sum(usize),
    Finish(usize),
    /// All finish it but this process, which objects.
    Leave(usize, usize),
    /// All finish it but this process, which panics.
    Panic(usize, usize),
    Wait(usize),
    Nest(usize),
    Drop {
        node: usize,
        process: usize,
    },
    Compute(usize),
}

/// How far a block is in a script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Open,
    Ended,
    Nested,
    Known,
}

/// True when a wait for this block is one inside of others, which may be doomed.
fn is_inside(at: usize, blocks: &[(usize, Stage)]) -> bool {
    blocks[..at].iter().any(|(_, stage)| *stage == Stage::Open)
}

/// Draws what all ranks do in a season with communicators of which each was derived from those
/// `above`.
pub(super) fn draw(draw: &mut Draw, above: &[Vec<usize>], ranks: u32, calm: bool) -> Vec<Step> {
    let mut script = Vec::new();
    let mut blocks: Vec<(usize, Stage)> = Vec::new();
    for _ in 0..4 + draw.below(14) {
        let kind = draw.below(if calm { 9 } else { 13 });
        let at = draw.below(blocks.len().max(1) as u64) as usize;
        let process = draw.below(u64::from(ranks)) as usize;
        let node = draw.below(above.len() as u64) as usize;
        if blocks.is_empty() || kind < 2 {
            if let Some(waits) = waits_before(&above[node], &blocks) {
                for at in waits {
                    blocks[at].1 = Stage::Known;
                    script.push(Step::Wait(at));
                }
                script.push(Step::Start { node });
                blocks.push((node, Stage::Open));
            }
            continue;
        }
        let (step, stage) = match (kind, blocks[at].1) {
            (2, stage) => (Step::Exchange(at), stage),
            (3, stage) => (Step::Sum(at), stage),
            (4..=6, Stage::Open) => (Step::Finish(at), Stage::Ended),
            (9, Stage::Open) => (Step::Leave(at, process), Stage::Ended),
            (10, Stage::Open) => (Step::Panic(at, process), Stage::Ended),
            (4, Stage::Ended) if !is_inside(at, &blocks) => (Step::Wait(at), Stage::Known),
            (5, Stage::Ended) => (Step::Nest(at), Stage::Nested),
            (11, stage) => (Step::Drop { node, process }, stage),
            (_, stage) => (Step::Compute(process), stage),
        };
        blocks[at].1 = stage;
        script.push(step);
    }
    script
}

/// The blocks to wait for before one is started on a communicator; nothing if it cannot be.
///
/// What is derived starts afresh when a block is faulty, so that the verdict has to be known on
/// those of what is above, but for those that all are in.
fn waits_before(above: &[usize], blocks: &[(usize, Stage)]) -> Option<Vec<usize>> {
    let above = blocks.iter().enumerate().filter(|(_, (it, _))| above.contains(it));
    let mut waits = Vec::new();
    for (at, (_, stage)) in above {
        match stage {
            Stage::Open | Stage::Known => {}
            Stage::Ended if !is_inside(at, blocks) => waits.push(at),
            Stage::Ended | Stage::Nested => return None,
        }
    }
    Some(waits)
}
