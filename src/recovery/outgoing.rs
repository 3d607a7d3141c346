//! A state on its way to where it is kept: as a whole, or what has changed in it.

use core::ops::Range;

use super::idle::{reuse, reuse_if};
use crate::{
    engine::{Content, Held, Slot},
    native::Element,
    protocol::pages::Pages,
    seam::buffer::{AnyBuffer, same_bits},
};

/// A state with so many elements, some of which may be missing in one that counts for nothing. If
/// it goes by pages, and may be a change of the last valid copy, the pages that differ from that.
pub(super) fn outgoing<T: Element + Default>(
    slot: &mut Slot,
    state: &[T],
    elements: usize,
    pages: Option<(Pages, bool)>,
) -> Content {
    let Slot { own, known, idle, .. } = slot;
    let before = own.as_ref().and_then(|own| own.as_any().downcast_ref::<Vec<T>>());
    let before = before.filter(|before| [before.len(), state.len()] == [elements; 2]);
    let header = pages.map(|(pages, may_be_a_change)| {
        let mut header = reuse(idle, pages.words());
        match before.filter(|_| may_be_a_change) {
            Some(before) => pages.compare(&mut header, known.version, |range: Range<usize>| {
                same_bits(&before[range.clone()], &state[range]) != Some(true)
            }),
            None => pages.whole(&mut header),
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
    let here = |buffer| Held::Here(Some(buffer));
    let header = header.map(|(pages, header)| (pages, here(AnyBuffer::of(header))));
    Content { buffer: here(AnyBuffer::of(buffer)), header }
}
