//! Riders of the blocks of this process: posted, waited for, known ahead of the commit.

use super::{Adapter, BlockKey, CommKey, Events, Outlet, Process};
use crate::{
    fault::FaultCode,
    protocol::{
        fused::Values,
        message::{Ahead, Message, RiderId},
        riders::{Among, Riders},
    },
    rank::Rank,
};

impl Process {
    /// The application posts a rider in an open block, which has so many before it.
    pub fn post_rider(
        &mut self,
        key: BlockKey,
        number: u32,
        values: Option<&Values>,
        out: &mut impl Outlet,
    ) {
        let block = self.block(key);
        let (comm, id, context) = (block.comm, self.rider(key, number), block.context);
        self.ride(comm, out, |riders, among, out| riders.post((id, context), values, among, out));
    }

    /// The application waits for a rider that it has posted.
    pub fn want_rider(&mut self, key: BlockKey, number: u32, out: &mut impl Outlet) {
        let (comm, id) = (self.block(key).comm, self.rider(key, number));
        self.ride(comm, out, |riders, among, out| riders.want(id, among, out));
    }

    /// What has become of a rider ahead of the commit, if anything has.
    pub fn rider_outcome(
        &self,
        key: BlockKey,
        number: u32,
    ) -> Option<Result<Option<&Values>, FaultCode>> {
        let outcome = self.riders_of(key).outcome(self.rider(key, number))?;
        Some(outcome.map_err(|_| FaultCode::Mismatched))
    }

    /// True when some rank waits for a rider.
    pub fn is_wanted(&self, key: BlockKey, number: u32) -> bool {
        self.riders_of(key).is_wanted(self.rider(key, number))
    }

    /// This rank votes on a block next, whose last rider is this one: it rides on the commit.
    pub fn attach_rider(&mut self, key: BlockKey, number: u32) {
        let own = self.riders_of(key).own(self.rider(key, number)).copied();
        if let Some(values) = own {
            self.block_mut(key).values.set(&values);
        }
    }

    /// Another rank waits for a rider, or says what it has combined of one.
    pub(super) fn handle_rider(
        &mut self,
        comm: CommKey,
        from: Rank,
        message: &Message,
        out: &mut impl Outlet,
    ) {
        let (Message::Wanted(id) | Message::Ahead(Ahead { rider: id, .. })) = message else {
            return;
        };
        if self.comm(comm).commit.has_decided(id.block) {
            return;
        }
        self.ride(comm, out, |riders, among, out| match message {
            Message::Ahead(ahead) => riders.handle_ahead(from, ahead, among, out),
            _ => riders.handle_wanted(*id, among, out),
        });
    }

    fn rider(&self, key: BlockKey, number: u32) -> RiderId {
        RiderId { block: self.block(key).scope, number }
    }

    fn riders_of(&self, key: BlockKey) -> &Riders {
        &self.comm(self.block(key).comm).riders
    }

    /// One turn of the riders of a communicator.
    fn ride<O: Outlet>(
        &mut self,
        key: CommKey,
        out: &mut O,
        turn: impl FnOnce(&mut Riders, Among<'_>, &mut Adapter<'_, O>),
    ) {
        let mut events = Events::new();
        let state = &mut self.comms[key.index()];
        let among = Among { view: state.commit.live(), me: state.me };
        let (universe, comm, members) = (state.universe, state.wire, &state.members);
        let mut adapter = Adapter { out, universe, comm, members, events: &mut events };
        turn(&mut state.riders, among, &mut adapter);
    }
}
