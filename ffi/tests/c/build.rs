//! Builds programs in C and C++ against the library, with every warning an error.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, OnceLock, PoisonError},
};

use fampi_kit::selection;

/// How a program is linked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Link {
    Shared,
    Static,
}

/// The folder of this package.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command that must succeed and gives what it prints.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [output, errors] = [&done.stdout, &done.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(done.status.success(), "{command:?}\n{output}\n{errors}");
    output.into_owned()
}

/// Where the libraries are, built for the profile that the tests are built for.
pub(crate) fn libraries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // The tests lie in `<profile>/deps`.
        let own = std::env::current_exe().expect("a path");
        let folder = own.ancestors().nth(2).expect("two folders above").to_owned();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(here()).args(["build", "--quiet"]).args(selection::library("fampi-ffi"));
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        run(&mut cargo);
        folder
    })
}

/// The folder with MPI's compilers.
pub(crate) fn compilers() -> PathBuf {
    let named = std::env::var_os("MPICC").map(PathBuf::from);
    let mut folders = named
        .iter()
        .filter_map(|path| path.parent())
        .map(Path::to_path_buf)
        .chain(here().ancestors().map(|folder| folder.join("target/mpi/bin")));
    let found = folders.find(|folder| folder.join("mpicc").is_file());
    found.expect("no MPI is set up for the tests: run `cargo fampi setup`")
}

/// Compiler, and flags, for a source file.
fn compiler(source: &Path) -> Command {
    let is_c = source.extension().is_some_and(|extension| extension == "c");
    let (name, standard) = if is_c { ("mpicc", "-std=c99") } else { ("mpicxx", "-std=c++17") };
    let mut command = Command::new(compilers().join(name));
    command.args([standard, "-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    command.arg("-I").arg(here().join("include")).arg("-I").arg(here().join("examples"));
    command
}

/// What a program that has the library in it needs beside MPI.
const SYSTEM: [&str; 5] = ["-lpthread", "-ldl", "-lm", "-lrt", "-lgcc_s"];

/// Builds a program of these sources, in C and C++; its path. One that another test has built, and
/// may be running, is not touched again.
#[track_caller]
pub(crate) fn program(sources: &[&str], link: Link, flags: &[&str]) -> PathBuf {
    static BUILT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let name = Path::new(sources[0]).file_stem().expect("a name").to_string_lossy().into_owned();
    let variant = flags.iter().fold(format!("{link:?}"), |name, flag| name + flag);
    let variant: String = variant.chars().filter(char::is_ascii_alphanumeric).collect();
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{variant}"));
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if built.contains(&made) {
        return made;
    }
    let mut linker = Command::new(compilers().join("mpicxx"));
    linker.args(flags).arg("-o").arg(&made);
    for (number, source) in sources.iter().enumerate() {
        let (source, object) = (here().join(source), made.with_extension(format!("{number}.o")));
        run(compiler(&source).args(flags).arg("-c").arg(&source).arg("-o").arg(&object));
        linker.arg(object);
    }
    match link {
        Link::Shared => {
            linker.arg("-L").arg(libraries()).args(["-lfampi", "-lm"]);
            linker.arg(format!("-Wl,-rpath,{}", libraries().display()));
        }
        Link::Static => {
            linker.arg(libraries().join("libfampi.a")).args(SYSTEM);
        }
    }
    linker.arg(format!("-Wl,-rpath,{}", compilers().join("../lib").display()));
    run(&mut linker);
    built.insert(made.clone());
    made
}

/// Builds the library that watches blocking calls; its path.
#[track_caller]
pub(crate) fn watcher() -> PathBuf {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libfampi_watch.so");
    let source = here().join("watch/watch.c");
    let mut compiler = compiler(&source);
    run(compiler.args(["-shared", "-fPIC", "-o"]).arg(&made).arg(&source).arg("-ldl"));
    made
}

/// Compiles a text as a file of its own; nothing is linked.
#[track_caller]
pub(crate) fn compiles(name: &str, text: &str) {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&source, text).expect("written");
    run(compiler(&source).arg("-fsyntax-only").arg(&source));
}
