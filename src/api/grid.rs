//! Cartesian grids of processes: where a rank stands, who its neighbours are, and communicators of
//! its rows, columns and planes.
//!
//! A grid is arithmetic on ranks, without a message and without a state in MPI, so a replacement
//! that asks for the same one has it. Rows and columns are communicators, split from that of the
//! grid. A rebuild makes them again, also those of a part's grid, and the same call finds them.
//!
//! ```text
//! dims [2, 3]     rank 0  (0,0)   rank 1  (0,1)   rank 2  (0,2)    a row: kept [false, true]
//!                 rank 3  (1,0)   rank 4  (1,1)   rank 5  (1,2)
//! ```
//!
//! Reference: MPI 4.1 §8.5–8.6.

use super::{Comm, Forming, Neighbours};
use crate::{error::Error, rank::Rank, timeout::Timeout};

/// Whom a shift leads to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shift {
    /// The rank whose shift leads here; `None` beyond the border.
    pub from: Option<Rank>,
    /// The rank that it leads to from here; `None` beyond the border.
    pub to: Option<Rank>,
}

/// The ranks of a communicator as a grid (`MPI_Cart_create`, MPI 4.1 §8.5.1): the last coordinate
/// changes fastest. See [`Comm::grid`].
#[derive(Clone, Debug)]
pub struct Grid {
    comm: Comm,
    dims: Vec<u32>,
    periodic: Vec<bool>,
    /// The rank at each place, in the order of places.
    ranks: Vec<Rank>,
}

impl Comm {
    /// The ranks as a grid with these lengths, of which those that are 0 are chosen by
    /// [`Grid::balanced`]. In a periodic dimension the last are neighbours of the first. Local,
    /// without a message.
    ///
    /// In a world that was rebuilt with [`crate::Placement::Append`] a rank stands where the rank
    /// of the launch stood that it stands for ([`crate::World::origin`]).
    ///
    /// # Errors
    ///
    /// [`Error::WrongDimensions`] when the lists differ in length; [`Error::WrongGrid`] when the
    /// grid would not have as many places as there are ranks.
    pub fn grid(&self, dims: &[u32], periodic: &[bool]) -> Result<Grid, Error> {
        expect_dimensions(dims.len(), periodic.len())?;
        let dims = Grid::balanced(self.size(), dims)?;
        let ranks = self.engine().borrow().places(self.key());
        Ok(Grid { comm: self.clone(), dims, periodic: periodic.to_vec(), ranks })
    }
}

fn expect_dimensions(expected: usize, found: usize) -> Result<(), Error> {
    let (expected, found) = (expected as u32, found as u32);
    if expected == found { Ok(()) } else { Err(Error::WrongDimensions { expected, found }) }
}

impl Grid {
    /// Lengths of a grid of so many places (`MPI_Dims_create`, §8.5.2): those that are given stay,
    /// those that are 0 become as equal as they can, in descending order. Of all ways the one
    /// with the smallest greatest length is taken, then with the smallest second one, and so on.
    ///
    /// ```
    /// assert_eq!(fampi::Grid::balanced(12, &[0, 0]), Ok(vec![4, 3]));
    /// assert_eq!(fampi::Grid::balanced(12, &[0, 3, 0]), Ok(vec![2, 3, 2]));
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::WrongGrid`].
    pub fn balanced(size: u32, dims: &[u32]) -> Result<Vec<u32>, Error> {
        let mut given = dims.iter().filter(|length| **length > 0);
        let given = given.try_fold(1_u32, |places, length| places.checked_mul(*length));
        let places = given.unwrap_or(u32::MAX);
        let free = dims.iter().filter(|length| **length == 0).count();
        let fits = places <= size && size.is_multiple_of(places) && (free > 0 || places == size);
        let chosen = fits.then(|| factors(size / places, free, size / places)).flatten();
        let mut chosen = chosen.ok_or(Error::WrongGrid { places, size })?.into_iter();
        let length = |given: &u32| if *given > 0 { Some(*given) } else { chosen.next() };
        Ok(dims.iter().filter_map(length).collect())
    }

    /// The communicator whose ranks these are.
    pub fn comm(&self) -> &Comm {
        &self.comm
    }

    /// The length of each dimension.
    pub fn dims(&self) -> &[u32] {
        &self.dims
    }

    /// Whether each dimension is closed to a ring.
    pub fn periodic(&self) -> &[bool] {
        &self.periodic
    }

    /// Where this rank stands (`MPI_Cart_coords`, §8.5.5).
    pub fn coordinates(&self) -> Vec<u32> {
        self.spread(self.place_of(self.comm.rank()))
    }

    /// Where a rank stands.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRank`].
    pub fn coordinates_of(&self, rank: Rank) -> Result<Vec<u32>, Error> {
        let size = self.comm.size();
        if rank.number() >= size {
            return Err(Error::NoSuchRank { rank, size });
        }
        Ok(self.spread(self.place_of(rank)))
    }

    /// The rank at these coordinates (`MPI_Cart_rank`, §8.5.5), which are counted around in a
    /// periodic dimension; `None` beyond the border in another.
    ///
    /// # Errors
    ///
    /// [`Error::WrongDimensions`].
    pub fn rank_at(&self, coordinates: &[i64]) -> Result<Option<Rank>, Error> {
        expect_dimensions(self.dims.len(), coordinates.len())?;
        let mut place = 0;
        for ((at, length), periodic) in coordinates.iter().zip(&self.dims).zip(&self.periodic) {
            let length = i64::from(*length);
            let at = if *periodic { at.rem_euclid(length) } else { *at };
            if !(0..length).contains(&at) {
                return Ok(None);
            }
            place = place * length as usize + at as usize;
        }
        Ok(Some(self.ranks[place]))
    }

    /// Whom a shift by so many places in a dimension leads to, and whose leads here
    /// (`MPI_Cart_shift`, §8.5.6).
    ///
    /// # Errors
    ///
    /// [`Error::WrongDimensions`] when there is no such dimension.
    pub fn shift(&self, dimension: usize, by: i64) -> Result<Shift, Error> {
        let Some(length) = self.dims.get(dimension).map(|length| i64::from(*length)) else {
            let (expected, found) = (self.dims.len() as u32, dimension as u32 + 1);
            return Err(Error::WrongDimensions { expected, found });
        };
        // Further than the grid is long is as good as any way beyond it.
        let by = if self.periodic[dimension] { by % length } else { by.clamp(-length, length) };
        let moved = |by: i64| {
            let mut there: Vec<i64> = self.coordinates().into_iter().map(i64::from).collect();
            there[dimension] += by;
            self.rank_at(&there)
        };
        Ok(Shift { from: moved(-by)?, to: moved(by)? })
    }

    /// This rank's neighbours in the order of MPI (§8.6): for each dimension the one below and the
    /// one above.
    pub fn neighbours(&self) -> Neighbours {
        let shifts = (0..self.dims.len()).filter_map(|dimension| self.shift(dimension, 1).ok());
        Neighbours::of_grid(shifts.flat_map(|shift| [shift.from, shift.to]).collect())
    }

    /// Starts to make communicators of the parts that keep these dimensions (`MPI_Cart_sub`,
    /// §8.5.7, without blocking): of rows, columns, planes. Each rank gets that of its own part,
    /// in which ranks are in the order of the coordinates kept; its grid is that of the lengths
    /// kept.
    ///
    /// All ranks call it. The parts are made once: where they are there already, as after a rebuild
    /// on all ranks, on replacements, too, they are found without a message. That holds for the
    /// world, its parts, and their parts; each call on a shrunken communicator makes others,
    /// until a rebuild has made that the world.
    ///
    /// # Errors
    ///
    /// [`Error::WrongDimensions`], [`Error::Abandoned`] when the grid is that of a world before
    /// the last rebuild; as [`Comm::isplit`].
    pub fn isub(&self, kept: &[bool]) -> Result<Forming, Error> {
        expect_dimensions(self.dims.len(), kept.len())?;
        let mut table = vec![(None, 0); self.ranks.len()];
        let mut mine = (0, 0);
        for (place, entry) in table.iter_mut().enumerate() {
            let (mut part, mut within) = (0, 0);
            let kept = self.spread(place).into_iter().zip(&self.dims).zip(kept);
            for ((at, length), kept) in kept {
                let number = if *kept { &mut within } else { &mut part };
                *number = *number * length + at;
            }
            *entry = (Some(part), within);
            if self.ranks[place] == self.comm.rank() {
                mine = (part, within);
            }
        }
        self.comm.part_of_grid(&table, mine)
    }

    /// Makes, or finds, this rank's part and waits for it; see [`Self::isub`].
    ///
    /// # Errors
    ///
    /// As [`Self::isub`], and [`Error::CreationFailed`] when a process died meanwhile.
    pub fn sub(&self, kept: &[bool]) -> Result<Comm, Error> {
        let formed = self.isub(kept)?.wait_local(Timeout::Never)?;
        formed.into_comm().ok_or(Error::CreationFailed)
    }

    fn place_of(&self, rank: Rank) -> usize {
        let place = self.ranks.iter().position(|known| *known == rank);
        place.expect("every rank has a place, as many as there are")
    }

    /// The coordinates of a place.
    fn spread(&self, mut place: usize) -> Vec<u32> {
        let mut coordinates = vec![0; self.dims.len()];
        for (at, length) in coordinates.iter_mut().zip(&self.dims).rev() {
            *at = place as u32 % length;
            place /= *length as usize;
        }
        coordinates
    }
}

/// So many factors of a number, in descending order and none above `limit`, the first as small as
/// it can be, then the second, and so on.
fn factors(number: u32, count: usize, limit: u32) -> Option<Vec<u32>> {
    match count {
        0 => (number == 1).then(Vec::new),
        1 => (number <= limit).then(|| vec![number]),
        _ => (1..=limit.min(number)).filter(|first| number.is_multiple_of(*first)).find_map(
            |first| {
                let rest = factors(number / first, count - 1, first)?;
                Some([vec![first], rest].concat())
            },
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_balanced_as_in_the_standard() {
        // The examples of MPI 4.1 §8.5.2, and of MPI_Dims_create elsewhere.
        assert_eq!(Grid::balanced(6, &[0, 0]), Ok(vec![3, 2]));
        assert_eq!(Grid::balanced(7, &[0, 0]), Ok(vec![7, 1]));
        assert_eq!(Grid::balanced(6, &[0, 3, 0]), Ok(vec![2, 3, 1]));
        let wrong = Err(Error::WrongGrid { places: 3, size: 7 });
        assert_eq!(Grid::balanced(7, &[0, 3, 0]), wrong);
        assert_eq!(Grid::balanced(288, &[0, 0, 0]), Ok(vec![8, 6, 6]));
        assert_eq!(Grid::balanced(6, &[2, 2]), Err(Error::WrongGrid { places: 4, size: 6 }));
        assert_eq!(Grid::balanced(6, &[3, 2]), Ok(vec![3, 2]));
        assert_eq!(Grid::balanced(1, &[]), Ok(vec![]));
        assert_eq!(Grid::balanced(2, &[]), Err(Error::WrongGrid { places: 1, size: 2 }));
        assert!(Grid::balanced(6, &[u32::MAX, 0, u32::MAX]).is_err());
    }

    #[test]
    fn balanced_lengths_have_all_places_and_no_way_is_more_even() {
        for size in 1..=200 {
            for dimensions in 1..=4 {
                let dims = Grid::balanced(size, &vec![0; dimensions]).expect("there is a way");
                assert_eq!(dims.iter().product::<u32>(), size);
                assert!(dims.is_sorted_by(|one, next| one >= next), "{dims:?}");
                let greatest = |dims: &[u32]| dims.iter().copied().max();
                let least = every_way(size, dimensions).iter().map(|dims| greatest(dims)).min();
                assert_eq!(Some(greatest(&dims)), least, "{size} in {dims:?}");
            }
        }
    }

    /// All lists of so many numbers with this product.
    fn every_way(product: u32, count: usize) -> Vec<Vec<u32>> {
        if count == 1 {
            return vec![vec![product]];
        }
        let first = (1..=product).filter(|first| product.is_multiple_of(*first));
        first
            .flat_map(|first| {
                let rest = every_way(product / first, count - 1);
                rest.into_iter().map(move |rest| [vec![first], rest].concat())
            })
            .collect()
    }
}
