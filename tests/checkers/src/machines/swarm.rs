//! One run of a group of real machines, with no engine between them: a queue of events in virtual
//! time, FIFO links, crashes that cut a turn's effects anywhere, deaths noticed late.

use std::{cmp::Reverse, collections::BinaryHeap};

use fampi::{
    fault::{Cause, FaultCode},
    ids::BlockId,
    protocol::{Effect, Event, agreement::Vote},
    rank::Rank,
    sim::Draw,
};

use super::plan::{Death, Plan};
use crate::{
    group::{Group, Turn, cause_of, fault},
    properties::{ALWAYS, AT_REST, Verdict, causes::causes_are_what_ranks_were_told},
    record::values_of,
};

/// More turns than any run needs.
const TURNS: usize = 100_000;

/// What happens to a rank.
#[derive(Debug)]
enum Happening {
    Message(Rank),
    Notice(Rank),
    Explain(Rank),
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
    group: Group,
    started: Vec<usize>,
    doom: Vec<Option<Death>>,
    out: Vec<Effect>,
}

impl Swarm {
    /// The run of this seed.
    pub fn new(seed: u64, told: bool) -> Self {
        let mut draw = Draw(seed);
        let mut plan = Plan::drawn_by(&mut draw);
        plan.told = [u64::MAX, 0, 0x5555, seed][seed as usize % 4];
        let ranks = plan.ranks as usize;
        if told {
            println!("{plan:?}");
        }
        Self {
            draw,
            told,
            now: 0,
            queue: BinaryHeap::with_capacity(64),
            happenings: Vec::with_capacity(256),
            busy: vec![0; ranks * ranks],
            group: Group::new(plan.ranks, plan.shape, plan.blocks)
                .on_nodes(&plan.nodes)
                .with_causes(),
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
            if self.group.is_alive(rank) {
                turns += 1;
                self.turn(rank, &happening)?;
            }
            if turns > TURNS {
                return Err("the ranks talk for ever".into());
            }
        }
        (0..self.plan.blocks).try_for_each(|block| (AT_REST.1)(&self.group.records, block))?;
        Ok(turns)
    }

    fn schedule(&mut self, at: u64, rank: Rank, happening: Happening) {
        // Slots only grow, so among events of one moment the one scheduled first comes first.
        self.queue.push(Reverse((at, self.happenings.len())));
        self.happenings.push(Some((rank, happening)));
    }

    fn turn(&mut self, rank: Rank, happening: &Happening) -> Verdict {
        let mut out = std::mem::take(&mut self.out);
        let (mut ghost, mut message) = (false, None);
        if let Happening::Message(from) = happening {
            ghost = self.group.machine(rank).dead().contains(*from);
            message = self.group.on_the_way(*from, rank).first();
        }
        if self.told {
            println!("{:>6} rank {rank}: {happening:?} {message:?}", self.now);
        }
        match *happening {
            Happening::Message(from) => self.group.act(rank, Turn::Take(from), &mut out),
            Happening::Notice(dead) => self.group.act(rank, Turn::Notice(dead), &mut out),
            Happening::Explain(dead) => {
                let knows = self.plan.told >> rank.number() & 1 == 1;
                let cause = if knows { cause_of(dead) } else { Cause::Unknown };
                self.group.act(rank, Turn::Explain(dead, cause), &mut out);
            }
            Happening::Vote(..) if self.group.records[rank.index()].retired => {}
            Happening::Vote(block, context) => {
                let turn = self.vote(rank, block, context);
                self.group.act(rank, turn, &mut out);
            }
            Happening::Doom(Death::Idle) => self.die(rank),
            Happening::Doom(how) => self.doom[rank.index()] = Some(how),
            Happening::Retire if self.plan.leaves_job => {
                let first = BlockId(self.started[rank.index()] as u64);
                self.group.act(rank, Turn::Leave(first), &mut out);
            }
            Happening::Retire => self.group.act(rank, Turn::Retire, &mut out),
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

    fn vote(&mut self, rank: Rank, block: BlockId, context: u32) -> Turn {
        let plan = &self.plan;
        let entry = &mut self.group.records[rank.index()].blocks[block.0 as usize];
        let agreement = plan.agreements.iter().find(|(at, _)| *at as u64 == block.0);
        entry.acknowledges = agreement.map(|(_, acks)| acks >> rank.number() & 1 == 1);
        entry.is_step = agreement.is_none() && plan.steps.contains(&(block.0 as usize));
        let mut vote = Vote::yes(context);
        if plan.no_once_in > 0 && self.draw.one_in(plan.no_once_in) {
            vote.faults.push(fault(rank, FaultCode::Application(7)));
        }
        let mut said = plan.purposes.iter();
        let said =
            said.find(|(on, _, ranks)| *on as u64 == block.0 && ranks >> rank.number() & 1 == 1);
        if let (Some((_, code, _)), true, None) = (said, vote.is_yes(), agreement) {
            vote.faults.push(fault(rank, *code));
        }
        if agreement.is_some() && vote.is_yes() {
            vote.faults.push(fault(rank, FaultCode::NotAgreed));
        }
        let fused = plan.fused && !entry.is_step || agreement.is_some();
        let values = || values_of(rank, plan.misfit == Some(rank.number()));
        Turn::Vote(block, vote, fused.then(values))
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
            let mut ended = None;
            match &effect {
                Effect::Send(to, _) => {
                    let at = self.arrival(rank, *to);
                    self.schedule(at, *to, Happening::Message(rank));
                }
                Effect::Emit(Event::Decided(block)) => ended = Some(*block),
                Effect::Emit(Event::Learned(dead)) => {
                    // The moment is no draw, so that plans of old seeds are what they were.
                    let late = u64::from(rank.number() * 7 + dead.number() * 3) % 40;
                    self.schedule(self.now + 1 + late, rank, Happening::Explain(*dead));
                }
                Effect::Emit(_) => {}
            }
            self.group.carry_out(rank, effect)?;
            if let Some(block) = ended {
                decided = true;
                self.decided(rank, block)?;
            }
        }
        self.group.end_turn(rank);
        let retained = self.group.machine(rank).retained();
        if self.plan.leaver.is_none() && retained > 3 * self.plan.window {
            return Err(format!("rank {rank} retains {retained} blocks"));
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

    fn decided(&self, rank: Rank, block: BlockId) -> Verdict {
        if self.told {
            println!("       rank {rank} decides {block:?}");
        }
        let records = &self.group.records;
        ALWAYS.iter().try_for_each(|(_, holds)| holds(records, block.0 as usize))?;
        causes_are_what_ranks_were_told(records, block.0 as usize, self.plan.told)
    }

    fn start_blocks(&mut self, rank: Rank) {
        let record = &self.group.records[rank.index()];
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
        self.group.kill(rank);
        for other in self.group.ranks().filter(|other| *other != rank) {
            let at = self.now + 1 + self.draw.below(self.plan.notice);
            self.schedule(at, other, Happening::Notice(rank));
        }
    }
}
