//! Buffers that go into messages and come back, and where the parts of a problem are.

use fampi::{Rank, World};

/// Buffers that go into messages and come back: an iteration allocates none.
#[derive(Default)]
pub struct Buffers {
    idle: Vec<Vec<f64>>,
}

impl Buffers {
    /// A buffer of this length; its content means nothing.
    #[must_use]
    pub fn get(&mut self, length: usize) -> Vec<f64> {
        let fits = self.idle.iter().position(|buffer| buffer.len() == length);
        fits.map_or_else(|| vec![0.0; length], |at| self.idle.swap_remove(at))
    }

    /// Takes a buffer back.
    pub fn put(&mut self, buffer: Vec<f64>) {
        self.idle.push(buffer);
    }
}

/// The ranks that hold the parts of a problem; they move when a world is merged.
pub struct Places(Vec<Rank>);

impl Places {
    /// Where the parts are in this world.
    #[must_use]
    pub fn of(world: &World) -> Self {
        Self((0..world.size()).map(|part| world.standing_for(part)).collect())
    }

    /// The rank that has a part.
    #[must_use]
    pub fn rank(&self, part: usize) -> Rank {
        self.0[part]
    }
}
