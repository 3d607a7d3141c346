//! Buffers of earlier copies, used again: copies of one state are as long each time.

use alloc::vec::Vec;

use crate::{
    native::Element,
    seam::buffer::{AnyBuffer, Buffer},
};

/// A buffer of this length, made from an idle one if there is one.
pub(super) fn blank<T: Element + Default>(idle: &mut Vec<AnyBuffer>, elements: usize) -> Vec<T> {
    let mut buffer = reuse(idle, elements);
    buffer.resize(elements, T::default());
    buffer
}

/// An idle buffer of this length, or a new one without elements.
pub(super) fn reuse<T: Element>(idle: &mut Vec<AnyBuffer>, elements: usize) -> Vec<T> {
    reuse_if(idle, |length| length == elements)
}

/// An idle buffer whose length is of use, or a new one without elements.
pub(super) fn reuse_if<T: Element>(
    idle: &mut Vec<AnyBuffer>,
    is_of_use: impl Fn(usize) -> bool,
) -> Vec<T> {
    let fits = |buffer: &dyn Buffer| buffer.as_any().is::<Vec<T>>() && is_of_use(buffer.elements());
    let found = idle.iter().position(|buffer| fits(&**buffer));
    let found = found.map(|at| idle.swap_remove(at));
    found.and_then(AnyBuffer::into_vec).unwrap_or_default()
}
