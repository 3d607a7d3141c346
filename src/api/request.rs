//! Requests, and how messages are named.

use core::marker::PhantomData;

use crate::{
    engine::{BlockKey, Engine, contents::FIRST_COPY},
    error::Error,
    native::Element,
    rank::Rank,
    seam::platform,
};

/// The tag of a message, from 0 to [`Tag::MAX`]. Messages match within their block only.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tag(pub u32);

impl Tag {
    /// The greatest tag: 15 bits, which is what MPI promises, less those that partner copies,
    /// windows and operations among neighbours use.
    pub const MAX: Self = Self(FIRST_COPY - 1);

    #[inline]
    pub(super) fn checked(self) -> Result<u32, Error> {
        if self > Self::MAX {
            return Err(Error::TagTooLarge { tag: self.0, max: Self::MAX.0 });
        }
        Ok(self.0)
    }
}

/// Whom a receive listens to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// This rank.
    Rank(Rank),
    /// `MPI_ANY_SOURCE`. When any rank of the communicator dies, such a receive fails.
    Any,
}

impl Source {
    #[inline]
    pub(super) fn rank(self) -> Option<Rank> {
        match self {
            Self::Rank(rank) => Some(rank),
            Self::Any => None,
        }
    }
}

impl From<Rank> for Source {
    #[inline]
    fn from(rank: Rank) -> Self {
        Self::Rank(rank)
    }
}

/// Which tags a receive accepts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TagSelector {
    /// This tag.
    Tag(Tag),
    /// `MPI_ANY_TAG`. Such a receive may match a message of another block that is outstanding on
    /// the same communicator, but never one of an aborted attempt, nor of a collective over the
    /// living. It may also match a copy of [`super::TryBlock::protect`], or a message of an
    /// operation among neighbours, unless that is called before, and any message of an access to a
    /// window: do not use it in a block in which others use this rank's.
    Any,
}

impl TagSelector {
    #[inline]
    pub(super) fn checked(self) -> Result<Option<u32>, Error> {
        match self {
            Self::Tag(tag) => tag.checked().map(Some),
            Self::Any => Ok(None),
        }
    }
}

impl From<Tag> for TagSelector {
    #[inline]
    fn from(tag: Tag) -> Self {
        Self::Tag(tag)
    }
}

/// What a completed request tells (MPI 4.1 §3.2.5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status {
    /// The sender, for receives.
    pub source: Option<Rank>,
    /// The tag, for receives.
    pub tag: Tag,
    /// Number of elements that were received, or that the buffer has.
    pub elements: usize,
    /// The receive was ended by [`super::TryBlock::cancel`] before there was a message.
    pub cancelled: bool,
}

impl Status {
    /// The status of a request, with the user's own tag in it.
    pub(super) fn of(engine: &Engine, status: platform::Status) -> Self {
        let platform::Status { source, tag, elements, cancelled } = status;
        Self { source, tag: Tag(engine.blocks.user_tag(tag)), elements, cancelled }
    }
}

/// A request of a block, with the type of its buffer's elements. The buffer belongs to the
/// request until it is taken; see [`super::TryBlock::take`] and [`super::Finished::take`].
#[derive(Debug)]
pub struct Request<T> {
    pub(super) id: RequestId,
    pub(super) element: PhantomData<fn() -> T>,
}

impl<T> Request<T> {
    #[inline]
    pub(super) fn of(id: RequestId) -> Self {
        Self { id, element: PhantomData }
    }

    /// The request without its type.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// The position of the request in its block's list, as fault queries report it.
    pub fn index(&self) -> usize {
        self.id.index
    }
}

impl<T> Clone for Request<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Request<T> {}

impl<T> PartialEq for Request<T> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<T> Eq for Request<T> {}

/// Names a request of a block, whatever its type.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestId {
    pub(super) block: BlockKey,
    pub(super) index: usize,
}

impl RequestId {
    /// The position of the request in its block's list, as fault queries report it.
    pub fn index(self) -> usize {
        self.index
    }
}

impl<T> From<Request<T>> for RequestId {
    fn from(request: Request<T>) -> Self {
        request.id
    }
}

impl<T> From<&Request<T>> for RequestId {
    fn from(request: &Request<T>) -> Self {
        request.id
    }
}

/// Takes a buffer out of a block as the vector that it is.
// A vector that is returned goes through memory once more.
#[allow(clippy::inline_always)]
#[inline(always)]
pub(super) fn take<T: Element>(
    engine: &mut Engine,
    key: BlockKey,
    index: usize,
) -> Result<Vec<T>, Error> {
    match engine.contents_mut(key).records.take(index) {
        Some(vector) => Ok(vector),
        None => fetch(engine, key, index),
    }
}

#[inline(never)]
pub(super) fn fetch<T: Element>(
    engine: &mut Engine,
    key: BlockKey,
    index: usize,
) -> Result<Vec<T>, Error> {
    engine.fetch_buffer(key, index)?;
    engine.contents_mut(key).records.take(index).ok_or(Error::NoSuchRequest)
}
