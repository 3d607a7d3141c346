//! Command lines that cannot be meant: one sentence that says what is wrong and what to do.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::error::{ContextKind, ErrorKind};

/// A command line that cannot be meant: exit status 2.
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// Something that did not start, or was ended before its end: an exit status, and a sentence.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) status: u8,
    pub(crate) sentence: String,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Stopped {}

/// Reads a whole number in this range; `what` is the end of the sentence that begins with *write*.
pub(crate) fn whole<T>(
    range: RangeInclusive<T>,
    what: &'static str,
) -> impl Fn(&str) -> Result<T, Misuse> + Clone
where
    T: FromStr + PartialOrd + Clone,
{
    move |text| {
        let number = text.trim().parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| Misuse(format!("write {what}")))
    }
}

/// The exit status of the tool itself that goes with an error.
pub(crate) fn status(error: &anyhow::Error) -> u8 {
    let stopped = error.downcast_ref::<Stopped>().map(|error| error.status);
    let misuse = error.is::<Misuse>().then_some(2);
    stopped.or(misuse).unwrap_or(1)
}

/// What the parser refused, in one sentence. Help was asked for: prints it, with the exit status.
pub(crate) fn explain(error: &clap::Error) -> Result<u8, Misuse> {
    let said = error.to_string();
    let (what, _) = said.split_once("\n\n").unwrap_or((&said, ""));
    let what = what.strip_prefix("error: ").unwrap_or(what);
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let context = |kind| error.get(kind).map(ToString::to_string);
    let usage = context(ContextKind::Usage).unwrap_or_default();
    // A command with commands below it has more than one usage.
    let usage = usage.trim().trim_start_matches("Usage: ").lines().next().unwrap_or_default();
    Err(Misuse(match error.kind() {
        ErrorKind::ValueValidation => what,
        ErrorKind::UnknownArgument => {
            let what = context(ContextKind::InvalidArg).unwrap_or_default();
            match context(ContextKind::SuggestedArg) {
                Some(known) => format!("there is no `{what}` here, but there is `{known}`"),
                None => format!("`{what}` has no place here: write `{usage}`"),
            }
        }
        ErrorKind::InvalidSubcommand => {
            let what = context(ContextKind::InvalidSubcommand).unwrap_or_default();
            let command = usage.trim_end_matches(" <COMMAND>").trim_end_matches(" [OPTIONS]");
            format!("there is no command `{what}`: `{command} --help` lists them")
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = context(ContextKind::InvalidArg).unwrap_or_default();
            format!("{missing} is missing: write `{usage}`")
        }
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::MissingSubcommand => {
            let _ = error.print();
            return Ok(error.exit_code() as u8);
        }
        _ if usage.is_empty() => format!("{what}: --help explains it"),
        _ => format!("{what}: write `{usage}`"),
    }))
}
