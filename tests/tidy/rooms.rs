//! The rooms of `src/mpi`, from the ground up, and circles of files.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, branches, line_of, words};

/// The rooms of `src/mpi`. Each may name those before it, and itself; files that stand beside the
/// rooms may name them all, and are named by none.
const ROOMS: [&str; 9] = [
    "node",
    "calls",
    "mpich",
    "openmpi5",
    "this_mpi",
    "deaths",
    "transport",
    "operations",
    "lifecycle",
];

/// Folders in which no file names what a module around it defines while that one names the file.
/// Elsewhere it may, as every module of Rust sees what is in those around it.
const APART: [&str; 5] = ["src/engine/", "src/mpi/", "src/native/", "src/recovery/", "src/seam/"];

/// The folder of a file's crate, and where the file stands in it: its modules.
fn modules_of(path: &str) -> Option<(&str, Vec<&str>)> {
    let begin = if path.starts_with("src/") { 0 } else { path.find("/src/")? + 1 };
    let (folder, inside) = path.split_at(begin + "src/".len());
    let inside = inside.strip_suffix(".rs")?.trim_end_matches("/mod");
    let is_root = ["lib", "main"].contains(&inside);
    Some((folder, if is_root { Vec::new() } else { inside.split('/').collect() }))
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
    let modules = modules_of(&source.path).filter(|(folder, _)| *folder == "src/");
    let Some((_, own)) = modules.filter(|(_, own)| own.len() > 1 && own[0] == "mpi") else {
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

/// The `use` items of a file: the paths that they name, and whether they hand them on.
fn imports<'a>(source: &'a Source, own: &[&'a str]) -> Vec<(Vec<&'a str>, bool)> {
    let code = tested(source);
    let mut found = Vec::new();
    for (at, _) in words(code).filter(|(_, word)| *word == "use") {
        let before = code[..at].rsplit([';', '{', '}']).next().unwrap_or_default();
        let is_public = words(before).any(|(_, word)| word == "pub");
        let tree = code[at + "use".len()..].trim_start();
        let tree = &tree[..tree.find(';').unwrap_or(tree.len())];
        for leaf in leaves(tree) {
            let up = leaf.iter().take_while(|name| **name == "super").count();
            let path = match leaf[0] {
                "crate" => leaf[1..].to_vec(),
                "self" => [own, &leaf[1..]].concat(),
                _ => [&own[..own.len().saturating_sub(up)], &leaf[up..]].concat(),
            };
            found.push((path, is_public));
        }
    }
    found
}

/// A file of a crate, as seen by the others.
struct File<'a> {
    source: &'a Source,
    imports: Vec<(Vec<&'a str>, bool)>,
}

/// Who imports from whom, by their modules.
type Arrow<'a> = (&'a [&'a str], &'a [&'a str]);

/// The files of a crate, by their modules.
type Files<'a> = BTreeMap<Vec<&'a str>, File<'a>>;

/// The file that defines what a path names, through all that only hand it on.
fn definer<'f, 'a>(files: &'f Files<'a>, path: &[&'a str], steps: usize) -> Option<&'f [&'a str]> {
    let count = (0..=path.len()).rev().find(|count| files.contains_key(&path[..*count]))?;
    let (modules, file) = files.get_key_value(&path[..count])?;
    let handed_on = path.get(count).filter(|_| steps > 0).and_then(|name| {
        let import = file.imports.iter().find(|(import, _)| import.last() == Some(name))?;
        let longer = [&import.0[..], &path[count + 1..]].concat();
        definer(files, &longer, steps - 1)
    });
    handed_on.or(Some(modules))
}

/// The files that a file names, by what it takes from them.
fn arrows_of<'f, 'a>(files: &'f Files<'a>, own: &[&'a str]) -> BTreeSet<&'f [&'a str]> {
    let file = &files[own];
    let code = tested(file.source);
    let is_only_handed_on = |path: &[&str]| {
        file.imports.iter().any(|(import, is_public)| *is_public && import == path)
            && path.last().is_none_or(|name| words(code).filter(|(_, it)| it == name).count() < 2)
    };
    let paths = named(file.source, own).into_iter().map(|(_, path)| path);
    let taken = paths.filter(|path| !is_only_handed_on(path));
    taken.filter_map(|path| definer(files, &path, 8)).filter(|to| *to != own).collect()
}

/// The files that import each other in a circle, and the rooms of a folder (its files, and its
/// folders with all that is in them) whose files do so; or that stand between two circles. Rooms
/// without circles stand one above the other, and no arrow goes up.
pub(crate) fn circles(project: &[Source]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Files<'_>> = BTreeMap::new();
    for source in project.iter().filter(|it| it.is_rust()) {
        let Some((folder, modules)) = modules_of(&source.path) else { continue };
        let file = File { source, imports: imports(source, &modules) };
        crates.entry(folder).or_default().insert(modules, file);
    }
    crates.iter().flat_map(|(folder, files)| circles_of(folder, files)).collect()
}

fn circles_of(folder: &str, files: &Files<'_>) -> Vec<String> {
    let (mut arrows, mut rooms) = (BTreeSet::new(), BTreeSet::new());
    for (own, file) in files {
        let is_apart = APART.iter().any(|apart| file.source.path.starts_with(apart));
        for to in arrows_of(files, own) {
            if is_apart && !to.is_empty() || !own.starts_with(to) {
                arrows.insert((&own[..], to));
            }
            // Of the rooms of a folder, those in which the two files stand.
            let around = own.iter().zip(to).take_while(|(one, other)| one == other).count();
            if own.len() > around && to.len() > around {
                rooms.insert((&own[..=around], &to[..=around]));
            }
        }
    }
    let told = |what: &str, (from, to): (&[&str], &[&str])| {
        format!("{folder}: a circle{what}: {} -> {}", from.join("::"), to.join("::"))
    };
    let of_files = in_circles(arrows);
    let of_rooms = in_circles(rooms).into_iter().filter(|arrow| !of_files.contains(arrow));
    let of_rooms: Vec<_> = of_rooms.map(|arrow| told(" of rooms", arrow)).collect();
    of_files.into_iter().map(|arrow| told("", arrow)).chain(of_rooms).collect()
}

/// The arrows that are in a circle, or lead from one to another.
fn in_circles(mut arrows: BTreeSet<Arrow<'_>>) -> BTreeSet<Arrow<'_>> {
    // What imports nothing, or is not imported, is in no circle; so is what only led there.
    loop {
        let (froms, tos): (BTreeSet<_>, BTreeSet<_>) = arrows.iter().copied().unzip();
        let count = arrows.len();
        arrows.retain(|(from, to)| tos.contains(from) && froms.contains(to));
        if arrows.len() == count {
            return arrows;
        }
    }
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
    // No file is in a circle, but each room names the other.
    let rooms = [
        ("apps/ring/src/a/one.rs", "use crate::b::one::B;"),
        ("apps/ring/src/a/other.rs", ""),
        ("apps/ring/src/b/one.rs", ""),
        ("apps/ring/src/b/other.rs", "fn f() -> crate::a::other::A {}"),
    ];
    assert_eq!((count(&rooms), count(&rooms[..3])), (2, 0));
    let parent = ("apps/ring/src/one.rs", "mod child;\nuse child::A;");
    assert_eq!(count(&[parent, ("apps/ring/src/one/child.rs", "use super::B;")]), 0);
}

#[test]
fn a_name_that_is_handed_on_leads_to_the_file_that_defines_it() {
    let count = |face: &str, files: [&str; 2]| {
        let [one, other] = files;
        let files =
            [("ffi/src/lib.rs", face), ("ffi/src/one.rs", one), ("ffi/src/other.rs", other)];
        circles(&files.map(|(path, text)| Source::new(path, text))).len()
    };
    let face = "mod one; mod other;\npub(crate) use other::{A};\npub use one::B;";
    assert_eq!(count(face, ["use crate::A;", ""]), 0);
    assert_eq!(count(face, ["use crate::A;", "use super::B;"]), 2);
    assert_eq!(count(face, ["fn f() -> crate::A { }", "use super::B as C;"]), 2);
    assert_eq!(count(face, ["use crate::A;", "pub use super::B;"]), 0);
    assert_eq!(count(face, ["use crate::A;", "pub use super::B;\nfn f() -> B {}"]), 2);
}
