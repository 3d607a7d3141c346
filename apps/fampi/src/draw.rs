//! `fampi timeline`: draws a trace, ranks as rows, and says what died and when.
//!
//! Times are milliseconds from the beginning of the run.

mod picture;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use crate::refusal::Misuse;
use crate::trace::{Event, Recording, Target};
use crate::workspace::shown;
use picture::Picture;

#[derive(Args)]
pub(crate) struct Options {
    /// What `cargo fampi run --trace FILE` has written, or a folder that was `FAMPI_TRACE_DIR`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Draw into this file; if nothing else is asked for, FILE with the ending .svg
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Draw into this file
    #[arg(long, value_name = "OUT")]
    png: Option<PathBuf>,
    /// Write the trace itself to this file, for viewers
    #[arg(long, value_name = "OUT")]
    trace: Option<PathBuf>,
    /// Where the picture begins, in milliseconds from the beginning of the run
    #[arg(long, value_name = "MS", value_parser = milliseconds, allow_negative_numbers = true)]
    from: Option<f64>,
    /// Where it ends
    #[arg(long, value_name = "MS", value_parser = milliseconds, allow_negative_numbers = true)]
    to: Option<f64>,
}

fn milliseconds(text: &str) -> Result<f64, Misuse> {
    let number = text.trim().parse().ok().filter(|number: &f64| *number >= 0.0);
    let wrong = || Misuse("write a number of milliseconds, 0 or more".to_owned());
    number.filter(|number| number.is_finite()).ok_or_else(wrong)
}

pub(crate) fn main(options: &Options) -> Result<u8> {
    let recording = Recording::read(&options.file)?;
    let last = recording.events.iter().map(Event::end).fold(0.0, f64::max) / 1e3;
    let (from, to) = (options.from.unwrap_or(0.0), options.to.unwrap_or(last * 1.01));
    if from >= to {
        let sentence = format!("nothing is between {from} and {to} ms: the run takes {last:.1} ms");
        return Err(Misuse(sentence).into());
    }
    let nothing = [&options.svg, &options.png, &options.trace].iter().all(|it| it.is_none());
    let default = nothing.then(|| options.file.with_extension("svg"));
    let svg = options.svg.as_ref().or(default.as_ref());
    let svg = svg.map(|path| Target::of("--svg", path)).transpose()?;
    let png = options.png.as_ref().map(|path| Target::of("--png", path)).transpose()?;
    if let Some(path) = &options.trace {
        recording.write(&Target::of("--trace", path)?)?;
    }
    print!("{}", summary(&recording, last));
    let picture = Picture::new(&recording, from, to);
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("picture.png");
    if let Some(target) = svg {
        picture.svg(&file)?;
        deliver(&file, &target)?;
    }
    if let Some(target) = png {
        picture.png(&file)?;
        deliver(&file, &target)?;
    }
    Ok(0)
}

fn deliver(drawn: &Path, target: &Target) -> Result<()> {
    target.write(&fs::read(drawn)?)?;
    say!("fampi: {}", shown(target.path()));
    Ok(())
}

/// How long the run took, and what happened after each death.
fn summary(recording: &Recording, last: f64) -> String {
    let blocks: Vec<&Event> = recording.events.iter().filter(|it| it.is_slice("block")).collect();
    let faulty = |it: &&&Event| it.arg("verdict").as_deref() == Some("faulty");
    format!(
        "{} rows, {last:.1} ms, {} blocks, {} of them faulty\n{}",
        recording.rows().len(),
        blocks.len(),
        blocks.iter().filter(faulty).count(),
        recording.account()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_that_cannot_be_meant_are_refused() {
        assert_eq!(milliseconds("2.5").expect("a moment"), 2.5);
        for text in ["-1", "x", "NaN", "inf", ""] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
    }
}
