//! The name that a process takes which ends itself by a signal because it exits: not every launcher
//! tells of an exit, so others read there how it ended. The library writes it, and does so itself:
//! it knows of the detector in one place alone.

use core::str;

/// The name up to the status.
const EXITS: &str = "fampi-exit-";

/// The status in the name of a process, if it is such a name.
pub fn status_in(name: &[u8]) -> Option<u8> {
    str::from_utf8(name.strip_prefix(EXITS.as_bytes())?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_from_a_name_and_from_no_other() {
        for (name, status) in [("fampi-exit-0", 0), ("fampi-exit-3", 3), ("fampi-exit-255", 255)] {
            assert_eq!(status_in(name.as_bytes()), Some(status));
        }
        for name in
            ["", "minife", "fampi-exit-", "fampi-exit-256", "xfampi-exit-3", "fampi-exit-3 "]
        {
            assert_eq!(status_in(name.as_bytes()), None, "{name}");
        }
    }
}
