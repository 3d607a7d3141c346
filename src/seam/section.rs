//! Sections of arrays: where their elements stand in memory.
//!
//! A section takes a range of each axis of an array whose last axis is contiguous. In memory it is
//! runs of adjacent elements, at equal distances in each of a few nested steps:
//!
//! ```text
//!  a column of a 3 × 4 array     . x . .     start 1, runs of 1, 3 of them every 4
//!                                . x . .
//!                                . x . .
//!  two rows of it                x x x x     start 0, one run of 8
//!                                x x x x
//!                                . . . .
//! ```
//!
//! Axes that continue each other are merged, so sections that look alike in memory have one
//! pattern, whatever their shape and place. Reference: MPI 4.1 §5.1.2 (`MPI_Type_vector`), §5.1.3.

use core::ops::Range;

use smallvec::SmallVec;

/// A section of an array, in memory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Section {
    /// Elements before the first.
    pub start: usize,
    /// How the elements follow each other.
    pub pattern: Pattern,
}

/// How the elements of a section follow each other, in elements.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Pattern {
    /// Adjacent elements.
    pub run: usize,
    /// From the innermost step to the outermost; none when everything is one run.
    pub steps: SmallVec<[Step; 3]>,
}

/// A step of a pattern: what is inside of it, repeated at equal distances.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Step {
    /// How often.
    pub count: usize,
    /// From one beginning to the next.
    pub stride: usize,
}

impl Section {
    /// The section with these ranges of an array of this shape, which contains them.
    pub fn of(shape: &[usize], ranges: &[Range<usize>]) -> Self {
        if ranges.iter().any(Range::is_empty) {
            return Self::default();
        }
        let mut section = Self { start: 0, pattern: Pattern { run: 1, steps: SmallVec::new() } };
        let Pattern { run, steps } = &mut section.pattern;
        let mut stride = 1;
        for (length, range) in shape.iter().zip(ranges).rev() {
            section.start += range.start * stride;
            match steps.last_mut() {
                _ if range.len() == 1 => {}
                None if stride == *run => *run *= range.len(),
                Some(last) if last.count * last.stride == stride => last.count *= range.len(),
                _ => steps.push(Step { count: range.len(), stride }),
            }
            stride *= length;
        }
        section
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.pattern.steps.iter().map(|step| step.count).product::<usize>() * self.pattern.run
    }

    /// The runs, in the order of the elements.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let Pattern { run, steps } = &self.pattern;
        let count = if *run == 0 { 0 } else { self.elements() / run };
        (0..count).map(move |number| {
            let (mut start, mut rest) = (self.start, number);
            for step in steps {
                start += rest % step.count * step.stride;
                rest /= step.count;
            }
            start..start + run
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// The places of the elements, index by index.
    fn naive(shape: [usize; 3], ranges: &[Range<usize>; 3]) -> Vec<usize> {
        let mut places = Vec::new();
        for k in ranges[0].clone() {
            for j in ranges[1].clone() {
                for i in ranges[2].clone() {
                    places.push((k * shape[1] + j) * shape[2] + i);
                }
            }
        }
        places
    }

    #[test]
    fn every_section_of_small_arrays_has_the_places_of_its_indices() {
        let ranges = |length: usize| {
            (0..=length).flat_map(move |start| (start..=length).map(move |end| start..end))
        };
        for shape in [[2, 3, 4], [3, 1, 2], [1, 4, 3], [3, 3, 1]] {
            for k in ranges(shape[0]) {
                for j in ranges(shape[1]) {
                    for i in ranges(shape[2]) {
                        let ranges = [k.clone(), j.clone(), i];
                        let section = Section::of(&shape, &ranges);
                        let expected = naive(shape, &ranges);
                        assert_eq!(section.elements(), expected.len(), "{ranges:?}");
                        assert_eq!(section.runs().flatten().collect::<Vec<_>>(), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn the_faces_of_a_box_have_one_step_at_most_and_opposite_ones_one_pattern() {
        let shape = [5, 6, 7];
        let step = |count, stride| SmallVec::from_slice(&[Step { count, stride }]);
        let of = |ranges: [Range<usize>; 3]| Section::of(&shape, &ranges);
        let [z, y, x] = [of([1..2, 0..6, 0..7]), of([0..5, 1..2, 0..7]), of([0..5, 0..6, 1..2])];
        assert_eq!(z, Section { start: 42, pattern: Pattern { run: 42, steps: SmallVec::new() } });
        assert_eq!(y, Section { start: 7, pattern: Pattern { run: 7, steps: step(5, 42) } });
        assert_eq!(x, Section { start: 1, pattern: Pattern { run: 1, steps: step(30, 7) } });
        assert_eq!(of([0..5, 0..6, 6..7]).pattern, x.pattern);
    }
}
