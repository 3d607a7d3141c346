//! The handshake of a recovery: agree that all are here, make it, agree that all have it.
//!
//! Making a communicator is a collective call of the platform that may fail on some ranks and
//! succeed on others. So it stands between two commits: the first gives all the same deaths to
//! make it without, the second says whether all have it. If not, all throw away what they have.
//!
//! ```text
//! ready    Vote ─ verdict ─▶ Call       whatever the verdict: it was for its report
//! confirm  Vote(it worked) ─ verdict ─▶ yes: Adopt, or Complete      no: Discard, ready again
//! ── in a rebuild, over the new universe, in which replacements begin ──
//! welcome  Vote ─ verdict ─▶ yes: Call for the first communicator    no: Discard, ready again
//! made k   Vote(it worked) ─ verdict ─▶ yes: the next, or Complete   no: Discard, ready again
//! ── a repair: a program has spawned the replacements, and linked them to the survivors ──
//! ready    Vote ─ verdict ─▶ yes: Call         no: Discard, Fail     at the survivors
//! enter    Call ─▶ it worked: Adopt, welcome   or not: Discard, Fail    at the replacements
//! ```
//!
//! A repair goes on with *confirm* and *welcome*, and has one attempt: who is in its link was
//! settled by the program, which shrinks and spawns again.
//!
//! **Guarantees.** All living members of a universe take the same step after the same verdict,
//! so no rank enters a call that the others do not; a death in any step makes a commit faulty and
//! leads to the next attempt, until there were as many as allowed; a rank that has left the job, or
//! given the communicator up, ends it.
//!
//! A replacement whose universe never had a committed block, and in which all who spawned it are
//! dead, goes: they may have given that universe up, and recovered in another one.
//!
//! **Assumes** that calls return, in success or failure, when a member of theirs dies, except those
//! that go on over the living: before these all come together ([`Handshake::meets`]), since a rank
//! that has the verdict would wait in the call for one that asks it for the verdict. All come
//! together before a split, too, so that none waits in a call, without a limit, for one that takes
//! its step later. The call of a repair has one result for all living members of the link.
//!
//! Reference: Hassani et al. 2015, §3.3 and algorithm 1.

use alloc::vec::Vec;

use super::planted::planted;

/// What is to be made.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Goal {
    /// A communicator of all ranks of another one; a dead rank makes it impossible.
    Split,
    /// A communicator of the living ranks.
    Shrink,
    /// A universe of the living and of replacements, then communicators in it.
    Rebuild,
    /// A communicator of the living and of replacements that are linked to them already; whoever
    /// else dies makes it impossible.
    Repair,
}

impl Goal {
    /// True when those who make the call are settled before: a death makes it impossible.
    fn is_settled(self) -> bool {
        matches!(self, Self::Split | Self::Repair)
    }
}

/// What the driver is to do next, in order.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Order {
    /// Start a commit over the newest group with this vote, and tell its verdict.
    Vote(bool),
    /// Make the call that makes the communicator, or the universe, and tell how it went.
    Call,
    /// Make the call for the communicator of this number in the new universe, and tell.
    CallFor(u32),
    /// The new universe takes the old one's place.
    Adopt,
    /// Throw away what was made since the last adoption; who is only in it is told to go. In a
    /// repair a process that waits in the call is told, too, and what was adopted goes as well.
    Discard,
    /// All have all of it.
    Complete,
    /// It is given up, on all ranks alike.
    Fail,
}

/// Where a handshake stands.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Stage {
    /// A replacement makes the call of a repair, without a word to the survivors before.
    Enter,
    /// All say that they are here.
    Ready,
    /// All say whether the call worked; it did here, or did not.
    Confirm(bool),
    /// All say that they have the new universe and so many of its communicators.
    Made(u32),
}

/// One rank's part in making something.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Handshake {
    goal: Goal,
    stage: Stage,
    attempts: u32,
    limit: u32,
    welcome: bool,
}

impl Handshake {
    /// Begins the first of at most `limit` attempts; every living rank does.
    pub fn start(goal: Goal, limit: u32, out: &mut Vec<Order>) -> Self {
        out.push(Order::Vote(true));
        Self { goal, stage: Stage::Ready, attempts: 1, limit, welcome: true }
    }

    /// Begins to make what all have agreed on already, by a block of their own; the verdict of that
    /// block is told like the one of a first vote.
    pub fn agreed() -> Self {
        Self { goal: Goal::Split, stage: Stage::Ready, attempts: 1, limit: 1, welcome: true }
    }

    /// Begins the part of a replacement in a repair, which has nothing to agree on before its call:
    /// that is told like the verdict *yes* of a first vote.
    pub fn enter() -> Self {
        let (goal, stage) = (Goal::Repair, Stage::Enter);
        Self { goal, stage, attempts: 1, limit: 1, welcome: false }
    }

    /// Refuses to take part in a repair: the vote of a survivor that does not wait for the verdict,
    /// which the others get.
    pub fn refuse(out: &mut Vec<Order>) {
        out.extend([Order::Vote(false), Order::Fail]);
    }

    /// Begins a repair that cannot be, as this survivor knows alone: like all others it waits for
    /// the verdict.
    pub fn decline(out: &mut Vec<Order>) -> Self {
        out.push(Order::Vote(false));
        Self { goal: Goal::Repair, stage: Stage::Ready, attempts: 1, limit: 1, welcome: true }
    }

    /// Joins a rebuild that is in this attempt, in its new universe.
    pub fn join(attempts: u32, limit: u32, out: &mut Vec<Order>) -> Self {
        out.push(Order::Vote(true));
        Self { goal: Goal::Rebuild, stage: Stage::Made(0), attempts, limit, welcome: false }
    }

    /// The attempt under way; the first is 1, and that of a launch 0.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// True when those who made our universe are known to have taken it over: from its first
    /// committed block on.
    pub fn is_welcome(&self) -> bool {
        self.welcome
    }

    /// True when all say that they are here, before they plan what to make.
    pub fn is_to_plan(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// True when the living come together after a verdict that leads to the call: no death ends it
    /// for those who wait there, or nothing would end it when one of them comes late.
    pub fn meets(&self, committed: bool) -> bool {
        let comes_to_a_call = match self.goal {
            Goal::Shrink | Goal::Rebuild => true,
            Goal::Split => committed,
            Goal::Repair => false,
        };
        comes_to_a_call && self.stage == Stage::Ready && !planted!(CallAtOnce)
    }

    /// The commit that was asked for has its verdict. `communicators` is how many a universe has.
    pub fn handle_verdict(&mut self, committed: bool, communicators: u32, out: &mut Vec<Order>) {
        self.welcome |= committed;
        let trusted = committed || planted!(SkipTheConfirmation);
        match self.stage {
            Stage::Ready if self.goal == Goal::Split && !committed => out.push(Order::Fail),
            Stage::Ready if self.goal == Goal::Repair && !committed => {
                // The replacements wait in the call that no survivor makes.
                out.extend([Order::Discard, Order::Fail]);
            }
            Stage::Ready | Stage::Enter => out.push(Order::Call),
            Stage::Confirm(true) if trusted && self.has_newcomers() => self.adopt(out),
            Stage::Confirm(true) if trusted => out.push(Order::Complete),
            Stage::Made(made) if trusted && made == communicators => out.push(Order::Complete),
            Stage::Made(made) if trusted => out.push(Order::CallFor(made)),
            Stage::Confirm(_) | Stage::Made(_) => {
                out.push(Order::Discard);
                self.try_again(out);
            }
        }
    }

    /// The call that was asked for has returned; `worked` is for this rank alone.
    pub fn handle_return(&mut self, worked: bool, out: &mut Vec<Order>) {
        self.stage = match self.stage {
            Stage::Enter if worked => return self.adopt(out),
            Stage::Enter => return out.extend([Order::Discard, Order::Fail]),
            Stage::Ready | Stage::Confirm(_) => Stage::Confirm(worked),
            Stage::Made(made) => Stage::Made(made + 1),
        };
        out.push(Order::Vote(worked));
    }

    /// A living rank has left, by the report of the commit that was asked for, so that it comes to
    /// no call.
    pub fn handle_departure(&mut self, out: &mut Vec<Order>) {
        out.extend([Order::Discard, Order::Fail]);
    }

    /// The call that was asked for cannot be made, for a reason that all ranks know alike.
    pub fn handle_refusal(&mut self, out: &mut Vec<Order>) {
        out.push(Order::Fail);
    }

    fn has_newcomers(&self) -> bool {
        matches!(self.goal, Goal::Rebuild | Goal::Repair)
    }

    /// The next vote is the first with the replacements.
    fn adopt(&mut self, out: &mut Vec<Order>) {
        out.extend([Order::Adopt, Order::Vote(true)]);
        self.stage = Stage::Made(0);
    }

    fn try_again(&mut self, out: &mut Vec<Order>) {
        if self.goal.is_settled() || self.attempts == self.limit {
            out.push(Order::Fail);
            return;
        }
        self.attempts += 1;
        self.stage = Stage::Ready;
        out.push(Order::Vote(true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuild_that_meets_no_further_death_takes_each_step_once() {
        let mut out = Vec::new();
        let mut machine = Handshake::start(Goal::Rebuild, 3, &mut out);
        machine.handle_verdict(false, 2, &mut out);
        machine.handle_return(true, &mut out);
        machine.handle_verdict(true, 2, &mut out);
        for _ in 0..2 {
            machine.handle_verdict(true, 2, &mut out);
            machine.handle_return(true, &mut out);
        }
        machine.handle_verdict(true, 2, &mut out);
        let (vote, call) = (Order::Vote(true), Order::CallFor);
        let begin = [vote, Order::Call, vote, Order::Adopt, vote];
        let end = [call(0), vote, call(1), vote, Order::Complete];
        assert_eq!(out, [begin, end].concat());
    }

    #[test]
    fn attempts_end() {
        let mut out = Vec::new();
        let mut machine = Handshake::start(Goal::Shrink, 2, &mut out);
        for _ in 0..2 {
            machine.handle_verdict(false, 0, &mut out);
            machine.handle_return(false, &mut out);
            machine.handle_verdict(false, 0, &mut out);
        }
        assert_eq!(out.last(), Some(&Order::Fail));
        assert_eq!(machine.attempts(), 2);
    }

    #[test]
    fn a_repair_is_one_call_between_two_votes_and_a_vote_with_the_replacements() {
        let mut out = Vec::new();
        let mut survivor = Handshake::start(Goal::Repair, 1, &mut out);
        survivor.handle_verdict(true, 0, &mut out);
        survivor.handle_return(true, &mut out);
        survivor.handle_verdict(true, 0, &mut out);
        survivor.handle_verdict(true, 0, &mut out);
        let (vote, welcome) = (Order::Vote(true), [Order::Adopt, Order::Vote(true)]);
        assert_eq!(out[..3], [vote, Order::Call, vote]);
        assert_eq!(out[3..], [&welcome[..], &[Order::Complete]].concat());
        out.clear();
        let mut replacement = Handshake::enter();
        replacement.handle_verdict(true, 0, &mut out);
        replacement.handle_return(true, &mut out);
        assert_eq!(out, [&[Order::Call][..], &welcome[..]].concat());
    }

    #[test]
    fn a_repair_that_fails_lets_the_replacements_go() {
        let fails = |turns: &dyn Fn(&mut Handshake, &mut Vec<Order>), mut machine: Handshake| {
            let mut out = Vec::new();
            turns(&mut machine, &mut out);
            assert_eq!(out[out.len() - 2..], [Order::Discard, Order::Fail]);
        };
        let survivor = || Handshake::start(Goal::Repair, 1, &mut Vec::new());
        fails(&|it, out| it.handle_verdict(false, 0, out), survivor());
        fails(&|it, out| it.handle_return(false, out), Handshake::enter());
        let late = |it: &mut Handshake, out: &mut Vec<Order>| {
            it.handle_verdict(true, 0, out);
            it.handle_return(true, out);
            it.handle_verdict(false, 0, out);
        };
        fails(&late, survivor());
        fails(&late, Handshake::enter());
    }

    #[test]
    fn a_split_is_not_tried_again() {
        let mut out = Vec::new();
        let mut machine = Handshake::start(Goal::Split, 2, &mut out);
        machine.handle_verdict(false, 0, &mut out);
        assert_eq!(out, [Order::Vote(true), Order::Fail]);
    }
}
