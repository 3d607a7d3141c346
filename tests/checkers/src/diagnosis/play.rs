//! One run: rounds of tests, and the group after each of them.

use std::{collections::BTreeMap, time::Duration};

use fampi::protocol::membership::{
    Finding, Membership, Report, Terms as GroupTerms,
    evidence::{Evidence, Opinion},
};
use fampi::rank::RankSet;
use fampi_detector::protocol::diagnosis::{
    Answer, Effect, Target, Terms, Verdict, primes, tester::Tester,
};

use super::hosts::{Hosts, INTERVAL, moment};

/// By what rules.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub rounds: u32,
    pub terms: Terms,
    pub group: GroupTerms,
}

/// An answer that was measured.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub round: u32,
    pub took_ms: f64,
    pub threshold_ms: f64,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// Members after each round.
    pub members: Vec<u32>,
    /// How often each host was removed.
    pub removals: Vec<u32>,
    /// Failed tests, by tester and target.
    pub suspicions: Vec<Vec<u32>>,
    /// Returns that each tester asked for, and to which it said yes.
    pub ballots: Vec<u32>,
    pub yes: Vec<u32>,
    /// What was measured of the hosts that are looked at, by tester and target.
    pub measured: BTreeMap<(u32, u32), Vec<Measured>>,
    /// The round, the tester, the target, and its good tests in a row while it is benched.
    pub streaks: Vec<(u32, u32, u32, u32)>,
}

struct Player<'a> {
    hosts: &'a Hosts,
    plan: Plan,
    looked_at: &'a [u32],
    testers: Vec<Tester>,
    /// Answers on their way to each tester.
    mail: Vec<Vec<(Duration, Target, Answer)>>,
    evidence: Vec<Evidence>,
    group: Membership,
    story: Story,
    out: Vec<Effect>,
}

/// Runs all rounds, and looks at these targets.
pub fn play(hosts: &Hosts, plan: Plan, looked_at: &[u32]) -> Story {
    let count = hosts.count();
    let each = || 0..count;
    let none = vec![Opinion::default(); count as usize];
    let zeros = vec![0; count as usize];
    let mut it = Player {
        hosts,
        plan,
        looked_at,
        testers: each().map(|it| Tester::start(plan.terms, moment(hosts.phase(it)))).collect(),
        mail: each().map(|_| Vec::new()).collect(),
        evidence: each().map(|tester| Evidence::start(tester.into(), &none)).collect(),
        group: Membership::of_all(count),
        story: Story {
            removals: zeros.clone(),
            suspicions: vec![zeros.clone(); count as usize],
            ballots: zeros.clone(),
            yes: zeros,
            ..Story::default()
        },
        out: Vec::new(),
    };
    for round in 0..plan.rounds {
        each().for_each(|tester| it.test(tester, round));
        it.commit(round);
    }
    it.story
}

impl Player<'_> {
    /// One interval of one tester, driven as the observer drives its machines.
    fn test(&mut self, tester: u32, round: u32) {
        let at = tester as usize;
        let begin = f64::from(round) * INTERVAL + self.hosts.phase(tester);
        let end = moment(begin + INTERVAL);
        // A host that stands still does so as a tester, too.
        let run_at = |hosts: &Hosts, moment_of: Duration| {
            let ms = moment_of.as_secs_f64() * 1e3;
            hosts.stands_until(tester, ms).map_or(moment_of, moment)
        };
        let mut now = run_at(self.hosts, moment(begin));
        while now < end {
            self.mail[at].sort_unstable_by_key(|(there, ..)| *there);
            let arrived = self.mail[at].iter().take_while(|(there, ..)| *there <= now).count();
            for (_, from, answer) in self.mail[at].drain(..arrived) {
                self.testers[at].handle_answer(from, answer, now, &mut self.out);
            }
            if self.testers[at].wants_targets(now) {
                let tests = self.group.is_member(tester.into());
                let others = (0..self.hosts.count()).filter(|it| *it != tester && tests);
                let others: Vec<_> = others.map(|number| Target { number, life: 0 }).collect();
                self.testers[at].handle_interval(now, &others, &mut self.out);
            } else {
                self.testers[at].handle_time(now, &mut self.out);
            }
            self.perform(tester, round, now);
            let next = self.mail[at].iter().map(|(there, ..)| *there);
            now = run_at(self.hosts, next.fold(self.testers[at].due(), Duration::min).max(now));
        }
    }

    fn perform(&mut self, tester: u32, round: u32, now: Duration) {
        let now_ms = now.as_secs_f64() * 1e3;
        for effect in self.out.drain(..) {
            match effect {
                Effect::Ask(target, question) => {
                    let name = (tester, round, question.attempt);
                    let after = self.hosts.delay(target.number, now_ms, name);
                    let (sequence, attempt) = (question.sequence, question.attempt);
                    let answer = Answer { sequence, attempt, result: primes::RIGHT };
                    self.mail[tester as usize].push((moment(now_ms + after), target, answer));
                }
                Effect::Measured(target, took, threshold) => {
                    if self.looked_at.contains(&target.number) {
                        let of = (tester, target.number);
                        self.story.measured.entry(of).or_default().push(Measured {
                            round,
                            took_ms: took.as_secs_f64() * 1e3,
                            threshold_ms: threshold.as_secs_f64() * 1e3,
                        });
                    }
                }
                Effect::Verdict(target, verdict) => {
                    let suspicion = u32::from(verdict != Verdict::Passed);
                    self.story.suspicions[tester as usize][target.number as usize] += suspicion;
                }
            }
        }
    }

    /// What the commit after a round, and the census if there is news, make of the group.
    fn commit(&mut self, round: u32) {
        let (terms, count) = (self.plan.group, self.hosts.count());
        let opinions: Vec<Vec<Opinion>> =
            self.testers.iter().map(|it| opinions(it, count)).collect();
        let testers = || self.evidence.iter().zip(&opinions);
        let word = testers().fold(0, |word, (it, seen)| word | it.news(&self.group, terms, seen));
        let any_benched = self.group.benched().next().is_some();
        if word == 0 && !any_benched {
            self.story.members.push(count);
            return;
        }
        let reports: Vec<Report> =
            testers().flat_map(|(it, seen)| it.reports(&self.group, terms, seen)).collect();
        self.note(round, &reports, word != 0);
        if word != 0 {
            let next = self.group.next(terms, &reports, &RankSet::new(), |_, _| true);
            for gone in self.group.members().filter(|it| !next.is_member(*it)) {
                self.story.removals[gone.index()] += 1;
            }
            for (it, seen) in self.evidence.iter_mut().zip(&opinions) {
                it.handle_census((&self.group, &next), terms, seen);
            }
            self.group = next;
        }
        self.story.members.push(self.group.members().count() as u32);
    }

    fn note(&mut self, round: u32, reports: &[Report], census: bool) {
        let zeta = self.plan.group.zeta;
        let streak = |it: &Report| match it.finding {
            Finding::Passed(streak) => Some(streak),
            Finding::Accused => None,
        };
        let passed = || reports.iter().filter_map(|it| streak(it).map(|streak| (it, streak)));
        let is_asked = |of: &Report| {
            census && passed().any(|(it, streak)| it.target == of.target && streak >= zeta)
        };
        for (it, streak) in passed() {
            let (tester, target) = (it.tester.number(), it.target.number());
            self.story.streaks.push((round, tester, target, streak));
            self.story.ballots[tester as usize] += u32::from(census && streak >= zeta);
            self.story.yes[tester as usize] += u32::from(is_asked(it) && streak * 2 > zeta);
        }
    }
}

fn opinions(tester: &Tester, count: u32) -> Vec<Opinion> {
    let of = |number| {
        let seen = tester.opinion(number);
        Opinion { fails: seen.fails, streak: seen.streak }
    };
    (0..count).map(of).collect()
}
