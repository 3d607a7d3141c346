//! The only place that communicates: halo exchange and sums over the ranks.
//!
//! The solve is written once, against [`Network`]. [`InBlock`] runs it inside a block that
//! commits; [`Plain`] is the same exchange on bare MPI, for measuring what the blocks cost.

use fampi::{Error, ReduceOp, Request, Tag, Timeout, TryBlock};
use harness::buffers::{Buffers, Places};
use mpi::collective::SystemOperation;
use mpi::request::WaitGuard;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};

use crate::system::System;

/// The tag of halo messages, as in the reference.
const HALO: Tag = Tag(99);

/// What the solve needs of the other ranks.
pub trait Network {
    /// Starts to fill the external sections of `vector` from its owners' own parts.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn begin_exchange(&mut self, system: &System, vector: &[f64]) -> Result<(), Error>;

    /// Ends what [`Network::begin_exchange`] began.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn end_exchange(&mut self, system: &System, vector: &mut [f64]) -> Result<(), Error>;

    /// Starts a sum over all ranks, element by element.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn begin_sum(&mut self, values: &[f64]) -> Result<(), Error>;

    /// Ends what [`Network::begin_sum`] began.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn end_sum(&mut self) -> Result<Vec<f64>, Error>;

    /// The largest value over all ranks.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn max(&mut self, value: f64) -> Result<f64, Error>;

    /// A sum over all ranks.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn sum(&mut self, value: f64) -> Result<f64, Error> {
        self.begin_sum(&[value])?;
        Ok(self.end_sum()?[0])
    }
}

/// Communication inside a block: a failure ends the block, not the program.
pub struct InBlock<'a> {
    /// The block that all requests belong to.
    pub block: &'a mut TryBlock,
    /// Where the parts of the mesh are.
    pub places: &'a Places,
    /// Buffers to use.
    pub buffers: &'a mut Buffers,
    sends: Vec<Request<f64>>,
    receives: Vec<Request<f64>>,
    sum: Option<Request<f64>>,
}

impl<'a> InBlock<'a> {
    /// Communication in this block.
    pub fn new(block: &'a mut TryBlock, places: &'a Places, buffers: &'a mut Buffers) -> Self {
        let (sends, receives) = (Vec::new(), Vec::new());
        Self { block, places, buffers, sends, receives, sum: None }
    }

    /// The requests that send, whose buffers come back at the end of the block.
    #[must_use]
    pub fn into_sends(self) -> Vec<Request<f64>> {
        self.sends
    }
}

impl Network for InBlock<'_> {
    fn begin_exchange(&mut self, system: &System, vector: &[f64]) -> Result<(), Error> {
        self.receives.clear();
        for neighbour in system.neighbours() {
            let from = self.places.rank(neighbour.rank);
            let buffer = self.buffers.get(neighbour.receive_length());
            self.receives.push(self.block.irecv(buffer, from, HALO)?);
        }
        for neighbour in system.neighbours() {
            let to = self.places.rank(neighbour.rank);
            let mut buffer = self.buffers.get(neighbour.send_length());
            neighbour.pack(vector, &mut buffer);
            self.sends.push(self.block.isend(buffer, to, HALO)?);
        }
        Ok(())
    }

    fn end_exchange(&mut self, system: &System, vector: &mut [f64]) -> Result<(), Error> {
        for (neighbour, request) in system.neighbours().iter().zip(&self.receives) {
            self.block.wait_local(request, Timeout::Never)?;
            let buffer = self.block.take(*request)?;
            neighbour.unpack(&buffer, vector);
            self.buffers.put(buffer);
        }
        Ok(())
    }

    fn begin_sum(&mut self, values: &[f64]) -> Result<(), Error> {
        let mut buffer = self.buffers.get(values.len());
        buffer.copy_from_slice(values);
        self.sum = Some(self.block.iallreduce(buffer, ReduceOp::Sum)?);
        Ok(())
    }

    fn end_sum(&mut self) -> Result<Vec<f64>, Error> {
        let request = self.sum.take().ok_or(Error::NoSuchRequest)?;
        self.block.wait_local(request, Timeout::Never)?;
        self.block.take(request)
    }

    fn max(&mut self, value: f64) -> Result<f64, Error> {
        let request = self.block.iallreduce(vec![value], ReduceOp::Max)?;
        self.block.wait_local(request, Timeout::Never)?;
        Ok(self.block.take(request)?[0])
    }
}

/// The plain program: bare MPI, which dies with its first rank.
///
/// **Guarantees.** Sums have the bits of fused commits on as many ranks. A fused commit adds in
/// pairs, after the ranks beyond the largest power of two have been added to the first ones. Open
/// MPI adds a few numbers by recursive doubling: in pairs, too, but after the first ranks have
/// been added to their neighbours. So sums are made on a communicator in which the ranks beyond
/// the power of two are neighbours of those that they are added to.
///
/// **Assumes** that algorithm, which Open MPI 5.0 chooses for every number of ranks, without the
/// module `han`; the tests would notice another one.
pub struct Plain {
    world: SimpleCommunicator,
    sums: SimpleCommunicator,
    incoming: Vec<Vec<f64>>,
    outgoing: Vec<Vec<f64>>,
    sum: Vec<f64>,
}

impl Plain {
    /// On this communicator, of which all ranks call it.
    ///
    /// # Panics
    /// If MPI cannot divide the communicator.
    #[must_use]
    pub fn new(world: SimpleCommunicator) -> Self {
        let key = place_in_sums(world.rank(), world.size());
        let sums = world.split_by_color_with_key(Color::with_value(0), key);
        let sums = sums.expect("all ranks have the same colour");
        Self { world, sums, incoming: Vec::new(), outgoing: Vec::new(), sum: Vec::new() }
    }

    /// The communicator.
    #[must_use]
    pub fn world(&self) -> &SimpleCommunicator {
        &self.world
    }
}

/// The place of a rank among those that make a sum: ranks beyond the largest power of two stand
/// behind those that they are added to.
const fn place_in_sums(rank: i32, ranks: i32) -> i32 {
    let core = 1 << ranks.ilog2();
    let beyond = ranks - core;
    if rank < beyond {
        2 * rank
    } else if rank < core {
        rank + beyond
    } else {
        2 * (rank - core) + 1
    }
}

impl Network for Plain {
    fn begin_exchange(&mut self, system: &System, vector: &[f64]) -> Result<(), Error> {
        let neighbours = system.neighbours();
        self.incoming.resize_with(neighbours.len(), Vec::new);
        self.outgoing.resize_with(neighbours.len(), Vec::new);
        for (neighbour, buffer) in neighbours.iter().zip(&mut self.outgoing) {
            buffer.resize(neighbour.send_length(), 0.0);
            neighbour.pack(vector, buffer);
        }
        Ok(())
    }

    fn end_exchange(&mut self, system: &System, vector: &mut [f64]) -> Result<(), Error> {
        let neighbours = system.neighbours();
        for (neighbour, buffer) in neighbours.iter().zip(&mut self.incoming) {
            buffer.resize(neighbour.receive_length(), 0.0);
        }
        mpi::request::scope(|scope| {
            let mut guards = Vec::with_capacity(2 * neighbours.len());
            for (neighbour, buffer) in neighbours.iter().zip(&mut self.incoming) {
                let peer = self.world.process_at_rank(neighbour.rank as i32);
                let tag = HALO.0 as i32;
                let request = peer.immediate_receive_into_with_tag(scope, &mut buffer[..], tag);
                guards.push(WaitGuard::from(request));
            }
            let mut sends = Vec::with_capacity(neighbours.len());
            for (neighbour, buffer) in neighbours.iter().zip(&self.outgoing) {
                let peer = self.world.process_at_rank(neighbour.rank as i32);
                let request = peer.immediate_send_with_tag(scope, &buffer[..], HALO.0 as i32);
                sends.push(WaitGuard::from(request));
            }
        });
        for (neighbour, buffer) in neighbours.iter().zip(&self.incoming) {
            neighbour.unpack(buffer, vector);
        }
        Ok(())
    }

    fn begin_sum(&mut self, values: &[f64]) -> Result<(), Error> {
        self.sum.clear();
        self.sum.resize(values.len(), 0.0);
        self.sums.all_reduce_into(values, &mut self.sum[..], SystemOperation::sum());
        Ok(())
    }

    fn end_sum(&mut self) -> Result<Vec<f64>, Error> {
        Ok(self.sum.clone())
    }

    fn max(&mut self, value: f64) -> Result<f64, Error> {
        let mut largest = value;
        self.world.all_reduce_into(&value, &mut largest, SystemOperation::max());
        Ok(largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_added_first_stands_side_by_side() {
        let places = |ranks| (0..ranks).map(|rank| place_in_sums(rank, ranks)).collect::<Vec<_>>();
        assert_eq!(places(1), [0]);
        assert_eq!(places(4), [0, 1, 2, 3]);
        assert_eq!(places(5), [0, 2, 3, 4, 1]);
        assert_eq!(places(7), [0, 2, 4, 6, 1, 3, 5]);
    }
}
