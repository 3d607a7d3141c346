//! States of an application that a run protects and restores.

use super::{Saved, TryBlock};
use crate::{
    error::Error,
    native::Element,
    recovery::{Redundancy, interval::Interval},
};

/// What a rank must not lose: how it is protected, and how it comes back.
///
/// All ranks call these in the same blocks, so each may also communicate. A `Vec` of numbers is a
/// state in slot 0, which forgets the dead after a shrink.
pub trait State {
    /// True when [`Self::inherit`] takes over the states of the dead: then ranks that die
    /// together with their partner end a run that wants to shrink with [`Error::StateLost`], if no
    /// checkpoint has what [`Self::resize`] can divide among the others, and
    /// those that die before the first commit with [`Error::NothingProtected`]. States that are not
    /// kept at partners cannot be taken over ([`Self::redundancy`]).
    const INHERITED: bool = false;

    /// True when [`Self::resize`] takes what a job with another number of ranks has saved.
    const RESIZES: bool = false;

    /// How many steps lie between two copies; asked once when a run begins, on all ranks alike. By
    /// default as many as is best for the measured cost of a copy and a failure an hour.
    fn interval(&self) -> Interval {
        Interval::default()
    }

    /// Where the state is kept beside its rank, and so which losses it survives; on all ranks
    /// alike. By default at a partner. For some slots [`Self::protect`] may say otherwise by
    /// [`TryBlock::set_redundancy`].
    fn redundancy(&self) -> Redundancy {
        Redundancy::default()
    }

    /// Called when the run begins, and when it begins anew since nothing is protected yet. The
    /// state is as the program has made it, or as steps that did not count have left it.
    ///
    /// By default it protects the state, so that this is the first copy. A state that can be made
    /// again from nothing is made here, and need not be protected before the first step is.
    ///
    /// # Errors
    ///
    /// As [`Self::protect`].
    fn begin(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.protect(block)
    }

    /// Protects the state in a block, by [`TryBlock::protect`] in any number of slots.
    ///
    /// # Errors
    ///
    /// Whatever it meets in the block; it becomes this rank's vote.
    fn protect(&self, block: &mut TryBlock) -> Result<(), Error>;

    /// Brings back what was protected, by [`TryBlock::restore`]. Before, the state is as a step
    /// that did not count has left it, or, on a replacement, as the program has made it.
    ///
    /// # Errors
    ///
    /// As [`Self::protect`].
    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error>;

    /// Called instead of [`Self::restore`] when a job goes on from a checkpoint of another number
    /// of ranks, as an N-to-M restart ([`Checkpoints::restart`](crate::Checkpoints::restart)) or
    /// after a shrink in which states were lost: makes the state of this rank of what any of those
    /// have saved. All ranks see their files. Then the state is protected. Only where
    /// [`Self::RESIZES`] is true; without that such a checkpoint is not taken.
    ///
    /// # Errors
    ///
    /// As [`Self::protect`].
    fn resize(&mut self, _block: &mut TryBlock, _saved: &mut Saved<'_>) -> Result<(), Error> {
        Err(Error::NothingProtected)
    }

    /// Called after a shrink and [`Self::restore`], on all ranks, to take over what
    /// [`TryBlock::inherit`] gives. Without it the states of the dead are dropped. Not where states
    /// were lost and come from a checkpoint: that has those of all ranks.
    ///
    /// # Errors
    ///
    /// As [`Self::protect`].
    fn inherit(&mut self, _block: &mut TryBlock) -> Result<(), Error> {
        Ok(())
    }
}

impl<T: Element + Default> State for Vec<T> {
    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        block.protect(0, self)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        *self = block.restore(0)?;
        Ok(())
    }
}

/// A list of numbers as a state whose length may change with each step.
///
/// ```
/// use fampi::{Flow, Growing, World, policy, sim::{Crash, Simulation}};
///
/// fn collect(mut world: World) -> Result<Vec<u64>, fampi::Error> {
///     let mut seen = Growing(Vec::new());
///     let ended = world.run(&policy::Rebuild::default(), &mut seen, |step, seen| {
///         seen.0.push(step.number());
///         Ok(if seen.0.len() < 9 { Flow::Continue } else { Flow::Done })
///     })?;
///     ended.done()?;
///     world.finalize();
///     Ok(seen.0)
/// }
///
/// let job = Simulation::new(3).crash(Crash::before_effect(1, 90)).run_world(collect);
/// assert!(job.expect_orderly().iter().all(|seen| *seen == Ok((0..9).collect())));
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Growing<T>(pub Vec<T>);

impl<T: Element + Default> State for Growing<T> {
    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        block.protect_any_length(0, &self.0)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.0 = block.restore(0)?;
        Ok(())
    }
}

/// Anything that serde can take apart as a state, with the feature `serde`: its bytes are copied.
///
/// # Panics
///
/// When the value cannot be written, or what was written cannot be read, which is a mistake in its
/// implementation of serde's traits.
#[cfg(feature = "serde")]
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Serde<S>(pub S);

#[cfg(feature = "serde")]
impl<S: serde::Serialize + serde::de::DeserializeOwned> State for Serde<S> {
    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        let bytes = postcard::to_allocvec(&self.0).expect("a state that serde can write");
        block.protect_any_length(0, &bytes)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        let bytes: Vec<u8> = block.restore(0)?;
        self.0 = postcard::from_bytes(&bytes).expect("what serde has written");
        Ok(())
    }
}
