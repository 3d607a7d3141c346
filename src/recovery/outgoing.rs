//! A state on its way to where it is kept: as a whole, or what has changed in it.

use alloc::vec::Vec;
use core::ops::Range;

use super::idle::{reuse, reuse_if};
use crate::{
    engine::{Content, Held, Slot},
    native::Element,
    protocol::pages::Pages,
    seam::buffer::{AnyBuffer, same_bits},
};

/// A state on its way, or what has changed in it.
pub(super) struct Outgoing {
    pub(super) buffer: AnyBuffer,
    /// The header of what goes by pages.
    pub(super) header: Option<(Pages, Vec<u64>)>,
}

impl Outgoing {
    /// A state with so many elements; some may be missing in one that counts for nothing. If it
    /// goes by pages, and may be a change of the last valid copy, the pages that differ from that.
    pub(super) fn of<T: Element + Default>(
        slot: &mut Slot,
        state: &[T],
        elements: usize,
        pages: Option<(Pages, bool)>,
    ) -> Self {
        let Slot { own, known, idle, .. } = slot;
        let before = own.as_ref().and_then(|own| own.as_any().downcast_ref::<Vec<T>>());
        let before = before.filter(|before| [before.len(), state.len()] == [elements; 2]);
        let header = pages.map(|(pages, may_be_a_change)| {
            let mut header = reuse(idle, pages.words());
            pages.whole(&mut header);
            if let Some(before) = before.filter(|_| may_be_a_change) {
                pages.compare(&mut header, known.version, |range: Range<usize>| {
                    same_bits(&before[range.clone()], &state[range]) != Some(true)
                });
            }
            (pages, header)
        });
        let buffer = match &header {
            Some((pages, header)) if Pages::base(header).is_some() => {
                // Those of the whole length are for what comes from others.
                let mut changed = reuse_if(idle, |length| length != elements);
                changed.clear();
                pages.ranges(header).for_each(|range| changed.extend_from_slice(&state[range]));
                changed
            }
            _ => {
                let mut whole = reuse(idle, elements);
                whole.clear();
                whole.extend_from_slice(state);
                whole.resize(elements, T::default());
                whole
            }
        };
        Self { buffer: AnyBuffer::of(buffer), header }
    }

    /// It stays with its rank.
    pub(super) fn here(self) -> Content {
        let here = |buffer| Held::Here(Some(buffer));
        let header = self.header.map(|(pages, header)| (pages, here(AnyBuffer::of(header))));
        Content { buffer: here(self.buffer), header }
    }
}
