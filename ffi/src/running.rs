//! Collectives of fampi's own that are under way, and where their results go.

use std::ffi::{c_int, c_void};

use fampi_core::{
    engine::{buffer::AnyBuffer, platform::Progress},
    guest::{Guest, GuestBlock},
};

use crate::{
    codes::{FAMPI_ERR_INTERNAL, FAMPI_ERR_STATE, Result, number},
    layout::{Operands, Piece},
};

/// A collective that is under way, or over.
pub(crate) struct Running {
    pub(crate) block: GuestBlock,
    /// Its number in the block.
    pub(crate) number: usize,
    pub(crate) out: Out,
    /// The code that the program has raised in it.
    pub(crate) raised: Option<c_int>,
}

/// What is written when it is complete.
pub(crate) enum Out {
    /// These pieces, from these bytes of the buffer on.
    Pieces(Vec<(usize, Piece)>),
    /// So many bytes of what was combined.
    Combined(*mut c_void, usize),
}

impl Running {
    /// Its code, once it is over; the first time the program gets what has come.
    pub(crate) fn outcome(&mut self, guest: &mut Guest) -> Option<c_int> {
        let (progress, buffer) = guest.take_collective(self.block, self.number)?;
        Some(match progress {
            Progress::Complete(_) => self.write(buffer).err().or(self.raised).unwrap_or(0),
            Progress::Failed(code) => self.raised.unwrap_or(number(code)),
            Progress::Pending => return None,
        })
    }

    /// Records a fault of the program in it.
    pub(crate) fn raise(&mut self, guest: &mut Guest, code: c_int) -> Result<()> {
        if !guest.raise_in_collective(self.block, self.number, code) {
            return Err(FAMPI_ERR_STATE);
        }
        self.raised.get_or_insert(code);
        Ok(())
    }

    fn write(&self, buffer: Option<AnyBuffer>) -> Result<()> {
        let Some(buffer) = buffer else { return Ok(()) };
        let any = buffer.as_any();
        match &self.out {
            Out::Pieces(pieces) => {
                let bytes = any.downcast_ref::<Vec<u8>>().ok_or(FAMPI_ERR_INTERNAL)?;
                for (from, piece) in pieces {
                    let part = bytes.get(*from..from + piece.bytes).ok_or(FAMPI_ERR_INTERNAL)?;
                    // SAFETY: the program keeps the buffer until the request is complete.
                    unsafe { piece.unpack(part) }?;
                }
            }
            Out::Combined(to, bytes) => {
                let operands = any.downcast_ref::<Operands>().ok_or(FAMPI_ERR_INTERNAL)?;
                let from = operands.bytes().get(..*bytes).ok_or(FAMPI_ERR_INTERNAL)?;
                if !from.is_empty() {
                    // SAFETY: as above.
                    unsafe { to.cast::<u8>().copy_from(from.as_ptr(), from.len()) };
                }
            }
        }
        Ok(())
    }

    /// Its number, if it is one of this block.
    pub(crate) fn number_in(&self, block: GuestBlock) -> Option<usize> {
        (self.block == block).then_some(self.number)
    }

    /// From now on it has this number.
    pub(crate) fn place(&mut self, number: usize) {
        self.number = number;
    }
}
