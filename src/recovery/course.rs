//! Drives a handshake: its votes become commits, the rest is left to the maker of the communicator.
//!
//! ```text
//! handshake ── orders ──▶ course ── all but votes ──▶ creation, rebuild, or the owner of a handle
//!           ◀─ verdicts ─        ◀── how a call went ─
//! ```

use alloc::vec::Vec;

use crate::{
    engine::{BlockKey, CommKey, Engine, Meeting, Span},
    error::Error,
    fault::{Fault, FaultCode},
    protocol::handshake::{Handshake, Order},
    rank::RankSet,
    seam::platform::{Idle, Place},
    timeout::Timeout,
};

/// A handshake, what it has asked for, and the commit that it waits for.
pub(super) struct Course {
    handshake: Handshake,
    orders: Vec<Order>,
    /// How many of the orders were taken.
    taken: usize,
    /// The commit whose verdict the handshake waits for; nothing before its first vote.
    awaits: Option<BlockKey>,
    /// That verdict, until the handshake is told.
    committed: Option<bool>,
    /// Who is dead, by the last verdict.
    dead: RankSet,
    /// What the last verdict says of a living rank that takes no part.
    departure: Option<Fault>,
    /// How many ranks are left out, as members of the world have said with the last verdict.
    left_out: u32,
}

impl Course {
    /// Takes a handshake with what it asked for when it began.
    pub(super) fn new(handshake: Handshake, orders: Vec<Order>) -> Self {
        let (awaits, committed, dead, departure) = (None, None, RankSet::new(), None);
        let (taken, left_out) = (0, 0);
        Self { handshake, orders, taken, awaits, committed, dead, departure, left_out }
    }

    /// The handshake's state.
    pub(super) fn handshake(&self) -> &Handshake {
        &self.handshake
    }

    /// The block whose verdict comes next, if there was a vote.
    pub(super) fn awaits(&self) -> Option<BlockKey> {
        self.awaits
    }

    /// Takes the next order.
    pub(super) fn order(&mut self) -> Option<Order> {
        let order = self.orders.get(self.taken).copied();
        self.taken += usize::from(order.is_some());
        order
    }

    /// Starts the commit that the handshake has asked for, over this communicator.
    pub(super) fn vote(&mut self, engine: &mut Engine, comm: CommKey, yes: bool) {
        self.awaits = Some(engine.start_step(comm, (!yes).then_some(FaultCode::Interrupted)));
    }

    /// Starts a commit whose verdict is of no meaning, and says in it how many ranks are left out.
    pub(super) fn leave_out(&mut self, engine: &mut Engine, comm: CommKey, count: u32) {
        let said = FaultCode::Application(count as i32);
        self.awaits = Some(engine.start_step(comm, Some(said)));
    }

    /// The verdict of that commit, once there is one, and once only; where a call follows in which
    /// ranks would wait for others, once the living have come together in this place. Without a
    /// commit there is nothing that a rank could object to.
    pub(super) fn verdict(&mut self, engine: &mut Engine, place: Option<Place>) -> Option<bool> {
        if self.committed.is_none() {
            let committed = match self.awaits {
                Some(key) => self.read(engine, key)?,
                None => true,
            };
            self.committed = Some(committed);
            // Who has departed comes to no meeting, and no call is made.
            let meets = self.handshake.meets(committed) && self.departure.is_none();
            let place = place.filter(|_| meets);
            let meeting = |place| Meeting { place, dead: self.dead.clone(), over: false };
            engine.job.meeting = place.map(meeting);
        }
        if !engine.is_met() {
            return None;
        }
        engine.job.meeting = None;
        self.committed.take()
    }

    /// The verdict of a commit, with what its report says.
    fn read(&mut self, engine: &mut Engine, key: BlockKey) -> Option<bool> {
        let committed = engine.verdict(key)?;
        let faults = engine.report(key).faults();
        self.departure = faults.iter().find(|fault| is_departure(fault.code)).copied();
        let said = |fault: &Fault| match fault.code {
            FaultCode::Application(count) => Some(count as u32),
            _ => None,
        };
        self.left_out = faults.iter().filter_map(said).max().unwrap_or(0);
        self.dead = engine.end_step(key);
        Some(committed)
    }

    /// Tells the handshake a verdict. `communicators` is how many a universe has.
    pub(super) fn handle_verdict(&mut self, committed: bool, communicators: u32) {
        self.orders.clear();
        self.taken = 0;
        if self.departure.is_some() {
            self.handshake.handle_departure(&mut self.orders);
        } else {
            self.handshake.handle_verdict(committed, communicators, &mut self.orders);
        }
    }

    /// Who is dead by the last verdict: the same on all living ranks.
    pub(super) fn dead(&self) -> &RankSet {
        &self.dead
    }

    /// How many ranks are left out by the last verdict: the same on all living ranks.
    pub(super) fn left_out(&self) -> u32 {
        self.left_out
    }

    /// Why it failed, if a rank had left the job.
    pub(super) fn departure(&self) -> Option<Error> {
        match self.departure? {
            Fault { rank, code: FaultCode::Finalized(blocks), .. } => {
                Some(Error::Left { rank, blocks })
            }
            _ => None,
        }
    }

    /// Tells the handshake how the call went here.
    pub(super) fn handle_return(&mut self, worked: bool) {
        self.handshake.handle_return(worked, &mut self.orders);
    }

    /// Tells the handshake that no rank makes the call.
    pub(super) fn handle_refusal(&mut self) {
        self.handshake.handle_refusal(&mut self.orders);
    }
}

/// A rank lives, and takes no part in what follows.
fn is_departure(code: FaultCode) -> bool {
    matches!(code, FaultCode::Finalized(_) | FaultCode::Abandoned)
}

impl Engine {
    /// True unless this process waits for others at a meeting.
    fn is_met(&mut self) -> bool {
        let Some(Meeting { place, dead, over }) = &mut self.job.meeting else { return true };
        *over = *over || self.platform.meet(*place, dead);
        *over
    }

    /// True when what a step waits for has happened: the verdict of this block, or the meeting that
    /// comes after it.
    pub(super) fn is_step_due(&mut self, awaits: Option<BlockKey>) -> bool {
        if self.job.meeting.is_some() {
            return self.is_met();
        }
        awaits.is_none_or(|awaits| self.verdict(awaits).is_some())
    }

    /// Waits for step after step; `None` when the timeout came first.
    pub(crate) fn wait_steps<R>(
        &mut self,
        timeout: Timeout,
        mut step: impl FnMut(&mut Self) -> (Option<R>, Option<BlockKey>),
    ) -> Option<R> {
        let began = self.platform.now();
        let deadline = match timeout {
            Timeout::After(_) => timeout.deadline(began),
            _ => None,
        };
        let span = Span::new(began, timeout);
        loop {
            let (result, awaits) = step(self);
            if result.is_some() {
                return result;
            }
            let left = deadline.map_or(timeout, |deadline| {
                Timeout::After(deadline.saturating_sub(self.platform.now()))
            });
            let happened = self.within(span, |engine| {
                engine.wait(left, Idle::Busy, |engine| {
                    engine.is_step_due(awaits) || engine.job.dismissed
                })
            });
            if !happened {
                return None;
            }
        }
    }
}
