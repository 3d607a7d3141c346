//! Tokens that go around a ring which loses members: the part of one member, on real ranks and on
//! simulated ones.
//!
//! Rank 0 makes tokens at an even pace. Each member takes them from its nearest living predecessor
//! and hands them to its nearest living successor, until they are back. What the dead held, and
//! what was sent to them before anybody knew, is lost and not made anew.
//!
//! ```text
//! token    0 ──▶ 1 ──▶ 2 ──▶ … ──▶ n−1 ──▶ 0
//! search   0 ──▶ …                     ──▶ 0    after each death, as soon as rank 0 knows of it
//! end      0 ──▶ …                     ──▶ 0    when all tokens are back or lost
//! ```
//!
//! A search travels behind all tokens that were made before it. So tokens that are not back when it
//! is are lost: no silence has to be waited for. What was made behind the last search may be lost,
//! too, by a member that did not know of a death yet: once all were made, rank 0 searches until
//! none is unaccounted for. A member whose successor died passes the last search, or the end, to
//! the next one again, so that these are never lost; who gets one twice passes it on once.
//!
//! **Assumes** that what one member sends to another comes in the order of sending, and that a
//! member that knows of the death of its predecessor takes nothing from it any more.
//!
//! Reference: Bland 2012, §V.

/// Nanoseconds since the first token was due.
pub type Moment = u64;

/// What a message is about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum What {
    Token,
    Search,
    End,
}

/// What a member hands to the next one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message {
    pub what: What,
    /// Tokens and searches count from 0, each for itself.
    pub number: u64,
    /// When rank 0 made it.
    pub made: Moment,
    /// How many members have sent it, with the one that sends it now.
    pub hops: u64,
}

impl Message {
    pub const WORDS: usize = 4;

    pub fn to_words(self) -> [u64; Self::WORDS] {
        [self.what as u64, self.number, self.made, self.hops]
    }

    pub fn of_words([what, number, made, hops]: [u64; Self::WORDS]) -> Self {
        let what = match what {
            0 => What::Token,
            1 => What::Search,
            _ => What::End,
        };
        Self { what, number, made, hops }
    }
}

/// What is to be done in a ring.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    pub tokens: u64,
    /// Between two tokens.
    pub pace: Moment,
    /// Who dies, and when; never rank 0.
    pub deaths: Vec<(u32, Moment)>,
}

impl Plan {
    /// When this rank dies.
    pub fn death_of(&self, rank: u32) -> Option<Moment> {
        let own = self.deaths.iter().find(|(dying, _)| *dying == rank);
        own.map(|(_, moment)| *moment)
    }

    /// Reads the values of `tokens`, `pace` and `deaths`; the last as in `3@1000000,5@2000000`.
    pub fn read(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number"));
        match name {
            "tokens" => self.tokens = number(value)?,
            "pace" => self.pace = number(value)?,
            "deaths" => {
                for death in value.split(',').filter(|death| !death.is_empty()) {
                    let (rank, moment) = death.split_once('@').ok_or("a death is RANK@MOMENT")?;
                    self.deaths.push((number(rank)? as u32, number(moment)?));
                }
            }
            _ => return Err(format!("`{name}` is not known here")),
        }
        Ok(())
    }
}

/// The way of a token that came back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Trip {
    pub made: Moment,
    pub back: Moment,
    pub hops: u64,
}

/// What is to be sent, and to whom.
pub type Sends = Vec<(u32, Message)>;

/// One member of the ring.
#[derive(Clone, Debug)]
pub struct Member {
    me: u32,
    dead: Vec<bool>,
    living: u32,
    before: u32,
    after: u32,
    /// The last search that went on from here, or the end.
    passed: Option<Message>,
    origin: Option<Origin>,
    ended: bool,
}

/// What rank 0 knows besides.
#[derive(Clone, Debug)]
struct Origin {
    plan: Plan,
    /// For each token that was made, when, and how it came back.
    made: Vec<(Moment, Option<Trip>)>,
    /// How many tokens had been made when each search began.
    searches: Vec<usize>,
    /// Of so many of the first tokens each is back or lost.
    settled: usize,
}

impl Member {
    pub fn new(me: u32, size: u32, plan: &Plan) -> Self {
        let own =
            || Origin { plan: plan.clone(), made: Vec::new(), searches: Vec::new(), settled: 0 };
        Self {
            me,
            dead: vec![false; size as usize],
            living: size,
            before: (me + size - 1) % size,
            after: (me + 1) % size,
            passed: None,
            origin: (me == 0).then(own),
            ended: false,
        }
    }

    /// The nearest predecessor that is not known to be dead.
    pub fn before(&self) -> u32 {
        self.before
    }

    /// True when this member knows of the death.
    pub fn knows(&self, rank: u32) -> bool {
        self.dead[rank as usize]
    }

    /// True when there is nothing to come.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// When this member has something to do that no message tells it to.
    pub fn due(&self) -> Option<Moment> {
        let Origin { plan, made, .. } = self.origin.as_ref()?;
        let next = made.len() as u64;
        (next < plan.tokens).then(|| next * plan.pace)
    }

    /// The tokens in the order in which they were made: when, and how each came back.
    pub fn tokens(&self) -> &[(Moment, Option<Trip>)] {
        self.origin.as_ref().map_or(&[], |origin| &origin.made)
    }

    /// It is this time: makes what is due.
    pub fn handle_time(&mut self, now: Moment, out: &mut Sends) {
        while self.due().is_some_and(|due| due <= now)
            && let Some(origin) = &mut self.origin
        {
            let number = origin.made.len() as u64;
            origin.made.push((now, None));
            out.push((self.after, Message { what: What::Token, number, made: now, hops: 1 }));
        }
        self.end_if_done(now, out);
    }

    /// A message has come from the predecessor.
    pub fn handle_message(&mut self, message: Message, now: Moment, out: &mut Sends) {
        if let Some(origin) = &mut self.origin {
            let at = message.number as usize;
            let Message { made, hops, .. } = message;
            match message.what {
                What::Token => origin.made[at].1 = Some(Trip { made, back: now, hops }),
                What::Search => origin.settled = origin.settled.max(origin.searches[at]),
                What::End => self.ended = true,
            }
            return self.end_if_done(now, out);
        }
        let onward = Message { hops: message.hops + 1, ..message };
        if message.what != What::Token {
            let is_new = |it: Message| (it.what, it.number) < (message.what, message.number);
            if !self.passed.is_none_or(is_new) {
                return;
            }
            self.passed = Some(onward);
            self.ended = message.what == What::End;
        }
        out.push((self.after, onward));
    }

    /// This rank is dead: mends the ring.
    pub fn handle_death(&mut self, rank: u32, now: Moment, out: &mut Sends) {
        if rank == self.me || std::mem::replace(&mut self.dead[rank as usize], true) {
            return;
        }
        self.living -= 1;
        let (after, size) = (self.after, self.dead.len() as u32);
        while self.dead[self.before as usize] {
            self.before = (self.before + size - 1) % size;
        }
        while self.dead[self.after as usize] {
            self.after = (self.after + 1) % size;
        }
        let is_ending = self.is_ending();
        if self.living == 1 {
            self.ended = true;
        } else if !is_ending && self.origin.is_some() {
            self.search(now, out);
        } else if self.after != after {
            out.extend(self.passed.map(|passed| (self.after, passed)));
        }
    }

    fn is_ending(&self) -> bool {
        self.passed.is_some_and(|passed| passed.what == What::End)
    }

    /// Sends a search behind all tokens that were made.
    fn search(&mut self, now: Moment, out: &mut Sends) {
        let Some(Origin { made, searches, .. }) = &mut self.origin else { return };
        let number = searches.len() as u64;
        searches.push(made.len());
        let search = Message { what: What::Search, number, made: now, hops: 1 };
        self.passed = Some(search);
        out.push((self.after, search));
    }

    /// Ends the ring when all tokens were made and are back or lost, and all have died who were to.
    /// What was made behind the last search may have been sent to the dead by somebody who did not
    /// know yet: then another one is due.
    fn end_if_done(&mut self, now: Moment, out: &mut Sends) {
        let Some(Origin { plan, made, searches, settled }) = &self.origin else { return };
        let all_made = made.len() as u64 == plan.tokens;
        let all_dead = plan.deaths.iter().all(|(rank, _)| self.dead[*rank as usize]);
        let all_found = searches.last().is_none_or(|last| settled >= last);
        if self.is_ending() || !(all_made && all_dead && all_found) {
            return;
        }
        if made[*settled..].iter().all(|(_, trip)| trip.is_some()) {
            let end = Message { what: What::End, number: 0, made: now, hops: 1 };
            self.passed = Some(end);
            out.push((self.after, end));
        } else if !searches.is_empty() {
            self.search(now, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Members that hand messages to each other without delay, as far as they live.
    struct Ring {
        members: Vec<Member>,
        gone: Vec<bool>,
        underway: VecDeque<(u32, u32, Message)>,
    }

    impl Ring {
        fn new(size: u32, plan: &Plan) -> Self {
            let members = (0..size).map(|me| Member::new(me, size, plan)).collect();
            Self { members, gone: vec![false; size as usize], underway: VecDeque::new() }
        }

        fn turn(&mut self, rank: u32, turn: impl FnOnce(&mut Member, &mut Sends)) {
            let mut sends = Vec::new();
            turn(&mut self.members[rank as usize], &mut sends);
            self.underway.extend(sends.into_iter().map(|(to, message)| (rank, to, message)));
        }

        /// So many messages arrive, or all.
        fn arrive(&mut self, most: usize) {
            for _ in 0..most {
                let Some((from, to, message)) = self.underway.pop_front() else { return };
                let member = &self.members[to as usize];
                if !self.gone[to as usize] && !member.knows(from) {
                    assert_eq!(member.before(), from, "all know at once here");
                    self.turn(to, |it, out| it.handle_message(message, 7, out));
                }
            }
        }

        fn die(&mut self, rank: u32) {
            self.gone[rank as usize] = true;
            for other in 0..self.members.len() as u32 {
                if !self.gone[other as usize] {
                    self.turn(other, |it, out| it.handle_death(rank, 5, out));
                }
            }
        }

        fn hops(&self) -> Vec<Option<u64>> {
            self.members[0].tokens().iter().map(|(_, trip)| trip.map(|it| it.hops)).collect()
        }

        fn have_ended(&self) -> bool {
            self.members.iter().zip(&self.gone).all(|(it, gone)| *gone || it.is_ended())
        }
    }

    #[test]
    fn without_deaths_every_token_takes_as_many_hops_as_there_are_members() {
        let plan = Plan { tokens: 3, pace: 10, deaths: Vec::new() };
        let mut ring = Ring::new(4, &plan);
        ring.turn(0, |it, out| it.handle_time(9, out));
        assert_eq!((ring.members[0].tokens().len(), ring.members[0].due()), (1, Some(10)));
        ring.turn(0, |it, out| it.handle_time(20, out));
        ring.arrive(usize::MAX);
        assert_eq!(ring.hops(), [Some(4); 3]);
        assert!(ring.have_ended());
    }

    #[test]
    fn what_the_dead_held_is_lost_and_the_rest_goes_on_wherever_a_death_falls() {
        for first in 0..30 {
            for second in [2, 3] {
                let plan = Plan { tokens: 4, pace: 1, deaths: vec![(1, 0), (second, 0)] };
                let mut ring = Ring::new(4, &plan);
                ring.turn(0, |it, out| it.handle_time(1, out));
                ring.arrive(first);
                ring.die(1);
                ring.arrive(first / 2);
                ring.die(second);
                assert!(!ring.have_ended());
                ring.arrive(3);
                ring.turn(0, |it, out| it.handle_time(3, out));
                ring.arrive(usize::MAX);
                assert!(ring.have_ended(), "{first} {second}");
                assert_eq!(ring.hops().split_off(2), [Some(2); 2], "{first} {second}");
                assert!(ring.hops().iter().flatten().all(|hops| (2..=4).contains(hops)));
            }
        }
    }

    #[test]
    fn a_search_that_its_holder_took_along_is_passed_on_again() {
        let plan = Plan { tokens: 1, pace: 1, deaths: vec![(1, 0), (2, 0)] };
        let mut ring = Ring::new(4, &plan);
        ring.turn(0, |it, out| it.handle_time(0, out));
        ring.die(1);
        // The token was for the dead; the search is on its way to 2.
        ring.gone[2] = true;
        ring.arrive(usize::MAX);
        assert!(!ring.have_ended());
        ring.die(2);
        ring.arrive(usize::MAX);
        assert!(ring.have_ended());
        assert_eq!(ring.hops(), [None]);
    }

    #[test]
    fn a_token_that_was_lost_behind_the_last_search_is_searched_for_again() {
        let plan = Plan { tokens: 1, pace: 1, deaths: vec![(3, 0)] };
        let mut ring = Ring::new(4, &plan);
        ring.gone[3] = true;
        // Rank 0 knows first; its search and its token are both sent to the dead by 2.
        ring.turn(0, |it, out| it.handle_death(3, 0, out));
        ring.turn(0, |it, out| it.handle_time(0, out));
        ring.arrive(usize::MAX);
        assert!(!ring.have_ended());
        for other in [1, 2] {
            ring.turn(other, |it, out| it.handle_death(3, 0, out));
        }
        ring.arrive(usize::MAX);
        assert!(ring.have_ended());
        assert_eq!(ring.hops(), [None]);
    }

    #[test]
    fn messages_and_plans_survive_their_words() {
        for what in [What::Token, What::Search, What::End] {
            let message = Message { what, number: 1, made: 2, hops: 3 };
            assert_eq!(Message::of_words(message.to_words()), message);
        }
        let mut plan = Plan::default();
        for (name, value) in [("tokens", "9"), ("pace", "5"), ("deaths", "3@2,1@4"), ("deaths", "")]
        {
            assert_eq!(plan.read(name, value), Ok(()));
        }
        assert_eq!((plan.tokens, plan.death_of(1), plan.death_of(2)), (9, Some(4), None));
        for (name, value) in [("tokens", "x"), ("deaths", "3"), ("size", "3"), ("deaths", "3@")] {
            assert!(plan.read(name, value).is_err(), "{name} {value}");
        }
    }
}
