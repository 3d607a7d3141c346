//! The workspace that the tool belongs to, and the folders below its `target/`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::installation::MENDER;

/// The root of the workspace. All paths below it are absolute.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The workspace whose `apps/fampi` this is: above the current folder, else above the binary.
    pub(crate) fn find() -> Result<Self> {
        let from_cargo = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let starts = [from_cargo, env::current_dir().ok(), env::current_exe().ok()];
        starts
            .iter()
            .flatten()
            .flat_map(|start| start.ancestors())
            .find(|folder| folder.join("apps/fampi/Cargo.toml").is_file())
            .map(|root| Self { root: root.to_path_buf() })
            .context("this is not inside a checkout of fampi: change into one")
    }

    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Fixed by `.cargo/config.toml`, also when cargo's own target folder is elsewhere.
    pub(crate) fn target(&self) -> PathBuf {
        self.root.join("target")
    }

    pub(crate) fn mpi(&self) -> PathBuf {
        self.target().join("mpi")
    }

    /// What is preloaded into the launcher, beside the MPI that it mends.
    pub(crate) fn mender(&self) -> PathBuf {
        self.target().join(MENDER)
    }

    pub(crate) fn libclang(&self) -> PathBuf {
        self.target().join("libclang")
    }

    pub(crate) fn has_application(&self, name: &str) -> bool {
        // These are no programs for ranks.
        !["fampi", "detector", "node"].contains(&name)
            && self.root.join("apps").join(name).join("src/main.rs").is_file()
    }

    pub(crate) fn has_example(&self, name: &str) -> bool {
        let examples = self.root.join("examples");
        examples.join(format!("{name}.rs")).is_file()
            || examples.join(name).join("main.rs").is_file()
    }

    /// The names of our applications, then of our examples, each in alphabetical order.
    pub(crate) fn programs(&self) -> Vec<String> {
        let names = |folder: &str, is_one: &dyn Fn(&str) -> bool| {
            let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
            let stems = entries.filter_map(|entry| Some(entry.path().file_stem()?.to_owned()));
            let mut names: Vec<String> =
                stems.filter_map(|stem| stem.into_string().ok()).filter(|n| is_one(n)).collect();
            names.sort();
            names
        };
        let mut all = names("apps", &|name| self.has_application(name));
        all.extend(names("examples", &|name| self.has_example(name)));
        all
    }

    /// A folder for what a command leaves behind on purpose; made when it is not there.
    pub(crate) fn scratch(&self, name: &str) -> Result<PathBuf> {
        let folder = self.target().join(name);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        Ok(folder)
    }
}

/// The path as a person would write it: relative to the current folder when it is below it.
pub(crate) fn shown(path: &Path) -> String {
    let here = env::current_dir().ok();
    let below = here.as_deref().and_then(|here| path.strip_prefix(here).ok());
    below.unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_found_and_knows_its_own_tool_is_no_application() {
        let workspace = Workspace::find().expect("the tests run inside the workspace");
        assert!(workspace.root().join("Cargo.toml").is_file());
        assert!(!workspace.has_application("fampi"));
        assert!(!workspace.has_application("detector"));
        // A library of the applications.
        assert!(!workspace.has_application("harness"));
        assert!(!workspace.has_application("no-such-application"));
        assert!(!workspace.has_example("no-such-example"));
        let programs = workspace.programs();
        let applications = ["hyperquicksort", "lulesh", "minife", "ring", "count"];
        assert!(programs.starts_with(&applications.map(str::to_owned)), "{programs:?}");
    }
}
