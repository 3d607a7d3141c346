//! Programs on simulated ranks.

use super::{World, guest::Guest};
use crate::sim::{self, Report, SimPlatform, Simulation};

impl Simulation {
    /// Runs a program on every rank of a simulated world: what it would get from `init` on a real
    /// one. Replacements run it, too; parked spares end when the world leaves.
    ///
    /// ```
    /// use fampi::{Level, Outcome, Timeout, sim::Simulation};
    ///
    /// let report = Simulation::new(4).seed(7).run_world(|world| {
    ///     let block = world.start(Level::Global).unwrap();
    ///     let outcome = block.finish(Timeout::Never).wait_local(Timeout::Never).unwrap();
    ///     let committed = matches!(outcome, Outcome::Committed(_));
    ///     world.finalize();
    ///     committed
    /// });
    /// assert_eq!(report.expect_orderly(), [true; 4]);
    /// ```
    ///
    /// # Panics
    ///
    /// When the simulator itself is wrong. Panics of the program are in the report.
    pub fn run_world<R: Send + 'static>(
        self,
        program: impl Fn(World) -> R + Send + Sync + 'static,
    ) -> Report<R> {
        self.run(move |platform| {
            // A process that cannot enter dies, as a program does that returns the error of `init`.
            let enter = World::enter(Box::new(platform));
            let world = enter.unwrap_or_else(|error| {
                sim::note(&error.to_string());
                sim::crash();
                unreachable!("a crashed process does not go on")
            });
            program(world)
        })
    }
}

impl Guest {
    /// The simulated world, as what it is.
    ///
    /// # Panics
    ///
    /// In a real world.
    pub fn with_sim<R>(&mut self, use_it: impl FnOnce(&mut SimPlatform) -> R) -> R {
        let wrong = "a guest of the simulated world";
        self.with_platform(|platform| use_it(platform.as_world().expect(wrong)))
    }
}
