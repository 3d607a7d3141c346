//! The cells: each becomes a mixture of itself and of those beside it.

/// Mixes all bits of a number (the finalizer of `MurmurHash3`).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ bits >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}

/// The cells that a rank begins with.
pub(crate) fn initial(rank: u32, cells: u32) -> Vec<u64> {
    let start = u64::from(rank) * u64::from(cells);
    (start..start + u64::from(cells)).map(mix).collect()
}

/// One step, given the cells to the left of the first and to the right of the last.
pub(crate) fn advance(cells: &mut [u64], (mut left, last_right): (u64, u64)) {
    for at in 0..cells.len() {
        let right = cells.get(at + 1).copied().unwrap_or(last_right);
        let own = cells[at];
        cells[at] = mix(own ^ left.rotate_left(21) ^ right.rotate_left(42));
        left = own;
    }
}

/// A number for a rank's cells; those of all ranks are added.
pub(crate) fn digest(cells: &[u64]) -> u64 {
    cells.iter().fold(0, |sum: u64, cell| sum.wrapping_add(mix(*cell)))
}

/// The digest of the whole ring, computed by one rank alone.
pub(crate) fn alone(ranks: u32, cells: u32, steps: u64) -> u64 {
    let mut ring: Vec<u64> = (0..ranks).flat_map(|rank| initial(rank, cells)).collect();
    for _ in 0..steps {
        let ends = (ring[ring.len() - 1], ring[0]);
        advance(&mut ring, ends);
    }
    digest(&ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_compute_what_the_whole_computes() {
        let mut parts: Vec<Vec<u64>> = (0..3).map(|rank| initial(rank, 4)).collect();
        for _ in 0..5 {
            let ends: Vec<_> = parts.iter().map(|part| (part[0], part[3])).collect();
            for (at, part) in parts.iter_mut().enumerate() {
                advance(part, (ends[(at + 2) % 3].1, ends[(at + 1) % 3].0));
            }
        }
        let sum = parts.iter().fold(0, |sum: u64, part| sum.wrapping_add(digest(part)));
        assert_eq!(sum, alone(3, 4, 5));
        assert_ne!(sum, alone(3, 4, 6));
    }
}
