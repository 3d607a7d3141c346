//! One run of a group of real machines, with no engine between them: a queue of events in virtual
//! time, FIFO links, crashes that cut a turn's effects anywhere, deaths noticed late.

use std::{cmp::Reverse, collections::BinaryHeap};

use fampi::{
    fault::{Fault, FaultCode},
    ids::{BlockId, CommId},
    protocol::{Effect, Event, agreement::Vote, commit::Commit, message::Message},
    rank::Rank,
    sim::Draw,
};

use super::plan::{Death, Plan};
use crate::{
    properties::{ALWAYS, AT_REST, Verdict},
    record::{Record, known_to, values_of},
};

const COMM: CommId = CommId(1);

/// More turns than any run needs.
const TURNS: usize = 100_000;

/// What happens to a rank.
#[derive(Debug)]
enum Happening {
    Message(Rank, Message),
    Notice(Rank),
    Vote(BlockId, u32),
    Doom(Death),
    Retire,
}

/// A run in progress.
pub struct Swarm {
    plan: Plan,
    draw: Draw,
    /// Prints every event.
    told: bool,
    now: u64,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    happenings: Vec<Option<(Rank, Happening)>>,
    /// When the last message of each link arrives.
    busy: Vec<u64>,
    machines: Vec<Commit>,
    records: Vec<Record>,
    started: Vec<usize>,
    doom: Vec<Option<Death>>,
    out: Vec<Effect>,
}

impl Swarm {
    /// The run of this seed.
    pub fn new(seed: u64, told: bool) -> Self {
        let mut draw = Draw(seed);
        let plan = Plan::drawn_by(&mut draw);
        let ranks = plan.ranks as usize;
        if told {
            println!("{plan:?}");
        }
        let numbers = (0..plan.ranks).map(Rank::new);
        Self {
            draw,
            told,
            now: 0,
            queue: BinaryHeap::with_capacity(64),
            happenings: Vec::with_capacity(256),
            busy: vec![0; ranks * ranks],
            machines: numbers
                .map(|rank| Commit::new(COMM, rank, plan.ranks).with_shape(plan.shape))
                .collect(),
            records: vec![Record::new(plan.blocks); ranks],
            started: vec![0; ranks],
            doom: vec![None; ranks],
            out: Vec::with_capacity(16),
            plan,
        }
    }

    /// Runs until nothing is left to happen; the number of turns taken.
    pub fn run(mut self) -> Result<usize, String> {
        for (rank, at, how) in self.plan.deaths.clone() {
            self.schedule(at, Rank::new(rank), Happening::Doom(how));
        }
        if let Some((rank, at)) = self.plan.leaver {
            self.schedule(at, Rank::new(rank), Happening::Retire);
        }
        for rank in 0..self.plan.ranks {
            self.start_blocks(Rank::new(rank));
        }
        let mut turns = 0;
        while let Some(Reverse((at, slot))) = self.queue.pop() {
            self.now = at;
            let (rank, happening) = self.happenings[slot].take().expect("each happens once");
            if self.records[rank.index()].alive {
                turns += 1;
                self.turn(rank, happening)?;
            }
            if turns > TURNS {
                return Err("the ranks talk for ever".into());
            }
        }
        (0..self.plan.blocks).try_for_each(|block| (AT_REST.1)(&self.records, block))?;
        Ok(turns)
    }

    fn schedule(&mut self, at: u64, rank: Rank, happening: Happening) {
        // Slots only grow, so among events of one moment the one scheduled first comes first.
        self.queue.push(Reverse((at, self.happenings.len())));
        self.happenings.push(Some((rank, happening)));
    }

    fn turn(&mut self, rank: Rank, happening: Happening) -> Verdict {
        if self.told {
            println!("{:>6} rank {rank}: {happening:?}", self.now);
        }
        let mut out = std::mem::take(&mut self.out);
        let machine = &mut self.machines[rank.index()];
        let record = &mut self.records[rank.index()];
        let ghost = match &happening {
            Happening::Message(from, _) => machine.dead().contains(*from),
            _ => false,
        };
        match happening {
            Happening::Message(from, message) => machine.handle_message(from, message, &mut out),
            Happening::Notice(dead) => machine.handle_failure(dead, &mut out),
            Happening::Vote(..) if record.retired => {}
            Happening::Vote(block, context) => {
                let entry = &mut record.blocks[block.0 as usize];
                entry.is_step = self.plan.steps.contains(&(block.0 as usize));
                let mut vote = Vote::yes(context);
                if self.plan.no_once_in > 0 && self.draw.one_in(self.plan.no_once_in) {
                    vote.faults.push(Fault { comm: COMM, rank, code: FaultCode::Application(7) });
                }
                let said = self.plan.purposes.iter().find(|(on, _, ranks)| {
                    *on as u64 == block.0 && ranks >> rank.number() & 1 == 1
                });
                if let (Some((_, code, _)), true) = (said, vote.is_yes()) {
                    vote.faults.push(Fault { comm: COMM, rank, code: *code });
                }
                entry.vote = Some(vote.clone());
                entry.known = known_to(machine, entry.is_step);
                if entry.is_step {
                    machine.begin_step(block);
                }
                if self.plan.fused && !entry.is_step {
                    let values = values_of(rank, self.plan.misfit == Some(rank.number()));
                    entry.values = vote.is_yes().then_some(values);
                    machine.handle_fused_vote(block, vote, &values, &mut out);
                } else {
                    machine.handle_vote(block, vote, &mut out);
                }
            }
            Happening::Doom(Death::Idle) => self.die(rank),
            Happening::Doom(how) => self.doom[rank.index()] = Some(how),
            Happening::Retire => {
                record.retired = true;
                if self.plan.leaves_job {
                    record.leaving = true;
                    machine.leave(BlockId(self.started[rank.index()] as u64), &mut out);
                } else {
                    machine.retire(&mut out);
                }
            }
        }
        if ghost && !out.is_empty() {
            return Err(format!("rank {rank} listens to a rank that it knows to be dead"));
        }
        let cut = self.cut(rank, &out);
        let verdict = self.carry_out(rank, out.drain(..cut.unwrap_or(out.len())));
        out.clear();
        self.out = out;
        if cut.is_some() {
            self.die(rank);
        }
        verdict
    }

    /// After how many effects this turn ends in the rank's death, if it does.
    fn cut(&mut self, rank: Rank, out: &[Effect]) -> Option<usize> {
        let decides = || out.iter().any(|effect| matches!(effect, Effect::Emit(Event::Decided(_))));
        match self.doom[rank.index()]? {
            Death::Deciding if !decides() => None,
            _ => Some(self.draw.below(out.len() as u64 + 1) as usize),
        }
    }

    fn carry_out(&mut self, rank: Rank, effects: impl Iterator<Item = Effect>) -> Verdict {
        let mut decided = false;
        for effect in effects {
            match effect {
                Effect::Send(to, message) => {
                    let at = self.arrival(rank, to);
                    self.schedule(at, to, Happening::Message(rank, message));
                }
                Effect::Emit(Event::Decided(block)) => {
                    decided = true;
                    self.decide(rank, block)?;
                }
                Effect::Emit(_) => {}
            }
        }
        let machine = &self.machines[rank.index()];
        self.records[rank.index()].base = machine.base();
        if self.plan.leaver.is_none() && machine.retained() > 3 * self.plan.window {
            return Err(format!("rank {rank} retains {} blocks", machine.retained()));
        }
        if decided {
            self.start_blocks(rank);
        }
        Ok(())
    }

    /// When a message that leaves now arrives: later than the one before it on the same link.
    fn arrival(&mut self, from: Rank, to: Rank) -> u64 {
        let jam = if self.draw.one_in(16) { self.plan.jam } else { 1 };
        let latency = 1 + self.draw.below(self.plan.latency * jam);
        let busy = &mut self.busy[from.index() * self.plan.ranks as usize + to.index()];
        *busy = (self.now + latency).max(*busy + 1);
        *busy
    }

    fn decide(&mut self, rank: Rank, block: BlockId) -> Verdict {
        if self.told {
            println!("       rank {rank} decides {block:?}");
        }
        let machine = &mut self.machines[rank.index()];
        let entry = &mut self.records[rank.index()].blocks[block.0 as usize];
        if entry.is_step {
            entry.known_then = machine.end_step(block);
        }
        if entry.decision.is_some() {
            return Err(format!("rank {rank} decides block {} again", block.0));
        }
        entry.decision = machine.decision(block);
        if entry.decision.is_none() {
            return Err(format!("rank {rank} forgot block {} before it told of it", block.0));
        }
        ALWAYS.iter().try_for_each(|(_, holds)| holds(&self.records, block.0 as usize))
    }

    fn start_blocks(&mut self, rank: Rank) {
        let record = &self.records[rank.index()];
        let ahead = (record.undecided() + self.plan.window).min(self.plan.blocks);
        let context = record.context();
        for block in self.started[rank.index()]..ahead {
            let at = self.now + self.draw.below(self.plan.think);
            self.schedule(at, rank, Happening::Vote(BlockId(block as u64), context));
        }
        self.started[rank.index()] = self.started[rank.index()].max(ahead);
    }

    fn die(&mut self, rank: Rank) {
        if self.told {
            println!("       rank {rank} dies");
        }
        self.records[rank.index()].alive = false;
        for other in (0..self.plan.ranks).map(Rank::new).filter(|other| *other != rank) {
            let at = self.now + 1 + self.draw.below(self.plan.notice);
            self.schedule(at, other, Happening::Notice(rank));
        }
    }
}
