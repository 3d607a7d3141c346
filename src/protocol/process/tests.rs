//! What one process makes of what happens to it: a rank of a small world, and what it is told,
//! written out.

mod doomed;
mod epochs;

use alloc::{vec, vec::Vec};

use super::*;
use crate::{
    fault::Fault,
    ids::Ballot,
    protocol::{
        agreement::{Contribution, Decision},
        message::{Slow, Stage},
    },
    rank::RankSet,
};

const UNIVERSE: UniverseId = UniverseId(0);
const FIRST: BlockId = BlockId(0);
const SECOND: BlockId = BlockId(1);
/// Who decides, and whose messages come.
const ROOT: Rank = Rank::new(0);
const ME: Rank = Rank::new(1);

/// What a process has said and asked for.
#[derive(Default)]
struct Told {
    sent: Vec<(CommId, Message)>,
    commands: Vec<Command>,
}

impl Outlet for Told {
    fn send(&mut self, _: Address, comm: CommId, message: &Message) {
        self.sent.push((comm, message.clone()));
    }

    fn send_yes(&mut self, _: Address, comm: CommId, yes: Yes) {
        self.sent.push((comm, Message::Yes(yes)));
    }

    fn send_fused(&mut self, _: Address, _: CommId, _: Yes, _: &Values) {
        unreachable!("no block here has values");
    }

    fn command(&mut self, command: Command) {
        self.commands.push(command);
    }
}

/// A rank, and what it has told since it was asked last.
struct Story {
    process: Process,
    told: Told,
    world: CommKey,
}

impl Story {
    /// Rank 1 of a world of so many ranks.
    fn new(size: u32) -> Self {
        let (mut process, mut told) = (Process::new(Shape::DOUBLING), Told::default());
        let members = ((0..size).map(Rank::new).collect(), ME);
        let world = process.register(CommId(1), UNIVERSE, members, Some(DataId(0)), &mut told);
        process.comm_mut(world).handles = 1;
        Self { process, told, world }
    }

    /// A communicator that these ranks have derived from another.
    fn derived(&mut self, parent: CommKey, ranks: &[Rank]) -> CommKey {
        let number = self.process.comms().count();
        let me = ranks.iter().position(|rank| *rank == ME).expect("it has this rank");
        let members = (ranks.to_vec(), Rank::from(me));
        let (id, data) = (CommId(10 * number as u64), Some(DataId(number as u32)));
        let key = self.process.register(id, UNIVERSE, members, data, &mut self.told);
        let state = self.process.comm_mut(key);
        (state.parent, state.handles) = (Some(parent), 1);
        key
    }

    fn start(&mut self, comm: CommKey) -> BlockKey {
        self.process.start_block(comm, Level::Global)
    }

    /// Votes *yes*, without requests.
    fn vote(&mut self, block: BlockKey) {
        assert_eq!(self.process.vote(block, None, &mut self.told), None);
    }

    fn name(&self, comm: CommKey) -> CommId {
        self.process.comm(comm).wire
    }

    /// A message of the root about a communicator of this name.
    fn hears(&mut self, name: CommId, message: Message) {
        self.process.handle_message((UNIVERSE, ROOT), name, message, &mut self.told);
    }

    /// The root says that a block is aborted: for these deaths, or for a fault of its own.
    fn hears_of_abort(&mut self, name: CommId, block: BlockId, dead: &[Rank]) {
        let fault = Fault { comm: name, rank: ROOT, code: FaultCode::Application(1) };
        let faults = if dead.is_empty() { vec![fault] } else { Vec::new() };
        let context = 1 + block.0 as u32;
        let dead: RankSet = dead.iter().copied().collect();
        let next = Decision::all_yes(context, FIRST);
        self.hears_decision(name, block, Decision { committed: false, faults, dead, ..next });
    }

    fn hears_decision(&mut self, name: CommId, block: BlockId, decision: Decision) {
        let known = Decision { known: decision.dead.clone(), ..decision };
        self.hears(name, Message::Decide(slow(block), known));
    }

    /// All ranks have decided the blocks of the world below this one, as the root says with a later
    /// block.
    fn hears_floor(&mut self, floor: BlockId) {
        let (name, later) = (self.name(self.world), BlockId(8 + floor.0));
        self.hears_decision(name, later, Decision::all_yes(9, floor));
        self.process.sweep(|_| false, &mut self.told);
    }

    /// What it tells about a communicator of this name, that it has not told before.
    fn tells(&mut self, name: CommId) -> Vec<Message> {
        let (told, others) = self.told.sent.drain(..).partition(|(of, _)| *of == name);
        self.told.sent = others;
        Vec::into_iter(told).map(|(_, message)| message).collect()
    }

    /// True if it votes *no* when the root asks about a block of a communicator of this name.
    fn refuses(&mut self, name: CommId, block: BlockId) -> bool {
        self.hears(name, Message::Ask(slow(block)));
        is_no(&self.tells(name))
    }
}

fn slow(block: BlockId) -> Slow {
    Slow { block, ballot: Ballot::of_root(ROOT), dead: RankSet::new() }
}

/// True if one of these messages is the vote of a rank that has given up.
fn is_no(messages: &[Message]) -> bool {
    let no = |contribution: &Contribution| match contribution {
        Contribution::Undecided(tally) => !tally.clone().decide(CommId(0)).committed,
        Contribution::Decided(_) => false,
    };
    messages.iter().any(|it| matches!(it, Message::Contribute(_, what) if no(what)))
}
