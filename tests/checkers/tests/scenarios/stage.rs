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

use std::collections::{BTreeMap, VecDeque};

use fampi::{
    CommId, Fault, FaultCode, Rank,
    ids::BlockId,
    protocol::{
        Effect, Event,
        agreement::{Contribution, Decision, Vote},
        commit::Commit,
        exchange::Shape,
        message::Message,
    },
};

const COMM: CommId = CommId(1);

/// The machines and what is between them.
#[derive(Default)]
pub(crate) struct Stage {
    machines: Vec<Commit>,
    alive: Vec<bool>,
    links: BTreeMap<(u32, u32), VecDeque<Message>>,
    /// The first decision of each rank on each block.
    decided: BTreeMap<(u32, u64), Decision>,
    cuts: BTreeMap<u32, usize>,
}

impl Stage {
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
                let machine = |rank| Commit::new(COMM, Rank::new(rank), ranks).with_shape(shape);
                let machines = (0..ranks).map(machine).collect();
                *self = Self { machines, alive: vec![true; ranks as usize], ..Self::default() };
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
                    text += &self.turn(number(rank)?, |it, out| it.handle_failure(dead, out));
                }
                Ok(text)
            }
            ["retire", rank] => Ok(self.turn(number(rank)?, Commit::retire)),
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
                let code = FaultCode::Application(code);
                vote.faults.push(Fault { comm: COMM, rank: Rank::new(rank), code });
            }
            self.machines.get(rank as usize)?;
            text += &self.turn(rank, |machine, out| machine.handle_vote(block, vote, out));
        }
        Some(text)
    }

    fn deliver(&mut self, from: u32, to: u32) -> Result<String, String> {
        let message = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let message =
            message.ok_or_else(|| format!("nothing is on its way from {from} to {to}"))?;
        Ok(self.turn(to, |machine, out| machine.handle_message(Rank::new(from), message, out)))
    }

    fn deliver_all(&mut self) -> String {
        let mut text = String::new();
        while let Some(link) = self.links.iter().find(|(_, it)| !it.is_empty()).map(|(it, _)| *it) {
            text += &self.deliver(link.0, link.1).expect("something is on its way");
        }
        text
    }

    fn die(&mut self, rank: u32) -> String {
        self.alive[rank as usize] = false;
        self.links.retain(|(_, to), _| *to != rank);
        format!("{rank} dies\n")
    }

    fn turn(&mut self, rank: u32, turn: impl FnOnce(&mut Commit, &mut Vec<Effect>)) -> String {
        let mut out = Vec::new();
        turn(&mut self.machines[rank as usize], &mut out);
        let cut = self.cuts.remove(&rank);
        let mut text = String::new();
        let mut sends = 0;
        for effect in out {
            if cut == Some(sends) {
                break;
            }
            match effect {
                Effect::Send(to, message) => {
                    sends += 1;
                    text.extend([format!("{rank} → {to}: {}\n", in_words(&message))]);
                    if self.alive[to.index()] {
                        self.links.entry((rank, to.number())).or_default().push_back(message);
                    }
                }
                Effect::Emit(Event::Decided(block)) => {
                    let decision = self.machines[rank as usize].decision(block);
                    let decision = decision.expect("it was decided in this turn");
                    let words = verdict(&decision);
                    text.extend([format!("{rank} decides block {}: {words}\n", block.0)]);
                    self.decided.insert((rank, block.0), decision);
                }
                Effect::Emit(Event::Learned(dead)) => {
                    text.extend([format!("{rank} knows that {dead} is dead\n")]);
                }
                Effect::Emit(Event::Interrupted(_)) => {}
            }
        }
        if cut.is_some() {
            text += &self.die(rank);
        }
        text
    }

    fn verdicts(&self, block: u64) -> String {
        let living = (0..self.machines.len() as u32).filter(|rank| self.alive[*rank as usize]);
        let line = |rank: u32| match self.decided.get(&(rank, block)) {
            Some(decision) => format!("{rank}: {}\n", verdict(decision)),
            None => format!("{rank}: waits\n"),
        };
        living.map(line).collect()
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
        Message::Retired => "retired".into(),
    }
}
