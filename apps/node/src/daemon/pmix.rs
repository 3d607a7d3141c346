//! Ranks that speak `PMIx`: Open MPI's.

use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use fampi_pmix::{Info, Server, Value, key};

use super::job::{self, View, named};
use super::ranks::Debts;
use super::runtime::Runtime;
use crate::place::Place;
use crate::protocol::{Answer, Effects, Node, Process, Ticket, daemon::Daemon, space::Space};

/// The server of Open MPI's library, and what ranks wait for.
#[derive(Debug)]
pub(super) struct Pmix {
    server: Server,
    debts: Debts,
}

impl Pmix {
    /// Starts the server of the MPI at this prefix, for the node of this number and name.
    pub(super) fn start(mpi: &Path, me: Node, name: &str, place: &Place) -> Result<Self> {
        let folder = place.files.to_string_lossy().into_owned();
        let settings = [
            Info::text(key::HOST_NAME, name),
            Info::text(key::SERVER_NAMESPACE, "fampi-node"),
            Info::new(key::SERVER_RANK, Value::Rank(me.0)),
            Info::text(key::SERVER_FOLDER, folder.as_str()),
            Info::text(key::SYSTEM_FOLDER, folder.as_str()),
            Info::new(key::SERVER_TOOLS, Value::Flag(false)),
        ];
        Ok(Self { server: Server::start(mpi, &settings)?, debts: Debts::default() })
    }
}

impl Runtime for Pmix {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.server.as_fd()
    }

    fn machine(&self, daemon: Daemon) -> Daemon {
        daemon
    }

    fn begin(&mut self, space: &Space, view: View<'_>) -> Result<()> {
        let here = space.ranks_on(view.me).count() as u32;
        Ok(self.server.register_namespace(&space.name, here, &job::infos(space, view))?)
    }

    fn prepare(
        &mut self,
        space: &Space,
        rank: u32,
        view: View<'_>,
        command: &mut Command,
    ) -> Result<Option<OwnedFd>> {
        let process = space.process(rank);
        let folder = view.place.files.join(&space.name).join(rank.to_string());
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        self.server.register_client(&named(&process))?;
        let own = self.server.environment(&named(&process))?;
        if let Some(memory) = &view.place.memory {
            command.env("OMPI_MCA_btl_sm_backing_directory", memory);
        }
        let (here, before) = view.neighbours(space, rank);
        for (name, number) in [
            ("OMPI_COMM_WORLD_SIZE", space.places.len()),
            ("OMPI_COMM_WORLD_RANK", rank as usize),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", here),
            ("OMPI_COMM_WORLD_LOCAL_RANK", before),
            ("OMPI_COMM_WORLD_NODE_RANK", before),
            ("OMPI_UNIVERSE_SIZE", space.places.len()),
        ] {
            command.env(name, number.to_string());
        }
        command.envs(own);
        Ok(None)
    }

    fn serve(&mut self, daemon: &mut Daemon, out: &mut Effects) -> Result<bool> {
        let Some(request) = self.server.next() else { return Ok(false) };
        self.debts.ask(daemon, request, out);
        Ok(true)
    }

    fn pay(&mut self, ticket: Ticket, answer: Answer) {
        self.debts.pay(ticket, answer);
    }

    fn ask(&mut self, process: &Process, number: u64) -> bool {
        self.server.request_modex(&named(process), number).is_ok()
    }

    fn tell(&mut self, dead: &[Process]) -> Result<()> {
        let dead: Vec<_> = dead.iter().map(named).collect();
        Ok(self.server.tell_deaths(&dead)?)
    }

    fn note_end(&mut self, _: &Process, _: &mut Daemon, _: &mut Effects) {
        // The server sees to that itself.
    }
}
