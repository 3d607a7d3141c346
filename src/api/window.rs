//! Windows: memory of each rank that the others use without its help.

use alloc::rc::Rc;
use core::cell::RefCell;

use super::{Comm, Request, RequestId, TryBlock};
use crate::{
    engine::{Access, WindowId},
    error::Error,
    native::Element,
    rank::Rank,
    seam::{
        buffer::AnyBuffer,
        reduction::{ReduceOp, Reducible},
    },
};

/// This rank's part of a window: memory into which the other ranks of a communicator put, from
/// which they get and in which they accumulate elements, while this rank does something else.
/// [`Comm::window`] makes it, the operations are [`TryBlock::rput`], [`TryBlock::rget`] and
/// [`TryBlock::raccumulate`].
///
/// # A block is a transaction on the windows of all ranks
///
/// **What a block puts or accumulates counts with the block's commit, on all ranks or on none.**
/// The epochs of MPI (`MPI_Win_fence`, `MPI_Win_lock`, `MPI_Win_flush`; MPI 4.1 §12.5) are not
/// needed: a block is the epoch, and its commit closes it.
///
/// - What a block puts is in the memory of the target when the block is decided there, and nowhere
///   before: a get of the same block never sees it. To read what others have put, all ranks wait
///   for the verdict, and start the block that gets it then.
/// - Elements are written in the order of the ranks that put or accumulate them, those of one rank
///   in the order of its calls. So sums of floats are the same bits in each run, and of several
///   puts to one place that of the highest rank stays.
/// - Blocks that are open at the same time are written in the order in which they are decided,
///   which may differ from rank to rank. Wait for a block before another one uses the same places.
/// - Nothing of an aborted block is ever there, nor are accesses of a rank that died before it had
///   voted.
/// - [`Self::change`] is for the time between blocks: what this rank changes itself is changed at
///   once, whatever becomes of a block.
///
/// # What the target does
///
/// Nothing, but its engine needs turns: in each wait or test of this library, for anything. A rank
/// that computes answers no rank meanwhile, nor does one that waits for a communicator which others
/// have not begun to make. A request whose target does not answer is late at the
/// deadline of [`TryBlock::finish`] like any other. Each rank makes its part before it starts the
/// block in which others use it, and drops it after that is decided.
///
/// Elements travel as messages, and are copied on both sides. As long as this rank has windows on a
/// communicator it looks for questions in each of its blocks, which makes commits a little slower.
///
/// # After a death
///
/// An access to a dead rank is a fault of the request that names it; the windows of the living go
/// on, on the same communicator. A window belongs to its communicator: after a shrink or a rebuild
/// all ranks make theirs anew on the new one, with the same call, from [`Self::into_vec`] or from
/// a restored state. The memory is a state like any other, and lost with its rank unless it is
/// [protected](TryBlock::protect). What is protected in a block is what the memory was before this
/// block's commit: protect it in the next one, or use the window in a block inside of the one that
/// protects, as [`window.rs`] does.
///
/// ```
/// # use fampi::{Error, Level, Rank, ReduceOp, Timeout, sim::Simulation};
/// # let report = Simulation::new(4).run_world(|world| -> Result<Vec<u64>, Error> {
/// // Every rank counts what all have seen, in two cells of rank 0.
/// let counts = world.window(0, vec![0_u64; 2])?;
/// let mut block = world.start(Level::Global)?;
/// block.raccumulate(&counts, Rank::new(0), 1, vec![10], ReduceOp::Sum)?;
/// let outcome = block.finish(Timeout::seconds(5.0)).wait_local(Timeout::Never)?;
/// // All four are there, or, if a process has died, none.
/// # drop(outcome);
/// let found = counts.read(<[u64]>::to_vec);
/// # drop(counts);
/// # world.finalize();
/// # Ok(found)
/// # });
/// # let found = report.expect_orderly();
/// # assert_eq!((&found[0], &found[1]), (&Ok(vec![0, 40]), &Ok(vec![0, 0])));
/// ```
///
/// [`window.rs`]: https://github.com/fampi/fampi/blob/main/examples/window.rs
pub struct Window<T: Element> {
    comm: Comm,
    id: WindowId,
    memory: Rc<RefCell<Vec<T>>>,
}

impl Comm {
    /// Makes this rank's part of a window, for all ranks of the communicator (`MPI_Win_create`,
    /// MPI 4.1 §12.2.1). Local, no message. Every rank makes one with the same number and the same
    /// type of elements, before it starts a block in which it is used; a rank's part has the
    /// length that it likes, and keeps it.
    ///
    /// # Errors
    ///
    /// [`Error::WindowExists`] while this rank has a window of this number here;
    /// [`Error::Abandoned`] when the communicator was replaced by a rebuild.
    pub fn window<T: Element>(&self, number: u32, memory: Vec<T>) -> Result<Window<T>, Error> {
        let memory = Rc::new(RefCell::new(memory));
        let id = self.engine().borrow_mut().add_window(self.key(), number, memory.clone())?;
        Ok(Window { comm: self.clone(), id, memory })
    }
}

impl<T: Element> Window<T> {
    /// Reads this rank's memory: what the decided blocks have made of it. What is decided while it
    /// is read, by a wait inside, is there afterwards: until then gets of this memory are refused
    /// with `MPI_ERR_RMA_SYNC` (47).
    pub fn read<R>(&self, body: impl FnOnce(&[T]) -> R) -> R {
        let result = body(&self.memory.borrow());
        self.settle();
        result
    }

    /// Changes this rank's memory, between blocks. Inside, waits of this library are of no use:
    /// accesses of others are refused meanwhile with `MPI_ERR_RMA_SYNC` (47).
    pub fn change<R>(&mut self, body: impl FnOnce(&mut [T]) -> R) -> R {
        let result = body(&mut self.memory.borrow_mut());
        self.settle();
        result
    }

    fn settle(&self) {
        if let Ok(mut engine) = self.comm.engine().try_borrow_mut() {
            engine.settle_windows();
        }
    }

    /// Ends this rank's part (`MPI_Win_free`, local) and gives its memory back. What a block has
    /// put that is not decided yet is not in it.
    pub fn into_vec(self) -> Vec<T> {
        self.memory.take()
    }
}

impl<T: Element> Drop for Window<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Ok(mut engine) = self.comm.engine().try_borrow_mut() {
            engine.remove_window(self.id);
        }
    }
}

impl<T: Element> std::fmt::Debug for Window<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Window({:?}, {} elements)", self.comm, self.memory.borrow().len())
    }
}

/// # Windows
///
/// Requests on a [`Window`] of the block's communicator, in a block that is agreed upon; places
/// are counted in elements from the beginning of the target's memory. The target may be this rank
/// itself. A request is complete when the target has answered; what it puts or accumulates counts
/// with the block's commit.
///
/// What only the target knows is a fault of the request with MPI's class: a place outside of its
/// memory (`MPI_ERR_RMA_RANGE`, 68), no window of this number (`MPI_ERR_WIN`, 53), one of elements
/// of another type (`MPI_ERR_TYPE`, 3), memory in use by [`Window::change`], or, for a get after a
/// put, by [`Window::read`] (`MPI_ERR_RMA_SYNC`, 47). The buffer comes back in any case.
impl TryBlock {
    /// Overwrites elements of the target (`MPI_Rput`, MPI 4.1 §12.3.5).
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`], [`Error::ForeignWindow`]; [`Error::NotGlobal`] in a local block,
    /// which has no verdict that the target could share.
    pub fn rput<T: Element>(
        &mut self,
        window: &Window<T>,
        target: Rank,
        at: usize,
        elements: Vec<T>,
    ) -> Result<Request<T>, Error> {
        self.access(window, (target, at), Access::Put, elements)
    }

    /// Reads as many elements of the target as the buffer has (`MPI_Rget`, §12.3.5): as they are
    /// when the target answers, without what this block puts.
    ///
    /// # Errors
    ///
    /// As [`Self::rput`].
    pub fn rget<T: Element>(
        &mut self,
        window: &Window<T>,
        target: Rank,
        at: usize,
        buffer: Vec<T>,
    ) -> Result<Request<T>, Error> {
        self.access(window, (target, at), Access::Get, buffer)
    }

    /// Combines elements of the target with these (`MPI_Raccumulate`, §12.3.5), by a predefined
    /// reduction as MPI wants it; its `MPI_REPLACE` is [`Self::rput`].
    ///
    /// # Errors
    ///
    /// As [`Self::rput`]; [`Error::NoSuchReduction`] for elements other than integers and floats
    /// of at most 64 bits, and for bits of floats.
    pub fn raccumulate<T: Reducible>(
        &mut self,
        window: &Window<T>,
        target: Rank,
        at: usize,
        elements: Vec<T>,
        op: ReduceOp,
    ) -> Result<Request<T>, Error> {
        self.access(window, (target, at), Access::Accumulate(op), elements)
    }

    fn access<T: Element>(
        &mut self,
        window: &Window<T>,
        place: (Rank, usize),
        access: Access,
        buffer: Vec<T>,
    ) -> Result<Request<T>, Error> {
        if !Rc::ptr_eq(self.engine(), window.comm.engine()) {
            return Err(Error::ForeignWindow);
        }
        let mut engine = self.engine().borrow_mut();
        let buffer = AnyBuffer::of(buffer);
        let index = engine.post_access(self.key, window.id, place, access, buffer)?;
        Ok(Request::of(RequestId { block: self.key, index }))
    }
}
