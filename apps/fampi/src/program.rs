//! What the first word after `--` means: one of our programs by its name, or a file to be started.
//!
//! Looked at before anything is installed, built or launched: the launcher would find out late, and
//! of a folder or a script without its first line it says nothing at all.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::Access;

use crate::cargo::Program;
use crate::refusal::Stopped;
use crate::workspace::Workspace;

fn missing(sentence: String) -> Stopped {
    Stopped { status: 127, sentence }
}

fn not_executable(sentence: String) -> Stopped {
    Stopped { status: 126, sentence }
}

/// Our program of this name, to be built; none when a file is meant, which then can be started.
pub(crate) fn find<'a>(
    workspace: &Workspace,
    word: &'a OsStr,
) -> Result<Option<Program<'a>>, Stopped> {
    if word.as_encoded_bytes().contains(&b'/') {
        return check(Path::new(word)).map(|()| None);
    }
    if let Some(name) = word.to_str() {
        if workspace.has_application(name) {
            return Ok(Some(Program::application(name)));
        }
        if workspace.has_example(name) {
            return Ok(Some(Program::example(name)));
        }
    }
    // In the order in which the launcher looks.
    let on_path = env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join(word))
        .find(|file| file.is_file() && is_executable(file));
    match on_path {
        Some(file) => check(&file),
        None if word.is_empty() || !Path::new(word).exists() => Err(unknown(workspace, word)),
        None => check(Path::new(word)).and_then(|()| Err(not_on_path(word))),
    }
    .map(|()| None)
}

fn not_on_path(word: &OsStr) -> Stopped {
    let name = word.display();
    missing(format!("{name} is in the current folder, and not on PATH: write ./{name}"))
}

fn unknown(workspace: &Workspace, word: &OsStr) -> Stopped {
    missing(format!(
        "there is no program `{}`: give the path of a file, a name on PATH, or one of ours ({})",
        word.display(),
        workspace.programs().join(", ")
    ))
}

/// Makes sure that the kernel can start this file.
fn check(file: &Path) -> Result<(), Stopped> {
    let name = file.display();
    if !file.exists() {
        let from = if file.is_relative() { ", which begins in the current folder" } else { "" };
        let sentence = format!("there is no program {name}: check its path{from}");
        return Err(missing(sentence));
    }
    if !file.is_file() {
        let sentence = format!("{name} is no file that can be started: name a program");
        return Err(not_executable(sentence));
    }
    if !is_executable(file) {
        let sentence = format!("{name} is not executable: if it is a program, `chmod +x {name}`");
        return Err(not_executable(sentence));
    }
    if is_text_without_interpreter(file) {
        let sentence = format!("{name} is a script that names no interpreter: begin it with #!");
        return Err(not_executable(sentence));
    }
    Ok(())
}

fn is_executable(file: &Path) -> bool {
    rustix::fs::access(file, Access::EXEC_OK).is_ok()
}

/// A shell would guess that such a file is for itself; the kernel refuses it.
fn is_text_without_interpreter(file: &Path) -> bool {
    let mut start = Vec::new();
    // What may be executed need not be readable.
    let read = File::open(file).and_then(|file| file.take(64).read_to_end(&mut start));
    let text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    read.is_ok() && !start.starts_with(b"#!") && start.iter().all(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn status_of(file: &Path) -> Option<u8> {
        let workspace = Workspace::find().expect("the tests run inside the workspace");
        find(&workspace, file.as_os_str()).err().map(|error| error.status)
    }

    #[test]
    fn only_what_the_kernel_can_start_is_a_program() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("program");
        assert_eq!(status_of(&file), Some(127));
        assert_eq!(status_of(folder.path()), Some(126));
        fs::write(&file, "#!/bin/sh\n").expect("written");
        assert_eq!(status_of(&file), Some(126));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("changed");
        assert_eq!(status_of(&file), None);
        fs::write(&file, "echo without an interpreter\n").expect("written");
        assert_eq!(status_of(&file), Some(126));
        assert_eq!(status_of(&env::current_exe().expect("this test")), None);
    }

    #[test]
    fn our_names_come_first_and_then_those_on_the_path() {
        let workspace = Workspace::find().expect("the tests run inside the workspace");
        let name = |word| find(&workspace, OsStr::new(word)).map(|own| own.map(|own| own.name));
        assert_eq!(name("minife").expect("ours"), Some("minife"));
        assert_eq!(name("count").expect("ours"), Some("count"));
        assert_eq!(name("true").expect("on PATH"), None);
        let sentence = name("no-such-program").expect_err("unknown").to_string();
        assert!(
            sentence.contains("hyperquicksort, lulesh, minife, ring, causes, count, "),
            "{sentence}"
        );
    }
}
