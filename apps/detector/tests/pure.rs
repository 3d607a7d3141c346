//! The protocol is pure: its files compile alone, without `std`, and the crate without features
//! compiles for a machine without an operating system.
//!
//! A crate is generated that consists of nothing but `src/protocol` and the bugs on demand, under
//! `no_std`: what it cannot name (a clock, a socket, the daemon), it cannot use. The same crate
//! with a line more, which looks at a clock, must fail, or the proof would prove nothing.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A target without an operating system; any would do.
const BARE_TARGET: &str = "thumbv7m-none-eabi";

fn own() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What cargo says in a folder, with all that it builds in another one.
fn cargo(folder: &Path, target: &Path, arguments: &[&str]) -> Output {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(folder).args(arguments).args(["--offline", "--quiet"]);
    // What the outer cargo says about its own package is not for the inner one.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.env("CARGO_TARGET_DIR", target).output().expect("cargo starts")
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks a crate of the protocol alone, with these lines at the end of its root.
fn check_pure(name: &str, more: &str) -> Output {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let manifest = fs::read_to_string(own().join("Cargo.toml")).expect("a manifest");
    let needs = |line: &&str| ["hmac", "sha2", "smallvec"].iter().any(|it| line.starts_with(it));
    let needs: Vec<&str> = manifest.lines().filter(needs).collect();
    let manifest = format!(
        "[package]\nname = \"pure\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n\n\
         [dependencies]\n{}\n\n[lints.rust]\nunexpected_cfgs = \"allow\"\n\n[workspace]\n",
        needs.join("\n")
    );
    let module = |file: &str, name: &str| {
        let path = own().join("src").join(file).display().to_string();
        format!("#[path = {path:?}]\npub mod {name};\n")
    };
    let root = format!(
        "#![no_std]\n#![forbid(unsafe_code)]\nextern crate alloc;\n{}{}{more}",
        module("planted.rs", "planted"),
        module("protocol/mod.rs", "protocol"),
    );
    fs::create_dir_all(&folder).expect("a folder below target");
    fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
    fs::write(folder.join("lib.rs"), root).expect("a root");
    fs::copy(own().join("../../Cargo.lock"), folder.join("Cargo.lock")).expect("a lock file");
    cargo(&folder, &folder.join("target"), &["check"])
}

#[test]
fn the_protocol_compiles_alone_and_without_the_standard_library() {
    let output = check_pure("pure-detector", "");
    assert!(output.status.success(), "the protocol is not pure:\n{}", complaint(&output));
}

#[test]
fn a_clock_in_the_protocol_would_not_compile() {
    let clock = "pub fn now() -> std::time::Instant { std::time::Instant::now() }\n";
    let output = check_pure("impure-detector", clock);
    let complaint = complaint(&output);
    assert!(!output.status.success());
    assert!(complaint.contains("`std`"), "it failed otherwise:\n{complaint}");
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
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bare-detector");
    let build = ["build", "--lib", "--no-default-features", "--target", BARE_TARGET];
    let output = cargo(own(), &target, &build);
    assert!(output.status.success(), "it needs an operating system:\n{}", complaint(&output));
}
