//! Collectives that run over the living: rank after rank dies, at every place of a block, with
//! blocks between in which one of the living gives up; and what must come out for those that are
//! left, until there is one.

use std::time::Duration;

use fampi::{
    Comm, Error, FaultCode, Level, Outcome, Rank, RankSet, ReduceOp, Tag, Timeout, TryBlock,
    sim::Draw,
};

use super::{
    aftermath::end,
    every::{Call, KINDS, Kind},
};

/// Every collective operation, in a drawn order.
fn collectives(seed: u64) -> impl Iterator<Item = Kind> {
    let count = KINDS.len();
    (0..count).map(move |at| KINDS[(at + seed as usize) % count]).filter(|kind| {
        let name = format!("{kind:?}");
        !name.starts_with("Neighbor")
    })
}

/// Which ranks are dead.
struct State<'a> {
    comm: &'a Comm,
    me: usize,
    living: Vec<usize>,
}

impl State<'_> {
    fn call(&self, kind: Kind, seed: u64) -> Call {
        let size = self.comm.size() as usize;
        let left_out = (0..size).filter(|rank| !self.living.contains(rank));
        let left_out = left_out.fold(0, |bits, rank| bits | 1 << rank);
        let root = self.living[(seed + kind as u64) as usize % self.living.len()];
        let longest = [3, 40, 3000][seed as usize % 3];
        Call { kind, size, root, left_out, seed, longest }
    }

    fn start(&self) -> TryBlock {
        self.comm.start(Level::Global).expect("in use")
    }

    /// A block of all operations, which commits, and gives what it must.
    fn good(&self, seed: u64) {
        let mut block = self.start();
        let left_out = block.left_out();
        let dead: RankSet = (0..self.comm.size())
            .map(Rank::new)
            .filter(|rank| !self.living.contains(&rank.index()))
            .collect();
        assert_eq!(left_out, dead, "in round {seed}");
        let calls: Vec<_> = collectives(seed).map(|kind| self.call(kind, seed)).collect();
        let posted: Vec<_> = calls
            .iter()
            .map(|call| call.post(&mut block, self.me).expect("the right shape"))
            .collect();
        if seed.is_multiple_of(2) {
            // One of them is waited for inside, while the others go on.
            let chosen = posted[seed as usize % posted.len()];
            block.wait_local(chosen.id(), Timeout::Never).expect("nobody dies");
        }
        let finished = end(block);
        assert!(finished.is_committed(), "round {seed}: {:?}", finished.report());
        for (call, request) in calls.iter().zip(posted) {
            let found = finished.take(request).expect("complete");
            call.verify(self.me, &found).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    }

    /// A block in which one of the living raises a code, leaves, or lacks what the others wait for.
    fn soft(&self, seed: u64) {
        let bad = self.living[seed as usize % self.living.len()] == self.me;
        let mut block = self.start();
        for (at, kind) in collectives(seed).enumerate() {
            if bad && at == 4 && !seed.is_multiple_of(3) {
                break;
            }
            let _ = self.call(kind, seed + 100).post(&mut block, self.me).expect("the right shape");
        }
        let ended = if bad && seed % 3 == 1 {
            block.leave(&Error::Raised(7))
        } else {
            if bad {
                block.raise_error(7);
            }
            // What the others wait for in vain is late.
            let is_late = !bad && seed % 3 == 2;
            let limit = Timeout::After(Duration::from_millis(20));
            block.finish(if is_late { limit } else { Timeout::Never })
        };
        let ended = ended.wait_local(Timeout::Never);
        assert!(matches!(ended, Ok(Outcome::Faulty(_))), "round {seed}");
    }

    /// A block in which a rank dies, after so many operations have been posted.
    fn deadly(&mut self, seed: u64, die: impl Fn()) {
        let victim = self.living[(seed * 5 + 2) as usize % self.living.len()];
        let mut block = self.start();
        self.meet(&mut block, victim);
        let place = seed as usize % 5 * 4;
        let mut requests = Vec::new();
        for (at, kind) in collectives(seed).enumerate() {
            if victim == self.me && at == place {
                die();
            }
            let call = self.call(kind, seed + 200);
            requests.push(call.post(&mut block, self.me).expect("the right shape"));
        }
        if victim == self.me {
            die();
        }
        let sum = block.iallreduce(vec![1_u32], ReduceOp::Sum).expect("a sum");
        let waited = block.wait_local(sum.id(), Timeout::Never);
        let finished = end(block);
        assert!(!finished.is_committed() && waited.is_err(), "round {seed}");
        assert_eq!(finished.fault(sum.id()), Some(FaultCode::ProcessFailed), "round {seed}");
        let dead = Rank::from(victim);
        let faults = finished.report();
        let is_told =
            faults.faults().iter().any(|it| it.code.is_process_failure() && it.rank == dead);
        assert!(is_told, "round {seed}: {faults}");
        self.living.retain(|rank| *rank != victim);
    }

    /// A rank hears of all others that they know the verdict on the block before.
    fn meet(&self, block: &mut TryBlock, who: usize) {
        for rank in self.living.iter().filter(|rank| **rank != who) {
            if who == self.me {
                let heard = block.irecv(vec![0_u8], Rank::from(*rank), Tag(1)).expect("a rank");
                block.wait_local(heard.id(), Timeout::Never).expect("alive");
            } else if *rank == self.me {
                let _ = block.isend(vec![1_u8], Rank::from(who), Tag(1)).expect("a rank");
            }
        }
    }

    /// An operation whose root is dead is a fault, for all at once.
    fn rootless(&self) {
        let size = self.comm.size();
        let Some(dead) = (0..size).find(|rank| !self.living.contains(&(*rank as usize))) else {
            return;
        };
        let mut block = self.start();
        let lost = block.ibcast(vec![1_u64], Rank::new(dead)).expect("a rank");
        let finished = end(block);
        assert!(!finished.is_committed());
        assert_eq!(finished.fault(lost.id()), Some(FaultCode::ProcessFailed));
    }
}

/// All ranks but one die, one after the other, by `die`.
pub fn run_through(comm: &Comm, seed: u64, die: impl Fn()) {
    comm.set_run_through(true);
    let all = (0..comm.size() as usize).collect();
    let mut state = State { comm, me: comm.rank().index(), living: all };
    for round in seed.. {
        state.good(round);
        if state.living.len() == 1 {
            break;
        }
        state.soft(round);
        state.soft(round + 1);
        state.good(round + 2);
        state.rootless();
        state.deadly(round, &die);
    }
}

/// Blocks of drawn collectives, in some of which somebody raises a code or leaves, until so many
/// are committed. Anybody may die at any time. What is committed is right.
pub fn wander(comm: &Comm, seed: u64, blocks: u32) {
    comm.set_run_through(true);
    let size = comm.size() as usize;
    let (mut committed, mut round) = (0, 0);
    while committed < blocks {
        round += 1;
        assert!(round < 60 * u64::from(blocks), "there is always another fault");
        let mut draw = Draw(seed << 20 ^ round);
        let mut block = comm.start(Level::Global).expect("in use");
        let left_out = block.left_out();
        let living = (0..size).filter(|rank| !left_out.contains(Rank::from(*rank))).collect();
        let state = State { comm, me: comm.rank().index(), living };
        let bad = state.living[draw.below(state.living.len() as u64) as usize] == state.me;
        let fault = draw.below(6);
        let mut posted = Vec::new();
        let result = collectives(draw.word() % 100).take(6).try_for_each(|kind| {
            let call = state.call(kind, draw.below(1 << 30));
            let request = call.post(&mut block, state.me)?;
            posted.push((call, request));
            let (waits, leaves) = (draw.one_in(3), draw.one_in(4));
            if waits {
                block.wait_local(request, Timeout::Never)?;
            }
            if bad && fault == 0 && leaves { Err(Error::Raised(9)) } else { Ok(()) }
        });
        if bad && fault == 1 {
            block.raise_error(8);
        }
        let ended = match result {
            Ok(()) => block.finish(Timeout::Never).wait_local(Timeout::Never),
            Err(error) => block.leave(&error).wait_local(Timeout::Never),
        };
        if let Ok(Outcome::Committed(finished)) = ended {
            committed += 1;
            for (call, request) in posted {
                let found = finished.take(request).expect("complete");
                call.verify(state.me, &found).unwrap_or_else(|wrong| panic!("{wrong}"));
            }
        }
    }
}
