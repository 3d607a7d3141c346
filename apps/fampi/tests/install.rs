//! The C library as others use it: installed, and built against from outside of the checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROGRAM: &str = r#"
#include <fampi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
  MPI_Request block;
  int code;
  MPI_Init(&argc, &argv);
  FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block);
  FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER);
  code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  FAMPI_Request_free(&block);
  printf("consumer: %s\n", FAMPI_Error_string(code));
  MPI_Finalize();
  return code;
}
"#;

const FORTRAN: &str = "
use mpi_f08
use fampi
type(MPI_Request) :: block, none(0)
integer :: code
call MPI_Init()
call FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, block)
call FAMPI_TryBlock_finish(block, 0, none, FAMPI_TIMEOUT_NEVER)
call FAMPI_Wait_local(block, timeout=FAMPI_TIMEOUT_NEVER, ierror=code)
call FAMPI_Request_free(block)
print '(2a)', 'consumer: ', FAMPI_Error_string(code)
call MPI_Finalize()
end
";

const CMAKE: &str = r"
cmake_minimum_required(VERSION 3.10)
project(consumer C)
find_package(fampi 0.1 REQUIRED)
add_executable(shared consumer.c)
target_link_libraries(shared fampi::fampi)
add_executable(static consumer.c)
target_link_libraries(static fampi::static)
";

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders above")
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [output, errors] = [&done.stdout, &done.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(done.status.success(), "{command:?}\n{output}\n{errors}");
    output.into_owned()
}

fn is_there(tool: &str) -> bool {
    let mut command = Command::new(tool);
    let quiet = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// The folder of MPI's tools.
fn tools() -> PathBuf {
    let named = std::env::var_os("MPICC").map(PathBuf::from);
    let beside = named.and_then(|path| Some(path.parent()?.to_owned()));
    beside.filter(|it| it.join("mpicc").is_file()).unwrap_or(workspace().join("target/mpi/bin"))
}

/// Two ranks of the program, all of which commit.
#[track_caller]
fn commits(program: &Path, libraries: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fampi"));
    command.env("LD_LIBRARY_PATH", libraries);
    command.args(["run", "-n", "2", "--timeout", "60", "--"]).arg(program);
    let said = run(&mut command);
    assert_eq!(said.lines().filter(|line| *line == "consumer: done").count(), 2, "{said}");
}

/// Every function of the header has a page that `man` can show, with its own sentences in it.
#[track_caller]
fn manual_is_complete(prefix: &Path) {
    let header = fs::read_to_string(prefix.join("include/fampi.h")).expect("a header");
    let declared = |line: &&str| line.contains(" FAMPI_") || line.contains("*FAMPI_");
    let lines = header.lines().filter(|line| !line.starts_with([' ', '#', 't'])).filter(declared);
    let names = lines.filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next());
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names.iter().copied().chain(["fampi"]) {
        let page = prefix.join("share/man/man3").join(format!("{name}.3"));
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.contains(".SH DESCRIPTION"), "{name}:\n{text}");
        if is_there("groff") {
            let mut groff = Command::new("groff");
            let done = groff.args(["-man", "-Tutf8", "-ww", "-z"]).arg(&page).output();
            let said = String::from_utf8_lossy(&done.expect("it starts").stderr).into_owned();
            assert!(said.is_empty(), "{name}: {said}");
        }
    }
    let wait = prefix.join("share/man/man3/FAMPI_Wait_local.3");
    let wait = fs::read_to_string(wait).expect("a page");
    assert!(wait.contains("A timeout says nothing about the outcome."), "{wait}");
}

/// A program in Fortran is built as its page says.
#[track_caller]
fn fortran_is_built(folder: &Path, libraries: &Path) {
    let query = |words: &[&str]| {
        let mut query = Command::new("pkg-config");
        query.env("PKG_CONFIG_PATH", libraries.join("pkgconfig"));
        run(query.args(words).arg("fampi")).trim().to_owned()
    };
    fs::write(folder.join("program.f90"), FORTRAN).expect("written");
    let modules = PathBuf::from(query(&["--variable=fortran"]));
    let mut compiler = Command::new("gfortran");
    compiler.current_dir(folder).args(["-o", "program"]);
    for module in ["mpi_f08.f90", "fampi_base.f90", "fampi.f90"] {
        compiler.arg(modules.join(module));
    }
    compiler.arg("program.f90").args(query(&["--libs"]).split_whitespace());
    run(compiler.arg("-L").arg(tools().join("../lib")).arg("-lmpi"));
    commits(&folder.join("program"), libraries);
}

#[test]
fn programs_elsewhere_are_built_by_pkg_config_and_by_cmake() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (first, prefix) = (folder.path().join("first"), folder.path().join("moved"));
    let mut fampi = Command::new(env!("CARGO_BIN_EXE_fampi"));
    run(fampi.args(["install", "--profile", "release", "--prefix"]).arg(&first));
    fs::rename(&first, &prefix).expect("moved");
    let libraries = prefix.join("lib");
    for loaded_before in ["libfampi_watch.so", "libfampi_prterun.so"] {
        assert!(libraries.join(loaded_before).is_file(), "{loaded_before}");
    }
    manual_is_complete(&prefix);
    fs::write(folder.path().join("consumer.c"), PROGRAM).expect("written");
    if is_there("pkg-config") {
        let mut query = Command::new("pkg-config");
        query.env("PKG_CONFIG_PATH", libraries.join("pkgconfig"));
        let flags = run(query.args(["--cflags", "--libs", "fampi"]));
        let program = folder.path().join("consumer");
        let mut compiler = Command::new(tools().join("mpicc"));
        compiler.current_dir(folder.path()).args(["consumer.c", "-o", "consumer"]);
        run(compiler.args(flags.split_whitespace()));
        commits(&program, &libraries);
        if is_there("gfortran") {
            fortran_is_built(folder.path(), &libraries);
        }
    }
    if is_there("cmake") {
        fs::write(folder.path().join("CMakeLists.txt"), CMAKE).expect("written");
        let mut configure = Command::new("cmake");
        configure.current_dir(folder.path()).args(["-S", ".", "-B", "built"]);
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        run(configure.arg(format!("-DMPI_C_COMPILER={}", tools().join("mpicc").display())));
        run(Command::new("cmake").current_dir(folder.path()).args(["--build", "built"]));
        for name in ["shared", "static"] {
            commits(&folder.path().join("built").join(name), &libraries);
        }
    }
}
