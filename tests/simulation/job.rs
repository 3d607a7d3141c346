//! A job drawn from one seed.

use std::time::Duration;

use fampi::sim::{Crash, Simulation};

use crate::{
    checks::{self, Log, Tally},
    rounds,
};

/// How the job answers deaths.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    Rebuild,
    Merge,
    Shrink,
}

/// Everything about a job but its programs.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) seed: u64,
    pub(crate) ranks: u32,
    pub(crate) spares: u32,
    pub(crate) answer: Answer,
    pub(crate) rounds: u64,
    pub(crate) crashes: Vec<Crash>,
    pub(crate) detection: [u64; 2],
    pub(crate) latency: [u64; 2],
}

impl Job {
    pub(crate) fn drawn_from(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let ranks =
            2 + draw.below(7) as u32 + if draw.one_in(4) { draw.below(8) as u32 } else { 0 };
        let spares = if draw.one_in(3) { 1 + draw.below(2) as u32 } else { 0 };
        let answer = match draw.below(6) {
            0 => Answer::Shrink,
            1 => Answer::Merge,
            _ => Answer::Rebuild,
        };
        let rounds = 2 + draw.below(5);
        let deaths = draw.below(4).min(u64::from(ranks) - 1);
        let crashes = (0..deaths).map(|_| {
            // Some strike those that were spawned to replace others.
            let process = draw.below(u64::from(ranks + spares + 2)) as u32;
            // Not before the job has begun: nobody could answer.
            if draw.one_in(3) {
                Crash::at_time(process, Duration::from_micros(200 + draw.below(3000)))
            } else {
                Crash::before_effect(process, 4 + draw.below(120))
            }
        });
        let crashes = crashes.collect();
        let detection = [draw.below(200), 200 + draw.below(600)];
        let latency = [1 + draw.below(3), 4 + draw.below(40)];
        Self { seed, ranks, spares, answer, rounds, crashes, detection, latency }
    }

    fn simulation(&self) -> Simulation {
        let micros =
            |range: [u64; 2]| Duration::from_micros(range[0])..=Duration::from_micros(range[1]);
        Simulation::new(self.ranks)
            .seed(self.seed)
            .spares(self.spares)
            .detection(micros(self.detection))
            .latency(micros(self.latency))
            .crashes(self.crashes.iter().copied())
            .time_limit(Duration::from_secs(20))
    }

    pub(crate) fn run(&self, aloud: bool) -> Result<Tally, String> {
        let job = self.clone();
        let report =
            self.simulation().trace(aloud).run_world(move |world| rounds::run(world, &job));
        if aloud {
            println!("{report}");
        }
        checks::check(self, &report)
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        let job = self.clone();
        let report = self.simulation().run_world(move |world| rounds::run(world, &job));
        let logs: Vec<&Log> = report.results().collect();
        report.fingerprint ^ logs.iter().map(|log| log.entries.len() as u64).sum::<u64>()
    }
}

/// Draws numbers from a seed.
pub(crate) struct Draw(pub u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}
