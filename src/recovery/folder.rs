//! A folder as an archive: contents are written aside, synced, and renamed.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::PathBuf,
};

use crate::seam::archive::Archive;

/// What a content is called while it is written; the process that writes it may die.
const UNFINISHED: &str = ".part";

/// A folder, made when the first content comes.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Archive for Folder {
    fn save(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        let aside = self.0.join(format!("{name}{UNFINISHED}"));
        let mut file = File::create(&aside)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&aside, self.0.join(name))?;
        // The new name is on the disk with the folder, not with the file.
        File::open(&self.0)?.sync_all()
    }

    fn names(&mut self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn load(&mut self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.0.join(name))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn place(&self) -> String {
        self.0.display().to_string()
    }
}
