//! What is known of one installation of MPI, and whether it is fit for surviving deaths.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// What is preloaded into the launcher, by its file.
pub(crate) const MENDER: &str = "libfampi_prterun.so";

/// Major, minor and patch number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32, pub(crate) u32);

impl Version {
    /// The first `a.b.c` (or `a.b`) in a text; what follows, like `rc1`, is ignored.
    pub(crate) fn in_text(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| {
            let mut numbers = word.split('.').map(|part| {
                let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
                part[..digits].parse::<u32>().ok()
            });
            let (major, minor) = (numbers.next()??, numbers.next()??);
            Some(Self(major, minor, numbers.next().flatten().unwrap_or(0)))
        })
    }

    /// These crash healthy ranks when a revoke or a death notice reaches a rank that is inside the
    /// creation of a communicator.
    pub(crate) fn crashes_survivors(self) -> bool {
        self == Self(5, 0, 10) || self == Self(5, 0, 11)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// What `ompi_info` says that matters here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) version: Version,
    /// Fault tolerance (ULFM) is built in; whether it is on is decided by the launcher.
    pub(crate) fault_tolerance: bool,
    /// The collectives for device memory are built in; they do not survive failures.
    pub(crate) cuda_collectives: bool,
}

impl Facts {
    /// Reads the output of `ompi_info --parsable`.
    fn parse(info: &str) -> Option<Self> {
        let value = |key: &str| info.lines().find_map(|line| line.strip_prefix(key));
        Some(Self {
            version: Version::in_text(value("ompi:version:full:")?)?,
            fault_tolerance: value("options:ft_support:").is_some_and(|v| v.trim() == "yes")
                && value("options:mpi_ext:").is_some_and(|v| v.contains("ftmpi")),
            cuda_collectives: value("mca:coll:cuda:").is_some(),
        })
    }

    /// Why an MPI like this cannot be used, as the end of a sentence that begins with its name.
    pub(crate) fn unfit(&self) -> Option<String> {
        if self.version < Version(5, 0, 0) {
            return Some(format!("is Open MPI {}, and 5.0 or later is needed", self.version));
        }
        (!self.fault_tolerance)
            .then(|| format!("is Open MPI {} built without fault tolerance (ULFM)", self.version))
    }
}

/// One MPI on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Installation {
    pub(crate) prefix: PathBuf,
    pub(crate) facts: Facts,
}

impl Installation {
    /// Asks the MPI at `prefix` what it is.
    pub(crate) fn examine(prefix: &Path) -> Result<Self> {
        for tool in ["mpicc", "mpirun", "ompi_info"] {
            if !prefix.join("bin").join(tool).is_file() {
                bail!("{} holds no Open MPI: bin/{tool} is missing", prefix.display());
            }
        }
        let info = Command::new(prefix.join("bin/ompi_info"))
            .arg("--parsable")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run ompi_info of {}", prefix.display()))?;
        let facts = Facts::parse(&String::from_utf8_lossy(&info.stdout))
            .with_context(|| format!("{}/bin/ompi_info names no version", prefix.display()))?;
        Ok(Self { prefix: prefix.to_path_buf(), facts })
    }

    pub(crate) fn mpirun(&self) -> PathBuf {
        self.prefix.join("bin/mpirun")
    }

    /// What is preloaded into the launcher, if the set-up has made it.
    pub(crate) fn mender(&self) -> Option<PathBuf> {
        let beside = std::path::absolute(&self.prefix).ok()?.with_file_name(MENDER);
        beside.is_file().then_some(beside)
    }

    pub(crate) fn mpicc(&self) -> PathBuf {
        self.prefix.join("bin/mpicc")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_the_tools_print() {
        assert_eq!(Version::in_text("mpirun (Open MPI) 5.0.9"), Some(Version(5, 0, 9)));
        assert_eq!(Version::in_text("5.1.0a1"), Some(Version(5, 1, 0)));
        assert_eq!(Version::in_text("6.0rc2"), Some(Version(6, 0, 0)));
        assert_eq!(Version::in_text("no number"), None);
        assert!(Version(4, 1, 6) < Version(5, 0, 0));
    }

    #[test]
    fn only_a_recent_open_mpi_with_fault_tolerance_is_fit() {
        let info = "ompi:version:full:5.0.9\noptions:mpi_ext:affinity, ftmpi\n\
                    options:ft_support:yes\nmca:coll:han:version:\"mca:2.1.0\"\n";
        let facts = Facts::parse(info).expect("complete");
        assert_eq!(facts.unfit(), None);
        assert!(!facts.cuda_collectives);
        let without = Facts::parse(&info.replace("ft_support:yes", "ft_support:no"));
        assert!(without.expect("complete").unfit().is_some_and(|why| why.contains("ULFM")));
        let old = Facts::parse(&info.replace("5.0.9", "4.1.6")).expect("complete");
        assert!(old.unfit().is_some_and(|why| why.contains("5.0 or later")));
    }

    #[test]
    fn two_versions_are_known_to_crash_survivors() {
        assert!(Version(5, 0, 10).crashes_survivors());
        assert!(Version(5, 0, 11).crashes_survivors());
        assert!(!Version(5, 0, 9).crashes_survivors());
        assert!(!Version(5, 0, 12).crashes_survivors());
    }
}
