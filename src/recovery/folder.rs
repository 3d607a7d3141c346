//! A folder as an archive.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    ops::Range,
    path::PathBuf,
};

use crate::seam::archive::Archive;

/// A folder, made when the first content comes.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Archive for Folder {
    fn put(&mut self, name: &str, bytes: u64, pieces: &[(u64, &[u8])]) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        let mut options = OpenOptions::new();
        // Others write to it, too.
        options.write(true).create(true).truncate(false);
        let mut file = options.open(self.0.join(name))?;
        file.set_len(bytes)?;
        for (offset, piece) in pieces {
            file.seek(SeekFrom::Start(*offset))?;
            file.write_all(piece)?;
        }
        file.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))?;
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

    fn load(&mut self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.0.join(name))?;
        file.seek(SeekFrom::Start(range.start))?;
        let mut content = Vec::new();
        file.take(range.end.saturating_sub(range.start)).read_to_end(&mut content)?;
        Ok(content)
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
