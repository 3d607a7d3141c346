//! Regions: groups of elements whose equation of state costs differently much.
//!
//! They never change the result. Their sizes follow weights, their elements lie in runs of random
//! lengths, and the equation is solved once, a few times, or many times, as if the materials were
//! different. The random numbers are not those of the reference, so runs lie elsewhere.

use fastrand::Rng;

/// Of a thousand runs, how many have at most this length; the lengths of each kind are even.
const RUN_LENGTHS: [(u32, usize); 7] =
    [(773, 15), (937, 31), (970, 63), (974, 127), (978, 255), (981, 511), (1000, 2048)];

/// How elements are divided into regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// How many regions there are.
    pub regions: usize,
    /// The size of region i is about (i+1) to this power.
    pub balance: u32,
    /// By how much expensive regions cost more.
    pub extra_cost: u32,
}

impl Default for Division {
    fn default() -> Self {
        Self { regions: 11, balance: 1, extra_cost: 1 }
    }
}

/// One region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// How often its equation of state is solved.
    pub repetitions: u32,
    /// Its elements, in rising order.
    pub elements: Vec<u32>,
}

impl Division {
    /// Divides the elements of a rank.
    #[must_use]
    pub fn divide(&self, elements: usize, rank: usize) -> Vec<Region> {
        let mut regions: Vec<Region> = (0..self.regions)
            .map(|region| Region { repetitions: self.repetitions(region), elements: Vec::new() })
            .collect();
        let mut random = Rng::with_seed(rank as u64);
        let mut last = None;
        let mut next = 0;
        while next < elements {
            let region = self.draw(&mut random, rank, last);
            let end = elements.min(next + run_length(&mut random));
            regions[region].elements.extend(next as u32..end as u32);
            (last, next) = (Some(region), end);
        }
        regions
    }

    /// Half of the regions are cheap, most others cost a bit more, the last ones a lot.
    fn repetitions(&self, region: usize) -> u32 {
        let costly = 1 + self.extra_cost;
        if region < self.regions / 2 {
            1
        } else if region < self.regions - (self.regions + 15) / 20 {
            costly
        } else {
            10 * costly
        }
    }

    /// A region by its weight, never the last one again, unless there is no other.
    fn draw(&self, random: &mut Rng, rank: usize, last: Option<usize>) -> usize {
        // Which region has which weight depends on the rank.
        let region = |pick: usize| (pick + rank) % self.regions;
        let is_free = |pick: &usize| self.regions == 1 || Some(region(*pick)) != last;
        let weight = |pick: usize| ((pick + 1) as f64).powi(self.balance as i32);
        let free = || (0..self.regions).filter(is_free);
        let mut left = random.f64() * free().map(weight).sum::<f64>();
        let drawn = free().find(|pick| {
            left -= weight(*pick);
            left < 0.0
        });
        region(drawn.or_else(|| free().next_back()).unwrap_or(0))
    }
}

fn run_length(random: &mut Rng) -> usize {
    let kind = random.u32(0..1000);
    let mut shortest = 1;
    for (below, longest) in RUN_LENGTHS {
        if kind < below {
            return random.usize(shortest..=longest);
        }
        shortest = longest + 1;
    }
    shortest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_a_partition_whose_sizes_follow_the_weights() {
        for regions in [1, 2, 11, 22] {
            for balance in [0, 1, 2, 8] {
                let division = Division { regions, balance, extra_cost: 1 };
                let divided = division.divide(27_000, 3);
                let mut seen = vec![0; 27_000];
                for region in &divided {
                    assert!(region.elements.is_sorted());
                    region.elements.iter().for_each(|at| seen[*at as usize] += 1);
                }
                assert!(seen.iter().all(|count| *count == 1));
                assert_eq!(divided.len(), regions);
            }
        }
        let divided = Division::default().divide(1_000_000, 0);
        let size = |region: usize| divided[region].elements.len();
        assert!(size(10) > 4 * size(0) && size(10) > size(3), "{} {}", size(10), size(0));
    }

    #[test]
    fn a_few_regions_are_costly_and_one_is_very_costly() {
        let costs = |regions, extra_cost| {
            let division = Division { regions, balance: 1, extra_cost };
            (0..regions).map(|region| division.repetitions(region)).collect::<Vec<_>>()
        };
        assert_eq!(costs(11, 1), [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 20]);
        assert_eq!(costs(11, 0)[10], 10);
        assert_eq!(costs(1, 1), [2]);
        assert_eq!(costs(25, 2)[22..], [3, 30, 30][..]);
    }

    #[test]
    fn equal_seeds_divide_equally_and_no_run_follows_its_own_region() {
        let division = Division::default();
        assert_eq!(division.divide(8000, 5), division.divide(8000, 5));
        assert_ne!(division.divide(8000, 5), division.divide(8000, 6));
        let mut random = Rng::with_seed(1);
        for last in 0..11 {
            assert!((0..100).all(|_| division.draw(&mut random, 0, Some(last)) != last));
        }
    }
}
