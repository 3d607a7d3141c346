//! MPI's numbers and operations, as reductions on the commit of a block have them.

use std::ffi::{CStr, c_char, c_int, c_void};

use fampi_core::{
    Fusible, ReduceOp,
    engine::reduction::{MAX_VALUES, Values},
    mpi::InNumbers as _,
};
use mpi::ffi::{self, MPI_Datatype, MPI_Op};

use crate::beneath;

/// What a block is ended with.
pub(crate) struct Reduction {
    pub(crate) values: Values,
    pub(crate) target: Target,
}

/// Where the program wants the result.
pub(crate) struct Target {
    pub(crate) number: Number,
    pub(crate) place: *mut c_void,
}

impl Target {
    /// Nothing is written where there is no result.
    pub(crate) fn write(&self, result: Option<Values>) {
        if let Some(values) = result {
            // SAFETY: the program keeps the array until the block's request is complete.
            unsafe { (self.number.write)(&values, self.place) };
        }
    }
}

/// A type of numbers.
#[derive(Clone, Copy)]
pub(crate) struct Number {
    pub(crate) read: unsafe fn(*const c_void, usize, Operation) -> Option<Values>,
    pub(crate) write: unsafe fn(&Values, *mut c_void),
}

/// An operation of MPI.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    op: ReduceOp,
    /// It works on truth values: numbers are 0 or 1 before.
    logical: bool,
}

impl Number {
    const fn of<T: Fusible>() -> Self {
        Self { read: read::<T>, write: write::<T> }
    }

    /// The type with this handle, if a commit can carry it.
    pub(crate) fn named(datatype: MPI_Datatype) -> Option<Self> {
        const SIGNED: [&str; 14] = [
            "MPI_SIGNED_CHAR",
            "MPI_SHORT",
            "MPI_INT",
            "MPI_LONG",
            "MPI_LONG_LONG",
            "MPI_LONG_LONG_INT",
            "MPI_INT8_T",
            "MPI_INT16_T",
            "MPI_INT32_T",
            "MPI_INT64_T",
            "MPI_AINT",
            "MPI_OFFSET",
            "MPI_COUNT",
            "MPI_INTEGER",
        ];
        const FLOATING: [&str; 4] = ["MPI_FLOAT", "MPI_DOUBLE", "MPI_REAL", "MPI_DOUBLE_PRECISION"];
        let name = name(datatype)?;
        let unsigned = ["MPI_UNSIGNED", "MPI_UINT"].iter().any(|start| name.starts_with(start));
        let (signed, floating) =
            (SIGNED.contains(&name.as_str()), FLOATING.contains(&name.as_str()));
        Some(match (size(datatype)?, signed, unsigned, floating) {
            (1, true, ..) => Self::of::<i8>(),
            (2, true, ..) => Self::of::<i16>(),
            (4, true, ..) => Self::of::<i32>(),
            (8, true, ..) => Self::of::<i64>(),
            (1, _, true, _) => Self::of::<u8>(),
            (2, _, true, _) => Self::of::<u16>(),
            (4, _, true, _) => Self::of::<u32>(),
            (8, _, true, _) => Self::of::<u64>(),
            (4, .., true) => Self::of::<f32>(),
            (8, .., true) => Self::of::<f64>(),
            _ => return None,
        })
    }
}

/// The name of a predefined type.
fn name(datatype: MPI_Datatype) -> Option<String> {
    // SAFETY: reading a constant that MPI's library defines.
    if datatype.0.number() == 0 || datatype == unsafe { ffi::RSMPI_DATATYPE_NULL } {
        return None;
    }
    let [mut integers, mut addresses, mut types, mut combiner] = [0; 4];
    // SAFETY: the results are ours; that the handle is one of MPI's is the program's promise.
    let code = unsafe {
        ffi::MPI_Type_get_envelope(
            datatype,
            &raw mut integers,
            &raw mut addresses,
            &raw mut types,
            &raw mut combiner,
        )
    };
    if code != 0 || combiner != beneath::COMBINER_NAMED {
        return None;
    }
    let mut text: [c_char; ffi::MPI_MAX_OBJECT_NAME as usize + 1] = [0; _];
    let mut length = 0;
    // SAFETY: there is room for the longest name, and a zero behind it.
    let code = unsafe { ffi::MPI_Type_get_name(datatype, text.as_mut_ptr(), &raw mut length) };
    // SAFETY: the last byte is a zero.
    let name = unsafe { CStr::from_ptr(text.as_ptr()) };
    (code == 0).then(|| name.to_string_lossy().into_owned())
}

fn size(datatype: MPI_Datatype) -> Option<c_int> {
    let mut size = 0;
    // SAFETY: the handle has just named itself; the result is ours.
    let code = unsafe { ffi::MPI_Type_size(datatype, &raw mut size) };
    (code == 0).then_some(size)
}

/// Takes numbers of the program.
///
/// # Safety
///
/// There are so many of this type.
unsafe fn read<T: Fusible>(from: *const c_void, count: usize, with: Operation) -> Option<Values> {
    if with.logical && !T::fuses(ReduceOp::And) {
        return None;
    }
    let mut numbers = [T::from_word(0); MAX_VALUES];
    for (at, number) in numbers.iter_mut().take(count).enumerate() {
        // SAFETY: our caller's promise.
        let given = unsafe { from.cast::<T>().wrapping_add(at).read_unaligned() };
        let truth = T::from_word(u64::from(given.to_word() != 0));
        *number = if with.logical { truth } else { given };
    }
    Values::new(with.op, numbers.get(..count)?)
}

/// Gives the program its result.
///
/// # Safety
///
/// There is room for so many of this type.
unsafe fn write<T: Fusible>(values: &Values, to: *mut c_void) {
    for (at, word) in values.words().iter().enumerate() {
        let place = to.cast::<T>().wrapping_add(at);
        // SAFETY: our caller's promise.
        unsafe { place.write_unaligned(T::from_word(*word)) };
    }
}

/// The operation behind a handle.
pub(crate) fn operation(op: MPI_Op) -> Option<Operation> {
    macro_rules! known {
        ($($handle:ident $name:ident $logical:literal,)*) => {
            // SAFETY: reading a constant that MPI's library defines.
            [$((unsafe { ffi::$handle }, Operation { op: ReduceOp::$name, logical: $logical }),)*]
        };
    }
    let known = known! {
        RSMPI_SUM Sum false,
        RSMPI_PROD Product false,
        RSMPI_MIN Min false,
        RSMPI_MAX Max false,
        RSMPI_BAND And false,
        RSMPI_BOR Or false,
        RSMPI_LAND And true,
        RSMPI_LOR Or true,
    };
    known.iter().find(|(handle, _)| *handle == op).map(|(_, operation)| *operation)
}
