//! Blocks and recovery: each step of the sort ends with a commit, and a step that a death
//! interrupts is made again by those who are left, from the lists of the commit before it.
//!
//! One step of a run ([`World::run`]) per step of the sort. Nothing is protected by the library:
//! lists of the last commit stay where they are until the next one. After a death the run shrinks
//! (or rebuilds) the world, and all ranks join in a block of their own ([`crate::join`]).
//!
//! **Guarantees** the same result whichever ranks die whenever, as long as one is left; with
//! `store=copies` unless a list and its copy are lost together.
//!
//! Camargo and Duarte 2018, sections 4.2 and 4.4.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use fampi::membership::member::Slow;
use fampi::{
    Ended, Error, FaultCode, Flow, Interval, Rank, Recommended, ReduceOp, Step, TryBlock, World,
};
use harness::kill_plan::{Mode, Phase};
use harness::witness::Witness;

use crate::copies::Copies;
use crate::exchange::InBlock;
use crate::files::{Files, Made};
use crate::keys::{Key, Keys};
use crate::kill_plan;
use crate::options::{Members, Options, OptionsError, Store};
use crate::output;
use crate::report::{Events, Sorted};
use crate::sorter::Sorter;
use crate::stages::{Stage, Stages};
use crate::table::Row;
use crate::verify::{self, Summary};

/// The code of a rank that cannot go on, which says so.
const TROUBLE: i32 = 1;

/// How to end this process, to let it wait, and to see how far the sort is.
pub struct Hooks<'a> {
    /// Ends the process in this way.
    pub die: &'a dyn Fn(Mode),
    /// Lets so much time pass, as if the process had work.
    pub pause: &'a dyn Fn(Duration),
    /// Sees each step that is about to begin.
    pub watch: &'a mut dyn FnMut(Stage),
}

/// Why a sort could not be brought to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SortError {
    /// The options do not fit the number of ranks.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Something that would happen again: with the sentence on the one rank that is to say it.
    #[error("{}", .0.as_deref().unwrap_or("another rank cannot go on"))]
    Trouble(Option<String>),
    /// Recovery is not possible.
    #[error(transparent)]
    Lost(#[from] Error),
}

impl SortError {
    /// The input cannot be read.
    #[must_use]
    pub fn unreadable(keys: &Keys, error: &io::Error) -> Self {
        Self::Trouble(Some(format!("the input {} cannot be read: {error}", keys.input)))
    }

    /// The output cannot be written.
    #[must_use]
    pub fn unwritable(path: &Path, error: &io::Error) -> Self {
        Self::Trouble(Some(format!("the output {} cannot be written: {error}", path.display())))
    }
}

/// A sort on one rank.
pub(crate) struct Sort<'a, 'h, K> {
    pub(crate) options: &'a Options,
    pub(crate) witness: Witness<'a>,
    pub(crate) hooks: Hooks<'h>,
    pub(crate) stages: Stages,
    pub(crate) sorter: Sorter<K>,
    pub(crate) copies: Copies<K>,
    pub(crate) files: Option<Files>,
    /// The members, by rank.
    pub(crate) members: Vec<u32>,
    /// Who of them works.
    pub(crate) group: Recommended,
    /// What happened up to the last commit.
    pub(crate) events: Events,
    /// Steps that are done.
    pub(crate) done: u64,
    /// Steps that have begun here.
    pub(crate) begun: u64,
    /// The sum over all keys of the input.
    pub(crate) input: u64,
    /// Which files have the lists of the last commit.
    pub(crate) made: Made,
    /// All ranks know of each other where they are.
    pub(crate) joined: bool,
    /// When the clock of this repetition began.
    pub(crate) began: Option<Instant>,
    /// Why this rank cannot go on.
    pub(crate) trouble: Cell<Option<String>>,
}

/// Sorts on the ranks of the world, whatever happens to them. Every rank calls it; a replacement
/// joins in where the others are.
///
/// # Errors
/// [`SortError`], on all ranks that live; the world can still be left in order.
pub fn sort<K: Key>(
    mut world: World,
    options: &Options,
    hooks: Hooks<'_>,
) -> (World, Result<Sorted, SortError>) {
    let ranks = world.size();
    let mut sort = match Sort::<K>::new(&world, options, hooks) {
        Ok(sort) => sort,
        Err(error) => return (world, Err(error)),
    };
    let (policy, mut end) = (sort.witness.policy(), None);
    let ended = world.run(&policy, &mut sort, |step, sort| {
        end = sort.step(step)?;
        Ok(if end.is_none() { Flow::Continue } else { Flow::Done })
    });
    let Sort { witness, sorter, files, events, group, trouble, .. } = sort;
    let _ = witness.end(&world);
    let times = sorter.times;
    let result = match (ended, end) {
        (Ok(Ended::Done(comm)), Some(summary)) => {
            let first = comm.rank() == Rank::new(0);
            let (events, group) = (Some(events), Some(group.levels().clone()));
            Ok(Sorted { ranks, first, summary, times, events, group, files })
        }
        (Ok(Ended::Done(_)), None) => unreachable!("the last step is the one that has an end"),
        (Ok(Ended::Escalated { comm, report, .. }), _) => {
            let objects = |code| matches!(code, FaultCode::Application(_));
            let first =
                report.faults().iter().filter(|it| objects(it.code)).map(|it| it.rank).min();
            Err(SortError::Trouble(trouble.take().filter(|_| first == Some(comm.rank()))))
        }
        (Err(error), _) => Err(error.into()),
    };
    (world, result)
}

/// What becomes of ranks that fail tests.
const fn slow(options: &Options) -> Slow {
    match (options.membership, options.rejoin) {
        (Members::Failures, _) => Slow::Stay,
        (Members::Tests, false) => Slow::Leave,
        (Members::Tests, true) if options.probation => Slow::Probation,
        (Members::Tests, true) => Slow::Return,
    }
}

impl<K: Key> fampi::State for Sort<'_, '_, K> {
    fn interval(&self) -> Interval {
        Interval::Never
    }

    fn begin(&mut self, _: &mut TryBlock) -> Result<(), Error> {
        self.joined = false;
        Ok(())
    }

    fn protect(&self, _: &mut TryBlock) -> Result<(), Error> {
        Ok(())
    }

    fn restore(&mut self, _: &mut TryBlock) -> Result<(), Error> {
        self.joined = false;
        Ok(())
    }
}

impl<'a, 'h, K: Key> Sort<'a, 'h, K> {
    fn new(world: &World, options: &'a Options, hooks: Hooks<'h>) -> Result<Self, SortError>
    where
        'h: 'a,
    {
        let way = options.way(world.size())?;
        let stages = Stages { rounds: way.rounds(), repeat: options.repeat };
        let folder = options.folder.as_deref().filter(|_| options.store == Store::Files);
        Ok(Self {
            options,
            witness: Witness::new(world, &options.faults, hooks.die),
            hooks,
            stages,
            sorter: Sorter::new(world.origin(), way, options.keys.clone()),
            copies: Copies::default(),
            files: folder.map(Files::new),
            members: (0..world.size()).collect(),
            group: world.recommended(slow(options)),
            events: Events::default(),
            done: 0,
            begun: 0,
            input: 0,
            made: Made { epoch: 0, step: 0 },
            joined: false,
            began: None,
            trouble: Cell::new(None),
        })
    }

    /// A step, or the end.
    fn step(&mut self, step: &mut Step<'_>) -> Result<Option<Summary>, Error> {
        if !self.joined {
            self.join(step)?;
        }
        let stage = self.stages.after(self.done);
        (self.hooks.watch)(stage);
        self.begun = self.done + 1;
        match stage {
            Stage::Keys => self.make_keys(step)?,
            Stage::Local => self.sort_local(step)?,
            Stage::Round(round) => self.round(step, round)?,
            Stage::End => return self.summarize(step).map(Some),
        }
        Ok(None)
    }

    fn make_keys(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        let (mut job, mut is_made) = (0, false);
        if let Some(files) = &self.files {
            let failed = |error| format!("the folder with lists cannot be made: {error}");
            let made = files.make_folder();
            is_made =
                made.map_err(|error| self.object(&SortError::Trouble(Some(failed(error)))))?;
            if self.members.first() == Some(&self.sorter.me) {
                job = files.job_or_new();
            }
        }
        for part in self.sorter.mine() {
            let made = self.sorter.make(part);
            made.map_err(|error| self.object(&SortError::unreadable(&self.sorter.keys, &error)))?;
        }
        self.sorter.table.fill_with(Row::default);
        let sum = self.sorter.sum()?;
        let own = [sum, job, u64::from(is_made)];
        let ([input, job, makers], _) = step.commit_allreduce(own, ReduceOp::Sum)?;
        self.input = input;
        if let Some(files) = &mut self.files {
            files.begin(job, makers > 0);
        }
        self.done += 1;
        self.began = Some(Instant::now());
        self.end_clock();
        Ok(())
    }

    fn sort_local(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        let mut passing = self.witness.passing(self.stages.repetition(self.done));
        let mut net = InBlock::new(step, self.sorter.me, &self.members);
        self.sorter.sort_local(&mut net, &mut passing)?;
        self.commit(step)?;
        self.end_clock();
        Ok(())
    }

    fn round(&mut self, step: &mut Step<'_>, round: u32) -> Result<(), Error> {
        let number = self.stages.round(self.done, round);
        let mut passing = self.witness.passing(number);
        let mut net = InBlock::new(step, self.sorter.me, &self.members);
        self.sorter.round(&mut net, round, &mut passing)?;
        // Shortly before the commit, or ζ good tests could clear it by then; with `store=files` it
        // also writes its list late.
        let slowness = self.options.slowness(self.sorter.me, number);
        if !slowness.is_zero() {
            (self.hooks.pause)(slowness);
        }
        let began = Instant::now();
        match self.options.store {
            Store::Lineage => passing(kill_plan::STORE),
            Store::Copies => {
                let table = self.sorter.next_table();
                self.copies.exchange(step, &self.members, &self.sorter, table)?;
                passing(kill_plan::STORE);
            }
            Store::Files => self.write_files(&mut passing)?,
        }
        self.sorter.times.store += began.elapsed();
        passing(Phase::FINISH);
        self.commit(step)?;
        passing(Phase::UPDATE);
        self.end_clock();
        Ok(())
    }

    fn write_files(&mut self, passing: &mut dyn FnMut(Phase)) -> Result<(), Error> {
        let made = Made { epoch: self.events.epoch, step: self.begun };
        let Some(files) = &mut self.files else { unreachable!("there is a folder for them") };
        let mut written = Ok(());
        for (part, list) in self.sorter.next_lists() {
            let keys = &list.read()?[..list.len()];
            written = written.and_then(|()| files.write(made, part, keys));
            passing(kill_plan::STORE);
        }
        let failed = |error| format!("the list of a part cannot be written: {error}");
        written.map_err(|error| self.object(&SortError::Trouble(Some(failed(error)))))
    }

    /// Ends a step: what it made counts.
    fn commit(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        let began = Instant::now();
        let (news, finished) = match self.options.membership {
            Members::Failures => (0, step.commit()?),
            Members::Tests => {
                let own = self.group.news(step.comm());
                let ([news], finished) = step.commit_allreduce([own], ReduceOp::Or)?;
                (news, finished)
            }
        };
        self.sorter.times.commits += began.elapsed();
        self.sorter.accept();
        self.copies.accept(&finished)?;
        self.made = Made { epoch: self.events.epoch, step: self.begun };
        self.done = self.begun;
        // Then all tell each other what it is, before the next step.
        self.joined = news == 0;
        if let Some(files) = &mut self.files {
            files.accept();
        }
        Ok(())
    }

    /// Stops the clock if the last step of a repetition is done.
    fn end_clock(&mut self) {
        let over = matches!(self.stages.after(self.done), Stage::Keys | Stage::End);
        if let Some(began) = self.began.take_if(|_| over) {
            self.sorter.times.total += began.elapsed();
        }
    }

    fn summarize(&mut self, step: &mut Step<'_>) -> Result<Summary, Error> {
        let mut net = InBlock::new(step, self.sorter.me, &self.members);
        let summary = verify::summarize(&mut net, &self.sorter, self.input)?;
        if let Some(path) = self.options.output.as_deref().filter(|_| summary.wrong.is_none()) {
            let written = output::write(&mut net, path, &self.sorter)?;
            written.map_err(|error| self.object(&SortError::unwritable(path, &error)))?;
        }
        Ok(summary)
    }

    /// Notes why this rank cannot go on; the error tells the others that it cannot.
    pub(crate) fn object(&self, why: &SortError) -> Error {
        self.trouble.set(Some(why.to_string()));
        Error::Raised(TROUBLE)
    }
}
