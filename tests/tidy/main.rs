//! Style as a test: sizes, names, headers, `unsafe`, and the arrows between the layers.
//!
//! Each check is a function from one file to what is wrong with it, so that a test can feed it a
//! bad file: a check is trusted only after it has failed once. The checks read words, not syntax
//! trees; comments, strings and character literals are blanked first where they would mislead.

mod arrows;
mod rooms;
mod source;

use std::{fs, path::Path};

use arrows::forbidden_arrows;
use rooms::{circles, forbidden_rooms};
use source::{Source, body_end, line_of, words};

const MAX_COLUMNS: usize = 100;
const MAX_FILE_LINES: usize = 500;
const MAX_FUNCTION_LINES: usize = 70;
/// The parts of the engine have types of their own, each with what only it needs.
const MAX_ENGINE_FIELDS: usize = 10;

/// Names that say nothing about what is in a module.
const EMPTY_NAMES: [&str; 5] = ["utils", "helpers", "common", "manager", "misc"];

/// Marks of unfinished work, which need the number of an issue on the same line.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Folders that exist on one machine only; spelled without slashes so that this file passes.
const MACHINE_FOLDERS: [&str; 5] = ["work", "root", "home", "tmp", "Users"];

/// What is wrong with a file. Rust only, except for [`machine_paths`].
type Check = fn(&Source) -> Vec<String>;

const RUST_CHECKS: [(&str, Check); 9] = [
    ("a line is too long", wide_lines),
    ("a file is too long", long_files),
    ("a function is too long", long_functions),
    ("the engine has too many fields", large_engine),
    ("a module's name says nothing", empty_names),
    ("unfinished work has no issue", unnumbered_marks),
    ("`unsafe` stands outside of src/mpi, src/native and ffi", stray_unsafe),
    ("a file does not begin with its documentation", missing_header),
    ("the detector is named outside of src/mpi/deaths/observer", stray_detector),
];

fn wide_lines(source: &Source) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    let wide = lines.filter(|(_, line)| line.chars().count() > MAX_COLUMNS);
    wide.map(|(at, line)| format!("line {}: {} columns", at + 1, line.chars().count())).collect()
}

fn long_files(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    (lines > MAX_FILE_LINES).then(|| format!("{lines} lines")).into_iter().collect()
}

fn long_functions(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (at, word) in words(&source.code) {
        let rest = &source.code[at..];
        let Some(end) = (word == "fn").then(|| body_end(rest)).flatten() else { continue };
        let lines = rest[..end].matches('\n').count() + 1;
        if lines > MAX_FUNCTION_LINES {
            let name = words(rest).nth(1).map_or("", |(_, name)| name);
            found.push(format!("line {}: `{name}` has {lines} lines", line_of(&source.code, at)));
        }
    }
    found
}

fn large_engine(source: &Source) -> Vec<String> {
    let Some((_, body)) = source.code.split_once("struct Engine {") else { return Vec::new() };
    let body = &body[..body.find('}').unwrap_or(body.len())];
    // No field has a type with a colon that stands alone.
    let fields = body.replace("::", "").matches(':').count();
    (fields > MAX_ENGINE_FIELDS).then(|| format!("{fields} fields")).into_iter().collect()
}

fn empty_names(source: &Source) -> Vec<String> {
    let parts = source.path.split(['/', '.']).filter(|part| EMPTY_NAMES.contains(part));
    let mut found: Vec<String> = parts.map(|part| format!("its path has `{part}`")).collect();
    let mut before = "";
    for (at, word) in words(&source.code) {
        if before == "mod" && EMPTY_NAMES.contains(&word) {
            found.push(format!("line {}: module `{word}`", line_of(&source.code, at)));
        }
        before = word;
    }
    found
}

fn unnumbered_marks(source: &Source) -> Vec<String> {
    let marked = |line: &str| words(line).any(|(_, word)| MARKS.contains(&word));
    let numbered = |line: &str| {
        line.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let lines = source.text.lines().enumerate();
    let bad = lines.filter(|(_, line)| marked(line) && !numbered(line));
    bad.map(|(at, line)| format!("line {}: {}", at + 1, line.trim())).collect()
}

fn stray_unsafe(source: &Source) -> Vec<String> {
    if ["src/mpi/", "src/native/", "ffi/"].iter().any(|it| source.path.starts_with(it)) {
        return Vec::new();
    }
    let found = words(&source.code).filter(|(_, word)| *word == "unsafe");
    found.map(|(at, _)| format!("line {}", line_of(&source.code, at))).collect()
}

fn stray_detector(source: &Source) -> Vec<String> {
    let is_core =
        source.path.starts_with("src/") && !source.path.starts_with("src/mpi/deaths/observer");
    let found = words(&source.code).filter(|(_, word)| is_core && *word == "fampi_detector");
    found.map(|(at, _)| format!("line {}", line_of(&source.code, at))).collect()
}

fn missing_header(source: &Source) -> Vec<String> {
    let first = source.text.lines().next().unwrap_or_default();
    let header = first.starts_with("//! ");
    (!header).then(|| format!("it begins with `{first}`")).into_iter().collect()
}

fn machine_paths(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for folder in MACHINE_FOLDERS {
        for (at, _) in source.text.match_indices(&format!("/{folder}/")) {
            // `target/…` and addresses on the web begin before the slash, an absolute path here.
            let relative = |c: char| c.is_alphanumeric() || "_.-/{}$*".contains(c);
            if !source.text[..at].ends_with(relative) {
                found.push(format!("line {}: `/{folder}/…`", line_of(&source.text, at)));
            }
        }
    }
    found
}

/// All files of the project that are text.
fn project() -> Vec<Source> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![top.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                // What is built, and what editors and tools keep for themselves.
                let ours = !name.starts_with('.') || [".cargo", ".ci"].contains(&name.as_str());
                if ours && name != "target" {
                    folders.push(path);
                }
            } else if let Ok(text) = fs::read_to_string(&path) {
                let relative = path.strip_prefix(top).expect("a path below the top");
                let relative = relative.to_string_lossy().replace('\\', "/");
                found.push(Source::new(&relative, &text));
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

#[test]
fn the_project_is_tidy() {
    let project = project();
    let mut report = Vec::new();
    for source in &project {
        let mut note = |what: &str, found: Vec<String>| {
            report.extend(found.iter().map(|it| format!("{}: {it} ({what})", source.path)));
        };
        note("a path of one machine", machine_paths(source));
        if source.is_rust() {
            for (what, check) in RUST_CHECKS {
                note(what, check(source));
            }
            note("a forbidden arrow", forbidden_arrows(source));
            note("a forbidden arrow between rooms", forbidden_rooms(source));
        }
    }
    report.extend(circles(&project));
    assert!(report.is_empty(), "{} things to mend:\n{}", report.len(), report.join("\n"));
}

#[test]
fn the_example_of_the_readme_is_the_one_that_runs() {
    let project = project();
    let text = |path| project.iter().find(|source| source.path == path).map(|it| it.text.as_str());
    let (readme, example) = (text("README.md"), text("examples/count.rs"));
    let (readme, example) = (readme.expect("a README"), example.expect("its example"));
    let program = &example[example.find("use fampi").expect("a program")..];
    assert!(readme.contains(program), "copy examples/count.rs into the README");
}

/// The number of complaints of a check about a file.
fn complaints(check: Check, path: &str, text: &str) -> usize {
    check(&Source::new(path, text)).len()
}

#[test]
fn a_line_of_101_columns_is_too_long() {
    assert_eq!(complaints(wide_lines, "src/rank.rs", &"é".repeat(100)), 0);
    assert_eq!(complaints(wide_lines, "src/rank.rs", &"x".repeat(101)), 1);
}

#[test]
fn a_file_of_501_lines_is_too_long() {
    assert_eq!(complaints(long_files, "src/rank.rs", &"\n".repeat(500)), 0);
    assert_eq!(complaints(long_files, "src/rank.rs", &"\n".repeat(501)), 1);
}

#[test]
fn a_function_of_71_lines_is_too_long() {
    let function = |lines: usize| {
        let signature = "trait T { fn none(a: [u8; 4]); }\npub fn some(b: [u8; 4]) -> u8 {";
        format!("{signature}{}// }}\n'}}'; \"}}\" }}", "\n".repeat(lines - 2))
    };
    assert_eq!(complaints(long_functions, "src/rank.rs", &function(70)), 0);
    assert_eq!(complaints(long_functions, "src/rank.rs", &function(71)), 1);
}

#[test]
fn an_engine_of_11_fields_is_too_large() {
    let engine = |fields: usize| {
        let field = "/// One: of many.\n pub(crate) part: Box<dyn seam::Part>,\n";
        format!("pub(crate) struct Engine {{{}}}\nstruct Other {{ a: u8 }}", field.repeat(fields))
    };
    assert_eq!(complaints(large_engine, "src/engine/mod.rs", &engine(10)), 0);
    assert_eq!(complaints(large_engine, "src/engine/mod.rs", &engine(11)), 1);
}

#[test]
fn a_module_that_says_nothing_is_found_by_file_and_by_declaration() {
    assert_eq!(complaints(empty_names, "apps/minife/src/utils.rs", ""), 1);
    assert_eq!(complaints(empty_names, "src/helpers/mod.rs", ""), 1);
    assert_eq!(complaints(empty_names, "src/rank.rs", "mod common { }"), 1);
    assert_eq!(complaints(empty_names, "src/rank.rs", "let common = 1; // mod misc"), 0);
}

#[test]
fn unfinished_work_needs_the_number_of_an_issue() {
    for mark in MARKS {
        assert_eq!(complaints(unnumbered_marks, "src/rank.rs", &format!("// {mark}: later")), 1);
        assert_eq!(complaints(unnumbered_marks, "src/rank.rs", &format!("// {mark}(#12)")), 0);
    }
}

#[test]
fn unsafe_code_is_found_outside_of_its_places() {
    let text = "#![forbid(unsafe_code)] // unsafe\nfn f() { unsafe { g() } }";
    assert_eq!(complaints(stray_unsafe, "src/engine/mod.rs", text), 1);
    assert_eq!(complaints(stray_unsafe, "src/mpi/calls/library.rs", text), 0);
    assert_eq!(complaints(stray_unsafe, "ffi/src/lib.rs", text), 0);
    assert_eq!(complaints(stray_unsafe, "src/sim/mod.rs", "let a = r#\"unsafe \"{\"#;"), 0);
}

#[test]
fn one_room_of_the_library_may_name_the_detector() {
    let text = "use fampi_detector::client;";
    assert_eq!(complaints(stray_detector, "src/mpi/deaths/watcher.rs", text), 1);
    assert_eq!(complaints(stray_detector, "src/mpi/deaths/observer/pulse.rs", text), 0);
}

#[test]
fn a_file_begins_with_its_documentation_and_not_with_a_licence() {
    assert_eq!(complaints(missing_header, "src/rank.rs", "//! Ranks.\n"), 0);
    assert_eq!(complaints(missing_header, "src/rank.rs", "// SPDX-License-Identifier: MIT\n"), 1);
    assert_eq!(complaints(missing_header, "src/rank.rs", "use super::*;\n"), 1);
}

#[test]
fn a_path_of_one_machine_is_found() {
    for folder in MACHINE_FOLDERS {
        let (bad, good) = (format!("see /{folder}/me/fampi"), format!("target/{folder}/x"));
        assert_eq!(complaints(machine_paths, "README.md", &bad), 1);
        assert_eq!(complaints(machine_paths, "README.md", &good), 0);
    }
}
