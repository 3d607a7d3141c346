//! Buffers of the application while an operation owns them.

use alloc::{boxed::Box, vec::Vec};
use core::{
    any::{Any, TypeId},
    mem,
    ops::{Deref, DerefMut, Range},
};

use crate::native::{Element, Expose};

/// Elements whose type the platform does not know: a `Vec`, or a part of an array that is lent.
pub trait Buffer: Any + Send + Expose {
    /// Number of elements.
    fn elements(&self) -> usize;
    /// Bytes of one element.
    fn element_bytes(&self) -> usize;
    /// The type of the elements.
    fn element(&self) -> TypeId;
    /// A copy of the elements from `at`, `count` of them, in a `Vec`.
    fn copy(&self, at: usize, count: usize) -> AnyBuffer;
    /// Overwrites the elements from `at` with those of `other`, a `Vec`; false when they do not
    /// fit or are of another type.
    fn fill(&mut self, at: usize, other: &dyn Buffer) -> bool;
    /// Overwrites all elements with those of `other` from `at`; false as for [`Self::fill`].
    fn load(&mut self, other: &dyn Buffer, at: usize) -> bool;
    /// [`Self::fill`] of elements that may lie beyond the end of this `Vec`, which grows then; what
    /// is in between is as if it had been written by the first of `other`.
    fn overwrite(&mut self, at: usize, other: &dyn Buffer) -> bool;
    /// Lets go of what was only lent, once the operation is over; false for what the application
    /// takes back itself.
    fn give_back(&mut self) -> bool {
        false
    }
}

impl dyn Buffer {
    /// For downcasts.
    pub fn as_any(&self) -> &dyn Any {
        self
    }

    /// For downcasts.
    pub fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

macro_rules! any_buffer {
    ($($name:ident $number:ty,)*) => {
        /// A buffer of any type: a vector of numbers as it is, everything else in a box. What it is
        /// is looked up in its tag, so that buffers of numbers cost no allocation and no call.
        pub enum AnyBuffer {
            $(#[doc = "A vector of numbers."] $name(Vec<$number>),)*
            /// A vector of something else, or a part of an array.
            Other(Box<dyn Buffer>),
            /// What is left of one, for the next.
            Spent(Box<dyn Buffer>),
        }

        impl core::fmt::Debug for AnyBuffer {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a buffer of a request")
            }
        }

        impl AnyBuffer {
            /// Puts a buffer into a place; what needs a box into the one that is there, if it fits.
            // Which of these the type is, is known when this is compiled.
            #[inline]
            pub fn put<B: Buffer>(place: &mut Option<Self>, mut buffer: B) {
                let any: &mut dyn Any = &mut buffer;
                $(if let Some(vector) = any.downcast_mut::<Vec<$number>>() {
                    *place = Some(Self::$name(mem::take(vector)));
                } else)* {
                    put_boxed(place, buffer);
                }
            }

            /// Takes the vector out of a place, if it is one of this type; its box stays.
            #[inline]
            pub fn take<T: Element>(place: &mut Option<Self>) -> Option<Vec<T>> {
                let mut taken = Vec::new();
                Self::take_into(place, &mut taken).then_some(taken)
            }

            /// Takes the elements out into a `Vec` that is there; false when they are not of this
            /// type.
            #[inline]
            pub fn take_into<T: Element>(place: &mut Option<Self>, into: &mut Vec<T>) -> bool {
                let any: &mut dyn Any = into;
                $(if let Some(into) = any.downcast_mut::<Vec<$number>>() {
                    match place.take() {
                        Some(Self::$name(vector)) => *into = vector,
                        other => {
                            *place = other;
                            return false;
                        }
                    }
                    return true;
                })*
                match take_boxed(place) {
                    Some(vector) => *into = vector,
                    None => return false,
                }
                true
            }

            /// The numbers that it is a vector of, if it is one.
            #[cfg(feature = "mpi")]
            pub fn number(&self) -> Option<crate::native::Number> {
                match self {
                    $(Self::$name(_) => Some(crate::native::Number::of::<$number>()),)*
                    Self::Other(_) | Self::Spent(_) => None,
                }
            }

            /// Where they are, and how many.
            #[cfg(feature = "mpi")]
            #[inline]
            pub fn memory(&mut self) -> Option<(*mut core::ffi::c_void, usize)> {
                match self {
                    $(Self::$name(vector) => Some((vector.as_mut_ptr().cast(), vector.len())),)*
                    Self::Other(_) | Self::Spent(_) => None,
                }
            }

            /// The bytes of a vector of numbers, as this machine has them, and the place of their
            /// type in the list of types.
            pub fn bytes(&self) -> Option<(u8, &[u8])> {
                match self {
                    $(Self::$name(vector) => {
                        Some((Place::$name as u8, bytemuck::cast_slice(vector)))
                    })*
                    Self::Other(_) | Self::Spent(_) => None,
                }
            }

            /// The vector of numbers that [`Self::bytes`] has told.
            pub fn of_bytes(place: u8, bytes: &[u8]) -> Option<Self> {
                $(if place == Place::$name as u8 {
                    let is_whole = bytes.len().is_multiple_of(size_of::<$number>());
                    return is_whole.then(|| Self::$name(bytemuck::pod_collect_to_vec(bytes)));
                })*
                None
            }

            /// Overwrites the elements of a range with those of another vector of the same numbers
            /// from `at`; false where they do not fit.
            pub fn patch(&mut self, range: Range<usize>, other: &Self, at: usize) -> bool {
                match (self, other) {
                    $((Self::$name(own), Self::$name(other)) => {
                        let source = other.get(at..at + range.len());
                        let Some((own, other)) = own.get_mut(range).zip(source) else {
                            return false;
                        };
                        own.copy_from_slice(other);
                        true
                    })*
                    _ => false,
                }
            }

            /// How many elements it has, and the bytes of one.
            #[inline]
            pub fn size(&self) -> (usize, usize) {
                match self {
                    $(Self::$name(vector) => (vector.len(), size_of::<$number>()),)*
                    Self::Other(boxed) | Self::Spent(boxed) => {
                        (boxed.elements(), boxed.element_bytes())
                    }
                }
            }
        }

        /// True when two lists of numbers have the same bits; nothing for elements that are none.
        // Which of these the type is, is known when this is compiled.
        #[inline]
        pub fn same_bits<T: Element>(one: &[T], other: &[T]) -> Option<bool> {
            fn bits<T: bytemuck::NoUninit>(number: &dyn Any) -> Option<&[u8]> {
                number.downcast_ref::<T>().map(bytemuck::bytes_of)
            }
            $(if TypeId::of::<T>() == TypeId::of::<$number>() {
                let mut both = one.iter().zip(other);
                return Some(both.all(|(a, b)| bits::<$number>(a) == bits::<$number>(b)));
            })*
            None
        }

        /// The types of numbers, in the order of their list.
        enum Place {
            $($name,)*
        }

        impl Deref for AnyBuffer {
            type Target = dyn Buffer;

            fn deref(&self) -> &dyn Buffer {
                match self {
                    $(Self::$name(vector) => vector,)*
                    Self::Other(boxed) | Self::Spent(boxed) => &**boxed,
                }
            }
        }

        impl DerefMut for AnyBuffer {
            fn deref_mut(&mut self) -> &mut dyn Buffer {
                match self {
                    $(Self::$name(vector) => vector,)*
                    Self::Other(boxed) | Self::Spent(boxed) => &mut **boxed,
                }
            }
        }
    };
}

any_buffer! {
    U8 u8, U16 u16, U32 u32, U64 u64, Usize usize,
    I8 i8, I16 i16, I32 i32, I64 i64, Isize isize,
    F32 f32, F64 f64,
}

impl AnyBuffer {
    /// This buffer.
    #[inline]
    pub fn of<B: Buffer>(buffer: B) -> Self {
        let mut place = None;
        Self::put(&mut place, buffer);
        place.unwrap_or(Self::nothing())
    }

    /// One without elements.
    pub const fn nothing() -> Self {
        Self::U8(Vec::new())
    }

    /// [`Buffer::elements`].
    #[inline]
    pub fn elements(&self) -> usize {
        self.size().0
    }

    /// [`Buffer::element_bytes`].
    #[inline]
    pub fn element_bytes(&self) -> usize {
        self.size().1
    }

    /// Lets go of what was only lent.
    #[inline]
    pub fn give_back(&mut self) {
        if let Self::Other(boxed) = self
            && boxed.give_back()
        {
            self.spend();
        }
    }

    /// True when nothing but a box is left.
    #[inline]
    pub fn is_spent(&self) -> bool {
        matches!(self, Self::Spent(_))
    }

    #[inline(never)]
    fn spend(&mut self) {
        if let Self::Other(boxed) = mem::replace(self, Self::nothing()) {
            *self = Self::Spent(boxed);
        }
    }

    /// The vector that it is, if it is one of this type.
    pub fn into_vec<T: Element>(self) -> Option<Vec<T>> {
        Self::take(&mut Some(self))
    }
}

fn put_boxed<B: Buffer>(place: &mut Option<AnyBuffer>, buffer: B) {
    *place = Some(AnyBuffer::Other(match place.take() {
        Some(AnyBuffer::Other(mut shell) | AnyBuffer::Spent(mut shell)) => {
            match shell.as_any_mut().downcast_mut::<B>() {
                Some(inside) => {
                    *inside = buffer;
                    shell
                }
                None => Box::new(buffer),
            }
        }
        _ => Box::new(buffer),
    }));
}

fn take_boxed<T: Element>(place: &mut Option<AnyBuffer>) -> Option<Vec<T>> {
    let Some(buffer @ AnyBuffer::Other(_)) = place else { return None };
    let taken = buffer.as_any_mut().downcast_mut::<Vec<T>>().map(mem::take);
    if taken.is_some() {
        buffer.spend();
    }
    taken
}

impl<T: Element> Buffer for Vec<T> {
    fn elements(&self) -> usize {
        self.len()
    }

    fn element_bytes(&self) -> usize {
        size_of::<T>()
    }

    fn element(&self) -> TypeId {
        TypeId::of::<T>()
    }

    fn copy(&self, at: usize, count: usize) -> AnyBuffer {
        AnyBuffer::of(self[at..at + count].to_vec())
    }

    fn fill(&mut self, at: usize, other: &dyn Buffer) -> bool {
        let Some(other) = other.as_any().downcast_ref::<Self>() else { return false };
        let Some(target) = self.get_mut(at..at + other.len()) else { return false };
        target.copy_from_slice(other);
        true
    }

    fn load(&mut self, other: &dyn Buffer, at: usize) -> bool {
        let Some(other) = other.as_any().downcast_ref::<Self>() else { return false };
        let Some(source) = other.get(at..at + self.len()) else { return false };
        self.copy_from_slice(source);
        true
    }

    fn overwrite(&mut self, at: usize, other: &dyn Buffer) -> bool {
        let Some(written) = other.as_any().downcast_ref::<Self>() else { return false };
        if let Some(first) = written.first() {
            self.resize(self.len().max(at + written.len()), *first);
        }
        self.fill(at.min(self.len()), other)
    }
}

#[cfg(test)]
mod tests {
    use alloc::{sync::Arc, vec};

    use super::*;
    use crate::seam::lent::{Access, Lent};

    #[test]
    fn a_vector_comes_out_as_what_it_went_in() {
        let mut place = Some(AnyBuffer::of(vec![1_u32, 2]));
        assert!(matches!(place, Some(AnyBuffer::U32(_))));
        assert_eq!(AnyBuffer::take::<i32>(&mut place), None);
        assert_eq!(AnyBuffer::take::<u32>(&mut place), Some(vec![1, 2]));
        assert!(place.is_none());
        assert_eq!(AnyBuffer::of(vec![0.5_f64]).into_vec::<f64>(), Some(vec![0.5]));
        assert_eq!(AnyBuffer::of(vec![0.5_f64]).as_any().downcast_ref(), Some(&vec![0.5_f64]));
    }

    #[test]
    fn a_box_is_used_again_by_what_fits_into_it() {
        let array = Arc::new(Lent::new([3], vec![1_u8, 2, 3]).expect("as long as its shape"));
        let part = |range| array.claim([range], Access::Read).expect("only read");
        let mut place = Some(AnyBuffer::of(part(0..1)));
        let address = |place: &Option<AnyBuffer>| {
            place.as_deref().map(|buffer| (&raw const *buffer).cast::<u8>())
        };
        let before = address(&place);
        place.as_mut().expect("put there").give_back();
        assert!(place.as_ref().is_some_and(AnyBuffer::is_spent));
        AnyBuffer::put(&mut place, part(1..3));
        assert_eq!(address(&place), before);
        assert_eq!(place.as_deref().map(Buffer::elements), Some(2));
        AnyBuffer::put(&mut place, vec![3_u8]);
        assert!(matches!(place, Some(AnyBuffer::U8(_))));
    }
}
