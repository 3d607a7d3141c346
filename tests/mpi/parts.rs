//! Communicators of parts of the world, and of parts of those, through many rebuilds.

use crate::{all_say, program};

#[test]
fn rows_and_columns_survive_the_death_of_each_rank_at_random_moments() {
    for (ranks, spares, deaths) in [(4, 0, 6), (6, 0, 12), (6, 12, 12), (8, 4, 8), (9, 0, 6)] {
        let launch = program("lattice", ranks).spares(spares).variable("DEATHS", &deaths);
        all_say(&launch.limit(120), ranks, "all places are right");
    }
}

#[test]
fn parts_of_parts_survive_the_death_of_each_rank_at_random_moments() {
    for spares in [0, 16] {
        let launch = program("planes", 8).spares(spares).variable("DEATHS", &16).limit(150);
        all_say(&launch, 8, "all places are right");
    }
}
