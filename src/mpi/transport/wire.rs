//! Memory of the control channel that MPI may touch while we hold it.

use std::{ptr::NonNull, slice};

use crate::{mpi::calls::request::Types, native::Exposure};

/// Bytes on the heap, reached through a raw pointer only, so that MPI may read and write them
/// between our own accesses. They are freed with the owner: what starts an operation on them
/// keeps it until the operation is over, or leaks it.
#[derive(Debug)]
pub(in crate::mpi) struct Wire {
    bytes: NonNull<[u8]>,
}

impl Wire {
    pub(in crate::mpi) fn new(capacity: usize) -> Self {
        let bytes = NonNull::from(Box::leak(vec![0; capacity].into_boxed_slice()));
        Self { bytes }
    }

    pub(in crate::mpi) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// The first `count` bytes, as MPI sees them.
    #[inline]
    pub(in crate::mpi) fn exposure(&self, count: usize) -> Exposure {
        debug_assert!(count <= self.capacity(), "within the memory");
        Exposure::adjacent(self.bytes.as_ptr().cast(), count as i32, Types::bytes(), 1)
    }

    /// Copies the first `count` bytes out with `take`.
    #[inline]
    pub(in crate::mpi) fn read<R>(&self, count: usize, take: impl FnOnce(&[u8]) -> R) -> R {
        let count = count.min(self.capacity());
        let start = self.bytes.as_ptr().cast::<u8>().cast_const();
        // SAFETY: within our memory; callers read between operations only, as the type says.
        take(unsafe { slice::from_raw_parts(start, count) })
    }

    /// Copies `bytes` to the start; they fit.
    #[inline]
    pub(in crate::mpi) fn write(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.capacity(), "within the memory");
        let start = self.bytes.as_ptr().cast::<u8>();
        // SAFETY: the length was checked; callers write between operations only.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Gives the memory up for ever: MPI may still touch it.
    pub(in crate::mpi) fn leak(self) {
        std::mem::forget(self);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a leaked box and is given back once.
        drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back() {
        let mut wire = Wire::new(8);
        wire.write(b"abc");
        assert_eq!(wire.read(3, <[u8]>::to_vec), b"abc");
        assert_eq!(wire.read(100, <[u8]>::len), 8);
    }
}
