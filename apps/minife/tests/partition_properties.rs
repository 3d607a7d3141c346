//! Properties of partition, numbering and exchange lists for meshes and rank counts at random.

use minife::mesh::{Bounds, Mesh};
use minife::partition::Partition;
use minife::rows::RowMap;
use minife::system::System;
use proptest::prelude::*;

fn divided() -> impl Strategy<Value = RowMap> {
    let sizes = prop::array::uniform3(1_usize..9);
    (sizes, 1_usize..14).prop_filter_map("a rank without elements", |(elements, ranks)| {
        Partition::new(Mesh::new(elements), ranks, 0.0).ok().map(RowMap::new)
    })
}

fn all_nodes(map: &RowMap) -> Bounds {
    Bounds { lo: [0; 3], hi: map.mesh().nodes() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_element_and_every_node_is_owned_exactly_once(map in divided()) {
        let partition = map.partition();
        for element in map.mesh().element_bounds().iter() {
            let owner = partition.element_owner(element);
            for rank in 0..map.ranks() {
                prop_assert_eq!(partition.element_box(rank).contains(element), rank == owner);
            }
        }
        for node in all_nodes(&map).iter() {
            let owner = map.owner(node);
            for rank in 0..map.ranks() {
                prop_assert_eq!(map.node_box(rank).contains(node), rank == owner);
            }
        }
    }

    #[test]
    fn rows_are_a_permutation_of_the_nodes_and_contiguous_by_rank(map in divided()) {
        let mut seen = vec![false; map.mesh().rows()];
        for rank in 0..map.ranks() {
            let rows = map.node_box(rank).iter().map(|node| map.row(node));
            prop_assert!(rows.eq(map.rows(rank)));
            for row in map.rows(rank) {
                prop_assert!(!std::mem::replace(&mut seen[row], true));
            }
        }
        prop_assert!(seen.into_iter().all(|seen| seen));
    }

    #[test]
    fn exchange_lists_mirror_each_other(map in divided()) {
        let systems: Vec<_> =
            (0..map.ranks()).map(|rank| System::build(&map, rank, 1.0).0).collect();
        for (here, system) in systems.iter().enumerate() {
            let mut next = system.own_rows();
            for neighbour in system.neighbours() {
                prop_assert_ne!(neighbour.rank, here);
                prop_assert_eq!(neighbour.receive.start, next);
                next = neighbour.receive.end;
                let there = &systems[neighbour.rank];
                let mirrored = there.neighbours().iter().find(|back| back.rank == here);
                let mirrored = mirrored.expect("neighbour lists are symmetric");
                prop_assert!(!neighbour.send.is_empty());
                let sent = neighbour.send.iter().map(|&row| map.rows(here).start + row as usize);
                let nodes: Vec<_> = there.numbering().column_nodes().collect();
                let wanted = nodes[mirrored.receive.clone()].iter().map(|&node| map.row(node));
                prop_assert!(sent.eq(wanted));
            }
            prop_assert_eq!(next, system.numbering().column_count());
        }
    }
}
