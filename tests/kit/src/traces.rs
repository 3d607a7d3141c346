//! Stack traces in what a program said: of Rust, of C++, of MPI, of a sanitizer.

/// How stack traces begin.
const BEGINNINGS: [&str; 8] = [
    "panicked at",
    "stack backtrace:",
    "*** Process received signal ***",
    "*** End of error message ***",
    "terminate called",
    "Backtrace:",
    "core dumped",
    "AddressSanitizer",
];

/// The first line that begins or ends a stack trace.
pub fn trace_in(text: &str) -> Option<&str> {
    text.lines().find(|line| BEGINNINGS.iter().any(|beginning| line.contains(beginning)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_seen_and_a_sentence_is_none() {
        for line in [
            "thread 'main' panicked at src/main.rs:1:2:",
            "[node:12] *** Process received signal ***",
            "terminate called after throwing an instance of 'int'",
        ] {
            assert_eq!(trace_in(&format!("one\n{line}\nmore")), Some(line));
        }
        assert_eq!(trace_in("rank 2 kills itself, on purpose: the others go on"), None);
    }
}
