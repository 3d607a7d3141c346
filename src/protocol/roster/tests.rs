//! What a roster says of members, spares and what was derived.

use super::*;

fn ranks(numbers: &[u32]) -> Vec<Rank> {
    numbers.iter().copied().map(Rank::new).collect()
}

#[test]
fn spares_are_used_before_anybody_is_spawned_and_ranks_are_kept() {
    let launch = Roster::launch(7, 2);
    let dead: RankSet = ranks(&[1, 3, 4]).into_iter().collect();
    let (next, spawn) = launch.rebuilt(7, &dead, Placement::SameRanks, 1);
    assert_eq!(spawn, 1);
    // Living are 0, 2, 5, 6 at places 0, 1, 2, 3; the spawned process follows at 4.
    assert_eq!(next.members, ranks(&[0, 2, 1, 3, 4]));
    assert_eq!(next.origins, [0, 1, 2, 3, 4]);
    assert!(next.spares.is_empty());
    let (next, _) = launch.rebuilt(7, &dead, Placement::Append, 1);
    assert_eq!(next.members, ranks(&[0, 1, 2, 3, 4]));
    assert_eq!(next.origins, [0, 2, 1, 3, 4]);
    assert_eq!(next.standing_for(1), Rank::new(2));
}

#[test]
fn a_dead_spare_is_not_used() {
    let launch = Roster::launch(6, 2);
    let dead: RankSet = ranks(&[0, 4]).into_iter().collect();
    let (next, spawn) = launch.rebuilt(6, &dead, Placement::SameRanks, 1);
    assert_eq!((spawn, next.members), (0, ranks(&[3, 0, 1, 2])));
}

proptest::proptest! {
    #[test]
    fn bytes_from_outside_never_panic(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
    ) {
        let _ = Roster::decode(&bytes);
    }

    #[test]
    fn a_roster_damaged_outside_is_another_or_none(at in 0_usize..100, bit in 0_u8..8) {
        let mut bytes = Roster::launch(9, 2).encode();
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << bit;
            let read = Roster::decode(&bytes);
            assert_ne!(read, Some(Roster::launch(9, 2)));
        }
    }
}

#[test]
fn a_process_keeps_its_number_and_nobody_gets_that_of_the_dead() {
    let dead = |numbers: &[u32]| -> RankSet { ranks(numbers).into_iter().collect() };
    let (next, _) = Roster::launch(4, 1).rebuilt(4, &dead(&[1, 2]), Placement::SameRanks, 1);
    assert_eq!((next.processes.as_slice(), next.entered), ([0, 3, 4].as_slice(), 5));
    let (next, _) = next.rebuilt(3, &dead(&[2]), Placement::SameRanks, 1);
    assert_eq!((next.processes.as_slice(), next.entered), ([0, 3, 5].as_slice(), 6));
}

fn row(color: u32, key: u32, of_grid: bool) -> Row {
    Row { color: Some(color), key, of_grid }
}

#[test]
fn a_split_is_remembered_without_equal_keys() {
    let table = [(Some(7), 9), (None, 0), (Some(7), 1), (Some(7), 1)];
    assert_eq!(lasting(&table), [(Some(7), 2), (None, 0), (Some(7), 0), (Some(7), 1)]);
}

#[test]
fn a_roster_survives_the_wire_and_damage_is_refused() {
    let mut roster = Roster::launch(5, 1);
    let nobody = Row { color: None, key: 3, of_grid: false };
    roster.remember(&[0], &[], [(0, row(1, 2, true)), (3, nobody)]);
    roster.remember(&[1], &[0], []);
    let bytes = roster.encode();
    assert_eq!(Roster::decode(&bytes), Some(roster));
    assert_eq!(Roster::decode(&bytes[..bytes.len() - 4]), None);
    assert_eq!(Roster::decode(&bytes[..7]), None);
}

#[test]
fn a_shrunken_one_takes_the_place_of_the_world_with_what_was_derived_from_it() {
    let own = [SHRUNKEN + 3];
    let below = |numbers: &[u32]| [&own, numbers].concat();
    let mut roster = Roster::launch(6, 1);
    let all = || (0..5).map(|rank| (rank, row(1, rank as u32, false)));
    roster.remember(&[0], &[], all());
    roster.remember(&below(&[0]), &own, all());
    roster.remember(&below(&[0, 7]), &below(&[0]), [(4, row(9, 0, false))]);
    roster.remember(&below(&[SHRUNKEN, 1]), &below(&[SHRUNKEN]), all());
    // A spare knows no more than that two of the dead are left out.
    let dead: RankSet = ranks(&[1, 2, 3]).into_iter().collect();
    let spares = roster.without(&dead, 2).rebuilt(6, &dead, Placement::SameRanks, 1);
    roster.narrow(&own, ranks(&[4, 0, 2]));
    let paths: Vec<&[u32]> = roster.children.iter().map(|it| it.path.as_slice()).collect();
    assert_eq!(paths, [&[0][..], &[0, 7]]);
    let of_first = [4, 0, 2].map(|key| Some(row(1, key, false)));
    assert_eq!(roster.children[0].rows, of_first);
    assert_eq!(roster.children[1].rows, [Some(row(9, 0, false)), None, None]);
    assert_eq!((roster.origins.as_slice(), &roster.spares), (&[0, 1, 2][..], &ranks(&[5])));
    let (next, spawn) = roster.rebuilt(6, &dead, Placement::SameRanks, 1);
    assert_eq!((spawn, spares.1), (0, 0), "one is dead, and there is a spare");
    assert_eq!(next.members, ranks(&[1, 0, 2]));
    roster.forget_shrunken();
    assert_eq!(roster.children.len(), 2);
    assert_eq!((whole_in(&below(&[0])), whole_in(&[0, 1])), (&own[..], &[][..]));
}

#[test]
fn what_the_members_of_parts_know_comes_together() {
    let mut of_one = Roster::launch(4, 0);
    of_one.remember(&[0], &[], (0..4).map(|rank| (rank, row(rank as u32 / 2, 0, false))));
    let mut of_other = of_one.clone();
    of_one.remember(&[0, 0], &[0], [(0, row(5, 0, true)), (1, row(5, 1, true))]);
    of_other.remember(&[1], &[], []);
    of_other.remember(&[0, 0], &[0], [(2, row(6, 1, false)), (3, row(6, 0, false))]);
    let part = of_other.position(&[0, 0]).map(|at| of_other.children[at].encode(2..4));
    let all = [of_one.encode(), part.expect("remembered")].concat();
    let all = Roster::decode(&all).expect("a roster and what follows it");
    let rows = [row(5, 0, true), row(5, 1, true), row(6, 1, false), row(6, 0, false)];
    assert_eq!(all.children[1].rows, rows.map(Some));
    assert_eq!(all.children.len(), 2, "only what was brought");
    let paths: Vec<&[u32]> = of_other.children.iter().map(|it| it.path.as_slice()).collect();
    assert_eq!(paths, [&[0][..], &[0, 0], &[1]], "parents stand before their children");
}
