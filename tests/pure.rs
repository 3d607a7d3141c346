//! The protocol is pure: its files compile alone, without `std`, and the crate compiles for a
//! machine without an operating system.
//!
//! A crate is generated that consists of nothing but the value types and `src/protocol`, under
//! `no_std`: what it cannot name (a clock, a socket, the engine), it cannot use. The same crate
//! with one file more, which looks at a clock, must fail, or the proof would prove nothing.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A target without an operating system; any would do.
const BARE_TARGET: &str = "thumbv7m-none-eabi";

fn cargo(folder: &Path, arguments: &[&str]) -> Output {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(folder).args(arguments).env("CARGO_TARGET_DIR", folder.join("target"));
    // What the outer cargo says about its own package is not for the inner one.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.output().expect("cargo starts")
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The version of a dependency that the project is locked to.
fn locked(name: &str) -> String {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
    let lock = fs::read_to_string(lock).expect("a lock file");
    let package = lock.split("[[package]]").find(|it| it.contains(&format!("name = \"{name}\"\n")));
    let line = package.and_then(|it| it.lines().find_map(|line| line.strip_prefix("version = ")));
    line.expect("a locked dependency").trim_matches('"').to_owned()
}

/// Writes the crate of the protocol alone, with these lines at the end of its root.
fn pure_crate(name: &str, more: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let manifest = format!(
        "[package]\nname = \"pure\"\nedition = \"2024\"\n\n\
         [lib]\npath = \"lib.rs\"\n\n\
         [dependencies]\nsmallvec = {{ version = \"={}\", features = {} }}\n\n\
         [lints.rust]\nunexpected_cfgs = \"allow\"\n\n[workspace]\n",
        locked("smallvec"),
        r#"["const_generics", "const_new", "union"]"#,
    );
    let module = |file: &str, name: &str| {
        format!("#[path = {:?}]\npub mod {name};\n", sources.join(file).display().to_string())
    };
    let root = format!(
        "#![no_std]\n#![forbid(unsafe_code)]\nextern crate alloc;\n{}{}{}{}{more}",
        module("rank.rs", "rank"),
        module("ids.rs", "ids"),
        module("fault/mod.rs", "fault"),
        module("protocol/mod.rs", "protocol"),
    );
    fs::create_dir_all(&folder).expect("a folder below target");
    fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
    fs::write(folder.join("lib.rs"), root).expect("a root");
    folder
}

#[test]
fn the_protocol_compiles_alone_and_without_the_standard_library() {
    let folder = pure_crate("pure", "");
    let output = cargo(&folder, &["check", "--offline", "--quiet"]);
    assert!(output.status.success(), "the protocol is not pure:\n{}", complaint(&output));
}

#[test]
fn a_clock_in_the_protocol_would_not_compile() {
    let clock = "pub fn now() -> std::time::Instant { std::time::Instant::now() }\n";
    let output = cargo(&pure_crate("impure-clock", clock), &["check", "--offline", "--quiet"]);
    let complaint = complaint(&output);
    assert!(!output.status.success());
    assert!(complaint.contains("`std`"), "it failed otherwise:\n{complaint}");
}

#[test]
fn a_look_at_the_engine_from_the_protocol_would_not_compile() {
    let engine = "pub use crate::engine::Level;\n";
    let output = cargo(&pure_crate("impure-engine", engine), &["check", "--offline", "--quiet"]);
    let complaint = complaint(&output);
    assert!(!output.status.success());
    assert!(complaint.contains("`engine`"), "it failed otherwise:\n{complaint}");
}

#[test]
fn the_crate_compiles_for_a_machine_without_an_operating_system() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let ask = ["--print", "target-libdir", "--target", BARE_TARGET];
    let libraries = Command::new(rustc).args(ask).output().expect("rustc starts").stdout;
    let libraries = PathBuf::from(String::from_utf8_lossy(&libraries).trim());
    if !libraries.is_dir() {
        println!("skipped: no {BARE_TARGET}; get it by `rustup target add {BARE_TARGET}`");
        return;
    }
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bare");
    let target = scratch.display().to_string();
    let build = ["build", "--package", "fampi", "--lib", "--no-default-features", "--offline"];
    let bare = ["--quiet", "--target", BARE_TARGET, "--target-dir", &target];
    let output = cargo(top, &[&build[..], &bare[..]].concat());
    assert!(output.status.success(), "it needs an operating system:\n{}", complaint(&output));
}

#[test]
fn no_bug_can_be_planted_in_what_is_used_or_measured() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let can_have_bugs = |package: &str, edges: &str| {
        let tree = ["tree", "--offline", "--package", package, "--edges", edges, "--prefix=none"];
        let output = cargo(top, &tree);
        assert!(output.status.success(), "{}", complaint(&output));
        String::from_utf8_lossy(&output.stdout).contains("fampi-planted ")
    };
    // Benchmarks are built with what tests need.
    for package in ["fampi", "fampi-ffi", "lulesh", "minife", "ring"] {
        assert!(!can_have_bugs(package, "normal,build,dev"), "{package}");
    }
    assert!(!can_have_bugs("fampi-detector", "normal,build"));
    assert!(can_have_bugs("fampi-checkers", "normal"), "then nothing is shown by the others");
}
