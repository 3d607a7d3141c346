//! What happens inside a block, as a transition system: requests, interruption, an inner block.
//!
//! Each rank has a receive from its left neighbour, sends to its right, and votes when its receive
//! is over. The first ranks have an inner block on a communicator of their own, and finish the
//! outer one when they know its verdict, or when the outer one is doomed. A rank may also leave the
//! block early. What follows from that is decided by the [`Process`] of the library; this file has
//! the application, the network, and one request.

mod play;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use fampi::{
    fault::FaultCode,
    ids::{CommId, DataId, UniverseId},
    protocol::{
        agreement::Decision,
        exchange::Shape,
        fused::Values,
        message::{Message, Yes},
        process::{Address, BlockKey, CommKey, Command, Level, Outlet, Phase, Process},
    },
    rank::Rank,
};
use stateright::{Model, Property};

use crate::{
    bugs::{Bug, plant},
    properties::{ALWAYS, AT_REST, Verdict},
    record::Record,
};

const UNIVERSE: UniverseId = UniverseId(0);
const OUTER: CommId = CommId(1);
const INNER: CommId = CommId(2);

/// What a group of ranks does in one block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inside {
    /// Number of ranks.
    pub ranks: u32,
    /// At most so many ranks die.
    pub crashes: usize,
    /// Each rank receives from the left and sends to the right.
    pub ring: bool,
    /// So many of the first ranks have an inner block.
    pub inner: u32,
    /// The rank that votes *no* on the inner block.
    pub naysayer: Option<u32>,
    /// The rank that leaves the block at once.
    pub leaver: Option<u32>,
    /// Whoever learns of an abort tries again, once.
    pub again: bool,
    /// A planted bug.
    pub bug: Option<Bug>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Request {
    Pending,
    Done,
    Failed(FaultCode),
}

/// A rank: its process, and what its application and its platform know.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Member {
    process: Process,
    /// The number of the attempt.
    round: usize,
    outer: BlockKey,
    /// The communicator of the inner block, and the block from its start on.
    inner: Option<(CommKey, Option<BlockKey>)>,
    request: Request,
    sent: bool,
    /// A message of an attempt that this rank has not begun yet.
    early: Option<Data>,
    /// True when a message of one attempt was received in another.
    is_mixed: bool,
    inner_decision: Option<Decision>,
}

/// A message among neighbours, which matches a receive of the same data context.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Data {
    context: u32,
    round: usize,
}

impl Member {
    fn phase(&self) -> Phase {
        self.process.block(self.outer).phase
    }

    /// True when the application learns that the outer block is doomed.
    fn is_doomed(&self) -> bool {
        let block = self.process.block(self.outer);
        self.process.comm(block.comm).interrupts.contains(block.scope)
    }

    /// A message has come for the receive, for a later one, or for one that was given up.
    fn receive(&mut self, data: Data) {
        let context = self.process.block(self.outer).context;
        if data.context > context {
            self.early = Some(data);
        } else if data.context == context && self.request == Request::Pending {
            self.request = Request::Done;
            self.is_mixed |= data.round != self.round;
        }
    }

    fn knows_dead(&self, rank: Rank) -> bool {
        let comm = self.process.block(self.outer).comm;
        self.process.comm(comm).commit.dead().contains(rank)
    }
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Wire {
    Data(Data),
    Frame(CommId, Message),
}

/// Everything that can make a difference to what happens next.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct State {
    members: Vec<Arc<Member>>,
    records: Vec<Record>,
    links: Vec<Vec<Arc<Wire>>>,
    panicked: bool,
}

/// One turn of one rank, or its death.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Turn {
    Send,
    StartInside,
    FinishInside,
    Finish,
    Leave,
    Again,
    Take(Rank),
    Notice(Rank),
    Die,
}

/// The effects of a call, in their order.
#[derive(Default)]
struct Out {
    sent: Vec<(Rank, Wire)>,
    commands: Vec<Command>,
}

impl Outlet for Out {
    fn send(&mut self, (_, to): Address, comm: CommId, message: &Message) {
        self.sent.push((to, Wire::Frame(comm, message.clone())));
    }

    fn send_yes(&mut self, to: Address, comm: CommId, yes: Yes) {
        self.send(to, comm, &Message::Yes(yes));
    }

    fn send_fused(&mut self, _: Address, _: CommId, _: Yes, _: &Values) {
        unreachable!("no block here has a reduction");
    }

    fn command(&mut self, command: Command) {
        self.commands.push(command);
    }
}

impl Inside {
    /// This many ranks in one block that does nothing.
    pub fn ranks(ranks: u32) -> Self {
        Self { ranks, ..Self::default() }
    }

    fn all(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.ranks).map(Rank::new)
    }

    fn link(&self, from: Rank, to: Rank) -> usize {
        from.index() * self.ranks as usize + to.index()
    }

    fn right(&self, rank: Rank) -> Rank {
        Rank::new((rank.number() + 1) % self.ranks)
    }

    fn left(&self, rank: Rank) -> Rank {
        Rank::new((rank.number() + self.ranks - 1) % self.ranks)
    }

    fn turns(&self, state: &State, rank: Rank) -> Vec<Turn> {
        let member = &state.members[rank.index()];
        let mut turns = Vec::new();
        match member.phase() {
            Phase::Open if member.round == 0 && self.leaver == Some(rank.number()) => {
                turns.push(Turn::Leave);
            }
            Phase::Open => self.turns_inside(member, &mut turns),
            Phase::Decided { committed: false } if self.again && member.round == 0 => {
                turns.push(Turn::Again);
            }
            _ => {}
        }
        for other in self.all().filter(|other| *other != rank) {
            if !state.links[self.link(other, rank)].is_empty() {
                turns.push(Turn::Take(other));
            }
            if !state.records[other.index()].alive && !member.knows_dead(other) {
                turns.push(Turn::Notice(other));
            }
        }
        turns
    }

    /// What the application of a rank in the block can do.
    fn turns_inside(&self, member: &Member, turns: &mut Vec<Turn>) {
        if self.ring && !member.sent && !matches!(member.request, Request::Failed(_)) {
            turns.push(Turn::Send);
        }
        let inside = match member.inner {
            None => true,
            Some((_, None)) => {
                turns.push(Turn::StartInside);
                member.is_doomed()
            }
            Some((_, Some(block))) => {
                let open = member.process.block(block).phase == Phase::Open;
                turns.extend(open.then_some(Turn::FinishInside));
                !open && (member.inner_decision.is_some() || member.is_doomed())
            }
        };
        let over = match member.request {
            Request::Pending => false,
            Request::Done => member.sent || !self.ring,
            Request::Failed(_) => true,
        };
        turns.extend((inside && over).then_some(Turn::Finish));
    }

    fn take(&self, state: &mut State, rank: Rank, turn: Turn) {
        let member = Member::clone(&state.members[rank.index()]);
        let mut play = play::Play { setup: self, rank, member, state, queue: Vec::new() };
        play.take(turn);
        let member = play.member;
        state.members[rank.index()] = Arc::new(member);
    }

    fn kill(&self, state: &mut State, rank: Rank) {
        state.records[rank.index()].alive = false;
        state.members[rank.index()] = Arc::new(self.member(rank));
        for other in self.all() {
            state.links[self.link(other, rank)].clear();
        }
    }

    fn member(&self, rank: Rank) -> Member {
        let (mut process, mut out) = (Process::new(Shape::DOUBLING), Out::default());
        let group = |ranks| ((0..ranks).map(Rank::new).collect(), rank);
        let data = Some(DataId(0));
        let comm = process.register(OUTER, UNIVERSE, group(self.ranks), data, &mut out);
        let inner = (rank.number() < self.inner).then(|| {
            let data = Some(DataId(1));
            let inner = process.register(INNER, UNIVERSE, group(self.inner), data, &mut out);
            process.comm_mut(inner).parent = Some(comm);
            (inner, None)
        });
        let outer = process.start_block(comm, Level::Global);
        let request = if self.ring { Request::Pending } else { Request::Done };
        Member {
            process,
            round: 0,
            outer,
            inner,
            request,
            sent: false,
            early: None,
            is_mixed: false,
            inner_decision: None,
        }
    }

    fn at_rest(&self, state: &State) -> bool {
        let mut living = self.all().filter(|rank| state.records[rank.index()].alive);
        living.all(|rank| self.turns(state, rank).is_empty())
    }
}

/// The first thing that is wrong with a state.
fn wrong(state: &State, name: &str) -> Verdict {
    let mut all = ALWAYS.into_iter().chain([AT_REST]);
    let (_, holds) = all.find(|(property, _)| *property == name).expect("of the list");
    holds(&state.records, 0)?;
    let faulty = |record: &Record| {
        record.alive && record.blocks[0].decision.as_ref().is_some_and(|it| !it.committed)
    };
    let is_tried_again = state.records[0].blocks.len() > 1 && state.records.iter().any(faulty);
    if is_tried_again { holds(&state.records, 1) } else { Ok(()) }
}

/// True when the living ranks have one verdict on the inner block of each attempt.
fn agree(state: &State) -> bool {
    let living = state.members.iter().zip(&state.records).filter(|(_, record)| record.alive);
    let decided = |member: &Arc<Member>| {
        let committed = member.inner_decision.as_ref()?.committed;
        Some((member.round, committed))
    };
    let found: Vec<(usize, bool)> = living.filter_map(|(member, _)| decided(member)).collect();
    (0..2).all(|round| {
        let mut verdicts = found.iter().filter(|(of, _)| *of == round);
        let first = verdicts.next();
        verdicts.all(|verdict| Some(verdict) == first)
    })
}

/// Stateright names properties by plain functions, so each gets one.
macro_rules! always {
    ($($name:literal),*) => {
        vec![$(Property::always($name, |_: &Inside, state: &State| {
            wrong(state, $name).is_ok()
        })),*]
    };
}

impl Model for Inside {
    type State = State;
    type Action = (Rank, Turn);

    fn init_states(&self) -> Vec<State> {
        vec![State {
            members: self.all().map(|rank| Arc::new(self.member(rank))).collect(),
            records: vec![Record::new(1 + usize::from(self.again)); self.ranks as usize],
            links: vec![Vec::new(); (self.ranks * self.ranks) as usize],
            panicked: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Self::Action>) {
        if state.panicked {
            return;
        }
        let dead = state.records.iter().filter(|record| !record.alive).count();
        let may_die = dead < self.crashes && dead + 1 < self.ranks as usize;
        for rank in self.all().filter(|rank| state.records[rank.index()].alive) {
            actions.extend(self.turns(state, rank).into_iter().map(|turn| (rank, turn)));
            actions.extend(may_die.then_some((rank, Turn::Die)));
        }
    }

    fn next_state(&self, last: &State, (rank, turn): Self::Action) -> Option<State> {
        plant(self.bug);
        let mut state = last.clone();
        let step = catch_unwind(AssertUnwindSafe(|| match turn {
            Turn::Die => self.kill(&mut state, rank),
            turn => self.take(&mut state, rank, turn),
        }));
        state.panicked = step.is_err();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = always!["agreement", "commitment", "participation"];
        properties.push(Property::always("termination", |setup: &Inside, state: &State| {
            !setup.at_rest(state) || wrong(state, AT_REST.0).is_ok()
        }));
        properties.push(Property::always("escalation", |_, state: &State| {
            crate::properties::escalation::an_inner_fault_is_an_outer_fault(
                &state.records,
                |rank| state.members[rank].round,
                |rank| {
                    let member = &state.members[rank];
                    (member.request == Request::Done, member.inner_decision.as_ref())
                },
            )
        }));
        properties.push(Property::always("isolation", |_, state: &State| {
            state.members.iter().all(|member| !member.is_mixed)
        }));
        properties.push(Property::always("agreement inside", |_, state: &State| agree(state)));
        properties.push(Property::always("no panic", |_, state: &State| !state.panicked));
        properties
    }
}
