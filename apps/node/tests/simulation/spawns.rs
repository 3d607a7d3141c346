//! Processes that are started by others, and meet these.

use fampi_node::protocol::{
    Answer, Effect, Effects, Node, Process, Ticket, collective::Kind, directory::Lookup,
    space::Space,
};

use super::{Station, World, everybody};

impl World {
    /// A namespace is started here; its first process publishes where it is met.
    pub(super) fn start(&mut self, at: usize, space: &Space) {
        let number: u16 = space.name.rsplit('@').next().expect("a part").parse().expect("a number");
        let name = self.numbers.entry(number).or_insert_with(|| space.name.clone());
        assert_eq!(*name, space.name, "Open MPI would take them for each other");
        let here: Vec<Process> =
            space.ranks_on(Node(at as u32)).map(|rank| space.process(rank)).collect();
        let left = self.stations.iter().position(|it| it.left.is_some() && !here.is_empty());
        assert_eq!(left, None, "it has left, and node {at} starts {}", space.name);
        self.stations[at].running.extend(here.iter().cloned());
        self.drive(at, |it, out| it.handle_started(&space.name, true, out));
        let Some(port) = &space.port else { return };
        for process in &here {
            self.drive(at, |it, out| it.handle_connected(process, out));
        }
        if let Some(first) = here.first().filter(|first| first.rank == 0) {
            let values = vec![(format!("{port}:accept"), vec![at as u8])];
            let ticket = self.ticket(at, "publish");
            self.drive(at, |it, out| it.handle_publication(first, values, true, ticket, out));
        }
        // The ranks of a node enter together: with the spawner, if it is here.
        let spawner = space.spawner.clone().expect("spawned");
        if !here.is_empty() && !self.stations[at].running.contains(&spawner) {
            self.connect(at, spawner, &space.name);
        }
    }

    pub(super) fn connect(&mut self, at: usize, spawner: Process, space: &str) {
        let who = vec![spawner, everybody(space)];
        let ticket = self.ticket(at, "connect");
        self.stations[at].meets.insert(ticket, space.to_owned());
        self.drive(at, |it, out| it.handle_meeting(Kind::Connect, who, vec![], ticket, out));
    }

    /// Connects processes of one node, which no daemon is told of: they say their last word.
    pub(super) fn connect_here(&mut self, at: usize, spawner: &Process, port: &str, space: String) {
        let key = format!("{port}:activate");
        let values = vec![(key.clone(), vec![])];
        let ticket = self.ticket(at, "publish");
        self.drive(at, |it, out| it.handle_publication(spawner, values, true, ticket, out));
        let ticket = self.ticket(at, "lookup");
        self.stations[at].looks.insert(ticket, space.clone());
        let (keys, meets) = (vec![key], Some(space));
        self.drive(at, |it, out| {
            it.handle_lookup(Lookup { ticket, keys, waits: true, meets }, out);
        });
    }

    /// Who was met can be asked for when it is dead, too.
    pub(super) fn check_met(at: usize, station: &Station, name: &str) -> Result<(), String> {
        let known = station.daemon.spaces().get(name).expect("it was met");
        if known.space.ranks_on(Node(at as u32)).next().is_some() {
            return Ok(());
        }
        for rank in (0..known.space.places.len() as u32).filter(|it| known.end_of(*it).is_some()) {
            let (mut daemon, mut out) = (station.daemon.clone(), Effects::new());
            daemon.handle_question(known.space.process(rank), Ticket(0), &mut out);
            let found = Effect::Answer(Ticket(0), Answer::Bytes(Ok(vec![1])));
            if !out.contains(&found) {
                return Err(format!("node {at} does not know rank {rank} of {name}: {out:?}"));
            }
        }
        Ok(())
    }
}
