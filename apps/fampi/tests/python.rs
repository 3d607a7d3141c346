//! The package for Python: its wheel is built here, installed beside an mpi4py that was built from
//! source, and tried by its own tests, which launch programs that lose ranks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the tests of the package need, beside mpi4py.
const NEEDED: [&str; 6] =
    ["Cython>=3", "numpy", "pytest", "pytest-xdist", "setuptools>=64", "wheel"];

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders above")
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn said(done: &Output) -> String {
    let [output, errors] = [&done.stdout, &done.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{output}\n{errors}")
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let done = output(command);
    assert!(done.status.success(), "{command:?}\n{}", said(&done));
    said(&done)
}

/// MPI's compiler.
fn compiler() -> PathBuf {
    let named = std::env::var_os("MPICC").map(PathBuf::from);
    named.filter(|it| it.is_file()).unwrap_or(workspace().join("target/mpi/bin/mpicc"))
}

/// The Python of an environment with mpi4py, which is made once: building that takes minutes.
/// Otherwise the reason why there is none.
fn environment() -> Result<PathBuf, String> {
    let folder = workspace().join("target/python/venv");
    let (python, made) = (folder.join("bin/python3"), folder.join("made"));
    if fs::read_to_string(&made).is_ok_and(|known| known == NEEDED.join(" ")) {
        return Ok(python);
    }
    let _ = fs::remove_dir_all(&folder);
    let mut venv = Command::new("python3");
    let done = venv.args(["-m", "venv"]).arg(&folder).output();
    let done = done.map_err(|error| format!("python3 does not start: {error}"))?;
    if !done.status.success() {
        return Err(format!("python3 makes no environment: {}", said(&done)));
    }
    let pip = |words: &[&str]| {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet"]).args(words).env("MPICC", compiler());
        pip
    };
    let done = output(&mut pip(&NEEDED));
    if !done.status.success() {
        return Err(format!("pip installs nothing: {}", said(&done)));
    }
    // Most of the time is the C compiler's, whose optimisation no test needs.
    run(pip(&["--no-binary", "mpi4py", "mpi4py>=4"]).env("CFLAGS", "-O0"));
    fs::write(&made, NEEDED.join(" ")).expect("written");
    Ok(python)
}

#[test]
fn a_wheel_that_is_built_here_serves_programs_that_lose_ranks() {
    let python = match environment() {
        Ok(python) => python,
        Err(reason) => return eprintln!("not tried: {reason}"),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (prefix, wheels) = (folder.path().join("prefix"), folder.path().join("wheels"));
    let mut fampi = Command::new(env!("CARGO_BIN_EXE_fampi"));
    run(fampi.args(["install", "--profile", "release", "--prefix"]).arg(&prefix));
    let package = workspace().join("ffi/python");
    let mut pip = Command::new(&python);
    pip.env("FAMPI_PREFIX", &prefix).env("MPICC", compiler());
    pip.args(["-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w"]);
    run(pip.arg(&wheels).arg(&package));
    let mut files = fs::read_dir(&wheels).expect("a folder").flatten().map(|entry| entry.path());
    let wheel = files.next().expect("a wheel");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"]);
    run(pip.arg(&wheel));
    // The wheel has its library; what it was built from is not needed any more.
    drop(folder);
    let mut pytest = Command::new("timeout");
    pytest.args(["-k", "5", "400"]).arg(&python);
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "3"]).current_dir(&package);
    pytest.env("FAMPI", env!("CARGO_BIN_EXE_fampi")).env("PYTHONDONTWRITEBYTECODE", "1");
    let told = run(&mut pytest);
    assert!(told.contains(" passed") && !told.contains(" skipped"), "{told}");
}
