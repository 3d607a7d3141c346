//! Accesses to windows that all ranks know, and what they make of the memories of all: by ranks
//! that may die, and by somebody who makes no mistake.

use fampi::{
    BlockOptions, Codes, Error, Finished, Placement, Rank, ReduceOp, Request, Timeout, Tried,
    TryBlock, Window, World,
};

const CELLS: usize = 6;

/// One access, which all ranks know.
#[derive(Clone, Copy, Debug)]
struct Access {
    target: u32,
    at: usize,
    value: f64,
    /// Nothing for a put.
    op: Option<ReduceOp>,
}

/// The memories of all ranks, by somebody who makes no mistake.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth(pub Vec<Vec<f64>>);

impl Truth {
    pub fn new(ranks: u32) -> Self {
        Self((0..ranks).map(|rank| vec![f64::from(rank); CELLS]).collect())
    }

    pub fn commit(&mut self, round: u64, living: &[u32]) {
        for access in living.iter().flat_map(|origin| accesses(round, *origin, living)) {
            let cell = &mut self.0[access.target as usize][access.at];
            *cell = match access.op {
                None => access.value,
                Some(ReduceOp::Sum) => *cell + access.value,
                Some(_) => cell.max(access.value),
            };
        }
    }
}

pub fn draw(what: [u64; 3]) -> u64 {
    let mix = |seed: u64, it: &u64| (seed ^ it).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    what.iter().fold(11, mix)
}

fn accesses(round: u64, origin: u32, living: &[u32]) -> Vec<Access> {
    let draw = |k: u64, what: u64| draw([round * 8 + what, u64::from(origin), k]) >> 20;
    let access = |k: u64| Access {
        target: living[draw(k, 0) as usize % living.len()],
        at: draw(k, 1) as usize % CELLS,
        value: (draw(k, 2) % 1000) as f64 / 7.0,
        op: [None, Some(ReduceOp::Sum), Some(ReduceOp::Max)][draw(k, 3) as usize % 3],
    };
    (0..4).map(access).collect()
}

/// Posts the accesses of a round, and gets the cells of others: which they are, and where.
pub type Gotten = Vec<(u32, usize, Request<f64>)>;

pub fn post(
    block: &mut TryBlock,
    window: &Window<f64>,
    (round, me): (u64, u32),
    living: &[u32],
) -> Result<Gotten, Error> {
    let mut gotten = Vec::new();
    for Access { target, at, value, op } in accesses(round, me, living) {
        let (to, value) = (Rank::new(target), vec![value]);
        match op {
            None => block.rput(window, to, at, value)?,
            Some(op) => block.raccumulate(window, to, at, value, op)?,
        };
        gotten.push((target, at, block.rget(window, to, at, vec![f64::NAN])?));
    }
    Ok(gotten)
}

/// The ranks that no report has named dead.
pub fn living(world: &World) -> Vec<u32> {
    let dead = world.known_failed();
    (0..world.size()).filter(|rank| !dead.contains(Rank::new(*rank))).collect()
}

/// What was got is what was there before the block, whatever became of it.
pub fn verify(finished: &Finished, gotten: &Gotten, before: &Truth) {
    for (target, at, request) in gotten {
        if finished.status(*request).is_some() {
            let found = finished.take(*request).expect("complete");
            assert_eq!(found, [before.0[*target as usize][*at]], "rank {target}, cell {at}");
        }
    }
}

/// Rounds in a world that is rebuilt after deaths, with the memories restored; the last world, and
/// this rank's memory, beside that of a run without deaths. What is protected in a block is
/// what the blocks before have made. `disturb` is told the round, and whether its accesses are
/// posted.
pub fn start_again(
    mut world: World,
    rounds: u64,
    disturb: impl Fn(&World, u64, bool),
) -> Result<(World, [Vec<f64>; 2]), Error> {
    let (me, all) = (world.rank().number(), (0..world.size()).collect::<Vec<_>>());
    let mut truth = Truth::new(world.size());
    let fresh = [&[0.0], &truth.0[me as usize][..]].concat();
    let (mut window, mut state) = (None, Some(fresh.clone()));
    let (mut round, mut outdated) = (0, world.is_replacement());
    while outdated || round < rounds {
        if let Some(state) = state.take() {
            round = state[0] as u64;
            drop(window.take());
            window = Some(world.window(0, state[1..].to_vec())?);
        }
        let used = window.as_ref().expect("made");
        let tried = world.try_block(BlockOptions::global(Timeout::Never), |block| {
            if outdated {
                return block.restore::<f64>(0).map(Some);
            }
            disturb(&world, round, false);
            block.protect(0, &used.read(|memory| [&[round as f64], memory].concat()))?;
            post(block, used, (round, me), &all)?;
            disturb(&world, round, true);
            Ok(None)
        })?;
        match tried {
            Tried::Committed(None, _) => round += 1,
            Tried::Committed(restored, _) => (state, outdated) = (restored, false),
            Tried::Faulty(_, Some(Error::NothingProtected)) => {
                (state, outdated) = (Some(fresh.clone()), false);
            }
            Tried::Faulty(_, Some(error @ Error::StateLost { .. })) => {
                // A rank and its partner: the same on all ranks.
                drop(window);
                world.finalize();
                return Err(error);
            }
            Tried::Faulty(finished, _) => {
                outdated = true;
                if !finished.failed_group(Codes::PROCESS_FAILURES, &world).is_empty() {
                    world = world.rebuild(Placement::SameRanks)?;
                    state = Some(fresh.clone());
                }
            }
        }
    }
    let found = window.expect("made").into_vec();
    (0..rounds).for_each(|round| truth.commit(round, &all));
    Ok((world, [found, truth.0.swap_remove(me as usize)]))
}
