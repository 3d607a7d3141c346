//! What is known of one installation of MPI, and whether it is fit for surviving deaths.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Which MPI it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum Family {
    /// With its fault tolerance (ULFM)
    #[default]
    OpenMpi,
    /// Without any, under our own launcher
    Mpich,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
        })
    }
}

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

/// What `ompi_info`, or `mpichversion`, says that matters here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    #[serde(default)]
    pub(crate) family: Family,
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
            family: Family::OpenMpi,
            version: Version::in_text(value("ompi:version:full:")?)?,
            fault_tolerance: value("options:ft_support:").is_some_and(|v| v.trim() == "yes")
                && value("options:mpi_ext:").is_some_and(|v| v.contains("ftmpi")),
            cuda_collectives: value("mca:coll:cuda:").is_some(),
        })
    }

    /// Reads the output of `mpichversion`.
    fn parse_mpich(said: &str) -> Option<Self> {
        let line = said.lines().find_map(|line| line.strip_prefix("MPICH Version:"))?;
        let version = Version::in_text(line)?;
        let family = Family::Mpich;
        Some(Self { family, version, fault_tolerance: false, cuda_collectives: false })
    }

    /// Why an MPI like this cannot be used, as the end of a sentence that begins with its name.
    pub(crate) fn unfit(&self) -> Option<String> {
        if self.family == Family::Mpich {
            let is_old = self.version < Version(5, 0, 0);
            let why = || format!("is MPICH {}, and 5.0 or later is needed", self.version);
            return is_old.then(why);
        }
        if self.version < Version(5, 0, 0) {
            return Some(format!("is Open MPI {}, and 5.0 or later is needed", self.version));
        }
        (!self.fault_tolerance)
            .then(|| format!("is Open MPI {} built without fault tolerance (ULFM)", self.version))
    }
}

/// What the MPI at this prefix is, by the tool that tells its version.
pub(crate) fn family_at(prefix: &Path) -> Family {
    let is_mpich = prefix.join("bin/mpichversion").is_file();
    if is_mpich { Family::Mpich } else { Family::OpenMpi }
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
        let family = family_at(prefix);
        let (asked, argument) = match family {
            Family::OpenMpi => ("ompi_info", Some("--parsable")),
            Family::Mpich => ("mpichversion", None),
        };
        for tool in ["mpicc", "mpirun", asked] {
            if !prefix.join("bin").join(tool).is_file() {
                bail!("{} holds no {family}: bin/{tool} is missing", prefix.display());
            }
        }
        let info = Command::new(prefix.join("bin").join(asked))
            .args(argument)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {asked} of {}", prefix.display()))?;
        let said = String::from_utf8_lossy(&info.stdout);
        let facts = match family {
            Family::OpenMpi => Facts::parse(&said),
            Family::Mpich => Facts::parse_mpich(&said),
        };
        let facts =
            facts.with_context(|| format!("{}/bin/{asked} names no version", prefix.display()))?;
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
    fn mpich_says_its_version_and_needs_no_fault_tolerance() {
        let said = "MPICH Version:      5.0.2\nMPICH Device:       ch4:ucx ofi\n";
        let facts = Facts::parse_mpich(said).expect("complete");
        assert_eq!((facts.family, facts.version), (Family::Mpich, Version(5, 0, 2)));
        assert_eq!(facts.unfit(), None);
        let old = Facts::parse_mpich(&said.replace("5.0.2", "4.1")).expect("complete");
        assert!(old.unfit().is_some_and(|why| why.contains("MPICH 4.1.0, and 5.0 or later")));
        assert_eq!(Facts::parse_mpich("mpirun (Open MPI) 5.0.9"), None);
    }

    #[test]
    fn two_versions_are_known_to_crash_survivors() {
        assert!(Version(5, 0, 10).crashes_survivors());
        assert!(Version(5, 0, 11).crashes_survivors());
        assert!(!Version(5, 0, 9).crashes_survivors());
        assert!(!Version(5, 0, 12).crashes_survivors());
    }
}
