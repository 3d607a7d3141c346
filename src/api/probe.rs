//! Matched probe: messages whose length is not known before they are there.

use core::marker::PhantomData;

use super::{Request, RequestId, Source, Status, TagSelector, TryBlock};
use crate::{
    engine::BlockKey,
    error::Error,
    native::Element,
    rank::Rank,
    seam::{buffer::AnyBuffer, platform::MessageId},
    timeout::Timeout,
};

/// A message that a probe has matched: no receive and no other probe finds it any more. It is
/// received with [`TryBlock::imrecv`], in its block; otherwise it is dropped with the block's end,
/// and its sender completes as if it had been received.
#[derive(Debug)]
#[must_use = "a matched message that is not received is dropped with the end of its block"]
pub struct Message<T> {
    block: BlockKey,
    id: MessageId,
    from: Rank,
    status: Status,
    element: PhantomData<fn() -> T>,
}

impl<T> Message<T> {
    /// Its sender, its tag, and how many elements it has.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Number of elements, which is the length of the buffer that receives it.
    pub fn elements(&self) -> usize {
        self.status.elements
    }
}

impl TryBlock {
    /// Looks for a message (`MPI_Improbe`, MPI 4.1 §3.8.2); `None` when there is none yet.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`], [`Error::TagTooLarge`]; [`Error::Request`] when the sender is dead
    /// or the block is doomed, which makes the block faulty.
    pub fn improbe<T: Element>(
        &mut self,
        from: impl Into<Source>,
        tag: impl Into<TagSelector>,
    ) -> Result<Option<Message<T>>, Error> {
        match self.mprobe_local(from, tag, Timeout::Poll) {
            Ok(message) => Ok(Some(message)),
            Err(Error::WaitTimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for a message (`MPI_Mprobe`).
    ///
    /// # Errors
    ///
    /// As [`Self::improbe`], and [`Error::WaitTimedOut`] when there is none yet.
    pub fn mprobe_local<T: Element>(
        &mut self,
        from: impl Into<Source>,
        tag: impl Into<TagSelector>,
        timeout: Timeout,
    ) -> Result<Message<T>, Error> {
        let envelope = self.envelope(from.into(), tag.into())?;
        let mut engine = self.engine().borrow_mut();
        let mut like = Vec::<T>::new();
        let found = engine.probe(self.key, envelope, &mut like, timeout);
        let (id, status) = found.map_err(Error::Request)?.ok_or(Error::WaitTimedOut)?;
        let from = status.source.or(envelope.0).ok_or(Error::NoSuchRequest)?;
        let status = Status::of(&engine, status);
        Ok(Message { block: self.key, id, from, status, element: PhantomData })
    }

    /// Receives a matched message (`MPI_Imrecv`, MPI 4.1 §3.8.3) into a buffer that is at least as
    /// long as the message; one that is shorter is a fault of the request.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRequest`] when the message was matched in another block.
    // A message is taken by value so that it is received once.
    #[allow(clippy::needless_pass_by_value)]
    pub fn imrecv<T: Element>(
        &mut self,
        buffer: Vec<T>,
        message: Message<T>,
    ) -> Result<Request<T>, Error> {
        let Message { block, id, from, .. } = message;
        if block != self.key {
            return Err(Error::NoSuchRequest);
        }
        let index =
            self.engine().borrow_mut().post_matched(block, (id, from), AnyBuffer::of(buffer));
        Ok(Request::of(RequestId { block, index }))
    }
}
