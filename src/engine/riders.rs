//! Small collectives of blocks of level `WithCollective`, which ride on the commit.
//!
//! The last rider of a block is over when the block is decided, and its result is part of the
//! decision. One that the application waits for before, or after which it posts another one, is
//! exchanged at once ([`crate::protocol::riders`]). All the same every rank votes with what it
//! gives to the last, so that the votes are alike whatever single ranks have waited for.

use super::{BlockKey, Engine, Level, Need, Phase, contents::Rider};
use crate::{
    fault::FaultCode,
    protocol::{
        agreement::FIRST_SHARED_CONTEXT,
        fused::{Held, Values},
        planted::planted,
    },
    seam::{
        buffer::AnyBuffer,
        collective::Collective,
        platform::{Progress, Status},
    },
};

impl Engine {
    /// The numbers that a collective of a block brings, and nothing for a barrier, if it can ride
    /// on the commit.
    pub(super) fn rides(
        &self,
        key: BlockKey,
        collective: &Collective,
        buffer: &AnyBuffer,
    ) -> Option<Held> {
        if self.block(key).level != Level::WithCollective {
            return None;
        }
        match collective {
            Collective::Barrier => Some(Held::NOTHING),
            Collective::Allreduce { reduction } => reduction.values(&**buffer).map(|values| {
                let mut held = Held::NOTHING;
                held.set(&values);
                held
            }),
            _ => None,
        }
    }

    /// Posts a rider as the next request of a block. The one before it cannot ride any more.
    pub(super) fn post_rider(
        &mut self,
        key: BlockKey,
        collective: &Collective,
        values: &Held,
        buffer: AnyBuffer,
    ) -> usize {
        self.note_synchronising(key, collective, buffer.elements());
        let number = self.contents(key).riders.len() as u32;
        let block = self.block(key);
        let over_living = block.run_through && block.context >= FIRST_SHARED_CONTEXT;
        let need = Need::Rider(number);
        let doom = self.process.doom(key, if over_living { need } else { Need::All });
        let contents = self.contents_mut(key);
        let index = contents.records.len();
        let reduction = collective.reduction().copied();
        if let Some(code) = doom {
            // It counts all the same, as it does elsewhere.
            contents.riders.push(Rider { index, reduction, buffer: None });
            return self.add_failed(key, Need::All, (code, buffer));
        }
        contents.records.add(need);
        contents.riders.push(Rider { index, reduction, buffer: Some(buffer) });
        self.call(|process, out| process.post_rider(key, number, values.get(), out));
        if let Some(before) = number.checked_sub(1) {
            self.want_rider(key, before);
        }
        index
    }

    /// The application waits for a request of a block: if that is a rider, it does not ride.
    #[inline]
    pub(crate) fn want(&mut self, key: BlockKey, index: usize) {
        if let Need::Rider(number) = self.contents(key).records[index].need {
            self.want_rider(key, number);
        }
    }

    /// The application waits in MPI, of which it is not known for what.
    pub(crate) fn want_all_riders(&mut self) {
        for key in self.process.used_blocks() {
            if self.block(key).phase == Phase::Open {
                for number in 0..self.contents(key).riders.len() {
                    self.want_rider(key, number as u32);
                }
            }
        }
    }

    #[cold]
    fn want_rider(&mut self, key: BlockKey, number: u32) {
        let contents = self.contents(key);
        let index = contents.riders[number as usize].index;
        if !contents.records[index].is_over() {
            self.call(|process, out| process.want_rider(key, number, out));
        }
    }

    /// Looks whether a rider is over ahead of the commit. The state of its request.
    pub(super) fn test_rider(&mut self, key: BlockKey, index: usize, number: u32) -> Progress {
        match self.process.rider_outcome(key, number) {
            None => return Progress::Pending,
            Some(Ok(values)) => {
                let values = values.copied();
                self.complete_rider(key, number, values.as_ref());
            }
            Some(Err(code)) => self.fail_request(key, index, code),
        }
        self.contents(key).records[index].state
    }

    /// A block is finished: what its last rider gives goes with this rank's vote. Of another one,
    /// or with a reduction of its own at the end of the block, the result is waited for.
    #[cold]
    pub(super) fn attach_rider(&mut self, key: BlockKey) {
        let last = self.contents(key).riders.len() as u32 - 1;
        if self.block(key).values.get().is_some() {
            return self.want_rider(key, last);
        }
        let contents = self.contents_mut(key);
        let rider = &contents.riders[last as usize];
        let elements = rider.buffer.as_ref().map_or(0, AnyBuffer::elements);
        let record = &mut contents.records[rider.index];
        match record.state {
            Progress::Failed(_) => return,
            Progress::Complete(_) if planted!(LeaveTheRiderBehind) => return,
            Progress::Complete(_) => {}
            Progress::Pending => {
                // As far as this rank is concerned: the rest is the commit's.
                record.state = Progress::Complete(Status { elements, ..Status::default() });
                contents.riding = Some(last);
            }
        }
        self.process.attach_rider(key, last);
    }

    /// What a collective has come to, once it is over, and its buffer.
    pub(crate) fn take_collective(
        &mut self,
        key: BlockKey,
        index: usize,
    ) -> Option<(Progress, Option<AnyBuffer>)> {
        if self.is_riding(key, index) {
            return None;
        }
        if let Need::Rider(_) = self.contents(key).records[index].need {
            self.test_request(key, index);
        }
        self.contents_mut(key).take_collective(index)
    }

    /// True for a request that is over when its block is decided, which it is not.
    pub(crate) fn is_riding(&self, key: BlockKey, index: usize) -> bool {
        let contents = self.contents(key);
        contents.riding.is_some_and(|number| contents.riders[number as usize].index == index)
    }

    /// The block is decided: so is what rides on it.
    #[cold]
    pub(super) fn detach_rider(&mut self, key: BlockKey, committed: bool) {
        let values = self.block(key).values.get().copied();
        let Some(number) = self.contents_mut(key).riding.take() else { return };
        if committed {
            return self.complete_rider(key, number, values.as_ref());
        }
        let contents = self.contents_mut(key);
        contents.has_failed = true;
        let index = contents.riders[number as usize].index;
        contents.records[index].state = Progress::Failed(FaultCode::Interrupted);
        self.end_rider(key, index);
    }

    /// A rider is over, with what all ranks have given.
    fn complete_rider(&mut self, key: BlockKey, number: u32, values: Option<&Values>) {
        let contents = self.contents_mut(key);
        let Rider { index, reduction, buffer } = &mut contents.riders[number as usize];
        let Some(mut buffer) = buffer.take() else { return };
        if let (Some(reduction), Some(values)) = (reduction, values) {
            reduction.write(values, &mut *buffer);
        }
        let record = &mut contents.records[*index];
        let elements = buffer.elements();
        record.give(buffer);
        record.end_at_once(elements);
    }

    /// A rider that has failed: its buffer is the application's again.
    pub(super) fn end_rider(&mut self, key: BlockKey, index: usize) {
        let contents = self.contents_mut(key);
        let Need::Rider(number) = contents.records[index].need else { return };
        if let Some(buffer) = contents.riders[number as usize].buffer.take() {
            let record = &mut contents.records[index];
            record.give(buffer);
            record.end_as(record.state);
        }
    }
}
