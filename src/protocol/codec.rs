//! Bytes of the messages: little-endian, self-delimiting, total.
//!
//! ```text
//! frame   = comm u64 · kind u8 · body
//! Yes     = step u8 · block u64 · view u64 · floor u64                      (34 bytes in all)
//! Fused   = Yes · header u32 · (word u64) per value                          (46 to 102 bytes)
//! rider   = block u64 · number u32
//! Ahead   = rider · step u8 · view u64 · values
//! slow    = block u64 · ballot u32 · set(dead) · [contribution | decision]
//! set     = count u32 · rank u32 …
//! values  = header u32 · (word u64) …
//! causes  = count u32 · (rank u32 · kind u8 · value u8) …
//! faults  = count u32 · (comm u64 · rank u32 · kind u8 · value i32) …
//! ```
//!
//! Decoding never panics and never allocates more than the frame's own length can justify: what
//! is not a message is `None`.

use alloc::{boxed::Box, vec::Vec};

use smallvec::SmallVec;

use super::{
    agreement::{Contribution, Decision, Tally},
    fused::{Held, MAX_VALUES, Values, words_of},
    message::{Ahead, Fused, Message, RiderId, Slow, Stage, Yes},
};
use crate::{
    fault::{Cause, Causes, Fault, FaultCode},
    ids::{Ballot, BlockId, CommId},
    rank::{Rank, RankSet},
};

/// The bytes of one message; those of the fast path fit inline.
pub type Frame = SmallVec<[u8; 64]>;

const YES: u8 = 1;
const ASK: u8 = 2;
const UNDECIDED: u8 = 3;
const CONTRIBUTE_DECIDED: u8 = 4;
const DECIDE: u8 = 5;
const INTERRUPT: u8 = 6;
const RETIRED: u8 = 7;
const FUSED: u8 = 8;
const HOW_FAR: u8 = 9;
const POSTED: u8 = 10;
const OVER: u8 = 11;
const FAILED: u8 = 12;
const WANTED: u8 = 13;
const AHEAD: u8 = 14;

/// Bytes of the fast path's message.
pub const YES_BYTES: usize = 34;

/// The most bytes of a message of the fast path.
pub const FAST_BYTES: usize = YES_BYTES + 4 + 8 * MAX_VALUES;

/// The bytes of a message of the fast path.
#[inline]
pub fn encode_yes(comm: CommId, yes: &Yes) -> [u8; YES_BYTES] {
    let mut frame = [0; YES_BYTES];
    frame[..8].copy_from_slice(&comm.0.to_le_bytes());
    frame[8] = YES;
    frame[9] = yes.step;
    frame[10..18].copy_from_slice(&yes.block.0.to_le_bytes());
    frame[18..26].copy_from_slice(&yes.view.to_le_bytes());
    frame[26..].copy_from_slice(&yes.floor.0.to_le_bytes());
    frame
}

/// The message of the fast path in these bytes, if they are one.
#[inline]
pub fn decode_yes(frame: &[u8; YES_BYTES]) -> Option<(CommId, Yes)> {
    Reader(frame).yes(YES)
}

/// The bytes of a message of the fast path with values.
pub fn encode_fused(comm: CommId, yes: &Yes, values: &Values) -> Frame {
    let mut frame = Frame::from_slice(&encode_yes(comm, yes));
    frame[8] = FUSED;
    put_values(&mut frame, values);
    frame
}

/// The message of the fast path with values at the start of these bytes, if there is one.
pub fn decode_fused(frame: &[u8]) -> Option<(CommId, Fused)> {
    let mut rest = Reader(frame);
    rest.fused()
}

/// True when these bytes claim to be a message of the fast path.
#[inline]
pub fn is_fast(frame: &[u8]) -> bool {
    matches!(frame.get(8), Some(&(YES | FUSED)))
}

/// The bytes of a message about a block of this communicator.
#[inline]
pub fn encode(comm: CommId, message: &Message) -> Frame {
    let mut frame = Frame::new();
    put_u64(&mut frame, comm.0);
    match message {
        Message::Yes(yes) => return Frame::from_slice(&encode_yes(comm, yes)),
        Message::Fused(fused) => return encode_fused(comm, &fused.yes, &fused.values),
        Message::Ask(slow) => put_slow(&mut frame, ASK, slow),
        Message::Contribute(slow, Contribution::Undecided(tally)) => {
            put_slow(&mut frame, UNDECIDED, slow);
            put_tally(&mut frame, tally);
        }
        Message::Contribute(slow, Contribution::Decided(decision)) => {
            put_slow(&mut frame, CONTRIBUTE_DECIDED, slow);
            put_decision(&mut frame, decision);
        }
        Message::Decide(slow, decision) => {
            put_slow(&mut frame, DECIDE, slow);
            put_decision(&mut frame, decision);
        }
        Message::Interrupt(block) => {
            frame.push(INTERRUPT);
            put_u64(&mut frame, block.0);
        }
        Message::HowFar(block) => {
            frame.push(HOW_FAR);
            put_u64(&mut frame, block.0);
        }
        Message::Reached(block, stage) => {
            frame.push(match stage {
                Stage::Posted => POSTED,
                Stage::Over => OVER,
                Stage::Failed => FAILED,
            });
            put_u64(&mut frame, block.0);
        }
        Message::Wanted(rider) => {
            frame.push(WANTED);
            put_rider(&mut frame, *rider);
        }
        Message::Ahead(ahead) => {
            frame.push(AHEAD);
            put_rider(&mut frame, ahead.rider);
            frame.push(ahead.step);
            put_u64(&mut frame, ahead.view);
            match ahead.values.get() {
                Some(values) => put_values(&mut frame, values),
                None => put_u32(&mut frame, 0),
            }
        }
        Message::Retired => frame.push(RETIRED),
    }
    frame
}

/// The message in these bytes and the communicator it is about, if it is one.
#[inline]
pub fn decode(frame: &[u8]) -> Option<(CommId, Message)> {
    let mut rest = Reader(frame);
    let comm = CommId(rest.u64()?);
    let message = match rest.u8()? {
        YES => {
            let (comm, yes) = decode_yes(frame.try_into().ok()?)?;
            return Some((comm, Message::Yes(yes)));
        }
        FUSED => {
            rest = Reader(frame);
            Message::Fused(rest.fused()?.1)
        }
        ASK => Message::Ask(rest.slow()?),
        UNDECIDED => Message::Contribute(rest.slow()?, Contribution::Undecided(rest.tally()?)),
        CONTRIBUTE_DECIDED => {
            Message::Contribute(rest.slow()?, Contribution::Decided(rest.decision()?))
        }
        DECIDE => Message::Decide(rest.slow()?, rest.decision()?),
        INTERRUPT => Message::Interrupt(BlockId(rest.u64()?)),
        HOW_FAR => Message::HowFar(BlockId(rest.u64()?)),
        POSTED => Message::Reached(BlockId(rest.u64()?), Stage::Posted),
        OVER => Message::Reached(BlockId(rest.u64()?), Stage::Over),
        FAILED => Message::Reached(BlockId(rest.u64()?), Stage::Failed),
        WANTED => Message::Wanted(rest.rider()?),
        AHEAD => Message::Ahead(rest.ahead()?),
        RETIRED => Message::Retired,
        _ => return None,
    };
    rest.0.is_empty().then_some((comm, message))
}

fn put_u32(frame: &mut Frame, word: u32) {
    frame.extend_from_slice(&word.to_le_bytes());
}

#[inline]
fn put_u64(frame: &mut Frame, word: u64) {
    frame.extend_from_slice(&word.to_le_bytes());
}

fn put_rider(frame: &mut Frame, rider: RiderId) {
    put_u64(frame, rider.block.0);
    put_u32(frame, rider.number);
}

fn put_set(frame: &mut Frame, set: &RankSet) {
    put_u32(frame, set.len() as u32);
    for rank in set.iter() {
        put_u32(frame, rank.number());
    }
}

fn put_causes(frame: &mut Frame, causes: &Causes) {
    put_u32(frame, causes.iter().len() as u32);
    for (rank, cause) in causes.iter() {
        let (kind, value) = cause.to_numbers();
        put_u32(frame, rank.number());
        frame.extend_from_slice(&[kind, value]);
    }
}

fn put_faults(frame: &mut Frame, faults: &[Fault]) {
    put_u32(frame, faults.len() as u32);
    for fault in faults {
        let (kind, value) = fault.code.to_numbers();
        put_u64(frame, fault.comm.0);
        put_u32(frame, fault.rank.number());
        frame.push(kind);
        put_u32(frame, value.cast_unsigned());
    }
}

fn put_slow(frame: &mut Frame, kind: u8, slow: &Slow) {
    frame.push(kind);
    put_u64(frame, slow.block.0);
    put_u32(frame, slow.ballot.0);
    put_set(frame, &slow.dead);
}

fn put_values(frame: &mut Frame, values: &Values) {
    put_u32(frame, values.header());
    values.words().iter().for_each(|word| put_u64(frame, *word));
}

fn put_tally(frame: &mut Frame, tally: &Tally) {
    put_faults(frame, &tally.faults);
    put_set(frame, &tally.dead);
    put_set(frame, &tally.agreed);
    put_causes(frame, &tally.causes);
    put_u64(frame, tally.floor.0);
    put_u32(frame, tally.context_min);
    put_u32(frame, tally.context_max);
    frame.push(u8::from(tally.plain));
    put_u32(frame, tally.shape_min);
    put_u32(frame, tally.shape_max);
    put_u32(frame, tally.values.len() as u32);
    for (rank, values) in &tally.values {
        put_u32(frame, rank.number());
        put_values(frame, values);
    }
}

fn put_decision(frame: &mut Frame, decision: &Decision) {
    frame.push(u8::from(decision.committed));
    put_faults(frame, &decision.faults);
    put_set(frame, &decision.dead);
    put_set(frame, &decision.known);
    put_causes(frame, &decision.causes);
    put_u32(frame, decision.next_context);
    put_u64(frame, decision.floor.0);
    match &decision.values {
        Some(values) => put_values(frame, values),
        None => put_u32(frame, 0),
    }
}

/// Takes values from the front of a slice.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    #[inline]
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    #[inline]
    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// A count of items that take at least `item_bytes` each of what is left.
    fn count(&mut self, item_bytes: usize) -> Option<usize> {
        let count = self.u32()? as usize;
        (count <= self.0.len() / item_bytes).then_some(count)
    }

    #[inline]
    fn yes(&mut self, kind: u8) -> Option<(CommId, Yes)> {
        let comm = CommId(self.u64()?);
        if self.u8()? != kind {
            return None;
        }
        let (step, block, view) = (self.u8()?, BlockId(self.u64()?), self.u64()?);
        Some((comm, Yes { block, step, view, floor: BlockId(self.u64()?) }))
    }

    fn fused(&mut self) -> Option<(CommId, Fused)> {
        let (comm, yes) = self.yes(FUSED)?;
        let header = self.u32()?;
        Some((comm, Fused { yes, values: self.values(header)? }))
    }

    /// Values whose header was read before them.
    fn values(&mut self, header: u32) -> Option<Values> {
        let mut words = [0; MAX_VALUES];
        for word in words.get_mut(..words_of(header)?)? {
            *word = self.u64()?;
        }
        Values::from_words(header, words)
    }

    fn rider(&mut self) -> Option<RiderId> {
        Some(RiderId { block: BlockId(self.u64()?), number: self.u32()? })
    }

    fn ahead(&mut self) -> Option<Ahead> {
        let (rider, step, view) = (self.rider()?, self.u8()?, self.u64()?);
        let mut values = Held::NOTHING;
        match self.u32()? {
            0 => {}
            header => _ = values.set(&self.values(header)?),
        }
        Some(Ahead { rider, step, view, values })
    }

    fn set(&mut self) -> Option<RankSet> {
        (0..self.count(4)?).map(|_| self.u32().map(Rank::new)).collect()
    }

    fn causes(&mut self) -> Option<Causes> {
        (0..self.count(6)?).map(|_| Some((Rank::new(self.u32()?), self.cause()?))).collect()
    }

    fn cause(&mut self) -> Option<Cause> {
        Cause::from_numbers(self.u8()?, self.u8()?)
    }

    fn faults(&mut self) -> Option<Vec<Fault>> {
        (0..self.count(17)?).map(|_| self.fault()).collect()
    }

    fn fault(&mut self) -> Option<Fault> {
        let comm = CommId(self.u64()?);
        let rank = Rank::new(self.u32()?);
        let kind = self.u8()?;
        let code = FaultCode::from_numbers(kind, self.u32()?.cast_signed())?;
        Some(Fault { comm, rank, code })
    }

    fn slow(&mut self) -> Option<Slow> {
        let block = BlockId(self.u64()?);
        let ballot = Ballot(self.u32()?);
        Some(Slow { block, ballot, dead: self.set()? })
    }

    fn tally(&mut self) -> Option<Tally> {
        Some(Tally {
            faults: self.faults()?,
            dead: self.set()?,
            agreed: self.set()?,
            causes: self.causes()?,
            floor: BlockId(self.u64()?),
            context_min: self.u32()?,
            context_max: self.u32()?,
            plain: self.u8()? == 1,
            shape_min: self.u32()?,
            shape_max: self.u32()?,
            values: (0..self.count(16)?).map(|_| self.ranks_values()).collect::<Option<_>>()?,
        })
    }

    fn ranks_values(&mut self) -> Option<(Rank, Values)> {
        let (rank, shape) = (Rank::new(self.u32()?), self.u32()?);
        Some((rank, self.values(shape)?))
    }

    fn decision(&mut self) -> Option<Decision> {
        Some(Decision {
            committed: self.u8()? == 1,
            faults: self.faults()?,
            dead: self.set()?,
            known: self.set()?,
            causes: self.causes()?,
            next_context: self.u32()?,
            floor: BlockId(self.u64()?),
            values: match self.u32()? {
                0 => None,
                shape => Some(Box::new(self.values(shape)?)),
            },
        })
    }
}

#[cfg(test)]
mod tests;
