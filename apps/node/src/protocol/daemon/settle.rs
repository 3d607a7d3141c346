//! What can be answered, told or ended now: looked at after each turn.

use std::collections::BTreeSet;

use super::super::{
    ALL, Answer, Effect, Effects, Failure, Node, Report,
    collective::Kind,
    directory::EntryId,
    message::{Fact, Message},
    space::{End, Known},
};
use super::{Daemon, news::Pending};

impl Daemon {
    /// Answers what can be answered now.
    pub(super) fn settle(&mut self, out: &mut Effects) {
        if self.has_left || !self.settle_new(out) {
            return;
        }
        self.settle_held(out);
        self.settle_meetings(out);
        self.settle_lookups(out);
        self.settle_questions(out);
        self.settle_pending(out);
        self.settle_launch(out);
        self.settle_joins(out);
        self.settle_end(out);
    }

    fn settle_meetings(&mut self, out: &mut Effects) {
        while let Some((key, ticket, answer)) = self.collectives.take_over(&self.spaces) {
            let is_done = !matches!(answer, Answer::Done(Err(_)) | Answer::Bytes(Err(_)));
            for process in key.who.iter().filter(|_| is_done) {
                let Some(known) = self.spaces.get_mut(&process.space) else { continue };
                let met_others = key.who.iter().any(|it| it.space != process.space);
                known.joined |= key.kind == Kind::Connect && met_others;
                known.fences += u32::from(key.kind == Kind::Fence && process.rank == ALL);
            }
            out.push(Effect::Answer(ticket, answer));
        }
    }

    fn settle_lookups(&mut self, out: &mut Effects) {
        while let Some((lookup, found)) = self.directory.take_ready() {
            let read: Vec<EntryId> =
                found.iter().filter(|entry| entry.once).map(|entry| entry.id).collect();
            let found = if found.is_empty() { Err(Failure::NotFound) } else { Ok(found) };
            let meets = lookup.meets.filter(|_| found.is_ok());
            out.push(Effect::Answer(lookup.ticket, Answer::Found(found)));
            if !read.is_empty() {
                self.tell(Fact::Removed(read), out);
            }
            if let Some(name) = meets {
                self.join(&name, out);
            }
        }
        // Who started them, or one of them, is dead: nothing is published there any more.
        let spaces = &self.spaces;
        let is_hopeless = |key: &str| {
            spaces.iter().any(|known| {
                let is_its = known.space.port.as_ref().is_some_and(|it| key.starts_with(it));
                let spawner = known.space.spawner.as_ref();
                let is_gone = || spawner.is_some_and(|it| spaces.end_of(it).is_some());
                is_its && (known.has_lost() || is_gone())
            })
        };
        while let Some(lookup) = self.directory.take_hopeless(is_hopeless) {
            out.push(Effect::Answer(lookup.ticket, Answer::Found(Err(Failure::Lost))));
        }
    }

    fn settle_pending(&mut self, out: &mut Effects) {
        let members = &self.members;
        let is_heard = |it: &Pending| it.missing.iter().all(|node| members.is_lost(*node));
        let heard = self.pending.iter().filter(|(_, it)| is_heard(it));
        let heard: Vec<u64> = heard.map(|(number, _)| *number).collect();
        for number in heard {
            let Some(pending) = self.pending.remove(&number) else { continue };
            let answer = match pending.space {
                None => Answer::Done(Ok(())),
                Some(name) if pending.failed => {
                    self.tell(Fact::Dropped(name), out);
                    Answer::Spawned(Err(Failure::NotStarted))
                }
                Some(name) => Answer::Spawned(Ok(name)),
            };
            out.push(Effect::Answer(pending.ticket, answer));
        }
    }

    /// Ends a job that cannot start: a process ended before all had started MPI together.
    fn settle_launch(&mut self, out: &mut Effects) {
        let me = self.members.me();
        let takes_part = |known: &&Known| known.space.ranks_on(me).next().is_some();
        let launch = self.spaces.iter().next().filter(takes_part);
        let Some(known) = launch.filter(|_| self.ending.is_none()) else { return };
        let waits = self.collectives.waiting().any(|key| key.who.iter().any(|it| it.rank == ALL));
        let cause = known.ends().find(|&(rank, end)| match end {
            End::NotStarted => true,
            End::Finished(_) => {
                let is_missed = known.is_missed(rank, me);
                (waits || is_missed) && !known.has_started(self.fences)
            }
            _ => known.uses_mpi() && !known.has_started(self.fences),
        });
        let Some((rank, end)) = cause else { return };
        let how = match end {
            End::Finished(status) | End::Exited(status) => format!("ended with status {status}"),
            End::Killed(signal) => format!("was killed by signal {signal}"),
            End::NotStarted => "could not be started".to_owned(),
            End::Lost => "was lost with its node".to_owned(),
        };
        let sentence = format!("the job did not start: rank {rank} {how}");
        self.tell(Fact::Ending(end.status().max(1), sentence), out);
    }

    fn settle_end(&mut self, out: &mut Effects) {
        let starts = self.pending.values().any(|pending| pending.space.is_some());
        let grows = starts || self.joins.is_adding();
        let is_over = self.spaces.are_over() && !grows && self.spaces.iter().next().is_some();
        let said = match &self.ending {
            _ if !is_over => Report::Busy,
            Some((status, why)) => {
                Report::Over(*status, Some(why.clone()).filter(|why| !why.is_empty()))
            }
            None => Report::Over(self.spaces.status(), None),
        };
        if self.said != said {
            self.said = said.clone();
            out.push(Effect::Report(said));
        }
        self.settle_conclusion(out);
    }

    /// Concludes once all living nodes have said that all is over, with one status, and that they
    /// know of the same losses.
    ///
    /// A spawn that is in flight cannot come after that. Who asks for one lives on the node that
    /// tells of it, which tells of its end later: whoever knows of the end knows of what was
    /// spawned. If that node was lost instead, some may have heard of the spawn and others not
    /// yet. But who has heard of it passes it on before it says that all is over for it, and links
    /// keep the order; and who has heard of the loss takes nothing from the lost any more. So
    /// nobody still has news of a spawn when all have said that all is over.
    ///
    /// How the processes of a lost node have ended, and why the job ends, may have reached only
    /// some, too, and decides the status. Who knows more says something else until all know it, and
    /// who has not heard of the loss yet may still hear more of the lost.
    fn settle_conclusion(&mut self, out: &mut Effects) {
        if self.routes.is_none() {
            self.say_to_all(out);
        }
        let says = self.says();
        let agrees = |node: Node| self.others_said.get(&node) == Some(&says);
        let is_said = self.said_to_all == says && !self.is_concluded;
        if !is_said || !self.members.others().all(agrees) {
            return;
        }
        if let Report::Over(status, why) = says.0 {
            self.is_concluded = true;
            out.push(Effect::Conclude(status, why));
        }
    }

    /// What this node has to say of the whole job, and the nodes that it knows to be lost.
    fn says(&self) -> (Report, BTreeSet<u32>) {
        let lost = if self.said == Report::Busy { BTreeSet::new() } else { self.members.lost() };
        (self.said.clone(), lost)
    }

    /// Says that to all others, if it is new. In a graph a node that has concluded says no more: it
    /// stays only to hand messages on, and its end is not to be told of again and again.
    pub(super) fn say_to_all(&mut self, out: &mut Effects) {
        let says = self.says();
        if self.said_to_all == says || (self.routes.is_some() && self.is_concluded) {
            return;
        }
        self.said_to_all = says.clone();
        for node in self.members.others().collect::<Vec<Node>>() {
            self.send(node, Message::Says(says.0.clone(), says.1.clone()), out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{
        Process, Ticket,
        directory::Lookup,
        message::News,
        placement::Room,
        space::{Exit, Program, Space},
    };
    use super::*;

    #[test]
    fn a_rank_that_ends_early_is_no_failed_start_for_a_node_without_ranks_of_the_launch() {
        let room = |name: &str| Room { name: name.to_owned(), slots: 2 };
        let mut daemon = Daemon::new(Node(1), vec![room("a"), room("b")]);
        let space = |name: &str, places: Vec<u32>, spawner| Space {
            name: name.to_owned(),
            places,
            spawner,
            port: None,
            program: Program::default(),
            others: Vec::new(),
        };
        let rank = |rank| Process { space: "job@1".into(), rank };
        let mut out = Effects::new();
        daemon.handle_launch(space("job@1", vec![0, 0], None), &mut out);
        let facts = [
            Fact::Spawned(space("job@2", vec![1], Some(rank(0)))),
            Fact::Ended(rank(1), End::Finished(0)),
        ];
        let new = Process { space: "job@2".into(), rank: ALL };
        for (number, fact) in (1..).zip(facts) {
            let news = Message::News(News { origin: 0, number, fact });
            daemon.handle_message(Node(0), news, &mut out);
            if number == 1 {
                let who = vec![rank(0), new.clone()];
                daemon.handle_meeting(Kind::Connect, who, Vec::new(), Ticket(1), &mut out);
                let asked = |effect: &Effect| match effect {
                    Effect::Ask(_, number) => Some(*number),
                    _ => None,
                };
                let asked = out.iter().find_map(asked).expect("what it has to say");
                daemon.handle_data(asked, Ok(Vec::new()), &mut out);
            }
        }
        assert!(daemon.ending.is_none(), "{:?}", daemon.ending);
    }

    #[test]
    fn new_processes_outlive_who_started_them_from_their_last_word_with_it_on() {
        for (finds, expected) in [("port:accept", true), ("port:activate:recv:0", false)] {
            let mut daemon = Daemon::new(Node(0), vec![Room { name: "a".into(), slots: 4 }]);
            let space = |name: &str, spawner: Option<Process>| Space {
                name: name.to_owned(),
                places: vec![0, 0],
                port: spawner.as_ref().map(|_| "port".to_owned()),
                spawner,
                program: Program::default(),
                others: Vec::new(),
            };
            let spawner = Process { space: "job@1".into(), rank: 0 };
            let mut out = Effects::new();
            daemon.handle_launch(space("job@1", None), &mut out);
            let fact = Fact::Spawned(space("job@2", Some(spawner.clone())));
            daemon.tell(fact, &mut out);
            let values = vec![(finds.to_owned(), Vec::new())];
            daemon.handle_publication(&spawner, values, true, Ticket(1), &mut out);
            let keys = vec![finds.to_owned()];
            let meets = (finds != "port:accept").then(|| "job@2".to_owned());
            let lookup = Lookup { ticket: Ticket(2), keys, waits: true, meets };
            daemon.handle_lookup(lookup, &mut out);
            assert!(out.contains(&Effect::Answer(Ticket(1), Answer::Done(Ok(())))));
            out.clear();
            daemon.handle_exit(&spawner, Exit::Signal(9), &mut out);
            let is_killed = out.iter().any(|effect| matches!(effect, Effect::Kill(_)));
            assert_eq!(is_killed, expected, "{out:?}");
        }
    }
}
