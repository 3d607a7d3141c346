//! What a rank sends to whom and where it puts what it receives, computed without a message.
//!
//! The reference finds these lists by asking: two allreduces and three messages to each
//! neighbour. But the order in which rank q wants values of rank r is the order of q's external
//! columns, a function of the partition; so r computes q's list itself. The lists survive a
//! recovery that restores the ranks, and a replacement has its own without asking anyone.
//!
//! **Guarantees.** If q is a neighbour of r then r is one of q; what r sends to q is what q
//! expects from r, in number and order; the sections of a rank cover its external columns
//! exactly once.

use std::ops::Range;

use crate::numbering::{Numbering, external_groups};
use crate::rows::RowMap;

/// One neighbour of a rank in the halo exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The other rank.
    pub rank: usize,
    /// The section of a vector that its message fills.
    pub receive: Range<usize>,
    /// The own rows whose values it wants, in its order (`elements_to_send`).
    pub send: Vec<u32>,
}

impl Neighbour {
    /// The number of values sent in one exchange.
    #[must_use]
    pub fn send_length(&self) -> usize {
        self.send.len()
    }

    /// The number of values received in one exchange.
    #[must_use]
    pub fn receive_length(&self) -> usize {
        self.receive.len()
    }

    /// Writes what this neighbour wants of `vector` into `message`.
    ///
    /// # Panics
    /// If `message` does not have [`Neighbour::send_length`] values.
    pub fn pack(&self, vector: &[f64], message: &mut [f64]) {
        assert_eq!(message.len(), self.send.len(), "a message holds one value per shared row");
        for (value, &row) in message.iter_mut().zip(&self.send) {
            *value = vector[row as usize];
        }
    }

    /// Puts the values of `message` into this neighbour's section of `vector`.
    ///
    /// # Panics
    /// If `message` does not have [`Neighbour::receive_length`] values.
    pub fn unpack(&self, message: &[f64], vector: &mut [f64]) {
        vector[self.receive.clone()].copy_from_slice(message);
    }
}

/// The neighbours of the rank with `numbering`, in the order of its external sections.
#[must_use]
pub fn neighbours(row_map: &RowMap, numbering: &Numbering) -> Vec<Neighbour> {
    let mut next_section = numbering.own_rows();
    let own = numbering.own_nodes();
    numbering
        .groups()
        .iter()
        .map(|group| {
            let receive = next_section..next_section + group.nodes.len();
            next_section = receive.end;
            let send = external_groups(row_map, group.owner)
                .into_iter()
                .flat_map(|wanted| wanted.nodes)
                .filter(|&node| own.contains(node))
                .map(|node| numbering.column(node))
                .collect();
            Neighbour { rank: group.owner, receive, send }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::Mesh;
    use crate::partition::Partition;

    #[test]
    fn message_sizes_are_those_of_the_specification() {
        let map = RowMap::new(Partition::new(Mesh::new([64; 3]), 4, 0.0).unwrap());
        let lists = neighbours(&map, &Numbering::new(&map, 0));
        let sizes: Vec<_> = lists.iter().map(|n| (n.rank, n.receive_length())).collect();
        assert_eq!(sizes, [(1, 65 * 32), (2, 65 * 32), (3, 65)]);
        let lists = neighbours(&map, &Numbering::new(&map, 3));
        let sizes: Vec<_> = lists.iter().map(|n| (n.rank, n.send_length())).collect();
        assert_eq!(sizes, [(0, 65), (1, 65 * 33), (2, 65 * 33)]);
    }

    #[test]
    fn packing_then_unpacking_moves_the_values_of_the_same_nodes() {
        let map = RowMap::new(Partition::new(Mesh::new([5, 4, 6]), 8, 0.0).unwrap());
        let numberings: Vec<_> = (0..8).map(|rank| Numbering::new(&map, rank)).collect();
        let value = |node| map.mesh().node_id(node) as f64;
        for here in 0..8 {
            for to_there in neighbours(&map, &numberings[here]) {
                let own: Vec<f64> = numberings[here].own_nodes().iter().map(value).collect();
                let mut message = vec![0.0; to_there.send_length()];
                to_there.pack(&own, &mut message);
                let there = &numberings[to_there.rank];
                let lists = neighbours(&map, there);
                let from_here = lists.iter().find(|n| n.rank == here).expect("symmetric lists");
                let mut vector = vec![-1.0; there.column_count()];
                from_here.unpack(&message, &mut vector);
                for (column, node) in there.column_nodes().enumerate() {
                    let filled = from_here.receive.contains(&column);
                    let expected = if filled { value(node) } else { -1.0 };
                    assert_eq!(vector[column].to_bits(), expected.to_bits());
                }
            }
        }
    }
}
