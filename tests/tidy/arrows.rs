//! The arrows between the layers of `src`.

use super::{project, root_of};
use crate::source::{Source, branches, heads, line_of, words};

/// Which layers of `src` a layer may name, beside itself. `lib.rs` puts all of them together.
const ARROWS: [(&str, &[&str]); 11] = [
    ("rank", &[]),
    ("timeout", &[]),
    ("ids", &["rank"]),
    ("fault", &["rank", "ids"]),
    ("error", &["rank", "fault"]),
    ("protocol", &["rank", "ids", "fault"]),
    ("engine", &["rank", "ids", "fault", "error", "timeout", "protocol"]),
    ("recovery", &["rank", "ids", "fault", "error", "timeout", "protocol", "engine"]),
    ("api", &["rank", "ids", "fault", "error", "timeout", "engine", "recovery"]),
    ("mpi", &["rank", "ids", "fault", "error", "timeout", "protocol", "engine"]),
    ("sim", &["rank", "ids", "fault", "error", "timeout", "protocol", "engine"]),
];

/// Arrows that the table does not have, file by file, each with its reason. Not to be made longer
/// lightly.
const EXCEPTIONS: [(&str, &str, &str); 4] = [
    ("src/engine/mod.rs", "recovery", "one value owns all that a process knows of its job"),
    ("src/engine/block.rs", "recovery", "copies become valid with the commit of their block"),
    ("src/engine/buffer.rs", "mpi", "a supertrait can only be named where the trait is"),
    ("src/api/simulated.rs", "sim", "an entrance has to name the world that it leads to"),
];

/// The arrows of a file that the table does not allow. `root` is `lib.rs`, which re-exports.
pub(crate) fn forbidden_arrows(source: &Source, root: &Source) -> Vec<String> {
    let Some(layer) = layer_of(&source.path) else { return Vec::new() };
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == layer) else {
        return vec![format!("`{layer}` is in no layer; give it a place in tests/tidy/arrows.rs")];
    };
    let excepted =
        |to: &str| EXCEPTIONS.iter().any(|(path, layer, _)| *path == source.path && *layer == to);
    let mut found = Vec::new();
    for (at, to) in arrows(source, root) {
        if to != layer && !allowed.contains(&to.as_str()) && !excepted(&to) {
            let line = line_of(&source.code, at);
            found.push(format!("line {line}: `{layer}` must not know `{to}`"));
        }
    }
    found
}

/// All layers that a file names, by `crate::` or by climbing up with `super::`.
fn arrows(source: &Source, root: &Source) -> Vec<(usize, String)> {
    let depth = source.path.trim_end_matches("/mod.rs").matches('/').count();
    let mut found = Vec::new();
    let mut climbed = 0;
    for (at, word) in words(&source.code) {
        climbed = if word == "super" { climbed + 1 } else { 0 };
        let Some(path) = source.code[at + word.len()..].strip_prefix("::") else { continue };
        let names = heads(path);
        if word == "crate" {
            found.extend(names.iter().map(|name| (at, layer_behind(name, root))));
        } else if climbed >= depth {
            let layers = names.iter().filter(|name| ARROWS.iter().any(|(layer, _)| layer == *name));
            found.extend(layers.map(|name| (at, (*name).to_string())));
        }
    }
    found
}

/// The layer that a name at the root of the crate comes from.
fn layer_behind(name: &str, root: &Source) -> String {
    if ARROWS.iter().any(|(layer, _)| *layer == name) {
        return name.into();
    }
    for (at, word) in words(&root.code) {
        let Some(tree) = root.code[at..].strip_prefix("use").filter(|_| word == "use") else {
            continue;
        };
        let tree = &tree[..tree.find(';').unwrap_or(tree.len())];
        for branch in branches(tree.trim()) {
            if words(branch).any(|(_, leaf)| leaf == name) {
                return heads(branch).first().map_or_else(String::new, |head| (*head).into());
            }
        }
    }
    // Everything else at the root is `pub use api::*`.
    "api".into()
}

fn layer_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/").filter(|inside| *inside != "lib.rs")?;
    inside.split(['/', '.']).next()
}

#[test]
fn every_exception_is_still_needed() {
    let project = project();
    let root = root_of(&project);
    for (path, layer, why) in EXCEPTIONS {
        let source = project.iter().find(|source| source.path == path);
        let used = source.is_some_and(|it| arrows(it, root).iter().any(|(_, to)| to == layer));
        assert!(used, "{path} no longer names {layer} ({why}): drop the exception");
    }
}

#[test]
fn forbidden_arrows_are_found_however_they_are_written() {
    let root = Source::new("src/lib.rs", "pub use {api::*, engine::{Level, buffer::{Element}}};");
    let count = |path, text| forbidden_arrows(&Source::new(path, text), &root).len();
    assert_eq!(count("src/protocol/commit.rs", "use crate::{rank::Rank, engine::Level};"), 1);
    assert_eq!(count("src/protocol/commit.rs", "use crate::{rank::{Rank}, ids::BlockId};"), 0);
    assert_eq!(count("src/protocol/mod.rs", "type C = super::engine::Level;"), 1);
    assert_eq!(count("src/protocol/commit.rs", "use super::super::error::Error;"), 1);
    assert_eq!(count("src/engine/vote.rs", "fn f(w: &crate::World) {}"), 1);
    assert_eq!(count("src/engine/vote.rs", "use crate::recovery::Job;"), 1);
    assert_eq!(count("src/engine/mod.rs", "use crate::recovery::Job;"), 0);
    assert_eq!(count("src/recovery/mod.rs", "use crate::{Element, api::World};"), 1);
    assert_eq!(count("src/mpi/mod.rs", "use crate::{error::Error, sim::Sim};"), 1);
    assert_eq!(count("src/api/mod.rs", "pub use crate::protocol::view::View;"), 1);
    assert_eq!(count("src/gossip/mod.rs", ""), 1);
    assert_eq!(count("src/lib.rs", "use crate::api::World;"), 0);
    assert_eq!(count("tests/tidy/main.rs", "use crate::api::World;"), 0);
}
