//! Checkpoints of a program that goes through its steps itself.

use super::{Guest, GuestBlock};
use crate::{
    api::Checkpoints,
    engine::{BlockKey, Engine, Saving},
    error::Error,
    fault::FaultCode,
    rank::Rank,
    recovery::{
        filing::{Begun, Filing},
        told::{Course, Told, most},
    },
};

/// Where the states are that ranks go on from; alike on all ranks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum States {
    /// Nowhere: all begin.
    Nowhere,
    /// In the memory of ranks.
    InMemory,
    /// In a checkpoint: so many steps lead to it, and so many ranks have saved it. If these are as
    /// many as there are, [`Guest::restore`] gives each its state; otherwise [`Guest::saved`] gives
    /// any.
    Saved(u64, u32),
}

impl Guest {
    /// Where states are saved from now on, if they are.
    pub fn set_checkpoints(&mut self, checkpoints: Option<Checkpoints>) {
        self.filing = checkpoints.map(|it| Filing::of(it.0, &mut self.engine.job));
        self.saved = None;
    }

    /// The first call of a block in which ranks bring back their states, or begin: where these are.
    /// All ranks tell each other what they have, and what they know of checkpoints. They go on from
    /// the newest where the job is to do so and nothing is protected yet, and where a state is lost
    /// to all; of one of another number of ranks only if `resizes` is true.
    ///
    /// # Errors
    ///
    /// As [`Self::restore`]; alike on all ranks [`Error::CheckpointsExist`] and
    /// [`Error::NoCheckpoint`], from which on this job saves nothing, and [`Error::StateLost`]
    /// where there is no checkpoint with what was lost.
    pub fn restart(&mut self, block: GuestBlock, resizes: bool) -> Result<States, Error> {
        self.settled_before(block)?;
        self.restarted = Some(block);
        self.saved = None;
        let Self { engine, filing, saved, .. } = self;
        let (key, part) = (block.0, place_in(engine, block.0));
        let mine = Filing::tell(filing.as_mut(), &engine.job).with_states(engine.has_states(key));
        let told = Told::from_words(most(engine, key, mine.words())?).lost_if_nowhere();
        Filing::hear(filing.as_ref(), told);
        (engine.job.lost, engine.job.brings_back) = (told.loss(), part.1);
        let (own, now) = (engine.job.saving.clone(), engine.platform.now());
        let known = |protected: u64| Saving { ranks: part.1, ..told.saving(&own, protected, now) };
        let begun = match told.course(&Filing::place_of(filing.as_ref())) {
            Course::Refused(refusal) => Begun::Refused(refusal),
            Course::Files => begin(filing.as_mut(), engine, key, told, resizes)?,
            Course::Memory => {
                engine.will_know(key, known(0));
                return Ok(States::InMemory);
            }
            Course::Begin => {
                engine.will_know(key, told.anew(known(0), now));
                return Ok(States::Nowhere);
            }
        };
        let (set, ranks, begins) = match begun {
            Begun::Loaded(set) => {
                engine.job.copies.make_bytes();
                (set, part.1, false)
            }
            Begun::Resized(reader) => {
                let found = (reader.set, reader.ranks, true);
                *saved = Some(reader);
                found
            }
            Begun::Refused(refusal) => {
                let is_none = matches!(refusal, Error::NoCheckpoint { .. });
                let lost = told.loss().filter(|_| is_none);
                let off = Saving { is_off: true, ranks: part.1, ..own.clone() };
                let known = if lost.is_some() { told.anew(known(0), now) } else { off };
                engine.will_know(key, known);
                let lost = lost.map(|(rank, partner)| Error::StateLost { rank, partner });
                return Err(lost.unwrap_or(refusal));
            }
        };
        engine.will_know(key, Saving { begins, ..known(set.protected) });
        Ok(States::Saved(set.protected.saturating_sub(1), ranks))
    }

    /// Saves the states that are valid on the communicator of a block, if so many steps make that
    /// due; true when all ranks have saved theirs. All ranks call it with the same number.
    ///
    /// # Errors
    ///
    /// As [`Self::restore`]; [`Error::NotComplete`] before [`Self::restart`] was in a block that is
    /// committed, and on a communicator of another number of ranks than it was on, after which this
    /// process has left the block.
    pub fn checkpoint(&mut self, block: GuestBlock, step: u64) -> Result<bool, Error> {
        self.settled_before(block)?;
        if self.restarted == Some(block) {
            // What they have told each other there counts with its commit.
            return Ok(false);
        }
        let Self { engine, filing, .. } = self;
        let (key, part, own) = (block.0, place_in(engine, block.0), &engine.job.saving);
        let knows = own.ranks == part.1 && engine.job.lost.is_none();
        if !knows || (own.launch == 0 && !own.is_off) {
            // Others may know, and wait for what this process has.
            engine.leave_block(key, FaultCode::LeftBlock);
            return Err(Error::NotComplete);
        }
        let protected = step.saturating_add(1);
        let Some(filing) = filing.as_mut().filter(|it| it.is_due(own, protected)) else {
            return Ok(false);
        };
        filing.save(engine, key, part, protected)
    }

    /// The state with this number of one of the ranks of the checkpoint that [`Self::restart`] has
    /// found last, if that is of another number of ranks. Local.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`] when it is of none such, or has not this rank;
    /// [`Error::NothingProtected`] when it has no such state; [`Error::NoCheckpoint`] when the file
    /// cannot be read any more.
    pub fn saved(&mut self, rank: u32, number: u32) -> Result<&[u8], Error> {
        let Self { filing: Some(filing), saved: Some(reader), .. } = self else {
            return Err(Error::NoSuchRank { rank: Rank::new(rank), size: 0 });
        };
        if rank >= reader.ranks {
            return Err(Error::NoSuchRank { rank: Rank::new(rank), size: reader.ranks });
        }
        reader.bytes(filing, rank, number)
    }
}

/// What is there to go on from, if all have checkpoints.
fn begin(
    filing: Option<&mut Filing>,
    engine: &mut Engine,
    block: BlockKey,
    told: Told,
    resizes: bool,
) -> Result<Begun, Error> {
    let part = place_in(engine, block);
    let place = Filing::place_of(filing.as_deref());
    let none = Error::NoCheckpoint { place, ranks: part.1 };
    let Some(filing) = filing.filter(|_| told.all_have_some()) else {
        return Ok(Begun::Refused(none));
    };
    let begun = filing.begin(engine, block, part, told, resizes);
    if let Err(Error::NoCheckpoint { .. }) = begun {
        // It was there before: others have their parts, and would wait for this one.
        engine.leave_block(block, FaultCode::LeftBlock);
    }
    begun
}

/// This rank, and how many there are.
fn place_in(engine: &Engine, block: BlockKey) -> (u32, u32) {
    let comm = engine.comm(engine.block(block).comm);
    (comm.me.number(), comm.size())
}
