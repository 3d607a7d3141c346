//! Who exchanges what with whom, as data: up to 26 neighbours, each with the sites it shares.
//!
//! | exchange | between | of each site | what is done with it |
//! |---|---|---|---|
//! | masses | all neighbours, both ways | nodal mass | added |
//! | forces | all neighbours, both ways | three components | added |
//! | positions | to lower ranks, from higher ones | position and velocity | overwritten |
//! | gradients | the six faces, both ways | the gradient across the face | kept beside |
//!
//! Copies of a node add its forces in different orders, so they may differ in the last bit.
//! Positions are therefore taken from one owner, the highest rank that has the node: messages are
//! unpacked in the order of their senders, so the highest has the last word. After each exchange
//! of positions all copies of a node have the same bits.
//!
//! Messages are packed by hand: as sections of an array ([`fampi::Array`]) an exchange took 1.1 to
//! 1.5 times as long at edges of 5 and 10, and no less for the forces at 20 and 30, as what comes
//! has to be added from a buffer in any case.
//!
//! **Differs from the reference**, which unpacks positions in the order of faces, edges and
//! corners, so that copies may differ; and which sends all three components of the gradient
//! through each face, although only one of them is read.

use crate::mesh::{Index, Mesh, places};

/// The directions of the neighbours, in the order in which their forces are added: faces, edges
/// and corners, x being the column, y the row, z the plane.
pub const DIRECTIONS: [[isize; 3]; 26] = [
    [0, 0, -1],
    [0, 0, 1],
    [0, -1, 0],
    [0, 1, 0],
    [-1, 0, 0],
    [1, 0, 0],
    [-1, -1, 0],
    [0, -1, -1],
    [-1, 0, -1],
    [1, 1, 0],
    [0, 1, 1],
    [1, 0, 1],
    [1, -1, 0],
    [0, -1, 1],
    [-1, 0, 1],
    [-1, 1, 0],
    [0, 1, -1],
    [1, 0, -1],
    [-1, -1, -1],
    [-1, -1, 1],
    [1, -1, -1],
    [1, -1, 1],
    [-1, 1, -1],
    [-1, 1, 1],
    [1, 1, -1],
    [1, 1, 1],
];

/// The side of a cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// The axis across it.
    pub axis: usize,
    /// Whether it is at the end of the axis, not at its beginning.
    pub at_end: bool,
}

/// A rank that shares nodes with this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its number.
    pub rank: usize,
    /// The shared nodes, in an order that both ranks have.
    pub nodes: Vec<u32>,
    /// The side that it shares, if it is more than an edge or a corner.
    pub side: Option<Side>,
}

/// A message to or from one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The other rank.
    pub rank: usize,
    /// The number of values.
    pub length: usize,
    /// Which of the neighbours that is.
    pub neighbour: usize,
}

/// The messages of one exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The tag of all of them.
    pub tag: u32,
    /// What is received, in the order in which it is unpacked.
    pub receives: Vec<Message>,
    /// What is sent.
    pub sends: Vec<Message>,
}

/// The neighbours of a rank and the four exchanges with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halo {
    /// All neighbours, in the order of [`DIRECTIONS`].
    pub neighbours: Vec<Neighbour>,
    /// Nodal masses, once.
    pub masses: Plan,
    /// Forces.
    pub forces: Plan,
    /// Positions and velocities.
    pub positions: Plan,
    /// Velocity gradients.
    pub gradients: Plan,
}

impl Halo {
    /// The neighbours of the rank that has this cube.
    #[must_use]
    pub fn new(mesh: Mesh) -> Self {
        let me = mesh.rank();
        let neighbours: Vec<Neighbour> = DIRECTIONS
            .into_iter()
            .filter_map(|direction| {
                let rank = mesh.towards(direction)?;
                let nodes = shared(mesh, direction).map(|place| mesh.node(place) as u32);
                Some(Neighbour { rank, nodes: nodes.collect(), side: side(direction) })
            })
            .collect();
        let messages = |fields: usize, with: &dyn Fn(usize) -> bool| -> Vec<Message> {
            let chosen = neighbours.iter().enumerate().filter(|(_, other)| with(other.rank));
            chosen
                .map(|(neighbour, other)| {
                    let length = fields * other.nodes.len();
                    Message { rank: other.rank, length, neighbour }
                })
                .collect()
        };
        let both = |tag, fields| {
            let all = messages(fields, &|_| true);
            Plan { tag, receives: all.clone(), sends: all }
        };
        let mut receives = messages(6, &|rank| rank > me);
        receives.sort_by_key(|message| message.rank);
        let positions = Plan { tag: 2048, receives, sends: messages(6, &|rank| rank < me) };
        let faces: Vec<Message> = neighbours
            .iter()
            .enumerate()
            .filter(|(_, other)| other.side.is_some())
            .map(|(neighbour, other)| Message {
                rank: other.rank,
                length: mesh.edge.pow(2),
                neighbour,
            })
            .collect();
        let gradients = Plan { tag: 3072, receives: faces.clone(), sends: faces };
        let (masses, forces) = (both(1024, 1), both(1024, 3));
        Self { neighbours, masses, forces, positions, gradients }
    }
}

/// The nodes that are shared in a direction, z slowest.
fn shared(mesh: Mesh, direction: [isize; 3]) -> impl Iterator<Item = Index> {
    let end = |axis: usize, at_end: bool| match (direction[axis], at_end) {
        (1, _) | (0, true) => mesh.edge,
        _ => 0,
    };
    places([0, 1, 2].map(|axis| end(axis, false)), [0, 1, 2].map(|axis| end(axis, true)))
}

fn side(direction: [isize; 3]) -> Option<Side> {
    let mut across = (0..3).filter(|axis| direction[*axis] != 0);
    match (across.next(), across.next()) {
        (Some(axis), None) => Some(Side { axis, at_end: direction[axis] > 0 }),
        _ => None,
    }
}

/// Copies the values of some sites into a message, field after field.
pub fn pack(fields: &[&[f64]], sites: &[u32], message: &mut [f64]) {
    for (field, part) in fields.iter().zip(message.chunks_exact_mut(sites.len())) {
        for (value, &site) in part.iter_mut().zip(sites) {
            *value = field[site as usize];
        }
    }
}

/// Adds what has come to the values of some sites.
pub fn add(message: &[f64], sites: &[u32], fields: &mut [&mut [f64]]) {
    for (field, part) in fields.iter_mut().zip(message.chunks_exact(sites.len())) {
        for (value, &site) in part.iter().zip(sites) {
            field[site as usize] += value;
        }
    }
}

/// Puts what has come in the place of the values of some sites.
pub fn overwrite(message: &[f64], sites: &[u32], fields: &mut [&mut [f64]]) {
    for (field, part) in fields.iter_mut().zip(message.chunks_exact(sites.len())) {
        for (value, &site) in part.iter().zip(sites) {
            field[site as usize] = *value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halo(edge: usize, rank: usize, ranks: usize) -> Halo {
        Halo::new(Mesh::new(edge, rank, ranks).expect("a cube"))
    }

    fn sum(count: impl Fn(&Halo) -> usize) -> usize {
        (0..8).map(|rank| count(&halo(3, rank, 8))).sum()
    }

    #[test]
    fn eight_ranks_send_the_messages_of_the_specification() {
        assert_eq!(sum(|halo| halo.forces.sends.len()), 56);
        assert_eq!(sum(|halo| halo.positions.sends.len()), 28);
        assert_eq!(sum(|halo| halo.gradients.sends.len()), 24);
        assert_eq!(halo(3, 13, 27).neighbours.len(), 26);
        assert_eq!(halo(3, 0, 1).neighbours.len(), 0);
        let lengths = halo(3, 13, 27).positions.sends;
        assert_eq!(lengths.len(), 13);
        assert_eq!(lengths.iter().map(|message| message.length).max(), Some(6 * 16));
    }

    #[test]
    fn what_one_rank_sends_the_other_expects() {
        for rank in 0..27 {
            let mine = halo(2, rank, 27);
            let plans = |halo: &Halo| {
                [&halo.masses, &halo.forces, &halo.positions, &halo.gradients].map(Plan::clone)
            };
            for (which, plan) in plans(&mine).iter().enumerate() {
                for sent in &plan.sends {
                    let theirs = halo(2, sent.rank, 27);
                    let expected = plans(&theirs)[which].receives.clone();
                    let there = expected.iter().find(|message| message.rank == rank);
                    assert_eq!(there.map(|message| message.length), Some(sent.length));
                }
            }
        }
    }

    #[test]
    fn shared_nodes_are_the_same_points_in_the_same_order() {
        let mesh = |rank| Mesh::new(3, rank, 27).expect("a cube");
        let point = |mesh: Mesh, node: u32| {
            let place = mesh.node_places().nth(node as usize).expect("a node");
            [0, 1, 2].map(|axis| mesh.coordinate(axis, place[axis]).to_bits())
        };
        for mine in &halo(3, 13, 27).neighbours {
            let back = halo(3, mine.rank, 27);
            let theirs = back.neighbours.iter().find(|it| it.rank == 13).expect("it is mutual");
            for (&one, &other) in mine.nodes.iter().zip(&theirs.nodes) {
                assert_eq!(point(mesh(13), one), point(mesh(mine.rank), other));
            }
        }
    }
}
