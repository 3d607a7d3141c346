//! Standard error of a run without the lines that Open MPI prints about every failure.
//!
//! A collective operation that meets a death says so once per rank and operation, whatever handles
//! the error (`NBC_Progress: an error 75 …`): a survived death would bury what the program says.
//! The launcher says, without ending the line, that it has forgotten a job whose ranks are dead.

use std::io::{self, Read, Write};

/// How these lines begin, and how far they go: `None` is to the end of the line. MPI ends the
/// others in a second write, before which a rank may write something, or never.
const NOISE: [(&[u8], Option<u8>); 3] = [
    (b"NBC_Progress: an error 7", None),
    (b"Error in NBC_Start_round() (", Some(b')')),
    (b"LAUNCHER JOB OBJECT NOT FOUN", Some(b'D')),
];

/// Passes bytes on as they come, except for the lines of noise and an empty line after each.
#[derive(Debug, Default)]
struct Filter {
    /// The beginning of a line that may yet turn out to be noise.
    held: Vec<u8>,
    /// In the middle of a line that is passed on.
    passing: bool,
    after_noise: bool,
}

/// What follows all noise at the beginning of a line, if there is some.
fn after_noise(line: &[u8]) -> Option<&[u8]> {
    let mut rest = after_first_noise(line)?;
    while let Some(more) = after_first_noise(rest) {
        rest = more;
    }
    Some(rest)
}

fn after_first_noise(line: &[u8]) -> Option<&[u8]> {
    let begins = |(noise, end): (&[u8], Option<u8>)| Some((line.strip_prefix(noise)?, end));
    let (rest, end) = NOISE.into_iter().find_map(begins)?;
    let last = end.and_then(|end| rest.iter().position(|byte| *byte == end));
    Some(last.map_or(b"", |last| &rest[last + 1..]))
}

impl Filter {
    fn pass(&mut self, bytes: &[u8], output: &mut impl Write) -> io::Result<()> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = piece.ends_with(b"\n");
            if self.passing {
                output.write_all(piece)?;
                self.passing = !ends;
                continue;
            }
            self.held.extend_from_slice(piece);
            let held = std::mem::take(&mut self.held);
            let rest = after_noise(&held);
            let noise = rest.is_some();
            if ends {
                let said = rest.map_or(&*held, |rest| if rest == b"\n" { b"" } else { rest });
                let dropped = self.after_noise && said == b"\n";
                self.after_noise = noise;
                if !dropped {
                    output.write_all(said)?;
                }
            } else if noise || may_begin(&held) {
                self.held = held;
            } else {
                self.passing = true;
                self.after_noise = false;
                output.write_all(&held)?;
            }
        }
        output.flush()
    }
}

impl Filter {
    /// What is still held back at the end, without the noise.
    fn rest(&self) -> &[u8] {
        after_noise(&self.held).unwrap_or(&self.held)
    }
}

/// True for what may yet become the beginning of noise.
fn may_begin(held: &[u8]) -> bool {
    NOISE.iter().any(|(noise, _)| noise.starts_with(held))
}

/// Copies `input` to `output` until its end, without the noise. When the reader of the output is
/// gone the input is read all the same, as who writes it would be ended.
pub(crate) fn copy(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut filter = Filter::default();
    let mut chunk = [0; 4096];
    let mut written = Ok(());
    loop {
        match input.read(&mut chunk) {
            Ok(0) => return written.and_then(|()| output.write_all(filter.rest())),
            Ok(count) if written.is_ok() => written = filter.pass(&chunk[..count], &mut output),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "first\n\nNBC_Progress: an error 75 was found\n\nError in the program\n\
                        Error in NBC_Start_round() (-1)\nNBC_Progress: an error 3\n\
                        Error in NBC_Start_round() (-1)rank 3 says this\n\nlast\n\
                        LAUNCHER JOB OBJECT NOT FOUNDLAUNCHER JOB OBJECT NOT FOUNDrank 4\n\
                        LAUNCHER JOB OBJECT NOT FOUND";
    const KEPT: &str = "first\n\nError in the program\nNBC_Progress: an error 3\n\
                        rank 3 says this\nlast\nrank 4\n";

    #[test]
    fn only_the_noise_is_left_out_wherever_the_bytes_are_cut() {
        for size in [1, 2, 3, 7, 30, 1000] {
            let mut filter = Filter::default();
            let mut output = Vec::new();
            for chunk in SAID.as_bytes().chunks(size) {
                filter.pass(chunk, &mut output).expect("written");
            }
            output.extend(filter.rest());
            assert_eq!(String::from_utf8_lossy(&output), KEPT, "cut every {size} bytes");
        }
    }

    #[test]
    fn half_a_line_is_not_held_back() {
        let mut output = Vec::new();
        Filter::default().pass(b"50 %\r", &mut output).expect("written");
        assert_eq!(output, b"50 %\r");
    }
}
