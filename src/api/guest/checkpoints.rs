//! Checkpoints of a program that goes through its steps itself.

use super::{Guest, GuestBlock};
use crate::{
    api::Checkpoints,
    engine::{BlockKey, Engine, Saving},
    error::Error,
    fault::FaultCode,
    rank::Rank,
    recovery::filing::{Begun, Filing, Told, most},
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
        let Self { engine, filing, saved, .. } = self;
        let key = block.0;
        let mine = Told::of(filing.as_mut(), &engine.job).with_states(engine.has_states(key));
        let told = Told::from_words(most(engine, key, mine.words())?).lost_if_nowhere();
        engine.job.lost = told.loss();
        let is_saved = told.loss().is_some() || (told.restarts() && !told.has_states());
        let begun = if let Some(refusal) = told.refusal(filing.as_ref()) {
            Begun::Refused(refusal)
        } else if is_saved {
            begin(filing.as_mut(), engine, key, told, resizes)?
        } else {
            know(engine, key, told, 0);
            return Ok(if told.has_states() { States::InMemory } else { States::Nowhere });
        };
        let (set, ranks) = match begun {
            Begun::Loaded(set) => (set, place_in(engine, key).1),
            Begun::Resized(reader) => {
                let (set, ranks) = (reader.set, reader.ranks);
                *saved = Some(reader);
                (set, ranks)
            }
            Begun::Refused(refusal) => {
                know(engine, key, told, 0);
                let Some((rank, partner)) = told.loss() else {
                    let off = Saving { is_off: true, ..engine.job.saving.clone() };
                    engine.will_know(key, off);
                    return Err(refusal);
                };
                return Err(Error::StateLost { rank, partner });
            }
        };
        know(engine, key, told, set.protected);
        Ok(States::Saved(set.protected.saturating_sub(1), ranks))
    }

    /// Saves the states that are valid on the communicator of a block, if so many steps make that
    /// due; true when all ranks have saved theirs. All ranks call it with the same number. Without
    /// checkpoints nothing happens.
    ///
    /// # Errors
    ///
    /// As [`Self::restore`]; [`Error::NotComplete`] before [`Self::restart`] was in a block that is
    /// committed, after which this process has left the block.
    pub fn checkpoint(&mut self, block: GuestBlock, step: u64) -> Result<bool, Error> {
        self.settled_before(block)?;
        let Self { engine, filing, .. } = self;
        let (key, own) = (block.0, &engine.job.saving);
        if own.launch == 0 && !own.is_off {
            // Others may know, and wait for what this process has.
            engine.leave_block(key, FaultCode::LeftBlock);
            return Err(Error::NotComplete);
        }
        let protected = step.saturating_add(1);
        let Some(filing) = filing.as_mut().filter(|it| it.is_due(own, protected)) else {
            return Ok(false);
        };
        filing.save(engine, key, place_in(engine, key), protected)
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
        reader.state::<u8>(filing, rank, number).map(Vec::as_slice)
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
    let place = filing.as_ref().map(|it| it.place()).unwrap_or_default();
    let none = Begun::Refused(Error::NoCheckpoint { place, ranks: part.1 });
    let filing = filing.filter(|_| told.all_have_some());
    filing.map_or(Ok(none), |filing| filing.begin(engine, block, part, told, resizes))
}

/// This rank, and how many there are.
fn place_in(engine: &Engine, block: BlockKey) -> (u32, u32) {
    let comm = engine.comm(engine.block(block).comm);
    (comm.me.number(), comm.size())
}

/// What this process knows from the commit on, with so many steps protected.
fn know(engine: &mut Engine, block: BlockKey, told: Told, protected: u64) {
    let saving = told.saving(&engine.job.saving, protected, engine.platform.now());
    engine.will_know(block, saving);
}
