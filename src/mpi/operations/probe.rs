//! Messages that are looked for before they are received.

use super::table::Table;
use crate::{
    fault::FaultCode,
    mpi::{
        calls::{
            comm::Comm,
            library::{Checked, PROC_FAILED_PENDING, Refusal},
            matched::Matched,
            ulfm::Ulfm,
        },
        this_mpi,
    },
    native::Kind,
    rank::Rank,
    seam::{
        buffer::{AnyBuffer, Buffer},
        platform::{Found, Lane, MessageId},
    },
};

/// Messages that were matched and not received, by the order of their match.
#[derive(Default)]
pub(in crate::mpi) struct Messages {
    waiting: Vec<(MessageId, Matched)>,
    /// How many were matched.
    matched: u32,
}

impl Messages {
    fn add(&mut self, message: Matched) -> MessageId {
        let id = MessageId(self.matched);
        self.matched = self.matched.wrapping_add(1);
        self.waiting.push((id, message));
        id
    }

    pub(super) fn take(&mut self, id: MessageId) -> Option<Matched> {
        let at = self.waiting.iter().position(|(known, _)| *known == id)?;
        Some(self.waiting.swap_remove(at).1)
    }

    /// Looks for a message, and keeps it if `take` says what its elements are.
    pub(in crate::mpi) fn find(
        &mut self,
        comm: &Comm,
        envelope: (Option<Rank>, Option<u32>),
        take: Option<&mut dyn Buffer>,
        ulfm: &Ulfm,
    ) -> Result<Option<Found>, FaultCode> {
        let envelope = this_mpi::first_of_program(comm, envelope);
        let Some(envelope) = envelope.map_err(Refusal::fault)? else { return Ok(None) };
        let found: Checked<Option<Found>> = match take {
            Some(like) => Matched::probe(comm, envelope, like.expose()?).map(|found| {
                found.map(|(message, done)| {
                    let status = done.told(message.elements());
                    Found { status, message: Some(self.add(message)) }
                })
            }),
            None => Matched::next_envelope(comm, envelope)
                .map(|seen| seen.map(|status| Found { status, message: None })),
        };
        found.or_else(|refusal| {
            if refusal.class != PROC_FAILED_PENDING {
                return Err(refusal.fault());
            }
            comm.acknowledge_failures(ulfm);
            Ok(None)
        })
    }

    /// Receives a message, if it is still there, into memory that is not read.
    pub(in crate::mpi) fn discard(&mut self, id: MessageId, table: &mut Table) {
        match self.take(id).map(Matched::into_nowhere) {
            Some(Ok((request, nowhere))) => {
                let buffer = Some(AnyBuffer::of(nowhere));
                table.add_stray((request, Kind::Plain), Lane::NOWHERE, buffer);
            }
            Some(Err(refusal)) => tracing::debug!(?refusal, "message not dropped"),
            None => {}
        }
    }
}
