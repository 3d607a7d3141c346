//! Communicators that are made inside of blocks: requests whose end is that of a recovery.
//!
//! What makes one takes steps, each with a commit of its own, so no death holds it up for ever. It
//! goes on in every wait of this process, and a failure of it is a fault of the block. A block may
//! give it up, because it is interrupted or the request is late; it goes on all the same, and the
//! application takes it to its end, as the others go on with it, too.

use alloc::boxed::Box;

use super::{BlockKey, CommKey, Engine, Need};
use crate::{
    error::Error,
    fault::FaultCode,
    protocol::process::Block,
    seam::platform::{Progress, Status},
};

/// The work that makes a communicator.
pub(crate) trait Making {
    /// Goes on as far as possible. The result, when there is one, is of the same kind on all living
    /// ranks; without a communicator where this rank gets none.
    fn advance(&mut self, engine: &mut Engine) -> Option<Result<Option<CommKey>, Error>>;

    /// The block whose verdict the next step waits for, if it is for one.
    fn awaits(&self) -> Option<BlockKey>;
}

/// A communicator that is made in a block, which counts as a handle of it.
pub(crate) enum Made {
    /// It is in the making.
    Pending(Box<dyn Making>),
    /// What has come of it.
    Over(Result<Option<CommKey>, Error>),
    /// The application, or a step that is being taken, has it.
    Taken,
}

impl Engine {
    /// Adds a communicator in the making as the next request of a block; its index.
    pub(crate) fn add_making(&mut self, key: BlockKey, made: Made) -> usize {
        let pending = matches!(made, Made::Pending(_));
        self.hold(&made);
        let contents = self.contents_mut(key);
        let index = contents.records.len();
        let record = contents.records.add(Need::Making);
        if !pending {
            record.state = Progress::Complete(Status::default());
        }
        contents.made.push((index, Box::new(made)));
        if pending {
            self.blocks.making.push((key, index));
        }
        index
    }

    /// Adds one that the application itself takes to its end, or that has failed, as the next
    /// request of a block.
    pub(crate) fn adopt_making(&mut self, key: BlockKey, failed: bool) {
        let record = self.contents_mut(key).records.add(Need::Making);
        if failed {
            record.state = Progress::Failed(FaultCode::CreationFailed);
        }
    }

    /// The application says what came of one that it takes to its end, which counts if the block
    /// still waits for it.
    pub(crate) fn end_adopted_making(&mut self, key: BlockKey, index: usize, made: bool) {
        if self.process.current(key).is_some_and(Block::is_running) {
            self.end_making(key, index, made);
        }
    }

    /// Goes on with all communicators that are made in blocks.
    #[cold]
    pub(super) fn advance_makings(&mut self) {
        for (key, index) in core::mem::take(&mut self.blocks.making) {
            // A block that ends early waits for the others all the same, who may be in a call of
            // MPI that needs this process.
            if self.process.current(key).is_none() {
                continue;
            }
            let Made::Pending(mut making) = self.take_made(key, index) else { continue };
            let result = making.advance(self);
            let is_over = result.as_ref().map(Result::is_ok);
            let made = result.map_or(Made::Pending(making), Made::Over);
            self.hold(&made);
            if let Some(place) = self.made_mut(key, index) {
                *place = made;
            }
            match is_over {
                Some(made) => self.end_making(key, index, made),
                None => self.blocks.making.push((key, index)),
            }
        }
    }

    fn hold(&mut self, made: &Made) {
        if let Made::Over(Ok(Some(comm))) = made {
            self.comm_mut(*comm).handles += 1;
        }
    }

    fn end_making(&mut self, key: BlockKey, index: usize, made: bool) {
        let record = &mut self.contents_mut(key).records[index];
        if !record.is_over() {
            record.state = if made {
                Progress::Complete(Status::default())
            } else {
                Progress::Failed(FaultCode::CreationFailed)
            };
            self.after_failure(key, index);
        }
    }

    fn made_mut(&mut self, key: BlockKey, index: usize) -> Option<&mut Made> {
        let made = &mut self.contents_mut(key).made;
        let made = made.iter_mut().find(|(known, _)| *known == index);
        made.and_then(|(_, made)| made.downcast_mut())
    }

    /// Takes what was made, with its handle, or is in the making, out of a block.
    pub(crate) fn take_made(&mut self, key: BlockKey, index: usize) -> Made {
        self.made_mut(key, index).map_or(Made::Taken, |made| core::mem::replace(made, Made::Taken))
    }

    /// Gives up communicators that were made in a block and that the application has not taken.
    #[cold]
    pub(super) fn drop_made(&mut self, key: BlockKey) {
        for (_, made) in core::mem::take(&mut self.blocks.at_mut(key).made) {
            let Some(Made::Over(Ok(Some(comm)))) = made.downcast_ref() else { continue };
            let comm = *comm;
            let is_last = self.comm(comm).handles == 1 && !self.process.has_left();
            if is_last && !self.is_kept(comm) {
                self.drop_comm(comm);
            }
            self.release_comm(comm);
        }
    }
}
