//! Where the parts of a collective stand in the program's memory, and how they come from there into
//! a buffer of ours and back.
//!
//! A collective over the living works on bytes of its own: the program's memory is read when it
//! starts and written when it is complete, so that one that was cut short leaves all as it was.
//! What is only moved is packed, as any two ranks whose types match pack alike. What is combined
//! stands as MPI's operations want it.
//!
//! **Assumes** that memory which is allocated without an alignment is aligned for every number, as
//! that of `malloc` is.

use std::{
    any::TypeId,
    ffi::{c_int, c_void},
};

use fampi_core::{
    FaultCode,
    engine::{
        buffer::{AnyBuffer, Buffer},
        reduction::{MAX_VALUES, Reduction, Values},
    },
    native::{Expose, Exposure},
};
use mpi::ffi::{self, MPI_Aint, MPI_Datatype, MPI_Op};

use crate::{
    beneath,
    codes::{FAMPI_ERR_ARG, FAMPI_ERR_COUNT, Result, done},
    kept::{Keeper, keep_operation, keep_type},
    numbers::{Number, operation},
};

/// A datatype of the program.
#[derive(Clone)]
pub(crate) struct Type {
    raw: MPI_Datatype,
    /// Keeps it, if the program may free it.
    keeper: Option<Keeper>,
    /// Bytes of one element when it is packed, and from one element to the next in memory.
    size: usize,
    extent: isize,
    /// Packed is what it is in memory.
    dense: bool,
}

impl Type {
    /// The type behind a handle.
    pub(crate) fn of(raw: MPI_Datatype) -> Result<Self> {
        let (mut size, mut bounds, mut true_bounds) = (0, [0 as MPI_Aint; 2], [0 as MPI_Aint; 2]);
        let [low, extent] = &mut bounds;
        let [true_low, true_extent] = &mut true_bounds;
        // SAFETY: the results are ours; MPI refuses what is no type.
        done(unsafe { ffi::MPI_Type_size(raw, &raw mut size) })?;
        // SAFETY: as above.
        done(unsafe { ffi::MPI_Type_get_extent(raw, low, extent) })?;
        // SAFETY: as above.
        done(unsafe { ffi::MPI_Type_get_true_extent(raw, true_low, true_extent) })?;
        let size = usize::try_from(size).map_err(|_| FAMPI_ERR_COUNT)?;
        let (low, true_low) = (*low, *true_low);
        #[allow(clippy::unnecessary_cast, reason = "which integer it is, is MPI's affair")]
        let extent = *extent as isize;
        let whole = low == 0 && true_low == 0 && *true_extent as usize == size;
        let dense = whole && extent.unsigned_abs() == size;
        let keeper = if is_predefined(raw)? { None } else { Some(keep_type(raw)?) };
        Ok(Self { raw, keeper, size, extent, dense })
    }

    /// So many elements at this address.
    pub(crate) fn at(&self, address: *mut c_void, count: c_int) -> Result<Piece> {
        let elements = usize::try_from(count).map_err(|_| ffi::MPI_ERR_COUNT.cast_signed())?;
        let bytes = elements * self.size;
        // Others may stand at absolute addresses.
        if address.is_null() && self.dense && bytes > 0 {
            return Err(FAMPI_ERR_ARG);
        }
        Ok(Piece { kind: self.clone(), address, count, bytes })
    }

    /// So many elements behind this one.
    pub(crate) fn beyond(&self, address: *mut c_void, elements: isize) -> *mut c_void {
        address.wrapping_byte_offset(elements * self.extent)
    }
}

/// Elements in the memory of the program.
#[derive(Clone)]
pub(crate) struct Piece {
    kind: Type,
    address: *mut c_void,
    count: c_int,
    /// How many bytes they are when they are packed.
    pub(crate) bytes: usize,
}

impl Piece {
    /// Packs them.
    ///
    /// # Safety
    ///
    /// The program's memory has them.
    pub(crate) unsafe fn pack(&self, to: &mut [u8]) -> Result<()> {
        let Self { ref kind, address, count, bytes } = *self;
        if bytes == 0 {
            return Ok(());
        }
        if kind.dense {
            // SAFETY: the program's memory has so many bytes, by our caller's promise.
            to.copy_from_slice(unsafe { std::slice::from_raw_parts(address.cast(), bytes) });
            return Ok(());
        }
        let (mut place, room) = (0, length(to)?);
        let to = to.as_mut_ptr().cast();
        // SAFETY: reading a constant that MPI's library defines.
        let own = unsafe { ffi::RSMPI_COMM_SELF };
        // SAFETY: our caller's promise; what is written fits, or MPI refuses.
        done(unsafe { ffi::MPI_Pack(address, count, kind.raw, to, room, &raw mut place, own) })
    }

    /// The reverse.
    ///
    /// # Safety
    ///
    /// The program's memory has room for them.
    pub(crate) unsafe fn unpack(&self, from: &[u8]) -> Result<()> {
        let Self { ref kind, address, count, bytes } = *self;
        if bytes == 0 {
            return Ok(());
        }
        if kind.dense {
            // SAFETY: the program's memory has room for so many bytes, by our caller's promise,
            // and none of ours is there.
            unsafe { address.cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), bytes) };
            return Ok(());
        }
        let (mut place, length) = (0, length(from)?);
        let from = from.as_ptr().cast();
        // SAFETY: reading a constant that MPI's library defines.
        let own = unsafe { ffi::RSMPI_COMM_SELF };
        // SAFETY: our caller's promise.
        done(unsafe {
            ffi::MPI_Unpack(from, length, &raw mut place, address, count, kind.raw, own)
        })
    }
}

fn length(bytes: &[u8]) -> Result<c_int> {
    c_int::try_from(bytes.len()).map_err(|_| FAMPI_ERR_COUNT)
}

/// Elements that are combined, as they stand in memory, with what combines them.
pub(crate) struct Operands {
    bytes: Vec<u8>,
    stride: usize,
    datatype: MPI_Datatype,
    op: MPI_Op,
    /// Keep these two, as far as the program may free them.
    keepers: [Option<Keeper>; 2],
    /// The numbers that they are, if a commit can carry them and is to.
    numbers: Option<(Number, Values)>,
}

// SAFETY: handles of MPI are the same in all threads, and one thread uses them.
unsafe impl Send for Operands {}

// SAFETY: the bytes are a vector's, whose promises hold.
unsafe impl Expose for Operands {
    fn expose(&mut self) -> std::result::Result<Exposure, FaultCode> {
        self.bytes.expose()
    }
}

impl Operands {
    /// Room for these elements: of a type without gaps, or one of MPI's own, whose gaps belong to
    /// no rank.
    pub(crate) fn of(kind: &Type, count: c_int, op: MPI_Op) -> Result<Self> {
        if !kind.dense && kind.keeper.is_some() {
            return Err(FAMPI_ERR_ARG);
        }
        let keepers = [kind.keeper.clone(), keep_operation(op, kind.raw)?];
        let stride = usize::try_from(kind.extent).map_err(|_| FAMPI_ERR_ARG)?.max(1);
        let count = usize::try_from(count).map_err(|_| ffi::MPI_ERR_COUNT.cast_signed())?;
        let bytes = vec![0; stride * count];
        Ok(Self { bytes, stride, datatype: kind.raw, op, keepers, numbers: None })
    }

    /// Takes the elements of the program, or gives them back.
    ///
    /// # Safety
    ///
    /// The program's memory has them.
    pub(crate) unsafe fn load(&mut self, from: *const c_void) {
        if !self.bytes.is_empty() {
            let to = self.bytes.as_mut_ptr();
            // SAFETY: our caller's promise, and the vector is as long.
            unsafe { to.copy_from_nonoverlapping(from.cast(), self.bytes.len()) };
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The type of the elements.
    pub(crate) fn datatype(&self) -> MPI_Datatype {
        self.datatype
    }

    /// Makes numbers of this type of the elements, if a commit can carry them.
    pub(crate) fn fuse(&mut self, number: Number) {
        let count = self.bytes.len() / self.stride;
        if let (1..=MAX_VALUES, Some(operation)) = (count, operation(self.op)) {
            // SAFETY: so many elements of the type are in the vector.
            let values = unsafe { (number.read)(self.bytes.as_ptr().cast(), count, operation) };
            self.numbers = values.map(|values| (number, values));
        }
    }

    pub(crate) const REDUCTION: Reduction = Reduction::OfBuffers { combine, values, write };
}

fn is_predefined(datatype: MPI_Datatype) -> Result<bool> {
    let [mut integers, mut addresses, mut types, mut combiner] = [0; 4];
    // SAFETY: the results are ours; the handle has named itself before.
    done(unsafe {
        ffi::MPI_Type_get_envelope(
            datatype,
            &raw mut integers,
            &raw mut addresses,
            &raw mut types,
            &raw mut combiner,
        )
    })?;
    Ok(combiner == beneath::COMBINER_NAMED)
}

/// Combines two buffers, of which the right one takes the result.
fn combine(left: &dyn Buffer, right: &mut dyn Buffer) {
    let left = left.as_any().downcast_ref::<Operands>();
    let right = right.as_any_mut().downcast_mut::<Operands>();
    if let (Some(left), Some(right)) = (left, right) {
        let count = right.bytes.len().min(left.bytes.len()) / right.stride;
        let (from, to) = (left.bytes.as_ptr().cast(), right.bytes.as_mut_ptr().cast());
        // SAFETY: both have so many elements of the type, for which MPI or the program has defined
        // the operation, as the program has promised.
        unsafe { ffi::MPI_Reduce_local(from, to, count as c_int, right.datatype, right.op) };
    }
}

/// The numbers of a buffer.
fn values(buffer: &dyn Buffer) -> Option<Values> {
    let operands = buffer.as_any().downcast_ref::<Operands>()?;
    operands.numbers.as_ref().map(|(_, values)| *values)
}

/// Overwrites a buffer with what became of its numbers.
fn write(values: &Values, buffer: &mut dyn Buffer) {
    let operands = buffer.as_any_mut().downcast_mut::<Operands>();
    if let Some(Operands { bytes, numbers: Some((number, _)), .. }) = operands {
        // SAFETY: as many elements of the type are in the vector as were read.
        unsafe { (number.write)(values, bytes.as_mut_ptr().cast()) };
    }
}

impl Operands {
    fn like(&self, bytes: Vec<u8>) -> Self {
        let Self { stride, datatype, op, ref keepers, .. } = *self;
        Self { bytes, stride, datatype, op, keepers: keepers.clone(), numbers: None }
    }

    fn of_buffer(buffer: &dyn Buffer) -> Option<&[u8]> {
        buffer.as_any().downcast_ref::<Self>().map(Self::bytes)
    }
}

impl Buffer for Operands {
    fn elements(&self) -> usize {
        self.bytes.len()
    }

    fn element_bytes(&self) -> usize {
        1
    }

    fn element(&self) -> TypeId {
        TypeId::of::<Self>()
    }

    fn copy(&self, at: usize, count: usize) -> AnyBuffer {
        AnyBuffer::of(self.like(self.bytes[at..at + count].to_vec()))
    }

    fn fill(&mut self, at: usize, other: &dyn Buffer) -> bool {
        let Some(from) = Self::of_buffer(other) else { return false };
        let Some(to) = self.bytes.get_mut(at..at + from.len()) else { return false };
        to.copy_from_slice(from);
        true
    }

    fn load(&mut self, other: &dyn Buffer, at: usize) -> bool {
        // A buffer that is used again may have been another operation's.
        let Some(source) = other.as_any().downcast_ref::<Self>() else { return false };
        let Some(from) = source.bytes.get(at..at + self.bytes.len()) else { return false };
        self.bytes.copy_from_slice(from);
        (self.stride, self.datatype, self.op) = (source.stride, source.datatype, source.op);
        self.keepers.clone_from(&source.keepers);
        self.numbers = None;
        true
    }

    fn overwrite(&mut self, at: usize, other: &dyn Buffer) -> bool {
        let end = at + Self::of_buffer(other).map_or(0, <[u8]>::len);
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.fill(at, other)
    }
}
