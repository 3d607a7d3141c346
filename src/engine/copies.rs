//! The copies of states that a process keeps: its own, and what it keeps for others. They become
//! valid with the commit of a block.
//!
//! Where several blocks carry one state, the copy that was protected last counts, in whichever
//! order they are decided: one that is decided later is forgotten. So all ranks have the same one.

use alloc::{rc::Rc, vec::Vec};
use core::mem;

use crate::{
    protocol::{
        keepers::Keepers, pages::Pages, planted::planted, process::CommKey, redundancy::Redundancy,
    },
    rank::Rank,
    seam::{buffer::AnyBuffer, record::Records},
};

/// The copies that this process keeps.
#[derive(Default)]
pub(crate) struct Copies {
    pub(crate) slots: Vec<Slot>,
    /// The last rank whose state could not be brought back, and the one that had kept it.
    pub(crate) lost: Option<(Rank, Rank)>,
    /// Of which of how many ranks those were that came from a checkpoint, if they did.
    pub(crate) part: Option<(u32, u32)>,
}

/// One protected state: ours, and the one that we keep for another rank.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) number: u32,
    pub(crate) known: Known,
    pub(crate) own: Option<AnyBuffer>,
    /// The version of what we keep for others; 0 as long as it is nothing.
    pub(crate) kept_version: u64,
    /// The state of the rank whose partner we are, or our parities of the group's states.
    pub(crate) kept: Option<AnyBuffer>,
    /// Buffers of the generation before, to be used again.
    pub(crate) idle: Vec<AnyBuffer>,
}

/// What is known of a copy.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// Greater for each copy over a communicator than for those before, and the same on all its
    /// ranks; 0 as long as we have nothing.
    pub(crate) version: u64,
    /// The communicator of the last one, whose ranks are each other's partners.
    pub(crate) over: Option<CommKey>,
    /// True when a rebuild of that communicator can bring the state back.
    pub(crate) whole: bool,
    /// Which of its ranks keeps what, by the places of the ranks.
    pub(crate) keepers: Rc<Keepers>,
    /// Where the state is kept beside this process.
    pub(crate) redundancy: Redundancy,
    pub(crate) own_elements: usize,
    /// Nothing as long as nothing is kept.
    pub(crate) kept_elements: Option<usize>,
    /// The bytes of the states of all ranks of the group.
    pub(crate) lengths: Vec<u64>,
}

/// What a block will make valid if it commits.
pub(crate) struct PendingCopy {
    pub(crate) slot: u32,
    /// What is known of it from the commit on.
    pub(crate) known: Known,
    /// It is a restored one.
    pub(crate) is_restored: bool,
    /// Our own state, unless it stays what it is.
    pub(crate) own: Option<Content>,
    pub(crate) kept: Kept,
}

/// What we keep for others from the commit on.
pub(crate) enum Kept {
    /// Nothing, whatever it was.
    Nothing,
    /// What we have stays valid.
    Unchanged,
    /// This.
    New(Content),
}

/// A state, or what has changed in one.
pub(crate) struct Content {
    pub(crate) buffer: Held,
    /// The header of what goes by pages.
    pub(crate) header: Option<(Pages, Held)>,
}

/// Where a buffer is until the commit.
pub(crate) enum Held {
    /// In a request of the block.
    Request(usize),
    /// Here; nothing if the request had none.
    Here(Option<AnyBuffer>),
}

/// Takes the buffer out of a request.
type Take<'a> = dyn FnMut(usize) -> Option<AnyBuffer> + 'a;

/// Buffers that the next generation can use again: two states, two headers.
const IDLE: usize = 4;

impl Copies {
    /// Takes states of numbers for their bytes.
    pub(crate) fn make_bytes(&mut self) {
        for slot in &mut self.slots {
            if let Some((_, bytes)) = slot.own.as_ref().and_then(AnyBuffer::bytes) {
                slot.known.own_elements = bytes.len();
                slot.own = Some(AnyBuffer::of(bytes.to_vec()));
            }
        }
    }

    /// True when states were protected on this communicator, whose ranks are partners.
    pub(crate) fn need(&self, comm: CommKey) -> bool {
        self.slots.iter().any(|slot| slot.known.over == Some(comm))
    }

    pub(crate) fn slot(&mut self, number: u32) -> &mut Slot {
        let at = self.slots.iter().position(|slot| slot.number == number);
        let at = at.unwrap_or_else(|| {
            self.slots.push(Slot { number, ..Slot::default() });
            self.slots.len() - 1
        });
        &mut self.slots[at]
    }

    /// Makes what a block carried valid, or forgets it. `records` are those of the block, and
    /// `whole` is true when a rebuild of its communicator can bring the states back.
    pub(super) fn settle(
        &mut self,
        pending: Vec<PendingCopy>,
        records: &mut Records,
        whole: bool,
        committed: bool,
    ) {
        for mut copy in pending {
            let slot = self.slot(copy.slot);
            let counts = committed && !slot.has_newer(&copy);
            copy.fetch(&mut |index: usize| records[index].take_any());
            if counts {
                copy.known.whole = whole;
                slot.install(copy);
            } else {
                slot.idle.extend(copy.into_contents().flat_map(Content::into_buffers));
            }
            slot.idle.truncate(IDLE);
        }
    }
}

impl Slot {
    /// True when what was protected after this copy is valid already.
    pub(super) fn has_newer(&self, copy: &PendingCopy) -> bool {
        self.known.over == copy.known.over
            && self.known.version > copy.known.version
            && !planted!(CountTheOlder)
    }

    fn install(&mut self, copy: PendingCopy) {
        if let Some(own) = copy.own {
            own.install(&mut self.own, self.known.version, &mut self.idle);
        }
        match copy.kept {
            Kept::New(kept) => kept.install(&mut self.kept, self.kept_version, &mut self.idle),
            Kept::Unchanged => {}
            Kept::Nothing => self.idle.extend(self.kept.take()),
        }
        self.kept_version = if self.kept.is_some() { copy.known.version } else { 0 };
        self.known = copy.known;
    }
}

impl PendingCopy {
    /// Takes all buffers out of requests.
    fn fetch(&mut self, take: &mut Take<'_>) {
        let kept = if let Kept::New(kept) = &mut self.kept { Some(kept) } else { None };
        for content in self.own.iter_mut().chain(kept) {
            content.buffer.fetch(take);
            if let Some((_, header)) = &mut content.header {
                header.fetch(take);
            }
        }
    }

    /// The version of the copy that what has come from others changes, if it has come and does.
    pub(super) fn base(&self, records: &Records) -> Option<u64> {
        let Kept::New(Content { header: Some((_, Held::Request(index))), .. }) = &self.kept else {
            return None;
        };
        let header = records.get(*index).filter(|record| record.is_complete())?.buffer()?;
        Pages::base(header.as_any().downcast_ref::<Vec<u64>>()?)
    }

    fn into_contents(self) -> impl Iterator<Item = Content> {
        let kept = if let Kept::New(kept) = self.kept { Some(kept) } else { None };
        self.own.into_iter().chain(kept)
    }
}

impl Held {
    fn fetch(&mut self, take: &mut Take<'_>) {
        if let Self::Request(index) = *self {
            *self = Self::Here(take(index));
        }
    }

    fn into_buffer(self) -> Option<AnyBuffer> {
        if let Self::Here(buffer) = self { buffer } else { None }
    }
}

impl Content {
    /// A whole state.
    pub(crate) const fn whole(buffer: Held) -> Self {
        Self { buffer, header: None }
    }

    /// The state, if it is here.
    pub(crate) const fn here(&self) -> Option<&AnyBuffer> {
        if let Held::Here(Some(buffer)) = &self.buffer { Some(buffer) } else { None }
    }

    /// The version that it changes, if it is here and does.
    fn base(&self) -> Option<u64> {
        let Some((_, Held::Here(Some(header)))) = &self.header else { return None };
        Pages::base(header.as_any().downcast_ref::<Vec<u64>>()?)
    }

    fn into_buffers(self) -> impl Iterator<Item = AnyBuffer> {
        let header = self.header.map(|(_, header)| header);
        [Some(self.buffer), header].into_iter().flatten().filter_map(Held::into_buffer)
    }

    /// Takes the place of a state, or changes it, which had this version. What was made of another
    /// version leaves nothing. What is not needed any more goes to `idle`.
    fn install(self, state: &mut Option<AnyBuffer>, version: u64, idle: &mut Vec<AnyBuffer>) {
        let Some(base) = self.base() else {
            let mut buffers = self.into_buffers();
            idle.extend(mem::replace(state, buffers.next()));
            return idle.extend(buffers);
        };
        let is_made = base == version
            && state.as_mut().zip(self.here()).is_some_and(|(it, changed)| self.patch(it, changed));
        if !is_made {
            tracing::error!(target: "fampi::copies", base, version, "a copy is lost");
            idle.extend(state.take());
        }
        idle.extend(self.into_buffers());
    }

    /// Overwrites the pages of a state that have changed; false where they do not fit.
    fn patch(&self, state: &mut AnyBuffer, changed: &AnyBuffer) -> bool {
        let Some((pages, Held::Here(Some(AnyBuffer::U64(header))))) = &self.header else {
            return false;
        };
        let mut at = 0;
        state.elements() == pages.elements()
            && pages.ranges(header).all(|range| {
                let from = at;
                at += range.len();
                state.patch(range, changed, from)
            })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_change_of_another_version_leaves_nothing_rather_than_a_mixture() {
        let pages = Pages::of(16, 8, 8).expect("sixteen");
        for (version, expected) in [(3, Some(7)), (2, None), (4, None)] {
            let here = |buffer| Held::Here(Some(buffer));
            let header = (pages, here(AnyBuffer::of(vec![3_u64, 1 << 5])));
            let buffer = here(AnyBuffer::of(vec![7_u64]));
            let (mut state, mut idle) = (Some(AnyBuffer::of(vec![0_u64; 16])), Vec::new());
            Content { buffer, header: Some(header) }.install(&mut state, version, &mut idle);
            let found = state.and_then(AnyBuffer::into_vec::<u64>);
            assert_eq!(found.map(|state| state[5]), expected, "{version}");
        }
    }
}
