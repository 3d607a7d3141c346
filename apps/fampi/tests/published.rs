//! What would be published: the packages that are of use alone, what they hold, and under which
//! licences all that they need is.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What is of use without the rest of the checkout.
const PUBLISHED: [&str; 3] = ["fampi", "fampi-detector", "fampi-planted"];

/// Licences that ask for nothing but their text, for each file that they cover at most.
const FINE: [&str; 9] = [
    "MIT",
    "Apache-2.0",
    "Zlib",
    "ISC",
    "BSD-3-Clause",
    "MPL-2.0",
    "Unicode-3.0",
    // Of fonts, in the tool.
    "OFL-1.1",
    "Ubuntu-font-1.0",
];

fn cargo(words: &[&str]) -> String {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two above");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(top).args(words).args(["--offline", "--locked"]);
    let output = cargo.output().expect("cargo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn packages(words: &[&str]) -> Vec<Value> {
    let words = [&["metadata", "--format-version", "1"], words].concat();
    let all: Value = serde_json::from_str(&cargo(&words)).expect("JSON");
    all["packages"].as_array().expect("a list").clone()
}

/// Whether one may take it under licences that are fine: an expression as cargo wants it, where
/// older ones say `/` for *or*.
fn is_fine(licence: &str) -> bool {
    let licence = licence.replace(['(', ')'], "").replace('/', " OR ");
    let alternatives = |part: &str| part.split(" OR ").any(|name| FINE.contains(&name.trim()));
    licence.split(" AND ").all(alternatives)
}

#[test]
fn only_what_is_of_use_alone_is_published() {
    let own = packages(&["--no-deps"]);
    let published = own.iter().filter(|it| it["publish"].is_null());
    let names: BTreeSet<_> = published.filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, BTreeSet::from(PUBLISHED));
    for package in own.iter().filter(|it| it["publish"].is_null()) {
        for need in ["description", "license", "repository", "rust_version"] {
            assert!(package[need].is_string(), "{}: {need}", package["name"]);
        }
    }
}

#[test]
fn a_package_holds_what_it_needs_and_nothing_else() {
    for package in PUBLISHED {
        let listed = cargo(&["package", "--list", "--allow-dirty", "--package", package]);
        let files: BTreeSet<&str> = listed.lines().collect();
        for file in ["src/lib.rs", "LICENSE-MIT", "LICENSE-APACHE", "Cargo.toml"] {
            assert!(files.contains(file), "{package}: {file}");
        }
        for folder in ["tests/", "apps/", "ffi/", "target/", ".ci/", ".cargo/"] {
            let stray = files.iter().find(|file| file.starts_with(folder));
            assert_eq!(stray, None, "{package}");
        }
    }
    let listed = cargo(&["package", "--list", "--allow-dirty", "--package", "fampi"]);
    for file in ["src/build.rs", "src/docs/guide.md", "README.md", "examples/count.rs"] {
        assert!(listed.lines().any(|it| it == file), "{file}");
    }
}

#[test]
fn all_that_is_needed_may_be_used() {
    let all = packages(&[]);
    assert!(all.len() > 50);
    for package in all {
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(is_fine(licence), "{} is under `{licence}`", package["name"]);
    }
    assert!(is_fine("MIT/Apache-2.0") && is_fine("GPL-3.0 OR MIT"));
    assert!(!is_fine("GPL-3.0") && !is_fine("MIT AND GPL-3.0") && !is_fine(""));
}
