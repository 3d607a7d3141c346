//! The rooms of `src/mpi`, from the ground up, and circles of files.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, branches, line_of, words};

/// The rooms of `src/mpi`. Each may name those before it, and itself; files that stand beside the
/// rooms may name them all, and are named by none.
const ROOMS: [&str; 8] =
    ["node", "calls", "openmpi5", "this_mpi", "deaths", "transport", "operations", "lifecycle"];

/// Folders whose files do not import each other in a circle.
const WITHOUT_CIRCLES: [&str; 5] =
    ["src/engine/", "src/mpi/", "src/native/", "src/recovery/", "src/seam/"];

/// Where the path of a file leads to, seen from `src`: its modules.
fn modules_of(path: &str) -> Option<Vec<&str>> {
    let inside = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    Some(inside.trim_end_matches("/mod").split('/').collect())
}

/// The code of a file without its inline tests, which may name what they like.
fn tested(source: &Source) -> &str {
    source.code.find("#[cfg(test)]\nmod tests {").map_or(&source.code, |at| &source.code[..at])
}

/// The single paths of a tree of imports: `a::{B, c::D}` gives `a::B` and `a::c::D`.
fn leaves(tree: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for branch in branches(tree.trim()) {
        let Some((_, head)) = words(branch).next() else { continue };
        let rest = branch.trim_start().strip_prefix(head).and_then(|it| it.strip_prefix("::"));
        let longer = rest.map_or_else(|| vec![Vec::new()], leaves);
        found.extend(longer.into_iter().map(|leaf| [vec![head], leaf].concat()));
    }
    found
}

/// All paths that a file names by `crate::`, `super::` or the name of a module in it, as seen from
/// the root of the crate, and where.
fn named<'a>(source: &'a Source, own: &[&'a str]) -> Vec<(usize, Vec<&'a str>)> {
    let code = tested(source);
    let (mut found, mut climbed, mut before) = (Vec::new(), 0, "");
    for (at, word) in words(code) {
        climbed = if word == "super" { climbed + 1 } else { 0 };
        let rest = &code[at + word.len()..];
        let base = match word {
            // A path that says how far something is seen is no arrow.
            "crate" if before != "in" => Some(Vec::new()),
            "super" => Some(own[..own.len().saturating_sub(climbed)].to_vec()),
            "self" => Some(own.to_vec()),
            _ if before == "use" => Some([own, &[word]].concat()),
            _ => None,
        };
        before = word;
        let (Some(base), Some(path)) = (base, rest.strip_prefix("::")) else { continue };
        let tree = &path[..path.find(';').unwrap_or(path.len())];
        for leaf in leaves(tree) {
            let up = leaf.iter().take_while(|name| **name == "super").count();
            let base = &base[..base.len().saturating_sub(up)];
            found.push((at, [base, &leaf[up..]].concat()));
        }
    }
    found
}

/// What a file of a room names that stands above it.
pub(crate) fn forbidden_rooms(source: &Source) -> Vec<String> {
    let Some(own) = modules_of(&source.path).filter(|own| own[0] == "mpi" && own.len() > 1) else {
        return Vec::new();
    };
    let Some(floor) = ROOMS.iter().position(|room| *room == own[1]) else {
        let is_room = source.path["src/mpi/".len()..].contains('/');
        let what = format!("`{}` is no room; give it a place in tests/tidy/rooms.rs", own[1]);
        return is_room.then_some(what).into_iter().collect();
    };
    let mut found = BTreeSet::new();
    for (at, path) in named(source, &own) {
        let [first, room, ..] = path[..] else { continue };
        if first == "mpi" && !ROOMS[..=floor].contains(&room) {
            let line = line_of(&source.code, at);
            found.insert(format!("line {line}: `{}` must not know `{room}`", own[1]));
        }
    }
    found.into_iter().collect()
}

/// The files that import each other in a circle, or stand between two circles.
pub(crate) fn circles(project: &[Source]) -> Vec<String> {
    WITHOUT_CIRCLES.iter().flat_map(|folder| circles_below(folder, project)).collect()
}

fn circles_below(folder: &str, project: &[Source]) -> Vec<String> {
    let below = project.iter().filter(|it| it.path.starts_with(folder) && it.is_rust());
    let files: BTreeMap<Vec<&str>, &Source> =
        below.filter_map(|it| Some((modules_of(&it.path)?, it))).collect();
    let mut arrows = BTreeSet::new();
    for (own, source) in &files {
        for (_, path) in named(source, own) {
            let to = (1..=path.len()).rev().find_map(|count| files.get_key_value(&path[..count]));
            arrows.extend(to.filter(|(to, _)| *to != own).map(|(to, _)| (own, to)));
        }
    }
    // What imports nothing, or is not imported, is in no circle; so is what only led there.
    loop {
        let (froms, tos): (BTreeSet<_>, BTreeSet<_>) = arrows.iter().copied().unzip();
        let count = arrows.len();
        arrows.retain(|(from, to)| tos.contains(from) && froms.contains(to));
        if arrows.len() == count {
            break;
        }
    }
    let told = |path: &[&str]| path.join("::");
    arrows.iter().map(|(from, to)| format!("a circle: {} -> {}", told(from), told(to))).collect()
}

#[test]
fn a_room_that_names_one_above_it_is_found_however_that_is_written() {
    let count = |path, text| forbidden_rooms(&Source::new(path, text)).len();
    assert_eq!(count("src/mpi/calls/comm.rs", "use crate::mpi::{node::clock, calls::ulfm};"), 0);
    assert_eq!(count("src/mpi/calls/comm.rs", "use crate::{error::E, mpi::deaths::watcher};"), 1);
    assert_eq!(count("src/mpi/calls/comm.rs", "use crate::mpi::MpiPlatform;"), 1);
    assert_eq!(count("src/mpi/calls/comm.rs", "use super::{ulfm, super::lifecycle};"), 1);
    assert_eq!(count("src/mpi/deaths/mod.rs", "use super::calls;"), 0);
    assert_eq!(count("src/mpi/deaths/mod.rs", "fn f() { super::operations::g() }"), 1);
    assert_eq!(count("src/mpi/this_mpi.rs", "pub use super::openmpi5::a;"), 0);
    assert_eq!(count("src/mpi/attic/mod.rs", ""), 1);
    assert_eq!(count("src/mpi/mod.rs", "use lifecycle::exit;"), 0);
    assert_eq!(count("src/mpi/trace.rs", "use super::exit;"), 0);
}

#[test]
fn a_circle_of_files_is_found_and_what_leads_there_is_not() {
    let count = |files: &[(&str, &str)]| {
        let all: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        circles(&all).len()
    };
    let [one, other] = ["src/mpi/calls/one.rs", "src/mpi/calls/other.rs"];
    assert_eq!(count(&[(one, "use super::other::A;"), (other, "use crate::rank::Rank;")]), 0);
    let circle = [(one, "use super::other::A;"), (other, "use crate::{mpi::calls::one::B};")];
    assert_eq!(count(&circle), 2);
    let leads = [circle[0], circle[1], ("src/mpi/mod.rs", "use calls::one;")];
    assert_eq!(count(&leads), 2);
    let child = ("src/mpi/calls/one/child.rs", "use super::B;");
    assert_eq!(count(&[(one, "mod child;\nuse child::A;"), child]), 2);
}
