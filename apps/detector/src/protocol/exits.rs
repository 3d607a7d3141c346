//! The name that a process takes which ends itself by a signal because it exits: not every launcher
//! tells of an exit, so others read there how it ended.

use alloc::{format, string::String};
use core::str;

/// The name up to the status.
const EXITS: &str = "fampi-exit-";

/// The name of a process that exits with this status.
pub fn name_with(status: u8) -> String {
    format!("{EXITS}{status}")
}

/// The status in the name of a process, if it is such a name.
pub fn status_in(name: &[u8]) -> Option<u8> {
    str::from_utf8(name.strip_prefix(EXITS.as_bytes())?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_from_a_name_and_from_no_other() {
        for status in [0, 3, 255] {
            assert_eq!(status_in(name_with(status).as_bytes()), Some(status));
        }
        for name in
            ["", "minife", "fampi-exit-", "fampi-exit-256", "xfampi-exit-3", "fampi-exit-3 "]
        {
            assert_eq!(status_in(name.as_bytes()), None, "{name}");
        }
        assert!(name_with(255).len() < 16, "longer ones are cut");
    }
}
