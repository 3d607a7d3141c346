//! What the ranks of a node are told of a namespace.

use fampi_pmix::{Info, Process, Value, key};

use crate::place::Place;
use crate::protocol::{
    Node,
    space::{Program, Space},
};

/// A node as ranks know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    /// The names of all nodes.
    pub(super) names: &'a [String],
    /// This one.
    pub(super) me: Node,
    /// How many processors this one has.
    pub(super) cores: u32,
    /// Its folders.
    pub(super) place: &'a Place,
}

/// A process as PMIx names it.
pub(super) fn named(process: &crate::protocol::Process) -> Process {
    Process { namespace: process.space.clone(), rank: process.rank }
}

/// What to register of a namespace.
pub(super) fn infos(space: &Space, view: View<'_>) -> Vec<Info> {
    let size = space.places.len() as u32;
    let used: Vec<Node> = (0..view.names.len() as u32)
        .map(Node)
        .filter(|node| space.ranks_on(*node).next().is_some())
        .collect();
    let ranks = |node: Node| {
        let ranks: Vec<String> = space.ranks_on(node).map(|rank| rank.to_string()).collect();
        ranks.join(",")
    };
    let names: Vec<&str> = used.iter().map(|node| view.name(*node)).collect();
    let maps: Vec<String> = used.iter().map(|node| ranks(*node)).collect();
    let folder = view.place.files.join(&space.name);
    let mut infos = vec![
        Info::text(key::JOB, &space.name),
        Info::new(key::NODE_MAP, Value::Nodes(names.join(","))),
        Info::new(key::PROCESS_MAP, Value::Processes(maps.join(";"))),
        Info::number(key::NODES, used.len() as u32),
        Info::number(key::UNIVERSE_SIZE, size),
        Info::number(key::JOB_SIZE, size),
        Info::number(key::MAX_PROCESSES, size),
        Info::number(key::JOB_APPLICATIONS, 1 + space.others.len() as u32),
        Info::text(key::SESSION_FOLDER, view.place.files.to_string_lossy()),
        Info::text(key::NAMESPACE_FOLDER, folder.to_string_lossy()),
    ];
    infos.extend((0..).zip(space.parts()).map(|(number, part)| {
        Info::new(key::APPLICATION, Value::Infos(application(number, part)))
    }));
    infos.extend(used.iter().map(|node| {
        let of_node = view.node(*node, space, ranks(*node));
        Info::new(key::NODE, Value::Infos(of_node))
    }));
    infos.extend(
        (0..size).map(|rank| Info::new(key::PROCESS, Value::Infos(view.process(rank, space)))),
    );
    if space.spawner.is_some() {
        infos.push(Info::new(key::SPAWNED, Value::Flag(true)));
    }
    infos
}

fn application(number: u32, (first, size, program): (u32, u32, &Program)) -> Vec<Info> {
    vec![
        Info::number(key::APPLICATION_NUMBER, number),
        Info::number(key::APPLICATION_SIZE, size),
        Info::new(key::APPLICATION_LEADER, Value::Rank(first)),
        Info::text(key::FOLDER, &program.folder),
        Info::text(key::ARGUMENTS, program.words.join(" ")),
    ]
}

impl View<'_> {
    /// How many ranks of a namespace are on this node, and how many of them before this one.
    pub(super) fn neighbours(&self, space: &Space, rank: u32) -> (usize, usize) {
        let here = space.ranks_on(self.me);
        (here.clone().count(), here.take_while(|it| *it < rank).count())
    }

    fn name(&self, node: Node) -> &str {
        self.names.get(node.0 as usize).map_or("", String::as_str)
    }

    fn node(&self, node: Node, space: &Space, peers: String) -> Vec<Info> {
        let here = space.ranks_on(node).count() as u32;
        let leader = space.ranks_on(node).next().unwrap_or(0);
        let mut infos = vec![
            Info::text(key::HOST_NAME, self.name(node)),
            Info::number(key::NODE_ID, node.0),
            Info::number(key::NODE_SIZE, here),
            Info::number(key::LOCAL_SIZE, here),
            Info::new(key::LOCAL_LEADER, Value::Rank(leader)),
            Info::text(key::LOCAL_PEERS, peers),
        ];
        if here > self.cores {
            infos.push(Info::new(key::OVERSUBSCRIBED, Value::Flag(true)));
        }
        infos
    }

    fn process(&self, rank: u32, space: &Space) -> Vec<Info> {
        let node = space.node_of(rank).unwrap_or(self.me);
        let before = space.ranks_on(node).take_while(|it| *it < rank).count() as u16;
        let (number, _) = space.program_of(rank);
        let first = number.checked_sub(1).map_or(0, |at| space.others[at].0);
        let mut infos = vec![
            Info::new(key::RANK, Value::Rank(rank)),
            Info::new(key::GLOBAL_RANK, Value::Rank(rank)),
            Info::new(key::APPLICATION_RANK, Value::Rank(rank - first)),
            Info::number(key::APPLICATION_NUMBER, number as u32),
            Info::new(key::LOCAL_RANK, Value::Small(before)),
            Info::new(key::NODE_RANK, Value::Small(before)),
            Info::number(key::NODE_ID, node.0),
            Info::text(key::HOST_NAME, self.name(node)),
        ];
        if let Some(spawner) = &space.spawner {
            infos.push(Info::new(key::PARENT, Value::Process(named(spawner))));
        }
        if node == self.me {
            let folder = self.place.files.join(&space.name).join(rank.to_string());
            infos.push(Info::text(key::PROCESS_FOLDER, folder.to_string_lossy()));
        }
        infos
    }
}
