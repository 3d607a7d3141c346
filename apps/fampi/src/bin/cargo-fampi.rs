//! `cargo fampi …` in any folder: hands the words on to the tool `fampi`, which is installed
//! beside this program.

#![forbid(unsafe_code)]

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let beside = env::current_exe().map(|it| it.with_file_name("fampi")).unwrap_or_default();
    // cargo hands its own word on, before the words behind it.
    let words = env::args_os().skip(1);
    let words = words.enumerate().filter(|(at, word)| *at > 0 || word != "fampi");
    let error = Command::new(&beside).args(words.map(|(_, word)| word)).exec();
    let advice = "install both by `cargo install --path apps/fampi`";
    eprintln!("fampi: {} does not start ({error}): {advice}", beside.display());
    ExitCode::from(127)
}
