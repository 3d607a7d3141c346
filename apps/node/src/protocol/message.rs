//! What daemons send each other, and its bytes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    Failure, Process, Report,
    collective::Key,
    directory::{Entry, EntryId},
    orders::Place,
    patience::Beat,
    space::{End, Space},
};

/// The most bytes of a message: what all ranks of a node say in a fence is the longest.
pub const MAX_BYTES: usize = 64 << 20;

/// What one daemon sends another one.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Message {
    /// A sign of life.
    Beat(Beat),
    /// News, for all.
    News(News),
    /// These news of yours have been heard here, and followed if so.
    Heard(u64, bool),
    /// The part of a collective that comes from this node.
    Part(Key, Vec<u8>),
    /// What does this process of yours have to say? It is wanted under this number.
    Ask(u64, Process),
    /// What was asked for under this number.
    Say(u64, Result<Vec<u8>, Failure>),
    /// What this node says of the whole job, and the nodes that it knows to be lost.
    Says(Report, BTreeSet<u32>),
    /// This node, which joins, has heard all that the others know.
    Serves,
    /// The last news that were heard here of each origin; the link is new.
    Known(BTreeMap<u32, u64>),
    /// A message for another node, which is handed on.
    Parcel(Box<Parcel>),
    /// Parcels have come.
    Receipt(Receipt),
}

/// A message on its way over several links.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Parcel {
    /// The node that sends it.
    pub from: u32,
    /// The node that is to get it.
    pub to: u32,
    /// Which of the messages between these two it is, from 1.
    pub number: u64,
    /// What is sent.
    pub message: Message,
}

impl From<Parcel> for Message {
    fn from(parcel: Parcel) -> Self {
        Self::Parcel(Box::new(parcel))
    }
}

/// Says to who has sent parcels that all up to this number have come.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Receipt {
    /// The node that has sent them.
    pub to: u32,
    /// The node that has got them.
    pub from: u32,
    /// The number of the last one.
    pub number: u64,
}

impl From<Receipt> for Message {
    fn from(receipt: Receipt) -> Self {
        Self::Receipt(receipt)
    }
}

/// News with their origin, which counts its own.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct News {
    /// The node that tells them.
    pub origin: u32,
    /// Which of its news this is, from 1.
    pub number: u64,
    /// What happened.
    pub fact: Fact,
}

/// What happened.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Fact {
    /// These processes are being started.
    Spawned(Space),
    /// A spawn has failed: what was started of it is to end.
    Dropped(String),
    /// A process has ended.
    Ended(Process, End),
    /// A node is lost; true if its death is proved.
    Lost(u32, bool),
    /// A process has published this.
    Published(Entry),
    /// This is not published any more.
    Removed(Vec<EntryId>),
    /// The processes of a namespace go to meet who started them.
    Joined(String),
    /// A process has this to say to those who meet it.
    Said(Process, Vec<u8>),
    /// A node of this number is to join.
    Added(u32, Place),
    /// It has joined, and counts.
    Came(u32),
    /// The neighbours that the origin does not hear now.
    Unheard(BTreeSet<u32>),
    /// Nothing: who has heard of it has heard all that its origin knew.
    Barrier,
    /// The job is to end with this status, for this reason.
    Ending(u8, String),
}

impl Fact {
    /// True when who tells this waits until all have heard of it.
    pub const fn is_awaited(&self) -> bool {
        matches!(
            self,
            Self::Spawned(_)
                | Self::Published(_)
                | Self::Removed(_)
                | Self::Added(..)
                | Self::Came(_)
                | Self::Barrier
        )
    }
}

/// The bytes of a message.
///
/// # Panics
///
/// Never: of what is sent here, all can be written.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_extend(message, Vec::new()).expect("it has no type that cannot be written")
}

/// The message in these bytes, if they are one and no more.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    let (message, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(message)
}

/// What was encoded one after the other, up to what is nothing of the kind.
pub fn decode_all<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> impl Iterator<Item = T> {
    let mut left = bytes;
    std::iter::from_fn(move || {
        let (next, rest) = postcard::take_from_bytes(left).ok().filter(|_| !left.is_empty())?;
        left = rest;
        Some(next)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_survive_the_journey() {
        let process = Process { space: "job@1".into(), rank: 7 };
        let fact = Fact::Ended(process.clone(), End::Killed(9));
        for message in [
            Message::Beat(Beat { late: 7, heard: 0 }),
            Message::News(News { origin: 3, number: 9, fact }),
            Message::Say(4, Err(Failure::Lost)),
            Message::Ask(5, process),
        ] {
            let bytes = encode(&message);
            assert_eq!(decode::<Message>(&bytes), Some(message));
            assert_eq!(decode::<Message>(&[bytes, vec![0]].concat()), None);
        }
    }

    proptest! {
        #[test]
        fn bytes_from_outside_are_a_message_or_none(
            bytes in prop::collection::vec(any::<u8>(), 0..300)
        ) {
            if let Some(message) = decode::<Message>(&bytes) {
                prop_assert!(decode::<Message>(&encode(&message)) == Some(message));
            }
        }
    }
}
