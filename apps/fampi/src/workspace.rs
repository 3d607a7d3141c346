//! The sources of fampi, and the folder that holds what is set up and built from them.
//!
//! ```text
//!  inside a checkout    its sources, and its target/
//!  anywhere else        the checkout that the tool was installed from, and the user's data folder,
//!                       $XDG_DATA_HOME/fampi or ~/.local/share/fampi
//! ```

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::installation::{Family, MENDER};

/// Where the sources are, and where what is made of them goes. All paths are absolute.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
    /// The MPI that is used.
    family: Family,
}

/// Whether a folder is the root of a checkout of fampi.
fn is_checkout(folder: &Path) -> bool {
    folder.join("apps/fampi/Cargo.toml").is_file()
}

impl Workspace {
    /// The checkout above the current folder, else above the binary, else what the user has.
    pub(crate) fn find() -> Result<Self> {
        match Self::checkout() {
            Some(root) => Ok(Self { target: root.join("target"), root, family: Family::default() }),
            None => Self::of_user(),
        }
    }

    /// What does not go with a checkout's `target/`: the user's own.
    pub(crate) fn of_user() -> Result<Self> {
        let installed_from = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        let root = Self::checkout().or_else(|| installed_from.map(Path::to_path_buf));
        let (root, family) = (root.context("the tool has no sources")?, Family::default());
        Ok(Self { root, target: data_folder()?, family })
    }

    fn checkout() -> Option<PathBuf> {
        let from_cargo = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let starts = [from_cargo, env::current_dir().ok(), env::current_exe().ok()];
        let mut folders = starts.iter().flatten().flat_map(|start| start.ancestors());
        folders.find(|folder| is_checkout(folder)).map(Path::to_path_buf)
    }

    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        let (root, family) = (root.to_path_buf(), Family::default());
        Self { target: root.join("target"), root, family }
    }

    /// The same with another MPI. What is built for MPICH stands in a folder of its own, with the
    /// same names in it.
    pub(crate) fn on(&self, family: Family) -> Self {
        Self { family, ..self.clone() }
    }

    /// The MPI that is used.
    pub(crate) const fn family(&self) -> Family {
        self.family
    }

    /// The sources, which are gone where their checkout was moved or removed.
    pub(crate) fn sources(&self) -> Result<&Path> {
        if is_checkout(&self.root) {
            return Ok(&self.root);
        }
        let was = self.root.display();
        bail!("the checkout of fampi in {was} is gone: run `cargo install --path apps/fampi` anew")
    }

    /// Whether everything that is made belongs to the checkout.
    pub(crate) fn is_inside_checkout(&self) -> bool {
        self.target() == self.root.join("target")
    }

    /// Whether an earlier set-up, of the user or of the checkout, has made this file.
    pub(crate) fn has_made(&self, path: &Path) -> bool {
        path.starts_with(&self.target) || path.starts_with(self.root.join("target"))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Fixed by `.cargo/config.toml`, also when cargo's own target folder is elsewhere.
    pub(crate) fn target(&self) -> PathBuf {
        match self.family {
            Family::OpenMpi => self.target.clone(),
            Family::Mpich => self.target.join("mpich"),
        }
    }

    pub(crate) fn mpi(&self) -> PathBuf {
        self.target().join("mpi")
    }

    /// What is preloaded into the launcher, beside the MPI that it mends.
    pub(crate) fn mender(&self) -> PathBuf {
        self.target().join(MENDER)
    }

    /// The same for all MPIs.
    pub(crate) fn libclang(&self) -> PathBuf {
        self.target.join("libclang")
    }

    /// The variables by which a build finds the MPI and libclang.
    pub(crate) fn build_variables(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("MPICC", self.mpi().join("bin/mpicc")),
            ("LIBCLANG_PATH", self.libclang().join("lib")),
            ("CLANG_PATH", self.libclang().join("bin/clang")),
        ]
    }

    /// A program that an earlier run has built; nothing is built for who only looks.
    pub(crate) fn built(&self, name: &str) -> Result<PathBuf> {
        let target = env::var_os("CARGO_TARGET_DIR").map(|target| self.root.join(target));
        let targets = target.into_iter().chain([self.target()]);
        let mut found = targets.map(|target| target.join("release").join(name));
        found.find(|path| path.is_file()).with_context(|| {
            format!("there is no {name} yet: `cargo fampi run --observer` builds and starts one")
        })
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

/// Where programs keep what belongs to their user.
fn data_folder() -> Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|data| data.join("fampi"))
        .context("there is no folder for the MPI: set HOME, or XDG_DATA_HOME, to an absolute path")
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
    fn what_is_built_for_mpich_has_a_folder_of_its_own_and_the_same_libclang() {
        let usual = Workspace::at(Path::new("/checkout"));
        let other = usual.on(Family::Mpich);
        assert_eq!(usual.mpi(), Path::new("/checkout/target/mpi"));
        assert_eq!(other.mpi(), Path::new("/checkout/target/mpich/mpi"));
        assert_eq!(other.libclang(), usual.libclang());
        assert!(usual.is_inside_checkout() && !other.is_inside_checkout());
        assert!(usual.has_made(&other.mpi()) && other.has_made(&usual.mpi()));
    }

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
        let applications = ["hyperquicksort", "lulesh", "minife", "ring", "causes", "count"];
        assert!(programs.starts_with(&applications.map(str::to_owned)), "{programs:?}");
    }
}
