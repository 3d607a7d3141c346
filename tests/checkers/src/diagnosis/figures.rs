//! The paper's figures 7 to 13 as rows, a table by hosts, and whether the shapes came out.
//!
//! Which host is looked at, and whose tests of it, is what the run says: the busiest and the
//! calmest host, and of the testers the one that suspected the busiest most, and least.

use std::thread;

use fampi::protocol::membership::{Terms as GroupTerms, removal::Rule};
use fampi_detector::protocol::diagnosis::Terms;

use super::{
    hosts::Hosts,
    play::{Measured, Plan, Story, play},
};

/// The columns of all rows.
pub const COLUMNS: &str = "figure,line,x,y";
/// Rounds of figure 7, which has a κ near 1, and those in which it is compared with the usual one:
/// in fewer it may be that nothing happens that the one suspects and the other does not.
const SHOWN: u32 = 150;
const FEW: u32 = 1500;
const NEAR_ONE: u32 = 105;
/// Points of a line of many rounds.
const POINTS: u32 = 1000;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub hosts: u32,
    pub rounds: u32,
    pub seed: u64,
}

/// All runs of a setting, which meet the same days.
pub struct Figures {
    setting: Setting,
    hosts: Hosts,
    /// As in the paper: any accusation counts, and testers trust their clocks.
    pub paper: Story,
    /// The rule `Fewest`, and the stall guard.
    pub ours: Story,
    near_one: Story,
    /// The same few rounds by the usual κ.
    usual: Story,
}

/// A shape that the paper has, whether it came out, and the numbers.
pub type Shape = (&'static str, bool, String);

/// The paper saw two such falls in 30,000 rounds, and where two are to be expected, one run in
/// seven has none.
const FALLS: &str = "any without a guard falls below a third in most runs";
/// It saw 0 and 7 suspicions of one host by two testers.
const DIFFER: &str = "two testers of one host differ by 3 suspicions in most runs";
/// Its busiest host was removed 11 times: so few make a correlation that chance moves.
const JOBS: &str = "who has more jobs is removed more in most runs";

/// The shapes that chance may keep from a run, as they are about a few events in many rounds.
pub const LIKELY: [&str; 3] = [FALLS, DIFFER, JOBS];

impl Figures {
    pub fn of(setting: Setting) -> Self {
        let hosts = Hosts::new(setting.hosts, setting.rounds.max(FEW), setting.seed);
        let (busiest, calmest) = hosts.extremes();
        let run = |rule, stall_guard, kappa_percent, rounds| {
            let terms = Terms { stall_guard, kappa_percent, ..Terms::default() };
            let group = GroupTerms { rule, zeta: 5 };
            play(&hosts, Plan { rounds, terms, group }, &[busiest, calmest])
        };
        let kappa = Terms::USUAL.kappa_percent;
        let (paper, ours) = thread::scope(|scope| {
            let ours = scope.spawn(|| run(Rule::Fewest, true, kappa, setting.rounds));
            let paper = run(Rule::Any, false, kappa, setting.rounds);
            (paper, ours.join().expect("nothing in it panics"))
        });
        let [near_one, usual] = [NEAR_ONE, kappa].map(|kappa| run(Rule::Any, false, kappa, FEW));
        Self { setting, hosts, paper, ours, near_one, usual }
    }

    /// The testers that suspected the busiest host most and least.
    fn extremes(&self) -> (u32, u32) {
        let (busiest, _) = self.hosts.extremes();
        let others = || (0..self.hosts.count()).filter(|it| *it != busiest);
        let suspicions =
            |it: &u32| (self.paper.suspicions[*it as usize][busiest as usize], u32::MAX - *it);
        let (most, least) = (others().max_by_key(suspicions), others().min_by_key(suspicions));
        (most.unwrap_or(0), least.unwrap_or(0))
    }

    /// All rows, without the columns.
    pub fn rows(&self) -> Vec<String> {
        let mut rows = Vec::new();
        let (busiest, calmest) = self.hosts.extremes();
        let (most, least) = self.extremes();
        let other = u32::from(busiest == 0);
        let of = |story: &Story, tester| {
            story.measured.get(&(tester, busiest)).cloned().unwrap_or_default()
        };
        let wide = self.setting.rounds.div_ceil(POINTS).max(1);
        let mut first = of(&self.near_one, other);
        first.retain(|it| it.round < SHOWN);
        measured(&mut rows, "7", &first, 1);
        measured(&mut rows, "8", &of(&self.paper, least), wide);
        measured(&mut rows, "9", &of(&self.paper, most), wide);
        let calm = self.paper.measured.get(&(busiest, calmest)).cloned().unwrap_or_default();
        measured(&mut rows, "10", &calm, wide);
        let of_most = of(&self.paper, most);
        let late = of_most.iter().find(|it| it.took_ms > it.threshold_ms).map_or(0, |it| it.round);
        let zoom: Vec<Measured> =
            of_most.into_iter().filter(|it| it.round.abs_diff(late) <= 250).collect();
        measured(&mut rows, "11", &zoom, 1);
        let streaks = self.paper.streaks.iter().filter(|it| (it.1, it.2) == (most, busiest));
        rows.extend(streaks.map(|(round, _, _, streak)| format!("12,streak,{round},{streak}")));
        for (line, story) in [("any", &self.paper), ("fewest", &self.ours)] {
            let sizes: Vec<u32> = story.members.clone();
            for (bin, members) in sizes.chunks(wide as usize).enumerate() {
                let least = members.iter().min().copied().unwrap_or(0);
                rows.push(format!("13,{line},{},{least}", bin as u32 * wide + 1));
            }
        }
        self.table(&mut rows);
        for (shape, holds, numbers) in self.shapes() {
            let numbers = numbers.replace(',', ";");
            rows.push(format!("shape,{shape},{},{numbers}", u8::from(holds)));
        }
        rows
    }

    fn table(&self, rows: &mut Vec<String>) {
        for host in 0..self.hosts.count() {
            let at = host as usize;
            let all = |story: &Story| story.suspicions[at].iter().sum::<u32>();
            for (line, number) in [
                ("jobs", self.hosts.jobs(host)),
                ("removals", self.paper.removals[at]),
                ("removals by fewest", self.ours.removals[at]),
                ("suspicions as a tester", all(&self.paper)),
                ("ballots", self.paper.ballots[at]),
                ("yes votes", self.paper.yes[at]),
            ] {
                rows.push(format!("table,{line},{host},{number}"));
            }
        }
    }

    /// What has to come out.
    pub fn shapes(&self) -> Vec<Shape> {
        let (busiest, _) = self.hosts.extremes();
        let (most, least) = self.extremes();
        let suspicions = |it: u32| self.paper.suspicions[it as usize][busiest as usize];
        let apart = suspicions(most) - suspicions(least);
        let jobs: Vec<f64> =
            (0..self.hosts.count()).map(|it| f64::from(self.hosts.jobs(it))).collect();
        let single: Vec<f64> = self.ours.removals.iter().map(|it| f64::from(*it)).collect();
        let together = correlation(&jobs, &single);
        let longest = self.paper.streaks.iter().map(|it| it.3).max().unwrap_or(0);
        let lowest = |story: &Story| story.members.iter().min().copied().unwrap_or(0);
        let (paper, ours) = (lowest(&self.paper), lowest(&self.ours));
        let third = self.hosts.count() / 3;
        let regrowth = regrowth(&self.paper.members, third);
        let regrows = match regrowth {
            Some(rounds) => rounds >= 5,
            // Which is right if nothing fell.
            None => paper >= third,
        };
        let all = |story: &Story| story.suspicions.iter().flatten().sum::<u32>();
        let (near, usual) = (all(&self.near_one), all(&self.usual));
        vec![
            (DIFFER, apart >= 3, format!("{apart}")),
            (JOBS, together >= 0.7, format!("{together:.2}")),
            ("no streak goes beyond 5", longest <= 5, format!("{longest}")),
            (FALLS, paper < third, format!("{paper}")),
            ("fewest with a guard does not", ours >= third, format!("{ours}")),
            (
                "after a fall it takes 5 rounds at least",
                regrows,
                regrowth.map_or_else(|| "none".into(), |rounds| rounds.to_string()),
            ),
            (
                "a kappa near 1 suspects three times as often as one of 2.5 at least",
                near > 0 && near >= 3 * usual,
                format!("{near} and {usual}"),
            ),
        ]
    }
}

/// The fewest rounds in which a group that fell below a number grew again.
fn regrowth(members: &[u32], below: u32) -> Option<usize> {
    let falls = members.windows(2).enumerate().filter(|(_, it)| it[0] >= below && it[1] < below);
    let rounds = falls.filter_map(|(at, _)| {
        let low = members[at + 1];
        members[at + 1..].iter().position(|it| *it > low)
    });
    rounds.min()
}

/// Delay and threshold, of each bin of rounds where the delay is greatest; and what was too late.
fn measured(rows: &mut Vec<String>, figure: &str, all: &[Measured], wide: u32) {
    for bin in all.chunk_by(|one, other| one.round / wide == other.round / wide) {
        let worst = bin.iter().max_by(|one, other| one.took_ms.total_cmp(&other.took_ms));
        let Some(Measured { round, took_ms, threshold_ms }) = worst else { continue };
        let round = round + 1;
        rows.push(format!("{figure},delay,{round},{took_ms:.3}"));
        rows.push(format!("{figure},threshold,{round},{threshold_ms:.3}"));
    }
}

/// Pearson's coefficient.
fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (mean_one, mean_other) = (mean(one), mean(other));
    let pairs = || one.iter().map(|it| it - mean_one).zip(other.iter().map(|it| it - mean_other));
    let (mut both, mut first, mut second) = (0.0, 0.0, 0.0);
    for (x, y) in pairs() {
        both += x * y;
        first += x * x;
        second += y * y;
    }
    both / (first * second).sqrt()
}
