//! What a person is shown ([`super::top`]): memory of its own, which only its writer knows the name
//! of, and that others of our user find among our descriptors.
//!
//! It is written where something changes. That it cannot be written is no reason to end.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::fs::MemfdFlags;

use crate::clock;
use crate::protocol::{
    Cause, Host, Incarnation, Node, Process, Rank,
    diagnosis::Opinion,
    plan::Plan,
    view::{Head, NodeView, RankView, State, node_at, rank_at},
};

/// For how long a node that was heard of is not shown as heard of again: no person sees it, and
/// each write takes a heartbeat's time.
const FRESH: Duration = Duration::from_millis(100);
/// What the memory is called in `/proc`.
pub const NAME: &str = "fampi-view";
const WORD: u64 = size_of::<u64>() as u64;

/// The view of this observer.
#[derive(Debug)]
pub struct View {
    file: File,
    head: Head,
    nodes: Vec<NodeView>,
    ranks: Vec<RankView>,
    /// One moment, by both clocks.
    began: (Instant, Duration),
}

impl View {
    /// That of the observer that this plan is for, to whom nothing has happened yet.
    pub fn new(plan: &Plan) -> Result<Self> {
        let file = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC);
        let file = File::from(file.context("cannot make memory to be shown")?);
        let alive = |place: &crate::protocol::plan::Place| NodeView {
            incarnation: Incarnation(0),
            lost: false,
            asked: 0,
            asked_in_vain: 0,
            heard: None,
            name: place.name.clone(),
            opinion: Opinion::default(),
        };
        let launched = |node: &Node| RankView {
            incarnation: Incarnation(0),
            node: *node,
            state: State::Alive,
            page: None,
            still: 0,
            opinion: Opinion::default(),
        };
        let head = Head {
            nodes: plan.nodes.len() as u32,
            ranks: plan.nodes_of.len() as u32,
            me: plan.me,
            period: plan.timing.period,
            timeout: plan.timing.timeout,
            watched: 0,
            refused: 0,
            fenced: false,
            zeta: plan.timing.diagnosis.map_or(0, |it| it.zeta),
        };
        let nodes = plan.nodes.iter().map(alive).collect();
        let ranks = plan.nodes_of.iter().map(launched).collect();
        file.set_len(head.words() as u64 * WORD).context("no room for what is shown")?;
        let view = Self { file, head, nodes, ranks, began: (Instant::now(), clock::now()) };
        (0..view.head.nodes).for_each(|node| view.write_node(Node(node)));
        (0..view.head.ranks).for_each(|rank| view.write_rank(rank));
        view.write(0, &view.head.to_words());
        Ok(view)
    }

    /// Something came from this living observer.
    pub fn hear(&mut self, from: Host, at: Instant) {
        let heard = self.began.1 + at.saturating_duration_since(self.began.0);
        let known = self.nodes.get(from.node.0 as usize);
        if known.is_some_and(|node| is_fresh(node, from, heard)) {
            return;
        }
        self.change_node(from.node, |node| {
            node.incarnation = from.incarnation;
            node.lost = false;
            node.heard = Some(heard);
            node.asked_in_vain = 0;
        });
    }

    /// A node is asked for a sign of life.
    pub fn ask(&mut self, node: Node) {
        self.change_node(node, |node| {
            node.asked += 1;
            node.asked_in_vain += 1;
        });
    }

    /// A node is lost, with these processes.
    pub fn lose(&mut self, host: Host, processes: &[Process]) {
        self.change_node(host.node, |node| {
            node.incarnation = host.incarnation;
            node.lost = true;
        });
        for process in processes {
            self.die(*process, Cause::NodeLost);
        }
    }

    /// A process holds its rank, on this node.
    pub fn join(&mut self, process: Process, host: Host) {
        self.change_rank(process, |rank| {
            (rank.node, rank.state, rank.page) = (host.node, State::Alive, None);
            rank.opinion = Opinion::default();
        });
    }

    /// We watch a process, which has this number, and shows its progress behind this descriptor.
    pub fn watch(&mut self, process: Process, number: u32, page: Option<u32>) {
        self.change_rank(process, |rank| (rank.state, rank.page) = (State::Watched(number), page));
    }

    /// A process that we watch has made no progress for so many looks.
    pub fn suspect(&mut self, process: Process, looks: u32) {
        self.change_rank(process, |rank| rank.still = looks);
    }

    /// Tests of the holder of a rank have come to this.
    pub fn think_of_rank(&mut self, rank: Rank, opinion: Opinion) {
        let known = self.ranks.get(rank.index()).map(|known| known.incarnation);
        if let Some(incarnation) = known {
            self.change_rank(Process { rank, incarnation }, |rank| rank.opinion = opinion);
        }
    }

    /// Tests of the observer of a node have come to this.
    pub fn think_of_node(&mut self, node: Node, opinion: Opinion) {
        if self.nodes.get(node.0 as usize).is_some_and(|known| known.opinion != opinion) {
            self.change_node(node, |node| node.opinion = opinion);
        }
    }

    /// A process is dead.
    pub fn die(&mut self, process: Process, cause: Cause) {
        self.change_rank(process, |rank| {
            (rank.state, rank.page, rank.still) = (State::Dead(cause), None, 0);
        });
    }

    /// What was counted.
    pub fn count(&mut self, watched: u64, refused: u64, fenced: bool) {
        let head = Head { watched, refused, fenced, ..self.head };
        if head != self.head {
            self.head = head;
            self.write(0, &head.to_words());
        }
    }

    fn change_node(&mut self, node: Node, change: impl FnOnce(&mut NodeView)) {
        if let Some(known) = self.nodes.get_mut(node.0 as usize) {
            change(known);
            self.write_node(node);
        }
    }

    /// What is said of an older life is of no interest; ranks beyond the launch are not shown.
    fn change_rank(&mut self, process: Process, change: impl FnOnce(&mut RankView)) {
        let known = self.ranks.get_mut(process.rank.index());
        if let Some(known) = known.filter(|known| known.incarnation <= process.incarnation) {
            let before = *known;
            known.incarnation = process.incarnation;
            change(known);
            if *known != before {
                self.write_rank(process.rank.0);
            }
        }
    }

    fn write_node(&self, node: Node) {
        self.write(node_at(node), &self.nodes[node.0 as usize].to_words());
    }

    fn write_rank(&self, rank: u32) {
        self.write(rank_at(self.head.nodes, rank), &self.ranks[rank as usize].to_words());
    }

    fn write(&self, at: usize, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let _ = self.file.write_all_at(&bytes, at as u64 * WORD);
    }
}

/// True when all that a sign of life at this moment tells of a node is shown.
fn is_fresh(node: &NodeView, from: Host, at: Duration) -> bool {
    node.heard.is_some_and(|heard| at.saturating_sub(heard) < FRESH)
        && node.incarnation == from.incarnation
        && !node.lost
        && node.asked_in_vain == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_is_shown_when_it_tells_something() {
        let [old, new] = [3, 4].map(|it| Host { node: Node(0), incarnation: Incarnation(it) });
        let heard = Some(Duration::from_millis(500));
        let node = NodeView {
            incarnation: Incarnation(3),
            lost: false,
            asked: 7,
            asked_in_vain: 0,
            heard,
            name: "n0".into(),
            opinion: Opinion::default(),
        };
        let [soon, late] = [599, 600].map(Duration::from_millis);
        assert!(is_fresh(&node, old, soon) && !is_fresh(&node, old, late));
        assert!(!is_fresh(&node, new, soon), "another life of the node");
        assert!(!is_fresh(&NodeView { heard: None, ..node.clone() }, old, soon));
        assert!(!is_fresh(&NodeView { lost: true, ..node.clone() }, old, soon));
        assert!(!is_fresh(&NodeView { asked_in_vain: 1, ..node }, old, soon), "suspected");
    }
}
