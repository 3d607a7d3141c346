//! Repair: the rebuild of a communicator whose program owns its MPI, has spawned the replacements
//! and linked them to the survivors.
//!
//! ```text
//! failed communicator: survivors     │ ready ─ make ─ confirm
//! new communicator:  + replacements  │         make ───────── welcome
//! ```
//!
//! What differs from a [rebuild](super::rebuild) is who owns what: the call that makes the
//! communicator, its handle and the link are the program's, so the driver asks for them.

use alloc::vec::Vec;

use super::course::Course;
use crate::{
    engine::{BlockKey, CommKey, Engine},
    fault::FaultCode,
    protocol::handshake::{Goal, Handshake, Order},
};

/// A communicator of survivors and replacements in the making.
pub(crate) struct Repair {
    course: Course,
    /// The communicator over which this process votes: the failed one, then the new one. Nothing
    /// at a replacement that has made none.
    voters: Option<CommKey>,
    /// The new communicator.
    made: Option<CommKey>,
}

/// What the owner of the handles has to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Task {
    /// Make the communicator with all who are linked, and say how that went.
    Make,
    /// Free whoever waits at the link.
    Cut,
    /// Give the program its communicator: all have it.
    Complete,
    /// Tell the program that there is none, on any rank.
    Fail,
}

impl Repair {
    /// Begins at a survivor; all living ranks of the failed communicator do so, after a block
    /// that has named the dead.
    pub(crate) fn start(engine: &mut Engine, failed: CommKey) -> Self {
        let mut orders = Vec::new();
        // Those who are linked were chosen by the program: another attempt needs another link.
        let handshake = Handshake::start(Goal::Repair, 1, &mut orders);
        Self::begin(engine, failed, handshake, orders)
    }

    /// Begins at a survivor that knows that it cannot be.
    pub(crate) fn decline(engine: &mut Engine, failed: CommKey) -> Self {
        let mut orders = Vec::new();
        let handshake = Handshake::decline(&mut orders);
        Self::begin(engine, failed, handshake, orders)
    }

    fn begin(
        engine: &mut Engine,
        failed: CommKey,
        handshake: Handshake,
        orders: Vec<Order>,
    ) -> Self {
        let course = Course::new(handshake, orders);
        let mut repair = Self { course, voters: Some(failed), made: None };
        let first = repair.task(engine);
        debug_assert_eq!(first, None, "it begins with a vote");
        repair
    }

    /// Begins at a replacement.
    pub(crate) fn enter() -> Self {
        let course = Course::new(Handshake::enter(), Vec::new());
        Self { course, voters: None, made: None }
    }

    /// Starts a block of the failed communicator that names its dead, as one of a larger
    /// communicator has done; its verdict is of no meaning.
    pub(crate) fn report(engine: &mut Engine, failed: CommKey) -> BlockKey {
        engine.start_step(failed, None)
    }

    /// Ends it, if all have voted.
    pub(crate) fn is_reported(engine: &mut Engine, report: BlockKey) -> bool {
        let is_over = engine.verdict(report).is_some();
        if is_over {
            engine.end_step(report);
        }
        is_over
    }

    /// Says at a survivor that it takes no part: the others fail.
    pub(crate) fn refuse(engine: &mut Engine, failed: CommKey) {
        let mut orders = Vec::new();
        Handshake::refuse(&mut orders);
        for order in orders {
            if let Order::Vote(yes) = order {
                let no = (!yes).then_some(FaultCode::Interrupted);
                let vote = engine.start_step(failed, no);
                engine.detach(vote);
            }
        }
    }

    /// Goes on as far as this process can without the owner: gives what that has to do, once it
    /// has done what it was asked for before.
    pub(crate) fn step(&mut self, engine: &mut Engine) -> Option<Task> {
        loop {
            if let Some(task) = self.task(engine) {
                return Some(task);
            }
            let committed = self.course.verdict(engine, None)?;
            self.course.handle_verdict(committed, 0);
        }
    }

    /// The owner has made the communicator, or could not.
    pub(crate) fn handle_made(&mut self, made: Option<CommKey>) {
        self.made = made;
        self.course.handle_return(made.is_some());
    }

    /// Does what the handshake asks for, up to what is the owner's.
    fn task(&mut self, engine: &mut Engine) -> Option<Task> {
        while let Some(order) = self.course.order() {
            match order {
                Order::Vote(yes) => {
                    let voters = self.voters.expect("whoever votes has a communicator");
                    self.course.vote(engine, voters, yes);
                }
                Order::Adopt => self.voters = self.made,
                Order::Call | Order::CallFor(_) => return Some(Task::Make),
                Order::Discard => {
                    if let Some(made) = self.made.take() {
                        engine.abandon_comm(made);
                    }
                    return Some(Task::Cut);
                }
                Order::Complete => return Some(Task::Complete),
                Order::Fail => return Some(Task::Fail),
            }
        }
        None
    }
}

impl Engine {
    /// Gives a communicator of a program up, which is the world no more.
    pub(crate) fn abandon_comm(&mut self, key: CommKey) {
        self.give_up(key);
        if self.job.world == Some(key) {
            self.job.world = None;
        }
    }
}
