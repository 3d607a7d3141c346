//! A sparse matrix by rows (CSR) with 32-bit local column numbers.

use std::ops::Range;

use crate::vector::RUN;

/// The rows of one rank. Entries of a row are ordered by global column; explicit zeros stay.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Where each row starts in `columns` and `values`, and at the end the number of entries.
    row_starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Matrix {
    /// A matrix of zeros with the given structure.
    ///
    /// # Panics
    /// If `row_starts` is not an ascending list from zero to the number of columns.
    #[must_use]
    pub fn zeros(row_starts: Vec<usize>, columns: Vec<u32>) -> Self {
        assert_eq!(row_starts.first(), Some(&0), "the first row starts at zero");
        assert_eq!(row_starts.last(), Some(&columns.len()), "the last row ends with the columns");
        assert!(row_starts.is_sorted(), "rows follow each other");
        let values = vec![0.0; columns.len()];
        Self { row_starts, columns, values }
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.row_starts.len() - 1
    }

    /// The number of stored entries.
    #[must_use]
    pub fn nonzeros(&self) -> usize {
        self.values.len()
    }

    /// The bytes that the arrays occupy.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&self.row_starts[..])
            + size_of_val(&self.columns[..])
            + size_of_val(&self.values[..])
    }

    fn entries(&self, row: usize) -> Range<usize> {
        self.row_starts[row]..self.row_starts[row + 1]
    }

    /// The columns and values of `row`.
    #[must_use]
    pub fn row(&self, row: usize) -> (&[u32], &[f64]) {
        let entries = self.entries(row);
        (&self.columns[entries.clone()], &self.values[entries])
    }

    /// The columns of `row` and its values, to be changed.
    #[must_use]
    pub fn row_mut(&mut self, row: usize) -> (&[u32], &mut [f64]) {
        let entries = self.entries(row);
        (&self.columns[entries.clone()], &mut self.values[entries])
    }

    /// y = A·x for the rows in `rows`; `x` has all local columns, `y` all own rows.
    pub fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]) {
        let starts = &self.row_starts[rows.start..=rows.end];
        for (y, ends) in y[rows].iter_mut().zip(starts.windows(2)) {
            *y = self.row_product(ends[0]..ends[1], x);
        }
    }

    /// y = A·x; returns Σ y·x over the own rows, with the bits of [`crate::vector::dot`].
    #[must_use]
    pub fn multiply(&self, x: &[f64], y: &mut [f64]) -> f64 {
        let mut starts = &self.row_starts[..];
        let mut total = 0.0;
        for (y, own) in y.chunks_mut(RUN).zip(x.chunks(RUN)) {
            let mut sum = 0.0;
            for ((y, ends), own) in y.iter_mut().zip(starts.windows(2)).zip(own) {
                *y = self.row_product(ends[0]..ends[1], x);
                sum += *y * own;
            }
            total += sum;
            starts = &starts[y.len()..];
        }
        total
    }

    #[inline]
    fn row_product(&self, entries: Range<usize>, x: &[f64]) -> f64 {
        let columns = &self.columns[entries.clone()];
        let values = &self.values[entries];
        columns.iter().zip(values).fold(0.0, |sum, (&column, a)| sum + a * x[column as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector;

    /// A band matrix of 600 rows with entries that no two rows share.
    fn band() -> Matrix {
        let (mut starts, mut columns) = (vec![0], Vec::new());
        for row in 0..600_u32 {
            columns.extend(row.saturating_sub(2)..(row + 3).min(610));
            starts.push(columns.len());
        }
        let mut matrix = Matrix::zeros(starts, columns);
        for row in 0..600 {
            for (place, value) in matrix.row_mut(row).1.iter_mut().enumerate() {
                *value = ((row * 7 + place) as f64).sin();
            }
        }
        matrix
    }

    #[test]
    fn the_product_equals_a_plain_loop_bit_by_bit() {
        let matrix = band();
        let x: Vec<f64> = (0..610).map(|i| f64::from(i).cos()).collect();
        let mut y = vec![f64::NAN; 600];
        let sum = matrix.multiply(&x, &mut y);
        for (row, &computed) in y.iter().enumerate() {
            let (columns, values) = matrix.row(row);
            let mut naive = 0.0;
            for (&column, value) in columns.iter().zip(values) {
                naive += value * x[column as usize];
            }
            assert_eq!(computed.to_bits(), f64::to_bits(naive));
        }
        assert_eq!(sum.to_bits(), vector::dot(&y, &x).to_bits());
        let mut part = vec![0.0; 600];
        matrix.multiply_rows(100..350, &x, &mut part);
        assert_eq!(part[100..350], y[100..350]);
        assert!(part[..100].iter().chain(&part[350..]).all(|&untouched| untouched == 0.0));
    }
}
