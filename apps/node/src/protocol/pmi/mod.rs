//! Processes that speak PMI-1: what they say to each other while they start, which their daemon
//! keeps, and what they want of the machines that PMIx uses as well.
//!
//! ```text
//! put      kept here, and the part of this node in the next barrier
//! barrier  when all of this node that live are there: a fence of the namespace
//! get      of what is kept here: all that was said before the last barrier
//! ```
//!
//! **Guarantees.** A barrier waits for no process that is dead or done. After it, each process
//! finds what any of them had put before.
//!
//! **Assumes** that a process asks for one thing after the other, as it waits for the answer.
//!
//! PMI tells no process of deaths: those who are left find out by other ways.

pub mod request;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ALL, Answer, Effects, Node, Process, Ticket, collective::Kind, daemon::Daemon,
    directory::Lookup, message, space::Space,
};
use request::{Reply, Request};

/// Where MPICH looks for the nodes of all ranks.
const MAPPING: &str = "PMI_process_mapping";
/// Where it looks for who has started it; the first of them goes there then.
const PARENT: &str = "PARENT_ROOT_PORT_NAME";
/// In the start of MPICH the processes of several nodes meet once.
pub const FENCES_OF_THE_START: u32 = 1;

/// Where replies go.
pub type Replies = Vec<(Process, Reply)>;

/// A namespace, as the processes of this node see it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Board {
    size: u32,
    /// Those of this node that still may come to a barrier.
    here: BTreeSet<u32>,
    /// Those of them that are there.
    waiting: BTreeSet<u32>,
    /// They meet the other nodes.
    is_meeting: bool,
    /// What was said here since the last barrier.
    unsaid: Vec<(String, String)>,
    values: BTreeMap<String, String>,
}

/// Whom an answer of the machine is for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Owed {
    /// All of a namespace that wait.
    Barrier(String),
    /// One process, to which this is said if all is well, else the other.
    One(Process, Reply, Reply),
    /// One process that looks for a port.
    Port(Process),
}

/// The processes of this node that speak PMI-1.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Front {
    me: Node,
    boards: BTreeMap<String, Board>,
    owed: BTreeMap<Ticket, Owed>,
    last: u64,
}

impl Front {
    /// That of this node.
    pub const fn new(me: Node) -> Self {
        Self { me, boards: BTreeMap::new(), owed: BTreeMap::new(), last: 0 }
    }

    /// A namespace, of which processes may be here.
    pub fn admit(&mut self, space: &Space) {
        let here = space.ranks_on(self.me).collect();
        let mut values: BTreeMap<String, String> = space.program.said.iter().cloned().collect();
        values.insert(MAPPING.to_owned(), mapping(&space.places));
        let size = space.places.len() as u32;
        let board = Board { size, here, values, ..Board::default() };
        self.boards.insert(space.name.clone(), board);
    }

    fn owe(&mut self, owed: Owed) -> Ticket {
        self.last += 1;
        let ticket = Ticket(self.last);
        self.owed.insert(ticket, owed);
        ticket
    }

    /// A process of this node asks for something.
    pub fn handle_request(
        &mut self,
        who: &Process,
        request: Request,
        daemon: &mut Daemon,
        out: &mut Effects,
        replies: &mut Replies,
    ) {
        let Some(board) = self.boards.get_mut(&who.space) else { return };
        let reply = match request {
            Request::Init => {
                daemon.handle_connected(who, out);
                Reply::Init
            }
            Request::GetMaxes => Reply::Maxes,
            Request::GetAppnum => Reply::Appnum,
            Request::GetName => Reply::Name(who.space.clone()),
            Request::GetUniverseSize => Reply::UniverseSize(board.size),
            Request::Put(key, value) => {
                board.unsaid.push((key.clone(), value.clone()));
                board.values.insert(key, value);
                Reply::Put
            }
            Request::Get(of, key) => {
                if key == PARENT && who.rank == 0 {
                    daemon.handle_joined(&who.space, out);
                }
                let board = self.boards.get(&of);
                Reply::Get(board.and_then(|board| board.values.get(&key).cloned()))
            }
            Request::Barrier => {
                board.waiting.insert(who.rank);
                return self.meet(&who.space, daemon, out);
            }
            Request::Finalize => {
                daemon.handle_finalized(who);
                self.part(who, daemon, out);
                Reply::Finalize
            }
            Request::Abort(status, why) => return daemon.handle_abort(who, status, &why, out),
            Request::Unknown(command) => Reply::Unknown(command),
            other => return self.ask(who, other, daemon, out),
        };
        replies.push((who.clone(), reply));
    }

    /// What takes other daemons.
    fn ask(&mut self, who: &Process, request: Request, daemon: &mut Daemon, out: &mut Effects) {
        let one = |done: Reply, failed: Reply| Owed::One(who.clone(), done, failed);
        match request {
            Request::Publish(name, port) => {
                let failed = Reply::Unknown("publish".to_owned());
                let ticket = self.owe(one(Reply::Publish, failed));
                let values = vec![(name, port.into_bytes())];
                daemon.handle_publication(who, values, false, ticket, out);
            }
            Request::Unpublish(name) => {
                let failed = Reply::Unknown("unpublish".to_owned());
                let ticket = self.owe(one(Reply::Unpublish, failed));
                daemon.handle_withdrawal(who, &[name], ticket, out);
            }
            Request::Lookup(name) => {
                let ticket = self.owe(Owed::Port(who.clone()));
                let lookup = Lookup { ticket, keys: vec![name], waits: false, meets: None };
                daemon.handle_lookup(lookup, out);
            }
            Request::Spawn(wish) => {
                let ticket = self.owe(one(Reply::Spawn(true), Reply::Spawn(false)));
                daemon.handle_spawn(who.clone(), wish, ticket, out);
            }
            _ => {}
        }
    }

    /// A process of this node has ended.
    pub fn handle_end(&mut self, who: &Process, daemon: &mut Daemon, out: &mut Effects) {
        self.part(who, daemon, out);
    }

    /// A process comes to no barrier any more.
    fn part(&mut self, who: &Process, daemon: &mut Daemon, out: &mut Effects) {
        let Some(board) = self.boards.get_mut(&who.space) else { return };
        board.here.remove(&who.rank);
        board.waiting.remove(&who.rank);
        self.meet(&who.space, daemon, out);
    }

    /// Lets the processes of this node meet those of the others, if all are there.
    fn meet(&mut self, space: &str, daemon: &mut Daemon, out: &mut Effects) {
        let Some(board) = self.boards.get_mut(space) else { return };
        if board.is_meeting || board.waiting.is_empty() || board.waiting != board.here {
            return;
        }
        board.is_meeting = true;
        let said = message::encode(&std::mem::take(&mut board.unsaid));
        let who = vec![Process { space: space.to_owned(), rank: ALL }];
        let ticket = self.owe(Owed::Barrier(space.to_owned()));
        daemon.handle_meeting(Kind::Fence, who, said, ticket, out);
    }

    /// The machine has an answer.
    pub fn handle_answer(&mut self, ticket: Ticket, answer: Answer, replies: &mut Replies) {
        match self.owed.remove(&ticket) {
            Some(Owed::Barrier(space)) => {
                let Some(board) = self.boards.get_mut(&space) else { return };
                if let Answer::Bytes(Ok(bytes)) = answer {
                    board
                        .values
                        .extend(message::decode_all::<Vec<(String, String)>>(&bytes).flatten());
                }
                board.is_meeting = false;
                let waiting = std::mem::take(&mut board.waiting).into_iter();
                let of = |rank| (Process { space: space.clone(), rank }, Reply::Barrier);
                replies.extend(waiting.map(of));
            }
            Some(Owed::One(who, done, failed)) => {
                let is_done = matches!(answer, Answer::Done(Ok(())) | Answer::Spawned(Ok(_)));
                replies.push((who, if is_done { done } else { failed }));
            }
            Some(Owed::Port(who)) => {
                let entries =
                    if let Answer::Found(Ok(entries)) = answer { entries } else { vec![] };
                let port = entries.into_iter().next().map(|entry| entry.value);
                let port = port.and_then(|port| String::from_utf8(port).ok());
                replies.push((who, Reply::Lookup(port)));
            }
            None => {}
        }
    }
}

/// The nodes of all ranks, as MPICH reads them: blocks of a first node, a number of nodes from
/// there on, and the ranks of each. Nodes are counted as they first occur.
fn mapping(places: &[u32]) -> String {
    let mut seen: Vec<u32> = Vec::new();
    let mut blocks: Vec<(usize, u32)> = Vec::new();
    for place in places {
        let at = seen.iter().position(|it| it == place).unwrap_or_else(|| {
            seen.push(*place);
            seen.len() - 1
        });
        match blocks.last_mut() {
            Some((node, ranks)) if *node == at => *ranks += 1,
            _ => blocks.push((at, 1)),
        }
    }
    let blocks: Vec<String> =
        blocks.iter().map(|(node, ranks)| format!("({node},1,{ranks})")).collect();
    format!("(vector,{})", blocks.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{
        Effect,
        placement::Room,
        space::{Exit, Program},
    };

    fn process(rank: u32) -> Process {
        Process { space: "job@1".into(), rank }
    }

    /// The front and the daemon of the only node, with three ranks.
    fn node() -> (Front, Daemon) {
        let room = Room { name: "one".into(), slots: 3 };
        let (mut front, mut daemon) = (Front::new(Node(0)), Daemon::new(Node(0), vec![room]));
        let space = Space {
            name: "job@1".into(),
            places: vec![0; 3],
            spawner: None,
            port: None,
            program: Program::default(),
            others: Vec::new(),
        };
        front.admit(&space);
        daemon.handle_launch(space, &mut Effects::new());
        (front, daemon)
    }

    /// A request, and the replies to it that are certain now.
    fn ask(at: &mut (Front, Daemon), rank: u32, request: Request) -> Replies {
        let (mut out, mut replies) = (Effects::new(), Replies::new());
        at.0.handle_request(&process(rank), request, &mut at.1, &mut out, &mut replies);
        answer(at, out, &mut replies);
        replies
    }

    fn answer(at: &mut (Front, Daemon), out: Effects, replies: &mut Replies) {
        for effect in out {
            if let Effect::Answer(ticket, answer) = effect {
                at.0.handle_answer(ticket, answer, replies);
            }
        }
    }

    #[test]
    fn after_a_barrier_all_find_what_each_has_said() {
        let mut node = node();
        ask(&mut node, 1, Request::Put("address".into(), "here or there".into()));
        assert_eq!(ask(&mut node, 0, Request::Barrier), []);
        assert_eq!(ask(&mut node, 2, Request::Barrier), []);
        let replies = ask(&mut node, 1, Request::Barrier);
        assert_eq!(replies, [0, 1, 2].map(|rank| (process(rank), Reply::Barrier)));
        let get = |key: &str| Request::Get("job@1".into(), key.into());
        let found = Reply::Get(Some("here or there".into()));
        assert_eq!(ask(&mut node, 2, get("address")), [(process(2), found)]);
        assert_eq!(ask(&mut node, 2, get("no")), [(process(2), Reply::Get(None))]);
        let mapping = Reply::Get(Some("(vector,(0,1,3))".into()));
        assert_eq!(ask(&mut node, 2, get(MAPPING)), [(process(2), mapping)]);
    }

    #[test]
    fn a_barrier_waits_for_no_one_who_is_dead_or_done() {
        let mut node = node();
        ask(&mut node, 0, Request::Barrier);
        assert_eq!(ask(&mut node, 1, Request::Finalize), [(process(1), Reply::Finalize)]);
        let (mut out, mut replies) = (Effects::new(), Replies::new());
        node.0.handle_end(&process(2), &mut node.1, &mut out);
        node.1.handle_exit(&process(2), Exit::Signal(9), &mut out);
        answer(&mut node, out, &mut replies);
        assert_eq!(replies, [(process(0), Reply::Barrier)]);
    }

    /// Whether the daemon kills all when this rank ends in order.
    fn ends_with(at: &mut (Front, Daemon), rank: u32) -> bool {
        let mut out = Effects::new();
        at.0.handle_end(&process(rank), &mut at.1, &mut out);
        at.1.handle_exit(&process(rank), Exit::Status(0), &mut out);
        out.iter().any(|effect| matches!(effect, Effect::Kill(_)))
    }

    #[test]
    fn who_ends_without_having_begun_ends_the_others_that_start_without_a_barrier() {
        let mut missed = node();
        ask(&mut missed, 0, Request::Init);
        assert!(ends_with(&mut missed, 1));
        let mut nobody = node();
        assert!(!ends_with(&mut nobody, 1), "none of them uses MPI");
        let mut started = node();
        for rank in 0..3 {
            ask(&mut started, rank, Request::Init);
        }
        ask(&mut started, 1, Request::Finalize);
        assert!(!ends_with(&mut started, 1));
    }

    #[test]
    fn a_published_port_is_found_until_it_is_taken_back() {
        let mut node = node();
        let port = || Request::Publish("ocean".into(), "tag#0".into());
        let lookup = || Request::Lookup("ocean".into());
        assert_eq!(ask(&mut node, 0, lookup()), [(process(0), Reply::Lookup(None))]);
        assert_eq!(ask(&mut node, 1, port()), [(process(1), Reply::Publish)]);
        let found = Reply::Lookup(Some("tag#0".into()));
        assert_eq!(ask(&mut node, 0, lookup()), [(process(0), found)]);
        let back = ask(&mut node, 1, Request::Unpublish("ocean".into()));
        assert_eq!(back, [(process(1), Reply::Unpublish)]);
        assert_eq!(ask(&mut node, 0, lookup()), [(process(0), Reply::Lookup(None))]);
    }

    #[test]
    fn nodes_are_mapped_in_blocks_in_the_order_of_the_ranks() {
        assert_eq!(mapping(&[2, 2, 0, 2]), "(vector,(0,1,2),(1,1,1),(0,1,1))");
        assert_eq!(mapping(&[5]), "(vector,(0,1,1))");
    }
}
