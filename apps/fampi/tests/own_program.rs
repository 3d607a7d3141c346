//! Programs of one's own, outside of the checkout: what `new` and `env` make, and the README's
//! section about them, line by line.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders above")
}

/// A command that knows nothing of the checkout whose tests call it.
fn outside(program: impl AsRef<std::ffi::OsStr>, home: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = ["MPICC", "LIBCLANG_PATH", "CLANG_PATH", "LD_LIBRARY_PATH", "XDG_DATA_HOME"];
        let of_cargo =
            text.starts_with("CARGO") && !["CARGO_HOME", "CARGO_NET_OFFLINE"].contains(&&*text);
        if of_cargo || text.starts_with("RUSTFLAGS") || ours.contains(&&*text) {
            command.env_remove(&name);
        }
    }
    for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let real = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(folder));
        if let (None, Some(real)) = (std::env::var_os(name), real) {
            command.env(name, real);
        }
    }
    command.env("HOME", home).current_dir(home);
    command
}

/// A home in whose data folder the MPI of the checkout is, as if it were set up there.
fn home_with_mpi() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a temporary folder");
    let data = home.path().join(".local/share/fampi");
    fs::create_dir_all(&data).expect("made");
    for name in ["mpi", "libclang"] {
        let real = fs::canonicalize(checkout().join("target").join(name)).expect("set up");
        symlink(real, data.join(name)).expect("linked");
    }
    for name in ["mpi.json", "libfampi_prterun.so"] {
        fs::copy(checkout().join("target").join(name), data.join(name)).expect("copied");
    }
    // Set up there, too: as it is, if the tests have built it.
    fs::create_dir(data.join("release")).expect("made");
    let built = Path::new(env!("CARGO_BIN_EXE_fampi"));
    let release = data.join("release");
    let is_there = ["fampi-node", "fampi-node.d"]
        .map(|name| fs::copy(built.with_file_name(name), release.join(name)).is_ok());
    if is_there == [true; 2] {
        let stamp = release.join("fampi-node.stamp");
        fs::write(&stamp, checkout().to_str().expect("plain letters")).expect("written");
        let then = fs::metadata(built.with_file_name("fampi-node")).expect("there").modified();
        let stamp = fs::File::options().write(true).open(stamp).expect("there");
        stamp.set_modified(then.expect("known")).expect("ours");
    }
    home
}

fn fampi(home: &Path, arguments: &[&str]) -> Output {
    let mut tool = outside(env!("CARGO_BIN_EXE_fampi"), home);
    tool.args(arguments).output().expect("the tool starts")
}

#[track_caller]
fn text(output: &Output) -> String {
    let [said, errors] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success(), "{said}\n{errors}");
    said.into_owned()
}

#[test]
fn a_new_project_is_whole_and_env_prints_what_it_needs() {
    let home = home_with_mpi();
    let project = home.path().join("below/heat");
    text(&fampi(home.path(), &["new", "below/heat"]));
    let read = |file: &str| fs::read_to_string(project.join(file)).expect(file);
    assert!(read("Cargo.toml").contains("name = \"heat\""));
    assert!(
        read("src/main.rs")
            .contains("cargo fampi run -n 4 --kill 2@step:1000 -- target/release/heat")
    );
    let configuration = text(&fampi(home.path(), &["env"]));
    assert_eq!(configuration, read(".cargo/config.toml"));
    let mpi = home.path().join(".local/share/fampi/mpi");
    assert!(configuration.contains(&format!("MPICC = \"{}/bin/mpicc\"", mpi.display())));
    // cargo itself reads both files.
    let mut cargo = outside("cargo", &project);
    cargo.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]);
    cargo.env("HOME", home.path());
    assert!(text(&cargo.output().expect("cargo starts")).contains("\"heat\""));
    let mut shell = outside("sh", home.path());
    shell.args(["-c", "eval \"$(\"$0\" env --shell)\"; mpicc --showme:version; echo $MPICC"]);
    let said = text(&shell.arg(env!("CARGO_BIN_EXE_fampi")).output().expect("sh"));
    assert!(said.ends_with(&format!("{}/bin/mpicc\n", mpi.display())), "{said}");
    let again = fampi(home.path(), &["new", "below/heat"]);
    assert_eq!(again.status.code(), Some(2));
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!(said, "fampi: below/heat exists: name a folder to be made\n");
    assert_eq!(fs::read_dir(home.path().join("below")).expect("a folder").count(), 1);
}

/// The lines of a shell under this heading of the README.
fn lines_of_readme(heading: &str) -> Vec<String> {
    let readme = fs::read_to_string(checkout().join("README.md")).expect("readable");
    let section = readme.split("\n## ").find(|it| it.starts_with(heading)).expect("a section");
    let block = section.split("```sh\n").nth(1).and_then(|it| it.split("```").next());
    let lines = block.expect("a block of lines for a shell").lines();
    lines.map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

#[test]
#[ignore = "builds the tool, the library and a program: 2 to 6 minutes on two cores"]
fn the_section_about_a_program_of_ones_own_ends_in_a_death_and_the_right_result() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let lines = lines_of_readme("Your own program");
    assert!(lines.len() >= 4, "{lines:?}");
    let bin = home.path().join("installed/bin");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    let script = format!("set -ex\ncd '{}'\n{}\n", checkout().display(), lines.join("\n"));
    let mut shell = outside("bash", home.path());
    shell.args(["-c", &script]).env("PATH", path);
    shell.env("CARGO_INSTALL_ROOT", home.path().join("installed"));
    let output = shell.output().expect("a shell");
    let said = text(&output);
    assert!(said.lines().any(|line| line == "pi is 3.1415926536"), "{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("1 process died as planned"), "{errors}");
    assert!(errors.contains("fampi: rank 2 died at ") && errors.contains("; whole again by "));
    // It went nowhere into the checkout.
    assert!(home.path().join(".local/share/fampi/mpi/bin/mpirun").is_file());
}
