//! A stage on which commit machines are moved by hand, one message at a time.
//!
//! | command | what it does |
//! |---|---|
//! | `ranks N` | N machines that have done nothing, and exchange votes by doubling |
//! | `ranks N wide` | the same with one round, in which all tell all |
//! | `vote 0 1 … [block B] [no CODE]` | these ranks vote on the block, in this order |
//! | `deliver A->B`, `deliver all` | the next message of a link; all there are, link by link |
//! | `cut R after K` | in its next turn rank R sends K messages, and dies |
//! | `die R` | rank R dies between two turns |
//! | `tell A B … of R` | the detectors of these ranks report the death of R |
//! | `retire R` | rank R gives the communicator up |
//! | `verdicts [block B]` | what every living rank has decided |

use std::collections::BTreeMap;

use fampi::{
    FaultCode, Rank,
    ids::BlockId,
    protocol::{
        Effect, Event,
        agreement::{Contribution, Decision, Vote},
        exchange::Shape,
        message::Message,
    },
};
use fampi_checkers::group::{Group, Turn, fault};

/// Blocks that a story may have.
const BLOCKS: usize = 8;

/// The machines and what is between them.
pub(crate) struct Stage {
    group: Group,
    cuts: BTreeMap<u32, usize>,
}

impl Stage {
    /// This many ranks that have done nothing.
    pub(crate) fn new(ranks: u32, shape: Shape) -> Self {
        Self { group: Group::new(ranks, shape, BLOCKS), cuts: BTreeMap::new() }
    }

    /// Does what a line says; what happened, line by line.
    pub(crate) fn obey(&mut self, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| word.parse::<u32>().map_err(|_| format!("`{line}`"));
        match words.as_slice() {
            ["ranks", ranks, shape @ ..] => {
                let ranks = number(ranks)?;
                let shape = match shape {
                    [] => Shape::DOUBLING,
                    ["wide"] => Shape::WIDE,
                    _ => return Err(format!("`{line}`")),
                };
                *self = Self::new(ranks, shape);
                Ok(String::new())
            }
            ["vote", rest @ ..] => self.vote(rest).ok_or_else(|| format!("`{line}`")),
            ["deliver", "all"] => Ok(self.deliver_all()),
            ["deliver", link] => {
                let (from, to) = link.split_once("->").ok_or_else(|| format!("`{line}`"))?;
                self.deliver(number(from)?, number(to)?)
            }
            ["cut", rank, "after", sends] => {
                self.cuts.insert(number(rank)?, number(sends)? as usize);
                Ok(String::new())
            }
            ["die", rank] => Ok(self.die(number(rank)?)),
            ["tell", ranks @ .., "of", dead] => {
                let dead = Rank::new(number(dead)?);
                let mut text = String::new();
                for rank in ranks {
                    text += &self.turn(number(rank)?, Turn::Notice(dead));
                }
                Ok(text)
            }
            ["retire", rank] => Ok(self.turn(number(rank)?, Turn::Retire)),
            ["verdicts"] => Ok(self.verdicts(0)),
            ["verdicts", "block", block] => Ok(self.verdicts(u64::from(number(block)?))),
            _ => Err(format!("`{line}`")),
        }
    }

    fn vote(&mut self, words: &[&str]) -> Option<String> {
        let after = |word: &str| {
            let at = words.iter().position(|it| *it == word)?;
            words.get(at + 1)?.parse::<i32>().ok()
        };
        let block = BlockId(after("block").unwrap_or(0) as u64);
        let ranks = words.iter().map_while(|word| word.parse::<u32>().ok());
        let mut text = String::new();
        for rank in ranks {
            let mut vote = Vote::yes(0);
            if let Some(code) = after("no") {
                vote.faults.push(fault(Rank::new(rank), FaultCode::Application(code)));
            }
            self.group.ranks().nth(rank as usize).filter(|_| block.0 < BLOCKS as u64)?;
            text += &self.turn(rank, Turn::Vote(block, vote, None));
        }
        Some(text)
    }

    fn deliver(&mut self, from: u32, to: u32) -> Result<String, String> {
        if self.group.on_the_way(Rank::new(from), Rank::new(to)).is_empty() {
            return Err(format!("nothing is on its way from {from} to {to}"));
        }
        Ok(self.turn(to, Turn::Take(Rank::new(from))))
    }

    fn deliver_all(&mut self) -> String {
        let mut text = String::new();
        let first = |group: &Group| {
            let mut links = group.ranks().flat_map(|it| group.ranks().map(move |to| (it, to)));
            links.find(|(from, to)| !group.on_the_way(*from, *to).is_empty())
        };
        while let Some((from, to)) = first(&self.group) {
            text += &self.turn(to.number(), Turn::Take(from));
        }
        text
    }

    fn die(&mut self, rank: u32) -> String {
        self.group.kill(Rank::new(rank));
        format!("{rank} dies\n")
    }

    fn turn(&mut self, rank: u32, turn: Turn) -> String {
        let mut out = Vec::new();
        self.group.act(Rank::new(rank), turn, &mut out);
        let cut = self.cuts.remove(&rank);
        let mut text = String::new();
        let mut sends = 0;
        for effect in out {
            if cut == Some(sends) {
                break;
            }
            match &effect {
                Effect::Send(to, message) => {
                    sends += 1;
                    text.extend([format!("{rank} → {to}: {}\n", in_words(message))]);
                }
                Effect::Emit(Event::Learned(dead)) => {
                    text.extend([format!("{rank} knows that {dead} is dead\n")]);
                }
                Effect::Emit(_) => {}
            }
            let decided = match effect {
                Effect::Emit(Event::Decided(block)) => Some(block),
                _ => None,
            };
            self.group.carry_out(Rank::new(rank), effect).expect("a block is decided once");
            let decided =
                decided.and_then(|at| Some((at, self.group.decision(Rank::new(rank), at)?)));
            if let Some((block, decision)) = decided {
                let words = verdict(decision);
                text.extend([format!("{rank} decides block {}: {words}\n", block.0)]);
            }
        }
        if cut.is_some() {
            text += &self.die(rank);
        }
        text
    }

    fn verdicts(&self, block: u64) -> String {
        let line = |rank| match self.group.decision(rank, BlockId(block)) {
            Some(decision) => format!("{rank}: {}\n", verdict(decision)),
            None => format!("{rank}: waits\n"),
        };
        self.group.living().map(line).collect()
    }
}

fn verdict(decision: &Decision) -> String {
    if decision.committed {
        return "committed".into();
    }
    let mut words = "faulty".to_owned();
    if !decision.dead.is_empty() {
        words.extend([format!(", dead {}", decision.dead)]);
    }
    for fault in &decision.faults {
        words.extend([format!(", rank {}: {}", fault.rank, fault.code)]);
    }
    words
}

fn in_words(message: &Message) -> String {
    match message {
        Message::Yes(yes) => format!("yes, step {}", yes.step),
        Message::Fused(fused) => format!("yes with values, step {}", fused.yes.step),
        Message::Ask(_) => "ask".into(),
        Message::Contribute(_, Contribution::Decided(it)) => format!("decided: {}", verdict(it)),
        Message::Contribute(_, Contribution::Undecided(tally)) => {
            let votes = if tally.faults.is_empty() { "yes" } else { "no" };
            format!("undecided, votes {votes}, knows dead {{{}}}", tally.dead)
        }
        Message::Decide(_, decision) => format!("decide: {}", verdict(decision)),
        Message::Interrupt(_) => "interrupt".into(),
        Message::HowFar(block) => format!("how far in {}", block.0),
        Message::Reached(block, stage) => format!("{stage:?} in {}", block.0),
        Message::Wanted(rider) => format!("wanted {} in {}", rider.number, rider.block.0),
        Message::Ahead(ahead) => {
            format!("ahead {} in {}, step {}", ahead.rider.number, ahead.rider.block.0, ahead.step)
        }
        Message::Retired => "retired".into(),
    }
}
