//! What all ranks do in a season, in this order.

use fampi::sim::Draw;

/// One step of a script, which all ranks follow; blocks and communicators are named by their order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Start {
        comm: usize,
        agreed: bool,
    },
    Exchange(usize),
    Sum(usize),
    /// This process waits for a message that nobody sends.
    Listen(usize, usize),
    /// A wait inside of the block for all that was started in it.
    WaitInside(usize),
    /// The second block goes to the list of the first.
    Nest(usize, usize),
    Finish(usize),
    /// All finish it but this process, which frees it.
    Leave(usize, usize),
    /// This process objects, and all finish it.
    Raise(usize, usize),
    /// This process ends the waits of all.
    Interrupt(usize, usize),
    Wait(usize),
    /// A communicator of the living, in whatever blocks are open.
    Shrink(usize),
    Compute(usize),
}

/// How far a block is in a script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Open,
    /// Some process waits in it for what does not come.
    Late,
    Finished,
    Nested,
}

/// Draws a script for so many ranks, which have so many communicators.
pub(super) fn draw(draw: &mut Draw, ranks: u32, mut comms: usize, calm: bool) -> Vec<Step> {
    let mut script = Vec::new();
    let mut blocks: Vec<(bool, Stage)> = Vec::new();
    let most = comms + 2;
    for _ in 0..5 + draw.below(16) {
        let kind = draw.below(if calm { 14 } else { 18 });
        let at = draw.below(blocks.len().max(1) as u64) as usize;
        let other = draw.below(blocks.len().max(1) as u64) as usize;
        let process = draw.below(u64::from(ranks)) as usize;
        let comm = draw.below(comms as u64) as usize;
        if blocks.is_empty() || kind < 3 {
            let agreed = !draw.one_in(6);
            script.push(Step::Start { comm, agreed });
            blocks.push((agreed, Stage::Open));
            continue;
        }
        let (agreed, stage) = blocks[at];
        let (step, stage) = match (kind, stage) {
            (3, Stage::Open) => (Step::Exchange(at), stage),
            (4, Stage::Open) => (Step::Sum(at), stage),
            // What is late in a block is waited for by its finish only.
            (5, Stage::Open) if agreed => (Step::WaitInside(at), stage),
            (6..=8, Stage::Open | Stage::Late) => (Step::Finish(at), Stage::Finished),
            (9, Stage::Finished) => (Step::Wait(at), stage),
            (10, Stage::Finished) if blocks[other].1 == Stage::Open => {
                (Step::Nest(other, at), Stage::Nested)
            }
            (11 | 12, stage) if comms < most => {
                comms += 1;
                (Step::Shrink(comm), stage)
            }
            (14, Stage::Open) if agreed => (Step::Leave(at, process), Stage::Finished),
            (15, Stage::Open) if agreed => (Step::Raise(at, process), Stage::Finished),
            (16, Stage::Open) if agreed => (Step::Interrupt(at, process), stage),
            (17, Stage::Open) => (Step::Listen(at, process), Stage::Late),
            (_, stage) => (Step::Compute(process), stage),
        };
        blocks[at].1 = stage;
        script.push(step);
    }
    script
}
