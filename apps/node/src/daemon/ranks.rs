//! What ranks ask, in the words of the machine, and the answers that they are owed.

use std::collections::BTreeMap;

use fampi_pmix::{
    self as pmix, Answer as OpAnswer, Detail, Found, LookupAnswer, ModexAnswer, Request,
    SpawnAnswer, key,
};

use crate::protocol::{
    Answer, Effects, Failure, Process, Ticket,
    collective::Kind,
    daemon::{Daemon, Wish},
    directory::Lookup,
    space::Program,
};

/// Where Open MPI says at which port a process meets who has started it.
const PARENT_PORT: &str = "OMPI_PARENT_PORT";
/// In the last key that new processes look up while they meet who has started them. That they are
/// connected the daemon of a node is not told where all of them, and those, are there.
const LAST_WORD: &str = ":activate:";

/// An answer that a rank waits for.
#[derive(Debug)]
enum Owed {
    Done(OpAnswer),
    Bytes(ModexAnswer),
    Found(LookupAnswer),
    Spawned(SpawnAnswer),
}

/// All answers that ranks wait for.
#[derive(Debug, Default)]
pub(super) struct Debts {
    owed: BTreeMap<Ticket, Owed>,
    last: u64,
}

fn ours(process: &pmix::Process) -> Process {
    Process { space: process.namespace.clone(), rank: process.rank }
}

fn all_ours(processes: &[pmix::Process]) -> Vec<Process> {
    processes.iter().map(ours).collect()
}

const fn theirs(failure: Failure) -> pmix::Failure {
    match failure {
        Failure::NotFound => pmix::Failure::NotFound,
        Failure::Lost => pmix::Failure::LostConnection,
        Failure::NotStarted => pmix::Failure::NotStarted,
        Failure::NotSupported => pmix::Failure::NotSupported,
    }
}

const fn failure_of(failure: pmix::Failure) -> Failure {
    match failure {
        pmix::Failure::NotFound => Failure::NotFound,
        pmix::Failure::LostConnection => Failure::Lost,
        pmix::Failure::NotStarted => Failure::NotStarted,
        pmix::Failure::NotSupported => Failure::NotSupported,
    }
}

impl Debts {
    fn owe(&mut self, owed: Owed) -> Ticket {
        self.last += 1;
        let ticket = Ticket(self.last);
        self.owed.insert(ticket, owed);
        ticket
    }

    /// Gives an answer.
    pub(super) fn pay(&mut self, ticket: Ticket, answer: Answer) {
        match (self.owed.remove(&ticket), answer) {
            (Some(Owed::Done(owed)), Answer::Done(result)) => owed.give(&result.map_err(theirs)),
            (Some(Owed::Bytes(owed)), Answer::Bytes(result)) => owed.give(result.map_err(theirs)),
            (Some(Owed::Spawned(owed)), Answer::Spawned(result)) => {
                owed.give(&result.map_err(theirs));
            }
            (Some(Owed::Found(owed)), Answer::Found(result)) => {
                let found = |entries: Vec<crate::protocol::directory::Entry>| {
                    let found = entries.into_iter().map(|entry| Found {
                        publisher: super::job::named(&entry.publisher),
                        key: entry.key,
                        packed: entry.value,
                    });
                    found.collect()
                };
                owed.give(result.map(found).map_err(theirs));
            }
            // The machine answers each request once, in the way in which it was asked.
            (owed, answer) => debug_assert!(false, "{owed:?} {answer:?}"),
        }
    }

    /// Hands a request to the machine.
    pub(super) fn ask(&mut self, daemon: &mut Daemon, request: Request, out: &mut Effects) {
        match request {
            Request::Connected(who) => daemon.handle_connected(&ours(&who), out),
            Request::Finalized(who) => daemon.handle_finalized(&ours(&who)),
            Request::Abort(who, status, why) => daemon.handle_abort(&ours(&who), status, &why, out),
            Request::Fence(who, data, answer) => {
                let ticket = self.owe(Owed::Bytes(answer));
                daemon.handle_meeting(Kind::Fence, all_ours(&who), data, ticket, out);
            }
            Request::Connect(who, answer) => {
                let ticket = self.owe(Owed::Done(answer));
                daemon.handle_meeting(Kind::Connect, all_ours(&who), Vec::new(), ticket, out);
            }
            Request::Disconnect(who, answer) => {
                let ticket = self.owe(Owed::Done(answer));
                daemon.handle_meeting(Kind::Disconnect, all_ours(&who), Vec::new(), ticket, out);
            }
            Request::Modex(of, answer) => {
                let ticket = self.owe(Owed::Bytes(answer));
                daemon.handle_question(ours(&of), ticket, out);
            }
            Request::ModexReady(number, data) => {
                daemon.handle_data(number, data.map_err(failure_of), out);
            }
            Request::Publish(who, values, once, answer) => {
                let ticket = self.owe(Owed::Done(answer));
                daemon.handle_publication(&ours(&who), values, once, ticket, out);
            }
            Request::Unpublish(who, keys, answer) => {
                let ticket = self.owe(Owed::Done(answer));
                daemon.handle_withdrawal(&ours(&who), &keys, ticket, out);
            }
            Request::Lookup(who, keys, waits, answer) => {
                let ticket = self.owe(Owed::Found(answer));
                let meets = is_last_word(&keys).then_some(who.namespace);
                daemon.handle_lookup(Lookup { ticket, keys, waits, meets }, out);
            }
            Request::Spawn(who, programs, answer) => {
                let mut wishes = programs.into_iter().map(wish);
                let Some(first) = wishes.next() else {
                    answer.give(&Err(pmix::Failure::NotSupported));
                    return;
                };
                let wish = Wish { others: wishes.collect(), ..first };
                let ticket = self.owe(Owed::Spawned(answer));
                daemon.handle_spawn(ours(&who), wish, ticket, out);
            }
        }
    }
}

/// True for what new processes look up last.
fn is_last_word(keys: &[String]) -> bool {
    keys.iter().any(|key| key.contains(LAST_WORD))
}

/// What a process of MPI wants to be started.
fn wish(asked: pmix::Program) -> Wish {
    let mut words = vec![asked.command];
    words.extend(asked.arguments.into_iter().skip(1));
    let split =
        |text: &str| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut environment: Vec<(String, String)> =
        asked.environment.iter().filter_map(|text| split(text)).collect();
    let (mut hosts, mut folder) = (Vec::new(), asked.folder);
    for (name, detail) in asked.details {
        match (name.as_str(), detail) {
            (key::HOST, Detail::Text(names)) => {
                // Each may say how many it takes, as in `a:2,b`.
                let names = names.split(',').filter_map(|name| name.split(':').next());
                hosts.extend(names.map(str::to_owned));
            }
            (key::FOLDER, Detail::Text(text)) => folder = Some(text),
            (_, Detail::Variable(name, value)) => environment.push((name, value)),
            _ => {}
        }
    }
    let port = environment.iter().find(|(name, _)| name == PARENT_PORT);
    let port = port.map(|(_, port)| port.trim_matches('"').to_owned());
    let folder = folder.unwrap_or_else(|| ".".to_owned());
    let program = Program { words, environment, folder, said: Vec::new() };
    Wish { processes: asked.processes, hosts, port, program, others: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_new_processes_is_known_by_its_key() {
        // As Open MPI 5.0.9 looks them up, in this order.
        let keys = ["accept", "nextcid:recv:0", "nextcid:recv:1", "activate:recv:0"];
        let is_last = keys.map(|key| is_last_word(&[format!("2512191489.0:4093023824:{key}")]));
        assert_eq!(is_last, [false, false, false, true]);
    }

    #[test]
    fn a_spawn_names_its_program_where_to_start_it_and_where_to_meet() {
        let text = |text: &str| Detail::Text(text.to_owned());
        let wished = wish(pmix::Program {
            command: "minife".into(),
            arguments: vec!["minife".into(), "nx=20".into()],
            environment: vec!["OMPI_PARENT_PORT=\"job.0:7\"".into(), "A=b=c".into()],
            folder: None,
            processes: 2,
            details: vec![
                (key::HOST.into(), text("one:2,two")),
                (key::FOLDER.into(), text("here")),
                ("pmix.envar.set".into(), Detail::Variable("B".into(), "d".into())),
            ],
        });
        assert_eq!(wished.program.words, ["minife", "nx=20"]);
        assert_eq!(wished.program.folder, "here");
        assert_eq!(wished.hosts, ["one", "two"]);
        assert_eq!(wished.port.as_deref(), Some("job.0:7"));
        assert!(wished.program.environment.contains(&("A".into(), "b=c".into())));
        assert!(wished.program.environment.contains(&("B".into(), "d".into())));
    }
}
