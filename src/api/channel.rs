//! Persistent messages: a buffer and an envelope that are started in one block after the other.
//!
//! MPI fixes the communicator and the tag of a persistent request for ever (`MPI_Send_init`, MPI
//! 4.1 §3.9). Here both differ from block to block: the tag on the wire carries the block's number,
//! and the communicator is another one after an abort, so that nothing of an aborted attempt is met
//! by the next. So a channel keeps what the application fixes, the buffer, the rank and the tag,
//! and each start is an `MPI_Isend` or `MPI_Irecv`. What `MPI_Start` would save beside is the check
//! of the arguments; what it saves an application, allocations and copies, a channel saves as well.

use super::{Array, RequestId, Source, Tag, TagSelector, TryBlock};
use crate::{error::Error, native::Element, rank::Rank};

/// A message that is sent, or received, in many blocks (`MPI_Send_init`, `MPI_Recv_init`). It keeps
/// its buffer between them, and is started with [`TryBlock::start`], without an allocation.
///
/// It belongs to no communicator: the rank is one of the block's, so a channel lives on after a
/// rebuild, which keeps ranks. Sections of an [`Array`] are as persistent, by themselves.
///
/// ```
/// # use fampi::{Channel, Error, Level, Rank, Tag, Timeout, sim::Simulation};
/// # let report = Simulation::new(2).run_world(|world| -> Result<u32, Error> {
/// # let other = Rank::new(1 - world.rank().number());
/// let mut sent = Channel::send_init(vec![world.rank().number()], other, Tag(0));
/// let mut received = Channel::recv_init(vec![0], other, Tag(0));
/// for _ in 0..10 {
///     let mut block = world.start(Level::Global)?;
///     block.start(&mut received)?;
///     block.start(&mut sent)?;
///     let _ = block.finish(Timeout::Never).wait_local(Timeout::Never)?;
///     sent.elements_mut()?[0] += received.elements_mut()?[0];
/// }
/// # world.finalize();
/// # Ok(sent.elements_mut()?[0])
/// # });
/// # assert!(report.expect_orderly().iter().all(|sum| *sum == Ok(512)));
/// ```
#[derive(Debug)]
pub struct Channel<T> {
    buffer: Array<T, 1>,
    way: Way,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Send { to: Rank, tag: Tag, synchronous: bool },
    Receive { from: Source, tag: TagSelector },
}

impl<T: Element> Channel<T> {
    /// A buffer to be sent again and again (`MPI_Send_init`).
    pub fn send_init(buffer: Vec<T>, to: Rank, tag: Tag) -> Self {
        Self::new(buffer, Way::Send { to, tag, synchronous: false })
    }

    /// A buffer to be sent again and again, each time complete only when its receive has started
    /// (`MPI_Ssend_init`).
    pub fn ssend_init(buffer: Vec<T>, to: Rank, tag: Tag) -> Self {
        Self::new(buffer, Way::Send { to, tag, synchronous: true })
    }

    /// A buffer to be received into again and again (`MPI_Recv_init`).
    pub fn recv_init(buffer: Vec<T>, from: impl Into<Source>, tag: impl Into<TagSelector>) -> Self {
        Self::new(buffer, Way::Receive { from: from.into(), tag: tag.into() })
    }

    fn new(buffer: Vec<T>, way: Way) -> Self {
        let shape = [buffer.len()];
        Self { buffer: Array::new(shape, buffer).expect("the shape is its length"), way }
    }

    /// The buffer between two starts.
    ///
    /// # Errors
    ///
    /// [`Error::ArrayInUse`] when the last start is not over, or never completed, so that MPI may
    /// still use the buffer: then make another channel.
    pub fn elements_mut(&mut self) -> Result<&mut [T], Error> {
        self.buffer.elements_mut()
    }

    /// The buffer, whose channel ends.
    ///
    /// # Errors
    ///
    /// The channel itself when [`Self::elements_mut`] would fail.
    pub fn into_vec(self) -> Result<Vec<T>, Self> {
        let Self { buffer, way } = self;
        buffer.into_vec().map_err(|buffer| Self { buffer, way })
    }
}

impl TryBlock {
    /// Starts a channel (`MPI_Start`), at most once at a time. Its buffer is back when the request
    /// is over; [`Self::take`] is not for it.
    ///
    /// # Errors
    ///
    /// [`Error::ArrayInUse`] when its last start is not over; [`Error::NoSuchRank`],
    /// [`Error::TagTooLarge`]. Everything else is a fault of the request.
    pub fn start<T: Element>(&mut self, channel: &mut Channel<T>) -> Result<RequestId, Error> {
        let all = 0..channel.elements_mut()?.len();
        match channel.way {
            Way::Send { to, tag, synchronous } => {
                self.send_part(&channel.buffer, [all], (to, tag), synchronous)
            }
            Way::Receive { from, tag } => self.irecv_section(&channel.buffer, [all], from, tag),
        }
    }
}
