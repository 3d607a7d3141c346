//! What processes print, line by line, in the order of each.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use crate::protocol::orders::Printed;

/// A line that goes on for so long is printed before its end.
const LONGEST: usize = 64 << 10;

/// Lines that are not complete yet.
#[derive(Debug, Default)]
pub(super) struct Printer {
    begun: BTreeMap<(String, u32, bool), Vec<u8>>,
}

impl Printer {
    /// Takes what a process has printed; what can be printed of it, complete lines.
    fn take(&mut self, printed: Printed) -> Vec<u8> {
        let Printed { space, rank, is_error, bytes } = printed;
        let begun = self.begun.entry((space, rank, is_error)).or_default();
        begun.extend(bytes);
        let end = begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let end = if begun.len() - end > LONGEST { begun.len() } else { end };
        begun.drain(..end).collect()
    }

    /// Prints what can be printed.
    pub(super) fn print(&mut self, printed: Printed) {
        let is_error = printed.is_error;
        let lines = self.take(printed);
        write(is_error, &lines);
    }

    /// Prints what is left.
    pub(super) fn finish(self) {
        for ((_, _, is_error), rest) in self.begun {
            write(is_error, &rest);
        }
    }
}

fn write(is_error: bool, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    // When the reader of the output is gone the job goes on.
    let _ = if is_error {
        io::stderr().lock().write_all(bytes)
    } else {
        let mut output = io::stdout().lock();
        output.write_all(bytes).and_then(|()| output.flush())
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(rank: u32, text: &str) -> Printed {
        Printed { space: "job".into(), rank, is_error: false, bytes: text.into() }
    }

    #[test]
    fn lines_of_ranks_are_not_mixed() {
        let mut printer = Printer::default();
        assert_eq!(printer.take(printed(0, "one")), b"");
        assert_eq!(printer.take(printed(1, "other\n")), b"other\n");
        assert_eq!(printer.take(printed(0, " line\nand")), b"one line\n");
        assert_eq!(printer.take(printed(0, &"x".repeat(LONGEST))).len(), LONGEST + 3);
    }
}
