//! Whether a problem fits into the memory of this machine, asked before anything is allocated.

use std::{env, fs};

use crate::words::WordError;

/// How many ranks of the job are on this machine, as the launcher of Open MPI says it.
const RANKS_HERE: &str = "OMPI_COMM_WORLD_LOCAL_SIZE";

/// Refuses a problem for which each rank allocates at least so many bytes, if the ranks of this
/// machine cannot have them. Where the size of the memory is not known nothing is refused.
///
/// # Errors
/// [`WordError::TooLarge`].
pub fn check(bytes_of_rank: u64) -> Result<(), WordError> {
    let ranks = env::var(RANKS_HERE).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    memory.map_or(Ok(()), |memory| fits(bytes_of_rank, ranks, memory))
}

/// The bytes of memory that a machine has: `MemTotal:       24684096 kB`.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn fits(bytes_of_rank: u64, ranks: u64, memory: u64) -> Result<(), WordError> {
    let needed = bytes_of_rank.saturating_mul(ranks);
    if needed <= memory {
        return Ok(());
    }
    let gib = |bytes: u64| bytes.div_ceil(1 << 30);
    Err(WordError::TooLarge { needed: gib(needed), memory: gib(memory) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_fits_if_all_ranks_of_the_machine_have_their_part() {
        let gib = 1 << 30;
        assert_eq!(fits(gib, 4, 4 * gib), Ok(()));
        let too_large = WordError::TooLarge { needed: 5, memory: 4 };
        assert_eq!(fits(gib + 1, 4, 4 * gib), Err(too_large));
        assert!(fits(u64::MAX, u64::MAX, gib).is_err());
        assert_eq!(total("x: 1 kB\nMemTotal:     16 kB\n"), Some(16384));
        assert_eq!(total("MemTotal: ? kB"), None);
        assert_eq!(check(1), Ok(()));
    }
}
