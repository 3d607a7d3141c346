//! Fields of elements that also know what lies beyond two faces of the cube.
//!
//! A velocity gradient is compared with those of the two neighbours along its own axis. With a
//! layer more at both ends of that axis, a neighbour is always one stride away: from another rank,
//! a mirror image at the fixed sides of the domain, or zero at the free ones.

use crate::mesh::Index;

/// Values of the elements of a cube, with one more layer on both sides along one axis.
#[derive(Clone, Debug)]
pub struct Layered {
    axis: usize,
    edge: usize,
    values: Vec<f64>,
}

impl Layered {
    /// Zeros.
    #[must_use]
    pub fn new(edge: usize, axis: usize) -> Self {
        Self { axis, edge, values: vec![0.0; (edge + 2) * edge * edge] }
    }

    /// The numbers of the own values.
    #[inline(always)]
    #[must_use]
    pub fn index(&self, mut place: Index) -> usize {
        place[self.axis] += 1;
        self.raw(place)
    }

    #[inline(always)]
    fn raw(&self, [i, j, k]: Index) -> usize {
        let mut extent = [self.edge; 3];
        extent[self.axis] += 2;
        i + extent[0] * (j + extent[1] * k)
    }

    /// How far the next value along the axis is.
    #[inline(always)]
    #[must_use]
    pub const fn stride(&self) -> usize {
        self.edge.pow(self.axis as u32)
    }

    /// All values.
    #[inline(always)]
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// All values, to be written.
    #[inline(always)]
    pub fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }

    /// Where the layers are along the axis: at the beginning the additional and the first own one,
    /// at the end the additional and the last own one.
    fn layers(&self, at_end: bool) -> [usize; 2] {
        if at_end { [self.edge + 1, self.edge] } else { [0, 1] }
    }

    /// Copies the own layer at one end into a message.
    pub fn pack(&self, at_end: bool, message: &mut [f64]) {
        let [_, own] = self.layers(at_end);
        for (at, value) in message.iter_mut().enumerate() {
            *value = self.values[self.layer_place(own, at)];
        }
    }

    /// Fills the additional layer at one end with what has come.
    pub fn unpack(&mut self, at_end: bool, message: &[f64]) {
        let [beyond, _] = self.layers(at_end);
        for (at, value) in message.iter().enumerate() {
            let place = self.layer_place(beyond, at);
            self.values[place] = *value;
        }
    }

    /// Continues the own values beyond one end.
    pub fn mirror(&mut self, at_end: bool) {
        let [beyond, own] = self.layers(at_end);
        for at in 0..self.edge * self.edge {
            let (to, from) = (self.layer_place(beyond, at), self.layer_place(own, at));
            self.values[to] = self.values[from];
        }
    }

    /// The number of a value of a layer, which is in the order of the elements.
    fn layer_place(&self, layer: usize, at: usize) -> usize {
        let [inner, outer] = others(self.axis);
        let mut place = [layer; 3];
        (place[inner], place[outer]) = (at % self.edge, at / self.edge);
        self.raw(place)
    }
}

/// Two axes of which the third is neither.
fn others(axis: usize) -> [usize; 2] {
    let mut others = (0..3).filter(|other| *other != axis);
    [0; 2].map(|_: usize| others.by_ref().next().unwrap_or(axis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_go_from_one_cube_to_the_next() {
        for axis in 0..3 {
            let (mut one, mut other) = (Layered::new(3, axis), Layered::new(3, axis));
            for (at, value) in one.values.iter_mut().enumerate() {
                *value = at as f64;
            }
            let mut message = vec![0.0; 9];
            one.pack(true, &mut message);
            other.unpack(false, &message);
            let mut place = [1, 1, 1];
            place[axis] = 2;
            let sent = one.values[one.index(place)];
            place[axis] = 0;
            assert_eq!(other.values[other.index(place) - other.stride()], sent);
            one.mirror(false);
            assert_eq!(one.values[one.index(place) - one.stride()], one.values[one.index(place)]);
        }
    }
}
