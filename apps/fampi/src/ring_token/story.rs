//! What became of the tokens of one ring, and when each death was known, from the rows that both
//! programs print.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::pattern::Pattern;
use crate::csv::Row;

/// Where a ring was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Part {
    Real,
    Simulated,
    /// Real, with a processor for each rank.
    Undisturbed,
    /// The same by MPI alone.
    Plain,
}

impl Part {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Simulated => "simulated",
            Self::Undisturbed => "fampi undisturbed",
            Self::Plain => "MPI undisturbed",
        }
    }
}

/// A token; times are milliseconds since the first one was due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) made: f64,
    /// When it was back, after how many hops; nothing if it is lost.
    pub(super) back: Option<(f64, u32)>,
}

impl Token {
    pub(super) fn round_trip(&self) -> Option<f64> {
        self.back.map(|(back, _)| back - self.made)
    }
}

/// A death, which begins an epoch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Epoch {
    pub(super) dead: u32,
    pub(super) at: f64,
    /// Who knew of it, and when; simulated, one of each node, whose observer tells all.
    pub(super) known: Vec<(u32, f64)>,
}

impl Epoch {
    /// When the last one knew.
    pub(super) fn known_to_all(&self) -> Option<f64> {
        self.known.iter().map(|(_, at)| *at).reduce(f64::max)
    }

    /// From the first one to the last one that knew.
    pub(super) fn spread(&self) -> Option<f64> {
        Some(self.known_to_all()? - self.known.iter().map(|(_, at)| *at).reduce(f64::min)?)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Story {
    pub(super) part: Part,
    pub(super) pattern: Pattern,
    pub(super) ranks: u32,
    /// Of so many ranks one tells what it knew.
    pub(super) tell_together: u32,
    pub(super) tokens: Vec<Token>,
    /// In the order of the deaths.
    pub(super) epochs: Vec<Epoch>,
}

impl Story {
    /// Reads the rows among the printed lines, and fails if some are missing.
    pub(super) fn read(
        lines: impl Iterator<Item = impl AsRef<str>>,
        (part, pattern): (Part, Pattern),
        (ranks, tell_together): (u32, u32),
        [tokens, deaths]: [usize; 2],
    ) -> Result<Self> {
        let mut found = BTreeMap::new();
        let (mut epochs, mut known) = (Vec::new(), BTreeMap::<u32, Vec<(u32, f64)>>::new());
        for line in lines {
            let words: Vec<&str> = line.as_ref().trim().split(',').collect();
            let numbers: Vec<Option<u64>> =
                words.iter().skip(1).map(|word| word.parse().ok()).collect();
            let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
            match (words[0], &numbers[..]) {
                ("died", [Some(dead), Some(at)]) => {
                    let (dead, at) = (*dead as u32, milliseconds(*at));
                    epochs.push(Epoch { dead, at, known: Vec::new() });
                }
                ("known", [Some(dead), Some(by), Some(at)]) => {
                    known.entry(*dead as u32).or_default().push((*by as u32, milliseconds(*at)));
                }
                ("token", [Some(number), Some(made), back, hops]) => {
                    let back = back.zip(*hops).map(|(at, hops)| (milliseconds(at), hops as u32));
                    found.insert(*number, Token { made: milliseconds(*made), back });
                }
                _ => {}
            }
        }
        if found.len() != tokens || epochs.len() != deaths {
            let (name, dead, told) = (pattern.name(), epochs.len(), found.len());
            bail!("{name}: told of {told} of {tokens} tokens, and {dead} of {deaths} deaths");
        }
        epochs.sort_by(|one, other| one.at.total_cmp(&other.at));
        for epoch in &mut epochs {
            epoch.known = known.remove(&epoch.dead).unwrap_or_default();
            epoch.known.sort_by_key(|(rank, _)| *rank);
        }
        let tokens = found.into_values().collect();
        Ok(Self { part, pattern, ranks, tell_together, tokens, epochs })
    }

    /// Takes each token that was faster in another run of this ring.
    pub(super) fn take_faster_tokens(&mut self, other: &Self) {
        for (token, other) in self.tokens.iter_mut().zip(&other.tokens) {
            let [own, others] = [&*token, other].map(|it| it.round_trip().unwrap_or(f64::INFINITY));
            if others < own {
                *token = *other;
            }
        }
    }

    pub(super) fn lost(&self) -> usize {
        self.tokens.iter().filter(|token| token.back.is_none()).count()
    }

    /// How many ranks lived then.
    pub(super) fn living_at(&self, moment: f64) -> u32 {
        self.ranks - self.epochs.partition_point(|epoch| epoch.at <= moment) as u32
    }

    /// When the next death after this epoch's is, other than one at the same time.
    pub(super) fn end_of(&self, epoch: &Epoch) -> f64 {
        let same = self.epochs_together();
        let together = same.iter().find(|it| it.iter().any(|other| other.dead == epoch.dead));
        let last = together.and_then(|it| it.last()).map_or(epoch.dead, |last| last.dead);
        let mut rest = self.epochs.iter().skip_while(|it| it.dead != last).skip(1);
        rest.next().map_or(f64::INFINITY, |next| next.at)
    }

    /// The deaths that were meant to be at once.
    pub(super) fn epochs_together(&self) -> Vec<&[Epoch]> {
        let at_once = match self.pattern {
            Pattern::Nobody | Pattern::One => 1,
            Pattern::Two => 2,
            Pattern::Half | Pattern::AllButTwo => self.epochs.len().max(1),
        };
        self.epochs.chunks(at_once).collect()
    }

    /// The median round trip, in milliseconds, and the hops of the tokens of a tenth of all that
    /// are back: 0 for the first one, 9 for the last.
    pub(super) fn tenth(&self, which: usize) -> Option<(f64, u32)> {
        let back: Vec<&Token> = self.tokens.iter().filter(|it| it.back.is_some()).collect();
        let each = back.len() / 10;
        let part = back.get(which * each..(which + 1) * each)?;
        let mut trips: Vec<f64> = part.iter().filter_map(|it| it.round_trip()).collect();
        trips.sort_by(f64::total_cmp);
        let hops = if which == 0 { part.first() } else { part.last() };
        Some((*trips.get(trips.len() / 2)?, hops?.back?.1))
    }
}

pub(super) const COLUMNS: &str = "part,ranks,pattern,row,number,rank,at_ms,took_ms,hops";
/// Of so many epochs the file says when each rank knew.
pub(super) const DETAILED: usize = 64;

impl Story {
    /// The epochs of which each rank is told: all, or some of very many.
    pub(super) fn detailed(&self) -> impl Iterator<Item = (usize, &Epoch)> {
        let each = self.epochs.len().div_ceil(DETAILED).max(1);
        self.epochs.iter().enumerate().step_by(each)
    }

    /// A row for each token, each death, and each rank that knew of one.
    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |what: &str, number: usize, rank: u32, [at, took]: [Option<f64>; 2], hops| {
            let time = |time: Option<f64>| time.map_or(String::new(), |it| format!("{it:.4}"));
            let names = [self.part.name(), &self.ranks.to_string(), self.pattern.name(), what]
                .map(str::to_owned);
            let numbers = [number.to_string(), rank.to_string(), time(at), time(took)];
            let hops = Option::<u32>::map_or(hops, String::new(), |it| it.to_string());
            names.into_iter().chain(numbers).chain([hops]).collect()
        };
        let tokens = self.tokens.iter().enumerate().map(|(number, token)| {
            let hops = token.back.map(|(_, hops)| hops);
            row("token", number, 0, [Some(token.made), token.round_trip()], hops)
        });
        let deaths = self.epochs.iter().enumerate().map(|(number, epoch)| {
            let took = epoch.known_to_all().map(|at| at - epoch.at);
            row("death", number, epoch.dead, [Some(epoch.at), took], None)
        });
        let known = self.detailed().flat_map(|(number, epoch)| {
            let of_rank = move |(rank, at): &(u32, f64)| {
                row("known", number, *rank, [Some(*at), Some(at - epoch.at)], None)
            };
            epoch.known.iter().map(of_rank)
        });
        tokens.chain(deaths).chain(known).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three ranks, the last of which dies.
    pub(in crate::ring_token) fn short() -> Vec<String> {
        let rows = [
            "died,2,1500000",
            "known,2,0,1700000",
            "noise",
            "known,2,1,1600000",
            "token,0,0,100000,3",
            "token,1,1490000,lost,lost",
            "token,2,2000000,2080000,2",
        ];
        rows.map(str::to_owned).into()
    }

    #[test]
    fn of_two_runs_each_token_is_the_faster_one() {
        let trips = |trips: [f64; 3]| {
            let token =
                |trip: f64| Token { made: 1.0, back: (trip > 0.0).then_some((1.0 + trip, 2)) };
            let (part, pattern, tokens) = (Part::Plain, Pattern::Nobody, trips.map(token).into());
            Story { part, pattern, ranks: 2, tell_together: 1, tokens, epochs: Vec::new() }
        };
        let mut story = trips([0.5, 2.0, 0.0]);
        story.take_faster_tokens(&trips([1.0, 0.25, 3.0]));
        assert_eq!(story.tokens, trips([0.5, 0.25, 3.0]).tokens);
    }

    #[test]
    fn rows_are_told_from_noise_and_none_may_be_missing() {
        let read = |counts| Story::read(short().iter(), (Part::Real, Pattern::One), (3, 1), counts);
        let story = read([3, 1]).expect("all are there");
        assert_eq!(story.lost(), 1);
        assert_eq!((story.living_at(1.4), story.living_at(1.5)), (3, 2));
        assert_eq!(story.epochs[0].known, [(0, 1.7), (1, 1.6)]);
        assert_eq!(story.epochs[0].known_to_all(), Some(1.7));
        assert!(story.end_of(&story.epochs[0]).is_infinite());
        assert_eq!(story.tokens[2].back, Some((2.08, 2)));
        let rows = story.rows();
        assert_eq!(rows.len(), 3 + 1 + 2);
        assert!(rows.iter().all(|row| row.len() == COLUMNS.split(',').count()));
        let parts = [Part::Real, Part::Simulated, Part::Undisturbed, Part::Plain].map(Part::name);
        let names = parts.into_iter().chain(super::super::PATTERNS.map(Pattern::name));
        assert!(names.into_iter().all(|name| !name.contains(',')), "commas part columns");
        assert_eq!(rows[1].join(","), "real,3,one at a time,token,1,0,1.4900,,");
        assert_eq!(rows[3].join(","), "real,3,one at a time,death,0,2,1.5000,0.2000,");
        for counts in [[4, 1], [3, 2]] {
            assert!(read(counts).is_err(), "{counts:?}");
        }
    }
}
