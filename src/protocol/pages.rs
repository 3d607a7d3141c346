//! What has changed in a state since its last valid copy, page by page: only that is sent.
//!
//! ```text
//! header     the version of the copy that changes, and a bit for each page that is sent
//! content    these pages, one behind the other
//! ```
//!
//! The length of a state says whether it goes so, which both sides know. A header has the same
//! length each time, a content has not. Where nothing valid is there to be changed, or much has
//! changed, the header names no version, and the content is the whole state.

use alloc::vec::Vec;
use core::ops::Range;

use super::planted::planted;

/// The size of a page, unless a simulation chooses another one.
pub const BYTES: usize = 4096;
/// A state of fewer pages is always sent as a whole.
const LEAST_PAGES: usize = 16;
/// A state of which more than one page in so many has changed is sent as a whole: what has changed
/// is copied more often on its way.
const SHARE: usize = 4;
/// About so many pages of a large state are looked at before all of them are.
const SAMPLE: usize = 64;
/// Pages that one word of a header tells of.
const BITS: usize = u64::BITS as usize;

/// The pages of a state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pages {
    /// The elements of the state.
    elements: usize,
    /// The elements of a page; the last page may have fewer.
    page: usize,
}

impl Pages {
    /// Those of a state with so many elements; nothing for one that is always sent as a whole.
    pub fn of(elements: usize, element_bytes: usize, page_bytes: usize) -> Option<Self> {
        let page = (page_bytes / element_bytes.max(1)).max(1);
        let pages = Self { elements, page };
        (pages.count() >= LEAST_PAGES).then_some(pages)
    }

    const fn count(self) -> usize {
        self.elements.div_ceil(self.page)
    }

    /// The elements of the state.
    pub const fn elements(self) -> usize {
        self.elements
    }

    /// The words of a header.
    pub const fn words(self) -> usize {
        1 + self.count().div_ceil(BITS)
    }

    fn range(self, page: usize) -> Range<usize> {
        let begin = page * self.page;
        begin..self.elements.min(begin + self.page)
    }

    /// Makes this the header of what has changed since a version, page for page. Where that is, or
    /// seems to be, too much, it is the one of a whole state.
    pub fn compare(
        self,
        header: &mut Vec<u64>,
        version: u64,
        has_changed: impl Fn(Range<usize>) -> bool,
    ) {
        self.whole(header);
        // To compare all takes as long as to read both states: where much has changed, a few pages
        // say so.
        let step = self.count() / SAMPLE;
        if step >= 4 {
            // Not at even distances, as what changes may be.
            let within = |at: usize| (at as u32).wrapping_mul(0x9e37_79b9) as usize >> 8;
            let sample = (0..SAMPLE).map(|at| at * step + within(at) % step);
            let changed = sample.filter(|page| has_changed(self.range(*page))).count();
            // More than the share by half: it is a sample.
            if 2 * SHARE * changed > 3 * SAMPLE {
                return;
            }
        }
        header[0] = version;
        let mut changed = 0;
        for page in (0..self.count()).filter(|page| has_changed(self.range(*page))) {
            changed += 1;
            if changed > 1 || !planted!(LeaveOutAPage) {
                header[1 + page / BITS] |= 1 << (page % BITS);
            }
        }
        if SHARE * changed > self.count() {
            self.whole(header);
        }
    }

    /// Makes this the header of a whole state.
    pub fn whole(self, header: &mut Vec<u64>) {
        header.clear();
        header.resize(self.words(), 0);
    }

    /// The version that a content with this header changes; nothing for a whole state.
    pub fn base(header: &[u64]) -> Option<u64> {
        header.first().copied().filter(|version| *version > 0)
    }

    /// The places in the state of what a content with this header holds, in its order.
    pub fn ranges(self, header: &[u64]) -> impl Iterator<Item = Range<usize>> {
        let is_there = |page: &usize| {
            header.get(1 + page / BITS).is_some_and(|word| word >> (page % BITS) & 1 == 1)
        };
        (0..self.count()).filter(is_there).map(move |page| self.range(page))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_small_state_has_no_pages_and_the_last_page_may_be_short() {
        assert_eq!(Pages::of(15 * 512, 8, 4096), None);
        let pages = Pages::of(15 * 512 + 1, 8, 4096).expect("sixteen");
        assert_eq!((pages.count(), pages.words(), pages.range(15)), (16, 2, 7680..7681));
        // Elements that are larger than a page, and none.
        assert_eq!(Pages::of(16, 8192, 4096).map(|it| it.range(3)), Some(3..4));
        assert_eq!(Pages::of(0, 8, 4096), None);
    }

    #[test]
    fn a_sample_tells_what_has_changed_at_even_distances_from_what_has_changed_everywhere() {
        for count in [256, 500, 512, 4096, 5000] {
            let pages = Pages::of(count, 8, 8).expect("many");
            for distance in 5..40 {
                let mut header = Vec::new();
                pages.compare(&mut header, 7, |range| range.start % distance == 0);
                let sent = pages.ranges(&header).count();
                assert_eq!(sent, count.div_ceil(distance), "{count} {distance}");
            }
            let (looked, mut header) = (core::cell::Cell::new(0), Vec::new());
            pages.compare(&mut header, 7, |_| {
                looked.set(looked.get() + 1);
                true
            });
            assert_eq!((Pages::base(&header), looked.get()), (None, SAMPLE), "{count}");
        }
    }

    proptest! {
        #[test]
        fn what_is_sent_makes_the_new_state_of_the_old_one(
            old in prop::collection::vec(any::<u8>(), 16..700),
            writes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..200),
            page_bytes in 1_usize..8,
            version in 1_u64..9,
        ) {
            let mut new = old.clone();
            for (at, byte) in writes {
                let at = at.index(new.len());
                new[at] = byte;
            }
            let Some(pages) = Pages::of(old.len(), 1, page_bytes) else { return Ok(()) };
            let mut header = vec![7];
            pages.compare(&mut header, version, |range| old[range.clone()] != new[range]);
            prop_assert_eq!(header.len(), pages.words());
            let Some(base) = Pages::base(&header) else {
                let changed = (0..pages.count()).filter(|page| {
                    old[pages.range(*page)] != new[pages.range(*page)]
                });
                let changed = changed.count();
                let is_sampled = pages.count() >= 4 * SAMPLE && 6 * changed > pages.count();
                prop_assert!(is_sampled || SHARE * changed > pages.count());
                return Ok(());
            };
            prop_assert_eq!(base, version);
            let sent = pages.ranges(&header).flat_map(|range| &new[range]);
            let content: Vec<u8> = sent.copied().collect();
            prop_assert!(content.len() < new.len());
            let (mut made, mut at) = (old, 0);
            for range in pages.ranges(&header) {
                let count = range.len();
                made[range].copy_from_slice(&content[at..at + count]);
                at += count;
            }
            prop_assert_eq!(at, content.len());
            prop_assert_eq!(made, new);
        }
    }
}
