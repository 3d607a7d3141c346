//! What a seed stands for: who takes part, how long things take, who dies and when.
//!
//! Times are in virtual ticks; the quickest message takes one.

use fampi::{fault::FaultCode, protocol::exchange::Shape, sim::Draw};

/// When a rank dies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Death {
    /// Between two turns.
    Idle,
    /// In its next turn, after some of the turn's effects.
    InTurn,
    /// In its next turn that decides a block, after some of the turn's effects.
    Deciding,
}

/// The plan of one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Number of ranks.
    pub(crate) ranks: u32,
    /// How wide the exchanges are.
    pub(crate) shape: Shape,
    /// The nodes of the ranks, one for each.
    pub(crate) nodes: Vec<u32>,
    /// Number of blocks that each rank starts.
    pub(crate) blocks: usize,
    /// A rank starts a block when all blocks more than so many before it are decided.
    pub(crate) window: usize,
    /// A rank votes *no* once in so many votes; 0 is never.
    pub(crate) no_once_in: u64,
    /// An attempt takes up to so long.
    pub(crate) think: u64,
    /// A message takes up to so long.
    pub(crate) latency: u64,
    /// One message in 16 takes so many times longer.
    pub(crate) jam: u64,
    /// The news of a death takes up to so long.
    pub(crate) notice: u64,
    /// Who dies: the rank, from when on, and how.
    pub(crate) deaths: Vec<(u32, u64, Death)>,
    /// Votes bring values for a fused reduction.
    pub(crate) fused: bool,
    /// A rank that brings values for another one.
    pub(crate) misfit: Option<u32>,
    /// The blocks that are steps of a recovery.
    pub(crate) steps: Vec<usize>,
    /// The blocks that are agreements, and a bit for each rank that acknowledges deaths in it.
    pub(crate) agreements: Vec<(usize, u64)>,
    /// A rank that gives the communicator up, and when.
    pub(crate) leaver: Option<(u32, u64)>,
    /// It does so as it leaves the job.
    pub(crate) leaves_job: bool,
    /// What some ranks say on a block that all have to say: the block, the code, a bit for each of
    /// these ranks.
    pub(crate) purposes: Vec<(usize, FaultCode, u64)>,
    /// Who comes to know how others die, a bit for each rank.
    pub(crate) told: u64,
}

impl Plan {
    /// Draws a plan.
    pub(crate) fn drawn_by(draw: &mut Draw) -> Self {
        let ranks = 2 + draw.below(15).min(draw.below(15)) as u32;
        let blocks = 1 + draw.below(5) as usize;
        let latency = draw.one_of(&[1, 4, 20]);
        let think = draw.one_of(&[1, 10, 60]);
        let horizon = blocks as u64 * (think + latency * 6) + 10;
        let most = match draw.below(8) {
            0 => 0,
            1..=4 => 1,
            5..=6 => 3,
            _ => ranks - 1,
        };
        let mut deaths = Vec::new();
        for _ in 0..most.min(ranks - 1) {
            let rank = draw.below(u64::from(ranks)) as u32;
            if deaths.iter().all(|(other, _, _)| *other != rank) {
                let how = draw.one_of(&[Death::Idle, Death::InTurn, Death::Deciding]);
                deaths.push((rank, draw.below(horizon), how));
            }
        }
        let leaves = draw.one_in(12);
        let mut purposes = Vec::new();
        for block in 0..blocks {
            let code = draw.one_of(&[FaultCode::Finalized(block as i32), FaultCode::NotAllDone]);
            let some = draw.below(u64::MAX);
            if draw.one_in(8) {
                purposes.push((block, code, draw.one_of(&[u64::MAX, some])));
            }
        }
        let agreements = (0..blocks).filter(|_| draw.one_in(6)).collect::<Vec<_>>();
        let mut acks = || draw.one_of(&[u64::MAX, u64::MAX, 0, 0x5555]);
        let agreements = agreements.into_iter().map(|block| (block, acks())).collect();
        let with_steps = draw.one_in(3);
        let leaver = (draw.below(u64::from(ranks)) as u32, draw.below(horizon));
        let nodes = draw.one_of(&[1, 2, 3, ranks]);
        let how = draw.below(3);
        let mut node_of = |rank| match how {
            0 => rank * nodes / ranks,
            1 => rank % nodes,
            _ => draw.below(u64::from(nodes)) as u32,
        };
        let nodes = (0..ranks).map(&mut node_of).collect();
        Self {
            nodes,
            ranks,
            shape: Shape::new(draw.one_of(&[2, 4, 8]), draw.one_of(&[2, 4])),
            blocks,
            window: 1 + draw.below(3) as usize,
            no_once_in: draw.one_of(&[0, 0, 4, 40]),
            think,
            latency,
            jam: draw.one_of(&[1, 1, 30]),
            notice: draw.one_of(&[1, 10, 100]),
            deaths,
            leaver: leaves.then_some(leaver),
            leaves_job: draw.one_in(2),
            purposes,
            fused: draw.one_in(2),
            steps: (0..blocks).filter(|_| with_steps && draw.one_in(2)).collect(),
            agreements,
            told: 0,
            misfit: draw.one_in(16).then(|| draw.below(u64::from(ranks)) as u32),
        }
    }
}
