//! The arrows between the layers of `src`.

use crate::source::{Source, heads, line_of, words};

/// Which layers of `src` a layer may name, beside itself; each stands above those that it names.
/// `lib.rs` puts all of them together.
const ARROWS: [(&str, &[&str]); 14] = [
    ("rank", &[]),
    ("timeout", &[]),
    ("ids", &["rank"]),
    ("fault", &["rank", "ids"]),
    ("error", &["rank", "fault"]),
    ("native", &["fault"]),
    // The build script, a program of its own.
    ("build", &[]),
    ("protocol", &["rank", "ids", "fault"]),
    ("seam", &["rank", "ids", "fault", "error", "native", "protocol"]),
    ("mpi", &["rank", "ids", "fault", "error", "timeout", "native", "protocol", "seam"]),
    ("sim", &["rank", "ids", "fault", "error", "timeout", "native", "protocol", "seam"]),
    ("engine", &["rank", "ids", "fault", "error", "timeout", "native", "protocol", "seam"]),
    (
        "recovery",
        &["rank", "ids", "fault", "error", "timeout", "native", "protocol", "seam", "engine"],
    ),
    (
        "api",
        &[
            "rank", "ids", "fault", "error", "timeout", "native", "seam", "sim", "engine",
            "recovery",
        ],
    ),
];

/// What stands for the layer of a name that `lib.rs`, which is above all, only hands on.
const ROOT: &str = "lib";

/// The arrows of a file that the table does not allow.
pub(crate) fn forbidden_arrows(source: &Source) -> Vec<String> {
    let Some(layer) = layer_of(&source.path) else { return Vec::new() };
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == layer) else {
        return vec![format!("`{layer}` is in no layer; give it a place in tests/tidy/arrows.rs")];
    };
    let mut found = Vec::new();
    for (at, to) in arrows(source) {
        if to != layer && !allowed.contains(&to.as_str()) {
            let line = line_of(&source.code, at);
            found.push(format!("line {line}: `{layer}` must not know `{to}`"));
        }
    }
    found
}

/// All layers that a file names, by `crate::` or by climbing up with `super::`, and [`ROOT`] for
/// what `lib.rs` hands on.
fn arrows(source: &Source) -> Vec<(usize, String)> {
    let depth = source.path.trim_end_matches("/mod.rs").matches('/').count();
    let layer = |name: &&str| {
        let is_layer = ARROWS.iter().any(|(layer, _)| layer == name);
        if is_layer { (*name).to_string() } else { ROOT.to_string() }
    };
    let mut found = Vec::new();
    let mut climbed = 0;
    for (at, word) in words(&source.code) {
        climbed = if word == "super" { climbed + 1 } else { 0 };
        let Some(path) = source.code[at + word.len()..].strip_prefix("::") else { continue };
        let names = heads(path);
        if word == "crate" {
            found.extend(names.iter().map(|name| (at, layer(name))));
        } else if climbed >= depth {
            let layers = names.iter().filter(|name| ARROWS.iter().any(|(layer, _)| layer == *name));
            found.extend(layers.map(|name| (at, (*name).to_string())));
        }
    }
    found
}

fn layer_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/").filter(|inside| *inside != "lib.rs")?;
    inside.split(['/', '.']).next()
}

#[test]
fn each_layer_names_only_those_before_it() {
    for (at, (layer, allowed)) in ARROWS.iter().enumerate() {
        let is_below = |name: &str| ARROWS[..at].iter().any(|(below, _)| *below == name);
        assert!(allowed.iter().all(|name| is_below(name)), "{layer} names a layer above it");
    }
}

#[test]
fn forbidden_arrows_are_found_however_they_are_written() {
    let count = |path, text| forbidden_arrows(&Source::new(path, text)).len();
    assert_eq!(count("src/protocol/commit.rs", "use crate::{rank::Rank, engine::Level};"), 1);
    assert_eq!(count("src/protocol/commit.rs", "use crate::{rank::{Rank}, ids::BlockId};"), 0);
    assert_eq!(count("src/protocol/mod.rs", "type C = super::engine::Level;"), 1);
    assert_eq!(count("src/protocol/commit.rs", "use super::super::error::Error;"), 1);
    assert_eq!(count("src/engine/block.rs", "fn f(w: &crate::World) {}"), 1);
    assert_eq!(count("src/engine/block.rs", "use crate::recovery::Job;"), 1);
    assert_eq!(count("src/seam/buffer.rs", "use crate::mpi::Flight;"), 1);
    assert_eq!(count("src/recovery/mod.rs", "use crate::{Element, api::World};"), 2);
    assert_eq!(count("src/mpi/mod.rs", "use crate::{error::Error, sim::Sim};"), 1);
    assert_eq!(count("src/api/mod.rs", "pub use crate::protocol::view::View;"), 1);
    assert_eq!(count("src/api/block.rs", "fn f() { crate::MAX_SLOTS; }"), 1);
    assert_eq!(count("src/gossip/mod.rs", ""), 1);
    assert_eq!(count("src/lib.rs", "use crate::api::World;"), 0);
    assert_eq!(count("tests/tidy/main.rs", "use crate::api::World;"), 0);
}
