//! `fampi new` and `fampi env`: what a program of one's own needs, outside of fampi's checkout.
//!
//! ```text
//!  DIR/Cargo.toml            fampi as a dependency, and the profile of what is measured
//!  DIR/.cargo/config.toml    where the MPI of the user's data folder is, as `env` prints it
//!  DIR/src/main.rs           the example `pi`, with its test on simulated ranks
//! ```
//!
//! **Guarantees.** Nothing that is there is overwritten. The folder appears when it is complete.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use crate::refusal::Misuse;
use crate::setup;
use crate::workspace::{Workspace, shown};

const PROGRAM: &str = include_str!("../../../examples/pi.rs");
const MANIFEST: &str = include_str!("project/Cargo.toml.in");
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Args)]
pub(crate) struct NewOptions {
    /// The folder to make; its last part is the name of the program
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(Args)]
pub(crate) struct EnvOptions {
    /// Lines for a shell instead, which serve C programs, too: `eval "$(cargo fampi env --shell)"`
    #[arg(long)]
    shell: bool,
}

/// Makes a project that builds and runs.
pub(crate) fn make(options: &NewOptions) -> Result<u8> {
    let folder = std::path::absolute(&options.folder)?;
    let name = package_name(&folder)?;
    if folder.exists() {
        let sentence = format!("{} exists: name a folder to be made", options.folder.display());
        return Err(Misuse(sentence).into());
    }
    let parent = folder.parent().context("a folder to be made has a parent")?;
    let refused = || format!("cannot write to {}: choose a folder that is yours", shown(parent));
    fs::create_dir_all(parent).with_context(refused)?;
    let unfinished = tempfile::Builder::new().prefix(".new-").tempdir_in(parent);
    let unfinished = unfinished.with_context(refused)?;
    let workspace = Workspace::of_user()?;
    setup::ensure(&workspace)?;
    let filled = unfinished.path().join("filled");
    let manifest = MANIFEST.replace("@NAME@", name).replace("@FAMPI@", &dependency(&workspace));
    let run = format!("cargo fampi run -n 4 --kill 2@step:1000 -- target/release/{name}");
    let program = PROGRAM.replace("cargo fampi run -n 4 --kill 2@step:1000 -- pi", &run);
    let configuration = configuration(&workspace);
    for (file, text) in [
        ("Cargo.toml", manifest.as_str()),
        (".gitignore", "/target\n"),
        (".cargo/config.toml", configuration.as_str()),
        ("src/main.rs", program.as_str()),
    ] {
        let path = filled.join(file);
        fs::create_dir_all(path.parent().expect("below the folder")).with_context(refused)?;
        fs::write(path, text).with_context(refused)?;
    }
    fs::rename(&filled, &folder).with_context(refused)?;
    let place = shown(&folder);
    say!("fampi: {place} is made: `cd {place} && cargo build --release`, then `{run}`");
    Ok(0)
}

/// Prints what an existing project needs.
pub(crate) fn print(options: &EnvOptions) -> Result<u8> {
    let workspace = Workspace::of_user()?;
    setup::ensure(&workspace)?;
    let text = if options.shell { exports(&workspace) } else { configuration(&workspace) };
    print!("{text}");
    Ok(0)
}

/// The name of a package, as cargo wants it.
fn package_name(folder: &Path) -> Result<&str, Misuse> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let good = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain);
    // Names of crates, and of folders in which cargo builds.
    let taken = ["fampi", "test", "core", "std", "build", "deps", "examples", "incremental"];
    if good && !taken.contains(&name) {
        return Ok(name);
    }
    Err(Misuse(format!(
        "a program's name begins with a letter, has letters, digits, - and _, and is none of {}: \
         name the folder otherwise",
        taken.join(", ")
    )))
}

/// What stands behind `fampi =` in a manifest.
fn dependency(workspace: &Workspace) -> String {
    match workspace.sources() {
        Ok(sources) => format!("{{ path = {} }}", quoted(sources)),
        Err(_) => format!("\"{VERSION}\""),
    }
}

/// A path as a string of TOML.
fn quoted(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}

/// A `.cargo/config.toml`.
fn configuration(workspace: &Workspace) -> String {
    let dependency = dependency(workspace);
    let variables = workspace.build_variables();
    let variables = variables.map(|(name, path)| format!("{name} = {}\n", quoted(&path))).concat();
    let flag = format!("link-arg=-Wl,-rpath,{}", workspace.mpi().join("lib").display());
    format!(
        "# Where the MPI is on this machine, as `cargo fampi env` prints it. In Cargo.toml:\n\
         # fampi = {dependency}\n\n[env]\n{variables}\n\
         [build]\nrustflags = [\"-C\", {flag:?}]\nrustdocflags = [\"-C\", {flag:?}]\n"
    )
}

/// Lines that a shell evaluates.
fn exports(workspace: &Workspace) -> String {
    let word = |text: String| format!("'{}'", text.replace('\'', r"'\''"));
    let path_word = |path: PathBuf| word(path.display().to_string());
    let variables = workspace.build_variables();
    let variables = variables.map(|(name, path)| format!("export {name}={}\n", path_word(path)));
    let flag = format!("-C link-arg=-Wl,-rpath,{}", workspace.mpi().join("lib").display());
    format!(
        "{}export PATH={}:\"$PATH\"\nexport RUSTFLAGS={}\n",
        variables.concat(),
        path_word(workspace.mpi().join("bin")),
        word(flag)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_as_cargo_wants_it() {
        for good in ["heat", "a/heat-2_d"] {
            assert!(package_name(Path::new(good)).is_ok(), "{good}");
        }
        for bad in ["/", "a/2heat", "a/fampi", "a/h eat", "a/wärme", "a/.."] {
            let refused = package_name(Path::new(bad)).expect_err(bad);
            assert!(refused.0.contains("name the folder otherwise"), "{bad}");
        }
    }

    #[test]
    fn words_for_a_shell_survive_blanks_and_quotes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().join("it's here");
        fs::create_dir(&root).expect("made");
        let text = exports(&Workspace::at(&root));
        let script = format!("{text}\nprintf %s \"$MPICC\"");
        let said = std::process::Command::new("sh").arg("-c").arg(script).output().expect("sh");
        let expected = root.join("target/mpi/bin/mpicc").display().to_string();
        assert_eq!(String::from_utf8_lossy(&said.stdout), expected);
    }
}
