//! How long hosts take to answer, and when they do nothing at all.
//!
//! ```text
//! answer   15 ms ± 10 %, × 1 to 2.5 in a busy spell, + a spike now and then
//! spells   begin more often on a host with more jobs, and last 200 rounds in the mean
//! spikes   the more often the more jobs, at least 5 ms, with Pareto's tail (1.5)
//! stalls   a whole host stands still, and so answers late and measures late, the more often the
//!          more jobs, 40 to 500 ms, with the same tail
//! ```
//!
//! Each number is drawn for a name of its own, so that runs with other rules meet the same days.

use std::time::Duration;

/// Between two rounds, in ms.
pub const INTERVAL: f64 = 1000.0;
const BASE: f64 = 15.0;
const SPREAD: f64 = 0.1;
const MOST_JOBS: f64 = 12.0;
/// In a round, for each job.
const SPELLS: f64 = 5e-5;
const SPELL_ROUNDS: f64 = 200.0;
/// In a test, for each job.
const SPIKES: f64 = 1e-5;
const SPIKE: f64 = 5.0;
const TAIL: f64 = 1.5;
/// In a round, for each job.
const STALLS: f64 = 5e-5;
const STALL: f64 = 40.0;
const LONGEST_STALL: f64 = 500.0;

/// What numbers are drawn for.
#[derive(Clone, Copy)]
enum Draw {
    Jobs,
    Spell,
    SpellEnd,
    Busy,
    Stall,
    StallBegin,
    StallLength,
    Phase,
    Noise,
    Spike,
    SpikeSize,
    Loss,
}

/// The hosts of a cluster through so many rounds.
#[derive(Clone, Debug)]
pub struct Hosts {
    seed: u64,
    jobs: Vec<u32>,
    /// What answers take longer, by host and round.
    busy: Vec<Vec<f32>>,
    /// From when to when a host stands still, in ms.
    stalls: Vec<Vec<(f64, f64)>>,
}

impl Hosts {
    pub fn new(count: u32, rounds: u32, seed: u64) -> Self {
        let mut it = Self { seed, jobs: Vec::new(), busy: Vec::new(), stalls: Vec::new() };
        for host in 0..count {
            let jobs = (it.chance(Draw::Jobs, [host, 0, 0]).powi(2) * MOST_JOBS).ceil();
            it.jobs.push(jobs as u32);
            it.busy.push(it.spells(host, rounds, jobs));
            it.stalls.push(it.stalls_of(host, rounds, jobs));
        }
        it
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.jobs.len() as u32
    }

    /// Jobs of others on a host.
    pub fn jobs(&self, host: u32) -> u32 {
        self.jobs[host as usize]
    }

    /// The host with the most jobs, and that with the fewest.
    pub fn extremes(&self) -> (u32, u32) {
        let by_jobs = |host: &u32| (self.jobs(*host), *host);
        let (busiest, calmest) =
            ((0..self.count()).max_by_key(by_jobs), (0..self.count()).min_by_key(by_jobs));
        (busiest.unwrap_or(0), calmest.unwrap_or(0))
    }

    /// When in its intervals a host begins its tests, in ms.
    pub fn phase(&self, host: u32) -> f64 {
        // So that no test of a round ends in the next.
        self.chance(Draw::Phase, [host, 0, 0]) * INTERVAL / 2.0
    }

    /// How long a host takes to answer what it was asked at a moment, in ms.
    pub fn delay(&self, host: u32, asked_at: f64, (tester, round, attempt): (u32, u32, u8)) -> f64 {
        let name = [host << 16 | tester, round, u32::from(attempt)];
        let noise = 1.0 + SPREAD * (2.0 * self.chance(Draw::Noise, name) - 1.0);
        let busy = f64::from(self.busy[host as usize][round as usize]);
        let spiked = self.chance(Draw::Spike, name) < SPIKES * f64::from(self.jobs(host));
        let tail = self.chance(Draw::SpikeSize, name).powf(-1.0 / TAIL);
        let spike = if spiked { SPIKE * tail } else { 0.0 };
        let stalled = self.stands_until(host, asked_at).map_or(0.0, |end| end - asked_at);
        BASE * noise * busy + spike + stalled
    }

    /// True when a question, or its answer, does not arrive, as happens to so many of a hundred
    /// packets.
    pub fn is_lost(
        &self,
        host: u32,
        (tester, round, attempt): (u32, u32, u8),
        percent: u32,
    ) -> bool {
        let lost = |way: u32| {
            let name = [host, tester, round << 8 | u32::from(attempt) << 1 | way];
            self.chance(Draw::Loss, name) * 100.0 < f64::from(percent)
        };
        lost(0) || lost(1)
    }

    /// When a host that stands still at a moment goes on.
    pub fn stands_until(&self, host: u32, at: f64) -> Option<f64> {
        let stalls = &self.stalls[host as usize];
        let after = stalls.partition_point(|(begin, _)| *begin <= at);
        let (_, end) = *stalls.get(after.checked_sub(1)?)?;
        (at < end).then_some(end)
    }

    fn spells(&self, host: u32, rounds: u32, jobs: f64) -> Vec<f32> {
        let mut busy = 1.0;
        let of = |round: u32| {
            let name = [host, round, 0];
            if busy == 1.0 && self.chance(Draw::Spell, name) < SPELLS * jobs {
                busy = 1.0 + 1.5 * self.chance(Draw::Busy, name) as f32;
            } else if self.chance(Draw::SpellEnd, name) < 1.0 / SPELL_ROUNDS {
                busy = 1.0;
            }
            busy
        };
        (0..rounds).map(of).collect()
    }

    fn stalls_of(&self, host: u32, rounds: u32, jobs: f64) -> Vec<(f64, f64)> {
        let of = |round: u32| {
            let name = [host, round, 0];
            let begin = self.chance(Draw::StallBegin, name) * INTERVAL / 2.0;
            let begin = f64::from(round) * INTERVAL + begin;
            let tail = self.chance(Draw::StallLength, name).powf(-1.0 / TAIL);
            let length = (STALL * tail).min(LONGEST_STALL);
            (self.chance(Draw::Stall, name) < STALLS * jobs).then_some((begin, begin + length))
        };
        (0..rounds).filter_map(of).collect()
    }

    /// A number between 0 and 1 for this name.
    fn chance(&self, what: Draw, [one, two, three]: [u32; 3]) -> f64 {
        let words = [what as u64, u64::from(one), u64::from(two), u64::from(three)];
        let word = words.into_iter().fold(self.seed, |word, name| mix(word ^ mix(name)));
        ((word >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

/// A moment in ms as the testers have it.
pub fn moment(ms: f64) -> Duration {
    Duration::from_nanos((ms * 1e6) as u64)
}

/// The finaliser of `SplitMix64`.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
