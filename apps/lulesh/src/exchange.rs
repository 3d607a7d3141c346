//! The only place that communicates: exchanges with neighbours and reductions over the ranks.
//!
//! A cycle is written once, against [`Network`]. [`InBlock`] runs it inside a block that commits,
//! each exchange being a local block inside that one (paper, algorithm 3); [`Plain`] is the same
//! on bare MPI, for measuring what the blocks cost.

use fampi::{
    Error, FaultCode, Finished, Level, Outcome, ReduceOp, Request, Tag, Timeout, TryBlock, World,
};
use harness::buffers::{Buffers, Places};
use mpi::collective::SystemOperation;
use mpi::request::WaitGuard;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};

use crate::halo::{Message, Plan};

/// Fills a message.
pub type Pack<'a> = &'a mut dyn FnMut(Message, &mut [f64]);

/// Reads a message.
pub type Unpack<'a> = &'a mut dyn FnMut(Message, &[f64]);

/// What a cycle needs of the other ranks. Exchanges are opened, sent and closed one after the
/// other.
pub trait Network {
    /// Opens an exchange: from now on messages can arrive.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn open(&mut self, plan: &Plan) -> Result<(), Error>;

    /// Sends the messages of the exchange.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn send(&mut self, plan: &Plan, pack: Pack<'_>) -> Result<(), Error>;

    /// Waits for the messages of the exchange, and reads them in the order of the plan.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn close(&mut self, plan: &Plan, unpack: Unpack<'_>) -> Result<(), Error>;

    /// Starts a minimum over all ranks.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn begin_min(&mut self, value: f64) -> Result<(), Error>;

    /// Ends what [`Network::begin_min`] began.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn end_min(&mut self) -> Result<f64, Error>;

    /// Sums over all ranks, element by element.
    ///
    /// # Errors
    /// [`Error`] when the block is lost.
    fn sum(&mut self, values: &mut [f64]) -> Result<(), Error>;
}

/// What blocks use again and again.
#[derive(Default)]
pub struct Messages {
    buffers: Buffers,
    receives: Vec<Request<f64>>,
    sends: Vec<Request<f64>>,
}

/// Communication inside a block: a failure ends the block, not the program.
pub struct InBlock<'a> {
    world: &'a World,
    block: &'a mut TryBlock,
    places: &'a Places,
    messages: &'a mut Messages,
    exchange: Option<TryBlock>,
    min: Option<Request<f64>>,
}

impl<'a> InBlock<'a> {
    /// Communication in this block of the world.
    pub fn new(
        world: &'a World,
        block: &'a mut TryBlock,
        places: &'a Places,
        messages: &'a mut Messages,
    ) -> Self {
        Self { world, block, places, messages, exchange: None, min: None }
    }
}

impl Network for InBlock<'_> {
    fn open(&mut self, plan: &Plan) -> Result<(), Error> {
        let mut exchange = self.world.start(Level::Local)?;
        let Messages { buffers, receives, sends } = &mut *self.messages;
        receives.clear();
        sends.clear();
        for message in &plan.receives {
            let from = self.places.rank(message.rank);
            receives.push(exchange.irecv(buffers.get(message.length), from, Tag(plan.tag))?);
        }
        self.exchange = Some(exchange);
        Ok(())
    }

    fn send(&mut self, plan: &Plan, pack: Pack<'_>) -> Result<(), Error> {
        let exchange = self.exchange.as_mut().ok_or(Error::NoSuchRequest)?;
        let Messages { buffers, sends, .. } = &mut *self.messages;
        for message in &plan.sends {
            let mut buffer = buffers.get(message.length);
            pack(*message, &mut buffer);
            let to = self.places.rank(message.rank);
            sends.push(exchange.isend(buffer, to, Tag(plan.tag))?);
        }
        Ok(())
    }

    fn close(&mut self, plan: &Plan, unpack: Unpack<'_>) -> Result<(), Error> {
        let exchange = self.exchange.take().ok_or(Error::NoSuchRequest)?;
        let finished = end(exchange)?;
        let Messages { buffers, receives, sends } = &mut *self.messages;
        if !finished.is_committed() {
            return Err(first_fault(&finished, receives.iter().chain(&*sends)));
        }
        for (message, request) in plan.receives.iter().zip(receives) {
            let buffer = finished.take(*request)?;
            unpack(*message, &buffer);
            buffers.put(buffer);
        }
        for request in sends {
            buffers.put(finished.take(*request)?);
        }
        Ok(())
    }

    fn begin_min(&mut self, value: f64) -> Result<(), Error> {
        let mut buffer = self.messages.buffers.get(1);
        buffer[0] = value;
        self.min = Some(self.block.iallreduce(buffer, ReduceOp::Min)?);
        Ok(())
    }

    fn end_min(&mut self) -> Result<f64, Error> {
        let request = self.min.take().ok_or(Error::NoSuchRequest)?;
        self.block.wait_local(request, Timeout::Never)?;
        let buffer = self.block.take(request)?;
        let value = buffer[0];
        self.messages.buffers.put(buffer);
        Ok(value)
    }

    fn sum(&mut self, values: &mut [f64]) -> Result<(), Error> {
        let mut buffer = self.messages.buffers.get(values.len());
        buffer.copy_from_slice(values);
        let request = self.block.iallreduce(buffer, ReduceOp::Sum)?;
        self.block.wait_local(request, Timeout::Never)?;
        let buffer = self.block.take(request)?;
        values.copy_from_slice(&buffer);
        self.messages.buffers.put(buffer);
        Ok(())
    }
}

/// The end of a local block, however long it takes.
fn end(block: TryBlock) -> Result<Finished, Error> {
    match block.finish(Timeout::Never).wait_local(Timeout::Never)? {
        Outcome::Committed(finished) | Outcome::Faulty(finished) => Ok(finished),
        Outcome::TimedOut(_) => unreachable!("this wait has no limit"),
    }
}

/// Why a local block is faulty.
fn first_fault<'a>(
    finished: &Finished,
    mut requests: impl Iterator<Item = &'a Request<f64>>,
) -> Error {
    let fault = requests.find_map(|request| finished.fault(request));
    Error::Request(fault.unwrap_or(FaultCode::InnerBlock))
}

/// The plain program: bare MPI, which dies with its first rank.
pub struct Plain {
    world: SimpleCommunicator,
    incoming: Vec<Vec<f64>>,
    outgoing: Vec<Vec<f64>>,
    min: f64,
}

impl Plain {
    /// On this communicator.
    #[must_use]
    pub fn new(world: SimpleCommunicator) -> Self {
        Self { world, incoming: Vec::new(), outgoing: Vec::new(), min: 0.0 }
    }

    /// The communicator.
    #[must_use]
    pub fn world(&self) -> &SimpleCommunicator {
        &self.world
    }
}

impl Network for Plain {
    fn open(&mut self, plan: &Plan) -> Result<(), Error> {
        self.incoming.resize_with(plan.receives.len(), Vec::new);
        for (buffer, message) in self.incoming.iter_mut().zip(&plan.receives) {
            buffer.resize(message.length, 0.0);
        }
        Ok(())
    }

    fn send(&mut self, plan: &Plan, pack: Pack<'_>) -> Result<(), Error> {
        self.outgoing.resize_with(plan.sends.len(), Vec::new);
        for (buffer, message) in self.outgoing.iter_mut().zip(&plan.sends) {
            buffer.resize(message.length, 0.0);
            pack(*message, buffer);
        }
        Ok(())
    }

    fn close(&mut self, plan: &Plan, unpack: Unpack<'_>) -> Result<(), Error> {
        let tag = plan.tag as i32;
        mpi::request::scope(|scope| {
            let mut receives = Vec::with_capacity(plan.receives.len());
            for (message, buffer) in plan.receives.iter().zip(&mut self.incoming) {
                let peer = self.world.process_at_rank(message.rank as i32);
                let request = peer.immediate_receive_into_with_tag(scope, &mut buffer[..], tag);
                receives.push(WaitGuard::from(request));
            }
            let mut sends = Vec::with_capacity(plan.sends.len());
            for (message, buffer) in plan.sends.iter().zip(&self.outgoing) {
                let peer = self.world.process_at_rank(message.rank as i32);
                let request = peer.immediate_send_with_tag(scope, &buffer[..], tag);
                sends.push(WaitGuard::from(request));
            }
        });
        for (message, buffer) in plan.receives.iter().zip(&self.incoming) {
            unpack(*message, buffer);
        }
        Ok(())
    }

    fn begin_min(&mut self, value: f64) -> Result<(), Error> {
        self.world.all_reduce_into(&value, &mut self.min, SystemOperation::min());
        Ok(())
    }

    fn end_min(&mut self) -> Result<f64, Error> {
        Ok(self.min)
    }

    fn sum(&mut self, values: &mut [f64]) -> Result<(), Error> {
        let mine = values.to_vec();
        self.world.all_reduce_into(&mine[..], values, SystemOperation::sum());
        Ok(())
    }
}
