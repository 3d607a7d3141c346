//! Which MPI this process runs with, for those who diagnose a set-up, and what it holds there, for
//! those who look for a leak.

use std::ffi::CStr;

use super::{
    calls::{library, ulfm},
    deaths::watcher,
    this_mpi,
};
use crate::error::Error;

/// How much of MPI is in use by this process. In a program that goes on and on, through any number
/// of aborted blocks, none of these grows for ever; a rebuild adds a handful of communicators,
/// which stay to the end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Holdings {
    /// Communicators that fampi made and did not free.
    pub communicators: usize,
    /// Operations of blocks that are pending, and others than messages that were not looked at
    /// since they are over.
    pub operations: usize,
    /// Buffers that their blocks gave up and MPI has not let go of.
    pub quarantined: usize,
}

/// What can be known about the MPI library.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Facts {
    /// What the library says about itself.
    pub library: String,
    /// Its version, when it is Open MPI.
    pub open_mpi: Option<(u32, u32, u32)>,
    /// The calls of ULFM are there.
    pub has_ulfm: bool,
    /// They were switched on by the launcher; `None` before MPI is initialised, or when the
    /// library does not say.
    pub ulfm_is_on: Option<bool>,
    /// Names and values of the settings that choose transports and collectives.
    pub settings: Vec<(&'static str, String)>,
    /// Why deaths on this node are seen only when MPI reports them, if that is so: late, and
    /// never after an `_exit` with another status than 0.
    pub node_watcher_is_off: Option<&'static str>,
}

/// Asks the library. Works before and after initialisation, which it does not do itself.
pub fn facts() -> Result<Facts, Error> {
    let library = library::library_version()?;
    let initialized = library::initialized()?;
    let ulfm_is_on = if initialized { ulfm::is_on() } else { None };
    let settings = [("pml", c"pml"), ("btl", c"btl"), ("coll", c"coll")];
    let settings = settings
        .into_iter()
        .filter_map(|(name, variable)| Some((name, text(&library::control_variable(variable)?))));
    Ok(Facts {
        open_mpi: this_mpi::version(&library),
        has_ulfm: ulfm::find().is_some(),
        ulfm_is_on,
        settings: settings.collect(),
        node_watcher_is_off: watcher::why_off(initialized),
        library,
    })
}

fn text(bytes: &[u8]) -> String {
    CStr::from_bytes_until_nul(bytes)
        .map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
}
