//! Checkpoints of a run, which is the next line of defence behind the copies in memory: how a
//! program says where they go. [`recovery::filing`](crate::recovery::filing) saves them.

use std::{fmt, path::PathBuf};

use crate::{
    recovery::{filing::Plan, folder::Folder, interval::Interval},
    seam::archive::{Archive, Files},
    sim::Disk,
};

/// Where a run saves the protected states of all ranks, so that they outlive the job.
///
/// Each checkpoint is a set of files that has the states of all ranks, and what it holds was
/// committed before. A job that is started again with as many ranks goes on from the newest set
/// that is complete; with another number of ranks if the state says how
/// ([`State::resize`](crate::State::resize)). A run goes back to its newest set, in the same job,
/// when ranks have died together with those that kept their states.
///
/// The folder may be shared, or each rank may have one of its own node; then a rank has to be
/// started on the same node again, and there have to be as many. States that do not consist of
/// numbers cannot be saved.
///
/// In a program without [`World::run`](crate::World::run), nothing is saved.
pub struct Checkpoints(pub(super) Plan);

impl Checkpoints {
    /// In this folder, as often as is best for the measured cost of saving and a failure an hour.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::in_archive(Box::new(Folder(folder.into())))
    }

    /// On the disk of a simulation.
    pub fn on_disk(disk: &Disk) -> Self {
        Self::in_archive(Box::new(disk.clone()))
    }

    fn in_archive(archive: Box<dyn Archive>) -> Self {
        let (interval, files) = (Interval::default(), Files::default());
        Self(Plan { archive, interval, restart: false, files, compressed: false })
    }

    /// After how many steps a checkpoint is due. With [`Interval::Every`] the states are copied for
    /// it after that step, if they are not anyway; otherwise it is saved with the next copy
    /// ([`State::interval`](crate::State::interval)).
    #[must_use]
    pub fn every(mut self, interval: Interval) -> Self {
        self.0.interval = interval;
        self
    }

    /// Who writes a file together. What was saved in files of another kind can be read as well.
    #[must_use]
    pub fn files(mut self, files: Files) -> Self {
        self.0.files = files;
        self
    }

    /// States are compressed (LZ4, with the bytes of numbers in the order of their places), each
    /// where that makes it smaller.
    #[must_use]
    pub fn compressed(mut self) -> Self {
        self.0.compressed = true;
        self
    }

    /// The first run goes on from the newest complete checkpoint. Without this call a folder that
    /// has checkpoints is refused, so that none is lost by mistake.
    #[must_use]
    pub fn restart(mut self) -> Self {
        self.0.restart = true;
        self
    }
}

impl fmt::Debug for Checkpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { archive, interval, restart, files, compressed } = &self.0;
        let place = archive.place();
        write!(f, "Checkpoints in {place}, {interval:?}, {files:?}, ")?;
        write!(f, "compressed: {compressed}, restart: {restart}")
    }
}
