//! Survivors and replacements of a user's communicator become one, each with its rank.
//!
//! ```text
//! survivors ─ all come ─ merge ─┐ the survivors first ─ who takes which rank ─ split by rank
//! new ones  ─ all come ─ merge ─┘
//! ```
//!
//! The calls of MPI begin when all have come, so that they are short: each new process says so to
//! each survivor, and the first survivor, when all of these have agreed to begin, to the new ones.
//!
//! Whoever gets an error revokes what all have, so that nobody waits for it.

use mpi::ffi;

use super::{groups, two_groups};
use crate::{
    error::Error,
    mpi::{
        calls::{
            comm::Comm,
            library::{self, Checked, PROC_FAILED},
            matched::{send_word, take_word},
        },
        operations::platform::MpiPlatform,
    },
    rank::Rank,
};

/// Who takes part in a rebuild of a user's communicator.
#[derive(Clone, Debug)]
pub enum Seat {
    /// A survivor with its rank; the root says which of the new processes takes which rank.
    Survivor {
        /// Our rank, old and new.
        rank: u32,
        /// Position among the new processes, and rank. `None` everywhere but at the root.
        seats: Option<Vec<(u32, u32)>>,
    },
    /// A new process, which is told its rank.
    Replacement,
}

/// The tag of the words at a link by which processes say that they have come.
const COME: u32 = 32_700;

/// Those of the other side of a link from whom this process has not heard yet.
#[derive(Clone, Debug)]
pub struct Expected(Vec<u32>);

impl MpiPlatform {
    /// Says at a link that this process has come to its part of a rebuild, and whom it waits for
    /// before it makes its call. Does not wait itself.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator of two groups.
    pub unsafe fn come(&mut self, link: ffi::MPI_Comm, seat: &Seat) -> Expected {
        // SAFETY: live, says our caller.
        let came = unsafe { Comm::from_raw(link) }.and_then(|link| {
            let others = link.remote_size()?;
            let is_new = matches!(seat, Seat::Replacement);
            if is_new || link.rank() == Rank::new(0) {
                (0..others).try_for_each(|other| send_word(&link, other, COME))?;
            }
            Ok(if is_new { vec![0] } else { (0..others).collect() })
        });
        // Where that failed the call fails, too.
        Expected(came.unwrap_or_default())
    }

    /// True when all have come whom this process waits for, or one of them cannot come any more, as
    /// the call will say.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator of two groups.
    pub unsafe fn have_come(&mut self, link: ffi::MPI_Comm, expected: &mut Expected) -> bool {
        // SAFETY: live, says our caller.
        let Ok(link) = (unsafe { Comm::from_raw(link) }) else { return true };
        let mut failed = false;
        expected.0.retain(|other| {
            let word = take_word(&link, *other, COME);
            failed |= word.is_err();
            word != Ok(true)
        });
        failed || expected.0.is_empty()
    }

    /// Survivors and new processes, linked by a communicator of two groups, become one
    /// communicator, each with its rank.
    ///
    /// # Errors
    ///
    /// [`Error::CreationFailed`] when a process died in it, on some ranks only: confirm.
    ///
    /// # MPI
    ///
    /// Collective over both groups, and blocking. On errors the link is revoked.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator of two groups.
    pub unsafe fn seat(
        &mut self,
        link: ffi::MPI_Comm,
        seat: &Seat,
    ) -> Result<ffi::MPI_Comm, Error> {
        // SAFETY: live, says our caller.
        let link = unsafe { Comm::from_raw(link) }?;
        let mut common = vec![link];
        let made = seated(&link, seat, &mut common);
        let made = made.map_err(|refusal| groups::failed(refusal, &common, self.ulfm))?;
        Ok(made.given_away().raw())
    }

    /// Whoever waits for us at this link waits in vain.
    ///
    /// # Safety
    ///
    /// The handle is a live communicator.
    pub unsafe fn cut(&mut self, link: ffi::MPI_Comm) {
        // SAFETY: live, says our caller.
        if let Ok(link) = unsafe { Comm::from_raw(link) } {
            link.revoke(self.ulfm);
        }
    }
}

fn seated(link: &Comm, seat: &Seat, common: &mut Vec<Comm>) -> Checked<Comm> {
    let is_new = matches!(seat, Seat::Replacement);
    let merged = two_groups::merge(link, is_new)?;
    common.push(merged);
    // The survivors come first. The root tells how many they are, and who goes where.
    let survivors = if is_new { merged.size() - link.size() } else { link.size() };
    let new = merged.size() - survivors;
    let seats = match seat {
        Seat::Survivor { seats, .. } => seats.as_deref(),
        Seat::Replacement => None,
    };
    let nobody = u64::MAX;
    let root = merged.least(seats.map_or(nobody, |_| merged.rank().number().into()))?;
    let mut table = vec![u32::MAX; new as usize];
    for (position, rank) in seats.into_iter().flatten() {
        if let Some(place) = table.get_mut(*position as usize) {
            *place = *rank;
        }
    }
    let mut bytes: Vec<u8> = table.iter().flat_map(|rank| rank.to_le_bytes()).collect();
    let root = u32::try_from(root).ok().filter(|root| *root < survivors);
    let no_root = library::Refusal { call: "the root of a rebuild", class: PROC_FAILED };
    merged.spread(&mut bytes, root.ok_or(no_root)?)?;
    let own = match seat {
        Seat::Survivor { rank, .. } => *rank,
        Seat::Replacement => {
            let at = 4 * (merged.rank().number() - survivors) as usize;
            bytes[at..at + 4].try_into().map_or(u32::MAX, u32::from_le_bytes)
        }
    };
    let color = (own != u32::MAX).then_some(0);
    // MPI's keys are not negative `int`s.
    let made = merged.split(color, own & (u32::MAX >> 1))?;
    made.ok_or(library::Refusal { call: "a seat in the rebuild", class: PROC_FAILED })
}
