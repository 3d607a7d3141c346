//! Links between daemons that are not all linked with each other.

use std::collections::BTreeSet;

use fampi_node::protocol::{Node, daemon::Daemon, graph::Graph};

use super::{Travelling, World};

/// Who is linked with whom.
pub(super) struct Cabling {
    graph: Graph,
    links: BTreeSet<(usize, usize)>,
    /// Who calls whom, and is not linked yet.
    calls: Vec<(usize, usize)>,
}

impl Cabling {
    /// As at the start, of so many nodes.
    pub(super) fn new(nodes: usize) -> Self {
        let graph = Graph::new(nodes as u32);
        let neighbours = |at: usize| graph.neighbours(Node(at as u32), |_| true);
        let links = |at: usize| neighbours(at).into_iter().map(move |to| (at, to.0 as usize));
        Self { graph, links: (0..nodes).flat_map(links).collect(), calls: Vec::new() }
    }

    /// How many calls are not answered yet.
    pub(super) const fn calls(&self) -> usize {
        self.calls.len()
    }
}

impl World {
    /// True when there is a link between two nodes; one that joins is linked with all.
    pub(super) fn are_linked(&self, one: usize, other: usize) -> bool {
        let has_joined = |at: usize| at >= self.rooms.len();
        self.cabling.as_ref().is_none_or(|it| {
            it.links.contains(&(one, other)) || has_joined(one) || has_joined(other)
        })
    }

    /// Nothing is sent where there is no link.
    pub(super) fn check_cable(&self, from: usize, to: usize) {
        assert!(self.are_linked(from, to), "node {from} is not linked with node {to}");
    }

    /// A node calls another one.
    pub(super) fn call(&mut self, from: usize, to: usize) {
        let cabling = self.cabling.as_mut().expect("each is linked with each");
        cabling.calls.push((from, to));
    }

    /// A call is answered, or the system says that nobody is there.
    pub(super) fn connect_call(&mut self, call: usize) {
        let cabling = self.cabling.as_mut().expect("there is a call");
        let (from, to) = cabling.calls.swap_remove(call);
        if !self.stations[from].lives || cabling.links.contains(&(from, to)) {
            return;
        }
        if !self.stations[to].lives {
            self.cables.entry((to, from)).or_default().push_back(Travelling::Closed);
            return;
        }
        cabling.links.extend([(from, to), (to, from)]);
        self.drive(from, |it, out| it.handle_linked(Node(to as u32), out));
        if self.stations[to].lives {
            self.drive(to, |it, out| it.handle_linked(Node(from as u32), out));
        }
    }

    /// A moment passes for all; true when something comes of it.
    pub(super) fn pass_moment(&mut self) -> bool {
        if self.cabling.is_none() {
            return false;
        }
        for at in 0..self.stations.len() {
            if self.stations[at].lives && self.hears(at) {
                self.drive(at, Daemon::handle_moment);
            }
        }
        self.cables.iter().any(|((_, to), cable)| !cable.is_empty() && self.hears(*to))
    }

    /// At rest all neighbours that live are linked.
    pub(super) fn check_links(&self) -> Result<(), String> {
        let Some(cabling) = &self.cabling else { return Ok(()) };
        for (at, _) in self.living() {
            let lives = |node: Node| self.stations[node.0 as usize].lives;
            for to in cabling.graph.neighbours(Node(at as u32), lives) {
                if !self.are_linked(at, to.0 as usize) {
                    return Err(format!("nodes {at} and {} are not linked", to.0));
                }
            }
        }
        Ok(())
    }
}
