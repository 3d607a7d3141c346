//! What a test asks cargo to build: a package alone, as a person does, or a part of all packages
//! that together have the features of `cargo test --workspace`. Of the second, nearly everything
//! is there when the tests run.

use std::env;

/// Set by `cargo fampi test` for what the tests build.
pub const AS_TESTS: &str = "FAMPI_BUILD_AS_TESTS";

/// cargo counts the features that only tests and examples need when it builds one of them.
const WITH_THEIR_FEATURES: [&str; 3] = ["--workspace", "--example", "hello_block"];

/// The words by which cargo is asked for the libraries of a package.
pub fn library(package: &str) -> Vec<&str> {
    as_tests(&["--lib"]).unwrap_or_else(|| vec!["--package", package])
}

/// What cargo selects when it builds for tests that have been built already, if it does.
pub fn as_tests<'a>(part: &[&'a str]) -> Option<Vec<&'a str>> {
    env::var_os(AS_TESTS).map(|_| [&WITH_THEIR_FEATURES[..], part].concat())
}
