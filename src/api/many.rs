//! Many messages at once: one call posts them all, and one takes all their buffers back.

use core::{marker::PhantomData, mem};

use super::{Finished, Request, RequestId, Tag, TryBlock, request};
use crate::{
    engine::{BlockKey, Engine},
    error::Error,
    native::Element,
    rank::Rank,
    seam::platform::Way,
};

/// The requests of messages that were posted together, in their order.
#[derive(Debug)]
pub struct Requests<T> {
    block: BlockKey,
    first: usize,
    count: usize,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Requests<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Requests<T> {}

impl<T> Requests<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// That of the message at this position.
    pub fn get(&self, at: usize) -> Option<Request<T>> {
        let (block, first) = (self.block, self.first);
        (at < self.count).then(|| Request::of(RequestId { block, index: first + at }))
    }

    /// Each of them, for the waits inside of a block.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Request<T>> + use<T> {
        let (block, first) = (self.block, self.first);
        (0..self.count).map(move |at| Request::of(RequestId { block, index: first + at }))
    }
}

impl TryBlock {
    /// Sends many buffers, each to its rank, with its tag: what [`Self::isend`] does for one of
    /// them, in their order, with less work for each beside MPI. Empty vectors stay in their places
    /// until [`Finished::take_all`] brings the buffers back, so the same list serves block after
    /// block. After a faulty block, too, bring them back before you post the list again: what is
    /// left empty would be a message without elements.
    ///
    /// ```
    /// # use fampi::{Error, Level, Outcome, Rank, Tag, Timeout, sim::Simulation};
    /// # let report = Simulation::new(3).run_world(|world| -> Result<u64, Error> {
    /// # let me = world.rank().number();
    /// let others: Vec<u32> = (0..world.size()).filter(|rank| *rank != me).collect();
    /// let all = |value| others.iter().map(move |rank| (vec![value; 4], Rank::new(*rank), Tag(0)));
    /// let mut sent: Vec<_> = all(u64::from(me)).collect();
    /// let mut received: Vec<_> = all(0).collect();
    /// for _ in 0..10 {
    ///     let mut block = world.start(Level::Global)?;
    ///     let coming = block.irecv_all(&mut received)?;
    ///     let going = block.isend_all(&mut sent)?;
    ///     match block.finish(Timeout::Never).wait_local(Timeout::Never)? {
    ///         Outcome::Committed(finished) => {
    ///             finished.take_all(coming, &mut received)?;
    ///             finished.take_all(going, &mut sent)?;
    ///         }
    ///         Outcome::Faulty(_) | Outcome::TimedOut(_) => break,
    ///     }
    /// }
    /// # world.finalize();
    /// # Ok(received.iter().map(|(buffer, ..)| buffer[3]).sum())
    /// # });
    /// # let sums = report.expect_orderly();
    /// # assert!(sums.iter().enumerate().all(|(me, sum)| *sum == Ok(3 - me as u64)));
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`], [`Error::TagTooLarge`], [`Error::TooManyOpen`], upon which none is
    /// sent and the list is as it was. Everything else is a fault of its request.
    pub fn isend_all<T: Element>(
        &mut self,
        messages: &mut [(Vec<T>, Rank, Tag)],
    ) -> Result<Requests<T>, Error> {
        self.post_all(Way::Send { synchronous: false }, messages)
    }

    /// Receives into many buffers, each from its rank, with its tag: what [`Self::irecv`] does for
    /// one of them, in their order, as [`Self::isend_all`].
    ///
    /// # Errors
    ///
    /// As [`Self::isend_all`].
    pub fn irecv_all<T: Element>(
        &mut self,
        messages: &mut [(Vec<T>, Rank, Tag)],
    ) -> Result<Requests<T>, Error> {
        self.post_all(Way::Receive, messages)
    }

    fn post_all<T: Element>(
        &mut self,
        way: Way,
        messages: &mut [(Vec<T>, Rank, Tag)],
    ) -> Result<Requests<T>, Error> {
        let mut engine = self.engine().borrow_mut();
        let greatest = |(peer, tag): (Rank, Tag), (_, other_peer, other_tag): &(_, _, _)| {
            (peer.max(*other_peer), tag.max(*other_tag))
        };
        let (peer, tag) = messages.iter().fold((Rank::new(0), Tag(0)), greatest);
        engine.blocks.member(self.key, peer)?;
        tag.checked()?;
        engine.require_own_tags(self.key)?;
        let first = engine.contents(self.key).records.len();
        engine.post_messages(self.key, way, messages, |(buffer, peer, tag)| {
            (mem::take(buffer), *peer, tag.0)
        });
        let count = messages.len();
        Ok(Requests { block: self.key, first, count, element: PhantomData })
    }

    /// Brings the buffers of messages back before the block's end, as [`Self::take`] does for one.
    ///
    /// # Errors
    ///
    /// As [`Finished::take_all`], and [`Error::NotComplete`].
    pub fn take_all<T: Element>(
        &mut self,
        requests: Requests<T>,
        messages: &mut [(Vec<T>, Rank, Tag)],
    ) -> Result<(), Error> {
        take_all(&mut self.engine().borrow_mut(), self.key, requests, messages)
    }
}

impl Finished {
    /// Brings the buffers of messages back to where they were, as [`Self::take`] does for one.
    ///
    /// # Errors
    ///
    /// As [`Self::take`]; of several errors the first. What can be taken is in its place all the
    /// same; it is [`Error::NoSuchRequest`] when the list is not as long as that of the requests.
    pub fn take_all<T: Element>(
        &self,
        requests: Requests<T>,
        messages: &mut [(Vec<T>, Rank, Tag)],
    ) -> Result<(), Error> {
        take_all(&mut self.engine.borrow_mut(), self.key, requests, messages)
    }
}

fn take_all<T: Element>(
    engine: &mut Engine,
    key: BlockKey,
    Requests { block, first, count, .. }: Requests<T>,
    messages: &mut [(Vec<T>, Rank, Tag)],
) -> Result<(), Error> {
    if block != key || count != messages.len() {
        return Err(Error::NoSuchRequest);
    }
    let (mut at, mut result) = (0, Ok(()));
    while at < count {
        let buffers = messages[at..].iter_mut().map(|(buffer, ..)| buffer);
        at += engine.contents_mut(key).records.take_many(first + at, buffers);
        if let Some((buffer, ..)) = messages.get_mut(at) {
            match request::fetch(engine, key, first + at) {
                Ok(taken) => *buffer = taken,
                Err(error) => result = result.and(Err(error)),
            }
            at += 1;
        }
    }
    result
}
