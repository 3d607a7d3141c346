//! Ranks that speak PMI-1, each over a socket of its own: MPICH's.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::job::View;
use super::runtime::Runtime;
use crate::poll::Poll;
use crate::protocol::{
    Answer, Effects, Node, Process, Ticket,
    daemon::Daemon,
    pmi::{
        FENCES_OF_THE_START, Front, Replies,
        request::{Reader, Request},
    },
    space::Space,
};

/// Bytes that are read at once.
const CHUNK: usize = 16 << 10;

/// What MPICH has to be told to outlive deaths, where the job does not say otherwise.
const OUTLIVING: [(&str, &str); 3] = [
    // Otherwise its end waits for the dead.
    ("MPIR_CVAR_NO_COLLECTIVE_FINALIZE", "1"),
    // Otherwise UCX reads large messages in the memory of their sender, and ends the process when
    // that one has died. So they come in pieces, as small ones do.
    ("UCX_RNDV_SCHEME", "am"),
    // Otherwise UCX says on the standard output that a receive from the dead is left.
    ("UCX_LOG_LEVEL", "error"),
];

/// A process that is there.
#[derive(Debug)]
struct Client {
    process: Process,
    stream: UnixStream,
    reader: Reader,
}

/// The sockets of all ranks of this node.
#[derive(Debug)]
pub(super) struct Pmi {
    poll: Poll,
    clients: BTreeMap<u64, Client>,
    last: u64,
    front: Front,
    requests: VecDeque<(Process, Request)>,
    /// The names of all namespaces.
    spaces: Vec<String>,
}

/// Who dies before its library has taken the names of shared memory away leaves them behind.
impl Drop for Pmi {
    fn drop(&mut self) {
        let named: Vec<_> = self.spaces.iter().map(|space| shared_memory_of(space)).collect();
        for entry in fs::read_dir(SHARED).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_ours = |start: &String| name.to_string_lossy().starts_with(start);
            if named.iter().any(is_ours) {
                // Another daemon of this machine may be faster.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Where shared memory has names.
const SHARED: &str = "/dev/shm";

/// How the names of what MPICH shares between the processes of a namespace begin: the rest is the
/// number of the node. The number in it is the hash FNV-1a of the name of the namespace.
fn shared_memory_of(space: &str) -> String {
    let mix = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = space.bytes().fold(0x811c_9dc5, mix);
    format!("mpich_shm_{hash:x}_")
}

impl Pmi {
    /// For the ranks of this node.
    pub(super) fn new(me: Node) -> Result<Self> {
        let (poll, front) = (Poll::new()?, Front::new(me));
        let (clients, requests) = (BTreeMap::new(), VecDeque::new());
        Ok(Self { poll, clients, last: 0, front, requests, spaces: Vec::new() })
    }

    /// Takes what ranks have said; who has closed its socket, or says nonsense, is not heard again.
    fn listen(&mut self) -> Result<()> {
        for number in self.poll.wait(Duration::ZERO)? {
            let Some(client) = self.clients.get_mut(&number) else { continue };
            let goes_on = client.read(&mut self.requests);
            if !goes_on && let Some(client) = self.clients.remove(&number) {
                self.poll.remove(&client.stream);
            }
        }
        Ok(())
    }

    fn reply(&mut self, replies: Replies) {
        for (process, reply) in replies {
            let client = self.clients.values_mut().find(|it| it.process == process);
            // It waits for this: there is room. One that is gone is told of by its end.
            let _ = client.map(|client| client.stream.write_all(reply.text().as_bytes()));
        }
    }
}

impl Client {
    /// Reads what there is; false when no more comes.
    fn read(&mut self, requests: &mut VecDeque<(Process, Request)>) -> bool {
        let mut bytes = vec![0; CHUNK];
        let goes_on = match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(read) => {
                self.reader.add(&bytes[..read]);
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        loop {
            match self.reader.take() {
                Ok(Some(request)) => requests.push_back((self.process.clone(), request)),
                Ok(None) => return goes_on,
                Err(_) => return false,
            }
        }
    }
}

impl Runtime for Pmi {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    fn machine(&self, daemon: Daemon) -> Daemon {
        daemon.with_fences(FENCES_OF_THE_START)
    }

    fn begin(&mut self, space: &Space, _: View<'_>) -> Result<()> {
        self.spaces.push(space.name.clone());
        self.front.admit(space);
        Ok(())
    }

    fn prepare(
        &mut self,
        space: &Space,
        rank: u32,
        view: View<'_>,
        command: &mut Command,
    ) -> Result<Option<OwnedFd>> {
        let (ours, theirs) = UnixStream::pair().context("no socket for a process")?;
        ours.set_nonblocking(true).context("no socket for a process")?;
        // It is the next process that is started, and the only one that gets it.
        rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())?;
        self.last += 1;
        self.poll.add(&ours, self.last)?;
        let client =
            Client { process: space.process(rank), stream: ours, reader: Reader::default() };
        self.clients.insert(self.last, client);
        let (here, before) = view.neighbours(space, rank);
        for (name, number) in [
            ("PMI_FD", theirs.as_raw_fd() as usize),
            ("PMI_RANK", rank as usize),
            ("PMI_SIZE", space.places.len()),
            ("MPI_LOCALNRANKS", here),
            ("MPI_LOCALRANKID", before),
        ] {
            command.env(name, number.to_string());
        }
        if space.spawner.is_some() {
            command.env("PMI_SPAWNED", "1");
        }
        outlive_deaths(command);
        Ok(Some(theirs.into()))
    }

    fn serve(&mut self, daemon: &mut Daemon, out: &mut Effects) -> Result<bool> {
        if self.requests.is_empty() {
            self.listen()?;
        }
        let Some((process, request)) = self.requests.pop_front() else { return Ok(false) };
        let mut replies = Replies::new();
        self.front.handle_request(&process, request, daemon, out, &mut replies);
        self.reply(replies);
        Ok(true)
    }

    fn pay(&mut self, ticket: Ticket, answer: Answer) {
        let mut replies = Replies::new();
        self.front.handle_answer(ticket, answer, &mut replies);
        self.reply(replies);
    }

    fn ask(&mut self, _: &Process, _: u64) -> bool {
        // It has said all in its barriers.
        false
    }

    fn tell(&mut self, _: &[Process]) -> Result<()> {
        // There is no word for it.
        Ok(())
    }

    fn note_end(&mut self, process: &Process, daemon: &mut Daemon, out: &mut Effects) {
        let client = self.clients.iter().find(|(_, it)| it.process == *process);
        if let Some(client) = client.map(|it| *it.0).and_then(|it| self.clients.remove(&it)) {
            self.poll.remove(&client.stream);
        }
        self.front.handle_end(process, daemon, out);
    }
}

/// Tells MPICH so in the environment of a process.
fn outlive_deaths(command: &mut Command) {
    for (name, value) in OUTLIVING {
        if !command.get_envs().any(|(other, _)| other == name) {
            command.env(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_called_by_the_hash_of_its_namespace() {
        assert_eq!(shared_memory_of("foobar"), "mpich_shm_bf9cf968_");
    }

    #[test]
    fn mpich_is_told_to_outlive_deaths_unless_the_job_says_otherwise() {
        let mut command = Command::new("program");
        command.env_clear().env("UCX_LOG_LEVEL", "info");
        outlive_deaths(&mut command);
        let variables: Vec<_> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
            .collect();
        let (log, large) = (("UCX_LOG_LEVEL", "info"), ("UCX_RNDV_SCHEME", "am"));
        assert!([log, large].iter().all(|it| variables.contains(it)), "{variables:?}");
        assert_eq!(variables.len(), OUTLIVING.len());
    }
}
