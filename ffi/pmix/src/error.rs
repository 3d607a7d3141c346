//! Why there is no server, or what it refused.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use thiserror::Error as ThisError;

/// Why there is no server, or what it refused.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// There is no library below the prefix of the MPI.
    #[error("{} holds no libpmix.so.2: use an Open MPI 5 that brings its own PMIx", .0.display())]
    Missing(PathBuf),
    /// It cannot be opened, or lacks a function.
    #[error("{} cannot be used: {reason}", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// It is older or newer than what this was written for.
    #[error(
        "{} says it is `{version}`, and PMIx 4.2 to 6 is needed: use another launcher",
        .path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// What it says it is.
        version: String,
    },
    /// There is a server in this process already.
    #[error("this process has a PMIx server already")]
    Twice,
    /// The system has no more descriptors.
    #[error("no descriptor for the requests of ranks: {0}")]
    NoDescriptor(#[from] rustix::io::Errno),
    /// The library refused.
    #[error("PMIx cannot {what}: {reason}")]
    Refused {
        /// What it was asked for.
        what: &'static str,
        /// What it says.
        reason: String,
    },
}

impl Error {
    pub(crate) fn no_library(path: &Path, reason: &dyn Display) -> Self {
        Self::Unusable { path: path.to_path_buf(), reason: reason.to_string() }
    }
}
