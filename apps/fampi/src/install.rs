//! `fampi install`: the C library for programs outside of this checkout.
//!
//! ```text
//!  PREFIX/lib/libfampi.so, libfampi.a        PREFIX/include/fampi.h, fampi_names.h, …
//!  PREFIX/lib/pkgconfig/fampi.pc             PREFIX/lib/cmake/fampi/
//!  PREFIX/lib/libfampi_watch.so              PREFIX/share/man/man3/
//!  PREFIX/lib/libfampi_prterun.so            PREFIX/share/fampi/fortran/
//! ```
//!
//! That is for Open MPI. What is built for MPICH goes beside it, into `PREFIX/lib/mpich`, with
//! `PREFIX/lib/pkgconfig/fampi-mpich.pc`; the headers are the same, and so are the files for
//! `CMake`, which find out which MPI a project has.
//!
//! **Guarantees.** A file appears under its name only when it is complete, so that a program which
//! runs with an older library goes on with it, and an interrupted installation is repeated. The
//! installed tree can be moved: its files find each other by relative paths.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cargo;
use crate::installation::{Family, MENDER};
use crate::manual;
use crate::setup;
use crate::workspace::{Workspace, shown};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const HEADERS: [&str; 4] = ["fampi.h", "fampi_names.h", "fampi_ulfm.h", "fampi.hpp"];
/// What programs in Fortran compile first.
const MODULES: [&str; 3] = ["mpi_f08.f90", "fampi_base.f90", "fampi.f90"];
/// With their permissions.
const LIBRARIES: [(&str, u32); 2] = [("libfampi.so", 0o755), ("libfampi.a", 0o644)];
/// What is filled in and copied, and where to.
const DESCRIPTIONS: [(&str, &str); 2] =
    [("fampi-config.cmake", "lib/cmake/fampi"), ("fampi-config-version.cmake", "lib/cmake/fampi")];

#[derive(Args)]
pub(crate) struct Options {
    /// The folder to install below: lib/ and include/ are made in it
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// The MPI that it is for: what is for another one stays
    #[arg(long, value_enum, default_value_t)]
    mpi: Family,
    /// Of cargo: `release` is built sooner, and is a little slower
    #[arg(long, default_value = cargo::BEST, value_parser = ["release", cargo::BEST])]
    profile: String,
}

pub(crate) fn main(workspace: &Workspace, options: &Options) -> Result<u8> {
    let prefix = folder(&options.prefix)?;
    let workspace = &workspace.on(options.mpi);
    let mpi = setup::ensure(workspace)?;
    let built = build(workspace, &options.profile)?;
    let source = workspace.root().join("ffi");
    let (libraries, description) = match options.mpi {
        Family::OpenMpi => ("lib", "fampi.pc"),
        Family::Mpich => ("lib/mpich", "fampi-mpich.pc"),
    };
    for (name, mode) in LIBRARIES {
        place(&fs::read(built.join(name))?, &prefix.join(libraries).join(name), mode)?;
    }
    for name in HEADERS {
        let header = fs::read(source.join("include").join(name))?;
        place(&header, &prefix.join("include").join(name), 0o644)?;
    }
    for name in MODULES {
        let module = fs::read(source.join("fortran").join(name))?;
        place(&module, &prefix.join("share/fampi/fortran").join(name), 0o644)?;
    }
    for (name, folder) in DESCRIPTIONS {
        let text = fs::read_to_string(source.join("package").join(name))?;
        let text = text.replace("@VERSION@", VERSION);
        place(text.as_bytes(), &prefix.join(folder).join(name), 0o644)?;
    }
    let text = fs::read_to_string(source.join("package/fampi.pc"))?;
    let text = text.replace("@VERSION@", VERSION).replace("@LIBRARIES@", libraries);
    let text = text.replace("@MPI@", &options.mpi.to_string());
    place(text.as_bytes(), &prefix.join("lib/pkgconfig").join(description), 0o644)?;
    let watch = compile_watch(&source, &mpi.prefix.join("bin/mpicc"))?;
    place(&watch, &prefix.join(libraries).join("libfampi_watch.so"), 0o755)?;
    if options.mpi == Family::OpenMpi {
        let mender = fs::read(workspace.mender())?;
        place(&mender, &prefix.join(libraries).join(MENDER), 0o755)?;
    }
    let header = fs::read_to_string(source.join("include/fampi.h"))?;
    for page in manual::pages(&header, VERSION) {
        let path = prefix.join("share/man/man3").join(page.name).with_extension("3");
        place(page.text.as_bytes(), &path, 0o644)?;
    }
    say!(
        "fampi: installed for {} below {}: set PKG_CONFIG_PATH to its lib/pkgconfig, or \
         CMAKE_PREFIX_PATH to it, and MANPATH to its share/man",
        options.mpi,
        shown(&prefix)
    );
    Ok(0)
}

/// Makes the folder, and finds out whether it can be written to before anything is built.
fn folder(prefix: &Path) -> Result<PathBuf> {
    let refused = || format!("cannot write to {}: choose a prefix that is yours", prefix.display());
    fs::create_dir_all(prefix).with_context(refused)?;
    tempfile::tempfile_in(prefix).with_context(refused)?;
    Ok(fs::canonicalize(prefix)?)
}

/// Builds both libraries with optimisation; the folder that they are in.
pub(crate) fn build(workspace: &Workspace, profile: &str) -> Result<PathBuf> {
    let mut cargo = cargo::command(workspace);
    cargo.args(["build", "--quiet", "--profile", profile]);
    cargo.args(cargo::selected(workspace, profile, &["--package", "fampi-ffi"], &["--lib"]));
    if !cargo.status().context("cannot start cargo")?.success() {
        bail!("the C library cannot be built: see above");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.filter(|_| workspace.is_inside_checkout());
    let target = target.map_or_else(|| workspace.target(), |it| workspace.root().join(it));
    Ok(target.join(profile))
}

/// Builds the library that watches blocking calls, which stands in front of MPI's functions as MPI
/// wants it: in C.
fn compile_watch(source: &Path, compiler: &Path) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let made = folder.path().join("libfampi_watch.so");
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-shared", "-fPIC", "-I"]).arg(source.join("include"));
    command.arg("-o").arg(&made).arg(source.join("watch/watch.c")).arg("-ldl");
    let done = command.status().with_context(|| format!("cannot start {}", compiler.display()))?;
    if !done.success() {
        bail!("libfampi_watch.so cannot be built: see above");
    }
    Ok(fs::read(made)?)
}

/// Writes a file beside its place, and moves it there.
fn place(contents: &[u8], path: &Path, mode: u32) -> Result<()> {
    let folder = path.parent().context("a file lies in a folder")?;
    let refused = || format!("cannot write {}: choose a prefix that is yours", path.display());
    fs::create_dir_all(folder).with_context(refused)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(refused)?;
    file.write_all(contents).with_context(refused)?;
    fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).with_context(refused)?;
    file.persist(path).with_context(refused)?;
    Ok(())
}
