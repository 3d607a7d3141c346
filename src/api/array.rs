//! Arrays of which sections are sent and received, without packing.

use core::ops::Range;
use std::sync::Arc;

use super::{RequestId, Source, Tag, TagSelector, TryBlock};
use crate::{
    error::Error,
    native::Element,
    rank::Rank,
    seam::lent::{Access, Elements, Lent},
};

/// An array with `N` axes, the last one contiguous, which several requests can use at once: each
/// borrows a section until it is over, and the array stays the application's.
///
/// It outlives blocks, and rebuilds. While a request receives into it nothing else can be done
/// with it but to send and receive other sections; while requests only send it can be
/// [read](Self::read). A request that never completed may leave it in use, as MPI may still write
/// to it: then go on with another one.
///
/// ```
/// # use fampi::{Array, Error, Level, Rank, Tag, Timeout, sim::Simulation};
/// # let report = Simulation::new(2).run_world(|world| -> Result<Vec<u32>, Error> {
/// // Each of two ranks has a row of 3 × 4 cells with a column of ghosts at each side.
/// let (me, other) = (world.rank().number(), Rank::new(1 - world.rank().number()));
/// let mut field = Array::new([3, 6], vec![me; 18])?;
/// let mut block = world.start(Level::Global)?;
/// let (inside, ghosts) = if me == 0 { (4..5, 5..6) } else { (1..2, 0..1) };
/// block.irecv_section(&field, [0..3, ghosts], other, Tag(0))?;
/// block.isend_section(&field, [0..3, inside], other, Tag(0))?;
/// let _ = block.finish(Timeout::Never).wait_local(Timeout::Never)?;
/// assert_eq!(field.elements_mut()?[0], 0);
/// assert_eq!(field.elements_mut()?[5], 1);
/// # world.finalize();
/// # Ok(field.into_vec().expect("nobody uses it"))
/// # });
/// # let rows = report.expect_orderly();
/// # assert_eq!(rows[0].as_ref().unwrap(), &[0, 0, 0, 0, 0, 1].repeat(3));
/// # assert_eq!(rows[1].as_ref().unwrap(), &[0, 1, 1, 1, 1, 1].repeat(3));
/// ```
#[derive(Debug)]
pub struct Array<T, const N: usize> {
    lent: Arc<Lent<T, N>>,
}

impl<T: Element, const N: usize> Array<T, N> {
    /// An array of this shape, of elements whose last index moves fastest.
    ///
    /// # Errors
    ///
    /// [`Error::WrongLength`].
    pub fn new(shape: [usize; N], elements: Vec<T>) -> Result<Self, Error> {
        Ok(Self { lent: Arc::new(Lent::new(shape, elements)?) })
    }

    /// The length of each axis.
    pub fn shape(&self) -> [usize; N] {
        self.lent.shape()
    }

    /// All elements, to be changed.
    ///
    /// # Errors
    ///
    /// [`Error::ArrayInUse`] while a request uses the array.
    pub fn elements_mut(&mut self) -> Result<&mut [T], Error> {
        Ok(Arc::get_mut(&mut self.lent).ok_or(Error::ArrayInUse)?.elements_mut())
    }

    /// All elements, to be read, also while requests send some of them. Nothing can be received
    /// into the array before the result is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::ArrayInUse`] while a request receives into the array.
    pub fn read(&self) -> Result<Elements<'_, T>, Error> {
        self.lent.read()
    }

    /// The elements back.
    ///
    /// # Errors
    ///
    /// The array itself while a request uses it.
    pub fn into_vec(self) -> Result<Vec<T>, Self> {
        match Arc::try_unwrap(self.lent) {
            Ok(lent) => Ok(lent.into_elements()),
            Err(lent) => Err(Self { lent }),
        }
    }
}

/// # Sections of arrays
///
/// What a derived datatype is for in MPI (`MPI_Type_vector`, `MPI_Type_create_subarray`, MPI 4.1
/// §5.1): the faces of a box go to the neighbours without being packed. A section is a range of
/// each axis of an [`Array`]; the other side receives as many elements, in the same order, into a
/// section of any shape, or with [`TryBlock::irecv`] into a vector. Datatypes are made at the
/// first use of a pattern, and kept.
///
/// A request gives its section back when it is over; [`TryBlock::take`] is not for it.
///
/// # Errors
///
/// [`Error::OutsideOfArray`]; [`Error::SectionInUse`] when the section has an element that another
/// request receives, or, to receive it, one that another request uses; [`Error::NoSuchRank`],
/// [`Error::TagTooLarge`]. Nothing is started then. Everything else is a fault of the request.
impl TryBlock {
    /// Sends a section of an array; see [`Self::isend`].
    ///
    /// # Errors
    ///
    /// Those of sections of arrays.
    pub fn isend_section<T: Element, const N: usize>(
        &mut self,
        array: &Array<T, N>,
        section: [Range<usize>; N],
        to: Rank,
        tag: Tag,
    ) -> Result<RequestId, Error> {
        self.send_part(array, section, (to, tag), false)
    }

    pub(super) fn send_part<T: Element, const N: usize>(
        &mut self,
        array: &Array<T, N>,
        section: [Range<usize>; N],
        (to, tag): (Rank, Tag),
        synchronous: bool,
    ) -> Result<RequestId, Error> {
        let part = array.lent.claim(section, Access::Read)?;
        self.send(part, to, tag, synchronous)
    }

    /// Receives into a section of an array, at most as many elements as it has; a message that is
    /// shorter fills its first ones. See [`Self::irecv`].
    ///
    /// # Errors
    ///
    /// Those of sections of arrays, and [`Error::ArrayInUse`] while an operation reads the array.
    pub fn irecv_section<T: Element, const N: usize>(
        &mut self,
        array: &Array<T, N>,
        section: [Range<usize>; N],
        from: impl Into<Source>,
        tag: impl Into<TagSelector>,
    ) -> Result<RequestId, Error> {
        let part = array.lent.claim(section, Access::Write)?;
        self.receive(part, from.into(), tag.into())
    }
}
