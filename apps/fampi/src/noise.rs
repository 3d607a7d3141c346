//! Standard error of a run without the lines that Open MPI's collectives print about every failure.
//!
//! A collective operation that meets a death says so once per rank and operation, whoever handles
//! the error (`NBC_Progress: an error 75 …`): a survived death would bury what the program says.

use std::io::{self, Read, Write};

/// How these lines begin.
const NOISE: [&[u8]; 2] = [b"NBC_Progress: an error 7", b"Error in NBC_Start_round()"];
/// How a launcher begins that could not start, for want of a thread of its own.
const UNSTARTED: &[u8] = b"The PMIx server's listener thread failed to start";

/// Passes bytes on as they come, except for the lines of noise and an empty line after each.
#[derive(Debug, Default)]
struct Filter {
    /// The beginning of a line that may yet turn out to be noise.
    held: Vec<u8>,
    /// In the middle of a line that is passed on.
    passing: bool,
    after_noise: bool,
    /// The launcher has said that it could not start.
    unstarted: bool,
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
            let noise = NOISE.iter().any(|noise| held.starts_with(noise));
            self.unstarted |= held.starts_with(UNSTARTED);
            if ends {
                let dropped = noise || (self.after_noise && held == b"\n");
                self.after_noise = noise;
                if !dropped {
                    output.write_all(&held)?;
                }
            } else if noise || NOISE.iter().chain([&UNSTARTED]).any(|it| it.starts_with(&held)) {
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

/// Copies `input` to `output` until its end, without the noise; true when the launcher has said
/// that it could not start.
pub(crate) fn copy(mut input: impl Read, mut output: impl Write) -> io::Result<bool> {
    let mut filter = Filter::default();
    let mut chunk = [0; 4096];
    loop {
        match input.read(&mut chunk) {
            Ok(0) => return output.write_all(&filter.held).map(|()| filter.unstarted),
            Ok(count) => filter.pass(&chunk[..count], &mut output)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "first\n\nNBC_Progress: an error 75 was found\n\nError in the program\n\
                        Error in NBC_Start_round() (-1)\nNBC_Progress: an error 3\nlast";
    const KEPT: &str = "first\n\nError in the program\nNBC_Progress: an error 3\nlast";

    #[test]
    fn only_the_noise_is_left_out_wherever_the_bytes_are_cut() {
        for size in [1, 2, 3, 7, 30, 1000] {
            let mut filter = Filter::default();
            let mut output = Vec::new();
            for chunk in SAID.as_bytes().chunks(size) {
                filter.pass(chunk, &mut output).expect("written");
            }
            output.extend(filter.held);
            assert_eq!(String::from_utf8_lossy(&output), KEPT, "cut every {size} bytes");
        }
    }

    #[test]
    fn a_launcher_that_could_not_start_is_recognised_wherever_the_bytes_are_cut() {
        let said = format!("-----\n{} We cannot\ncontinue.\n", String::from_utf8_lossy(UNSTARTED));
        for size in [1, 10, 49, 1000] {
            let mut output = Vec::new();
            let mut filter = Filter::default();
            said.as_bytes().chunks(size).for_each(|chunk| {
                filter.pass(chunk, &mut output).expect("written");
            });
            assert!(filter.unstarted && output == said.as_bytes(), "cut every {size} bytes");
        }
        assert!(!copy(SAID.as_bytes(), Vec::new()).expect("written"));
    }

    #[test]
    fn half_a_line_is_not_held_back() {
        let mut output = Vec::new();
        Filter::default().pass(b"50 %\r", &mut output).expect("written");
        assert_eq!(output, b"50 %\r");
    }
}
