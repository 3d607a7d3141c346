//! Arrays that the application only lends to operations, section by section.
//!
//! An array is one vector that several requests use at once, and that stays the application's. A
//! request claims its section until MPI cannot touch it any more, which is when its buffer, a
//! [`Part`], is dropped, be it in quarantine.
//!
//! **Guarantees** that a section which is written meets no other claim, so that no element has two
//! writers, or a writer and a reader; this is checked before an operation starts.

use alloc::{sync::Arc, vec::Vec};
use core::{
    any::TypeId,
    ops::{Deref, Range},
};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use smallvec::SmallVec;

use super::{
    buffer::{AnyBuffer, Buffer},
    section::Section,
};
use crate::error::Error;
use crate::native::Element;

/// Whether an operation reads its section or writes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// It is sent.
    Read,
    /// It is received.
    Write,
}

/// What the application and the requests of an array share.
#[derive(Debug)]
pub struct Lent<T, const N: usize> {
    shape: [usize; N],
    /// Locked for moments only, as the claims say who may do what, and by those who read it.
    elements: RwLock<Vec<T>>,
    claims: Mutex<SmallVec<[Claim<N>; 12]>>,
}

#[derive(Debug)]
struct Claim<const N: usize> {
    ranges: [Range<usize>; N],
    access: Access,
}

impl<const N: usize> Claim<N> {
    fn bars(&self, ranges: &[Range<usize>; N], access: Access) -> bool {
        let meet = |(a, b): (&Range<usize>, &Range<usize>)| a.start.max(b.start) < a.end.min(b.end);
        let overlap = self.ranges.iter().zip(ranges).all(meet);
        overlap && (self.access == Access::Write || access == Access::Write)
    }
}

/// The elements of an array, to be read; nothing can be received into it meanwhile.
#[derive(Debug)]
pub struct Elements<'a, T>(RwLockReadGuard<'a, Vec<T>>);

impl<T> Deref for Elements<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Element, const N: usize> Lent<T, N> {
    /// An array of which no section is claimed.
    ///
    /// # Errors
    ///
    /// [`Error::WrongLength`].
    pub fn new(shape: [usize; N], elements: Vec<T>) -> Result<Self, Error> {
        let expected = shape.iter().fold(1, |product: usize, it| product.saturating_mul(*it));
        if expected != elements.len() {
            return Err(Error::WrongLength { expected, elements: elements.len() });
        }
        Ok(Self { shape, elements: RwLock::new(elements), claims: Mutex::default() })
    }

    /// The length of each axis.
    pub fn shape(&self) -> [usize; N] {
        self.shape
    }

    /// The elements, for their only user.
    pub fn elements_mut(&mut self) -> &mut [T] {
        self.elements.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The elements, from their only user.
    pub fn into_elements(self) -> Vec<T> {
        self.elements.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The elements while requests may send them.
    ///
    /// # Errors
    ///
    /// [`Error::ArrayInUse`] while a request receives.
    pub fn read(&self) -> Result<Elements<'_, T>, Error> {
        let claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if claims.iter().any(|claim| claim.access == Access::Write) {
            return Err(Error::ArrayInUse);
        }
        Ok(Elements(self.elements.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Claims a section for an operation.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideOfArray`], [`Error::SectionInUse`]; [`Error::ArrayInUse`] for what is to be
    /// written while an operation reads the array.
    pub fn claim(
        self: &Arc<Self>,
        ranges: [Range<usize>; N],
        access: Access,
    ) -> Result<Part<T, N>, Error> {
        for (axis, (range, length)) in ranges.iter().zip(self.shape).enumerate() {
            let Range { start, end } = *range;
            if start > end || end > length {
                return Err(Error::OutsideOfArray { axis, start, end, length });
            }
        }
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if claims.iter().any(|claim| claim.bars(&ranges, access)) {
            return Err(Error::SectionInUse);
        }
        if access == Access::Write && self.elements.try_write().is_err() {
            return Err(Error::ArrayInUse);
        }
        let section = Section::of(&self.shape, &ranges);
        claims.push(Claim { ranges: ranges.clone(), access });
        drop(claims);
        let claimed = Some(Claimed { array: self.clone(), ranges, access });
        Ok(Part { section, claimed })
    }
}

#[derive(Debug)]
struct Claimed<T, const N: usize> {
    array: Arc<Lent<T, N>>,
    ranges: [Range<usize>; N],
    access: Access,
}

impl<T, const N: usize> Drop for Claimed<T, N> {
    fn drop(&mut self) {
        let mut claims = self.array.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |claim: &Claim<N>| claim.ranges == self.ranges && claim.access == self.access;
        // Of two that are equal, which can only be reading ones, it does not matter which.
        if let Some(at) = claims.iter().position(own) {
            claims.swap_remove(at);
        }
    }
}

/// A section of an array as the buffer of an operation; empty once it was given back.
#[derive(Debug)]
pub struct Part<T, const N: usize> {
    section: Section,
    claimed: Option<Claimed<T, N>>,
}

impl<T: Element, const N: usize> Part<T, N> {
    /// Where its elements stand in the array.
    pub fn section(&self) -> &Section {
        &self.section
    }

    /// Whether the operation may write.
    pub fn access(&self) -> Access {
        self.claimed.as_ref().map_or(Access::Read, |claimed| claimed.access)
    }

    /// Lets something look at the array.
    pub fn with_array<R>(&self, look: impl FnOnce(&Vec<T>) -> R) -> Option<R> {
        let array = &self.claimed.as_ref()?.array;
        Some(look(&array.elements.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Lets something change the array, of which it may write the section only.
    pub fn with_array_mut<R>(&mut self, change: impl FnOnce(&mut Vec<T>) -> R) -> Option<R> {
        let claimed = self.claimed.as_ref().filter(|claimed| claimed.access == Access::Write)?;
        let mut elements = claimed.array.elements.write().unwrap_or_else(PoisonError::into_inner);
        Some(change(&mut elements))
    }
}

impl<T: Element, const N: usize> Buffer for Part<T, N> {
    fn elements(&self) -> usize {
        self.section.elements()
    }

    fn element_bytes(&self) -> usize {
        size_of::<T>()
    }

    fn element(&self) -> TypeId {
        TypeId::of::<T>()
    }

    fn copy(&self, at: usize, count: usize) -> AnyBuffer {
        let places = self.section.runs().flatten().skip(at).take(count);
        let copied = self.with_array(|array| places.map(|place| array[place]).collect::<Vec<T>>());
        AnyBuffer::of(copied.unwrap_or_default())
    }

    fn fill(&mut self, at: usize, other: &dyn Buffer) -> bool {
        let Some(other) = other.as_any().downcast_ref::<Vec<T>>() else { return false };
        if at + other.len() > self.elements() {
            return false;
        }
        let section = self.section.clone();
        let places = section.runs().flatten().skip(at);
        let filled = self.with_array_mut(|array| {
            places.zip(other).for_each(|(place, element)| array[place] = *element);
        });
        filled.is_some()
    }

    fn load(&mut self, _: &dyn Buffer, _: usize) -> bool {
        false
    }

    fn overwrite(&mut self, _: usize, _: &dyn Buffer) -> bool {
        false
    }

    fn give_back(&mut self) -> bool {
        self.claimed = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn array() -> Arc<Lent<u8, 2>> {
        Arc::new(Lent::new([3, 4], (0..12).collect()).expect("as long as its shape"))
    }

    #[test]
    fn what_is_written_is_nobody_elses() {
        let array = array();
        let column = array.claim([0..3, 1..2], Access::Write).expect("free");
        let refused = |ranges, access| array.claim(ranges, access).err();
        assert_eq!(refused([1..2, 0..4], Access::Read), Some(Error::SectionInUse));
        assert_eq!(refused([2..3, 1..2], Access::Write), Some(Error::SectionInUse));
        assert_eq!(array.read().err(), Some(Error::ArrayInUse));
        let beside = array.claim([0..3, 2..4], Access::Read).expect("beside it");
        let again = array.claim([0..3, 2..4], Access::Read).expect("both read");
        assert_eq!(refused([0..1, 3..4], Access::Write), Some(Error::SectionInUse));
        drop((column, beside));
        assert_eq!(refused([0..1, 3..4], Access::Write), Some(Error::SectionInUse));
        drop(again);
        let seen = array.read().expect("nobody writes");
        assert_eq!(refused([0..1, 3..4], Access::Write), Some(Error::ArrayInUse));
        array.claim([0..1, 3..4], Access::Read).expect("reading readers");
        drop(seen);
        assert!(array.claim([0..1, 3..4], Access::Write).is_ok());
        let outside = Error::OutsideOfArray { axis: 1, start: 2, end: 5, length: 4 };
        assert_eq!(refused([0..1, 2..5], Access::Read), Some(outside));
    }

    #[test]
    fn a_section_is_copied_and_filled_element_by_element() {
        let array = array();
        let read = array.claim([1..3, 1..3], Access::Read).expect("free");
        let copied = read.copy(1, 2);
        assert_eq!(copied.as_any().downcast_ref::<Vec<u8>>(), Some(&vec![6, 9]));
        drop(read);
        let mut write = array.claim([0..3, 0..1], Access::Write).expect("free");
        assert!(!write.fill(1, &vec![1_u8; 3]) && !write.fill(0, &vec![1_u16]));
        assert!(write.fill(1, &vec![70_u8, 80]));
        assert!(write.give_back());
        let expected = [0, 1, 2, 3, 70, 5, 6, 7, 80, 9, 10, 11];
        assert_eq!(*array.read().expect("given back"), expected);
    }
}
