//! Python wheels as a source of programs: download one with pip, unpack a part of it.
//!
//! A wheel is a zip archive, so nothing is installed into any Python: no virtual environment (some
//! distributions ship Python without what that needs), no root, no folder layout of pip's own
//! (`--target` drops the `lib` folder of a wheel, `--prefix` is redirected by some distributions).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, anyhow, bail};

const UNPACK: &str = include_str!("python_wheel/unpack.py");

/// Downloads `requirement` (`name==version`) for this machine into `folder`.
pub(crate) fn download(requirement: &str, folder: &Path) -> Result<PathBuf> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"])
        .args(["--no-deps", "--only-binary=:all:", "--dest"])
        .arg(folder)
        .arg(requirement)
        // Nothing is installed, so the wish for a virtual environment does not apply.
        .env("PIP_REQUIRE_VIRTUALENV", "0");
    let output = output_of(&mut pip)?;
    if !output.status.success() {
        return Err(pip_failed(requirement, &String::from_utf8_lossy(&output.stderr)));
    }
    fs::read_dir(folder)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .with_context(|| format!("pip downloaded {requirement} but left no wheel"))
}

/// Unpacks what the wheel holds below the folder `part` (of its `.data` folder) into `destination`.
pub(crate) fn unpack(wheel: &Path, part: &str, destination: &Path) -> Result<()> {
    let mut python = Command::new("python3");
    python.arg("-c").arg(UNPACK).arg(wheel).arg(part).arg(destination);
    let output = output_of(&mut python)?;
    if !output.status.success() {
        let reason = last_line(&String::from_utf8_lossy(&output.stderr));
        bail!("cannot unpack {}: {reason}", wheel.display());
    }
    Ok(())
}

fn output_of(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).output().map_err(|error| {
        anyhow!("python3 does not start ({error}): install Python 3 with pip, or put it on PATH")
    })
}

fn pip_failed(requirement: &str, stderr: &str) -> anyhow::Error {
    if stderr.contains("No module named pip") {
        return anyhow!("python3 has no pip: install it (Debian and Ubuntu: python3-pip)");
    }
    let unreachable = ["NewConnectionError", "Temporary failure", "ConnectTimeout", "ProxyError"];
    if unreachable.iter().any(|sign| stderr.contains(sign)) {
        return anyhow!("pip cannot reach its package index for {requirement}: check the network");
    }
    anyhow!("pip found no {requirement} for this machine: {}", last_line(stderr))
}

fn last_line(text: &str) -> String {
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pip_says_becomes_one_sentence_that_says_what_to_do() {
        let no_pip = pip_failed("x==1", "/usr/bin/python3: No module named pip\n").to_string();
        assert!(no_pip.contains("python3-pip"), "{no_pip}");
        let offline = "WARNING: Retrying …: NewConnectionError('…')\nERROR: No matching …\n";
        assert!(pip_failed("x==1", offline).to_string().contains("check the network"));
        let unknown = pip_failed("x==1", "ERROR: No matching distribution found for x==1\n\n");
        assert!(unknown.to_string().ends_with("No matching distribution found for x==1"));
    }
}
