//! The build script: says in one sentence what the MPI of this machine lacks, before the generator
//! of the bindings fails at it with many.
//!
//! Without the feature `mpi` nothing is looked at. What cannot be found out is taken to be good.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const ADVICE: &str = "run `cargo fampi setup` in a checkout of fampi; in a project of your own, \
                      put what `cargo fampi env` prints into `.cargo/config.toml`";

/// What decides where the generator looks.
const VARIABLES: [&str; 4] = ["MPICC", "LIBCLANG_PATH", "CLANG_PATH", "BINDGEN_EXTRA_CLANG_ARGS"];

fn main() {
    println!("cargo::rerun-if-changed=src/build.rs");
    println!("cargo::rustc-check-cfg=cfg(mpich)");
    for name in VARIABLES {
        println!("cargo::rerun-if-env-changed={name}");
    }
    if env::var_os("CARGO_FEATURE_MPI").is_none() {
        return;
    }
    let lacking = lacking_of_mpi().or_else(|| match libclang() {
        Ok(folder) => lacking_headers(&folder),
        Err(sentence) => Some(sentence),
    });
    if let Some(sentence) = lacking {
        println!("cargo::error={sentence}: {ADVICE}");
    }
}

/// What a program prints on standard output, if it ends well.
fn said_by(program: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn lacking_of_mpi() -> Option<String> {
    let mpicc = env::var_os("MPICC").map_or_else(|| PathBuf::from("mpicc"), PathBuf::from);
    let name = mpicc.display();
    let mut asked = Command::new(&mpicc);
    asked.arg("--showme:version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = asked.status() {
        return Some(format!("there is no MPI: {name} does not start ({error})"));
    }
    let version = said_by(&mpicc, &["--showme:version"]).unwrap_or_default();
    let Some((_, number)) = version.split_once("Open MPI ") else {
        return lacking_of_mpich(&mpicc);
    };
    let major = number.split('.').next().and_then(|it| it.trim_start_matches('v').parse().ok());
    if major.is_some_and(|major: u32| major < 5) {
        let number = number.split_whitespace().next().unwrap_or_default();
        return Some(format!("{name} is of Open MPI {number}, and fampi needs Open MPI 5"));
    }
    let folders = said_by(&mpicc, &["--showme:incdirs"]).unwrap_or_default();
    let folders: Vec<PathBuf> = folders.split_whitespace().map(PathBuf::from).collect();
    if !folders.iter().any(|folder| folder.join("mpi.h").is_file()) {
        return Some(format!("the headers of MPI are not installed: {name} knows no mpi.h"));
    }
    let extensions = folders.iter().find_map(|it| fs::read_to_string(it.join("mpi-ext.h")).ok());
    let without = extensions.is_none_or(|text| !text.contains("OMPI_HAVE_MPI_EXT_FTMPI"));
    without.then(|| format!("the MPI of {name} is built without fault tolerance (ULFM)"))
}

/// Chooses the room of MPICH, if it is one.
fn lacking_of_mpich(mpicc: &Path) -> Option<String> {
    let name = mpicc.display();
    let macros = said_by(mpicc, &["-E", "-dM", "-x", "c", "-include", "mpi.h", "/dev/null"]);
    let macros = macros.unwrap_or_default();
    let version = macros.lines().find_map(|line| line.strip_prefix("#define MPICH_VERSION "));
    let Some(version) = version.map(|text| text.trim_matches('"')) else {
        return Some(format!(
            "{name} is of no MPI that is known: fampi needs Open MPI 5 or MPICH 5"
        ));
    };
    println!("cargo::rustc-cfg=mpich");
    println!("cargo::metadata=mpich=1");
    let major = version.split('.').next().and_then(|it| it.parse::<u32>().ok());
    let is_old = major.is_some_and(|major| major < 5);
    is_old.then(|| format!("{name} is of MPICH {version}, and fampi needs MPICH 5"))
}

/// The folder of libclang, where the generator looks for it.
fn libclang() -> Result<PathBuf, String> {
    if let Some(named) = env::var_os("LIBCLANG_PATH").map(PathBuf::from) {
        let folder = if named.is_file() { named.parent().map(PathBuf::from) } else { None };
        let folder = folder.unwrap_or_else(|| named.clone());
        let missing =
            format!("there is no libclang in {}, which LIBCLANG_PATH names", named.display());
        return if has_libclang(&folder) { Ok(folder) } else { Err(missing) };
    }
    let mut folders = Vec::new();
    if let Some(prefix) = said_by(Path::new("llvm-config"), &["--libdir"]) {
        folders.push(PathBuf::from(prefix.trim()));
    }
    folders.extend(env::split_paths(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default()));
    for top in ["/usr", "/usr/local", "/"] {
        let libraries = |folder: &PathBuf| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("lib") || name.starts_with("llvm")
        };
        let first: Vec<_> = folders_in(Path::new(top)).into_iter().filter(libraries).collect();
        let second: Vec<_> = first.iter().flat_map(|folder| folders_in(folder)).collect();
        let third: Vec<_> = second.iter().flat_map(|folder| folders_in(folder)).collect();
        folders.extend(first.into_iter().chain(second).chain(third));
    }
    let found = folders.into_iter().find(|folder| has_libclang(folder));
    found.ok_or_else(|| "there is no libclang, which makes the bindings to MPI".to_owned())
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn has_libclang(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.any(|name| {
        (name.starts_with("libclang.so") || name.starts_with("libclang-")) && name.contains(".so")
    })
}

/// A libclang from a wheel brings no headers of C: a compiler must lend its own.
fn lacking_headers(libclang: &Path) -> Option<String> {
    if env::var_os("BINDGEN_EXTRA_CLANG_ARGS").is_some() {
        return None;
    }
    let own = folders_in(&libclang.join("clang"));
    if own.iter().any(|version| version.join("include/stddef.h").is_file()) {
        return None;
    }
    let clang = env::var_os("CLANG_PATH").map_or_else(|| PathBuf::from("clang"), PathBuf::from);
    let preprocess = ["-E", "-x", "c", "-include", "stddef.h", "/dev/null"];
    let lends = said_by(&clang, &preprocess).is_some();
    (!lends).then(|| "libclang finds no headers of C, such as stddef.h".to_owned())
}
