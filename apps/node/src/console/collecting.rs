//! The folders in which a console has what processes on other hosts write.

use std::env;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::protocol::orders::Piece;

/// By the variables that name them.
#[derive(Debug, Default)]
pub(super) struct Folders(Vec<(String, PathBuf)>);

impl Folders {
    /// Those that these variables name, as far as they are set.
    pub(super) fn of(variables: &[String]) -> Self {
        let named = |name: &String| Some((name.clone(), PathBuf::from(env::var_os(name)?)));
        Self(variables.iter().filter_map(named).collect())
    }

    /// Writes a piece of a file of this node, whose number begins the name of the file. A console
    /// that has not asked for it drops it.
    pub(super) fn write(&self, node: usize, piece: &Piece) -> Result<()> {
        let Piece { variable, name, offset, bytes } = piece;
        let Some((_, folder)) = self.0.iter().find(|(known, _)| known == variable) else {
            return Ok(());
        };
        ensure!(Path::new(name).file_name() == Some(name.as_ref()), "{name} is no file of it");
        let path = folder.join(format!("{node}-{name}"));
        let mut options = OpenOptions::new();
        // What is sent from its start may replace a longer one.
        let file = options.write(true).create(true).truncate(*offset == 0).open(&path);
        let written = file.and_then(|file| file.write_all_at(bytes, *offset));
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_file_and_no_name_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let folders = Folders(vec![("FOLDER".to_owned(), folder.path().to_owned())]);
        let write = |variable: &str, name: &str, offset, text: &str| {
            let (variable, name) = (variable.to_owned(), name.to_owned());
            folders.write(3, &Piece { variable, name, offset, bytes: text.into() })
        };
        let read = || std::fs::read_to_string(folder.path().join("3-12")).expect("a file");
        write("FOLDER", "12", 0, "running").expect("written");
        assert_eq!(read(), "running");
        write("FOLDER", "12", 7, " on").expect("written");
        assert_eq!(read(), "running on");
        write("FOLDER", "12", 0, "ok").expect("written");
        assert_eq!(read(), "ok");
        write("OTHER", "12", 0, "none").expect("dropped");
        for name in ["../12", "/12", "..", ""] {
            write("FOLDER", name, 0, "out").expect_err("no name of a file");
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
