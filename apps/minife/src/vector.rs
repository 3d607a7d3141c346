//! Vector kernels, and the one order in which everything is summed.
//!
//! A local sum goes over the index with one accumulator, which starts afresh every [`RUN`]
//! elements; the sums of the runs are added in order. The order is a function of the index
//! alone, so a sum has the same bits whichever kernel computes it, and on every repetition.
//!
//! **Differs from the reference** on ranks with more than [`RUN`] rows only: there, one
//! accumulator for all is too inaccurate for the specification's own numbers (64³ on one rank:
//! the residual of the sixth iteration is off by 1.6e-9, with runs by less than 1e-10).
//!
//! A lone chain of additions is bound by their latency. Inside a kernel that waits for memory it
//! costs next to nothing, and that is where the solver has both of its dot products.

/// The number of elements after which an accumulator starts afresh.
pub const RUN: usize = 1 << 17;

/// Σ a·b over the common length.
#[must_use]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let runs = a.chunks(RUN).zip(b.chunks(RUN));
    runs.map(|(a, b)| a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b))
        .fold(0.0, |total, sum| total + sum)
}

/// out = a + factor·b.
pub fn combine(a: &[f64], factor: f64, b: &[f64], out: &mut [f64]) {
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out = a + factor * b;
    }
}

/// x += alpha·p and r −= alpha·ap; returns the new r·r, with the bits of [`dot`].
#[must_use]
pub fn step(alpha: f64, p: &[f64], ap: &[f64], x: &mut [f64], r: &mut [f64]) -> f64 {
    let targets = x.chunks_mut(RUN).zip(r.chunks_mut(RUN));
    let runs = targets.zip(p.chunks(RUN).zip(ap.chunks(RUN)));
    runs.map(|((x, r), (p, ap))| step_run(alpha, p, ap, x, r)).fold(0.0, |total, sum| total + sum)
}

fn step_run(alpha: f64, p: &[f64], ap: &[f64], x: &mut [f64], r: &mut [f64]) -> f64 {
    let mut sum = 0.0;
    for (((x, r), p), ap) in x.iter_mut().zip(r).zip(p).zip(ap) {
        *x += alpha * p;
        *r -= alpha * ap;
        sum += *r * *r;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 2 * RUN + 37;

    fn sample(seed: f64) -> Vec<f64> {
        (0..LENGTH).map(|i| (seed + i as f64 * 0.7).sin()).collect()
    }

    /// The definition: runs in order, inside a run one accumulator.
    fn naive_dot(a: &[f64], b: &[f64]) -> f64 {
        let mut total = 0.0;
        for start in (0..a.len()).step_by(RUN) {
            let mut sum = 0.0;
            for i in start..(start + RUN).min(a.len()) {
                sum += a[i] * b[i];
            }
            total += sum;
        }
        total
    }

    #[test]
    fn a_dot_product_has_the_order_that_is_documented() {
        let (a, b) = (sample(1.0), sample(2.0));
        for length in [0, 1, 7, RUN, RUN + 1, LENGTH] {
            let (a, b) = (&a[..length], &b[..length]);
            assert_eq!(dot(a, b).to_bits(), naive_dot(a, b).to_bits());
        }
        assert_eq!(dot(&a[..RUN + 3], &b).to_bits(), naive_dot(&a[..RUN + 3], &b).to_bits());
    }

    #[test]
    fn the_fused_step_equals_its_three_parts_bit_by_bit() {
        let (p, ap) = (sample(0.1), sample(0.2));
        let (mut x, mut r) = (sample(0.3), sample(0.4));
        let (old_x, old_r) = (x.clone(), r.clone());
        let rr = step(0.37, &p, &ap, &mut x, &mut r);
        for i in 0..LENGTH {
            assert_eq!(x[i].to_bits(), (old_x[i] + 0.37 * p[i]).to_bits());
            assert_eq!(r[i].to_bits(), (old_r[i] - 0.37 * ap[i]).to_bits());
        }
        assert_eq!(rr.to_bits(), naive_dot(&r, &r).to_bits());
    }

    #[test]
    fn a_combination_is_made_element_by_element() {
        let (a, b) = (sample(3.0), sample(4.0));
        let mut out = vec![0.0; LENGTH];
        combine(&a, -0.25, &b, &mut out);
        for i in 0..LENGTH {
            assert_eq!(out[i].to_bits(), (a[i] - 0.25 * b[i]).to_bits());
        }
    }
}
