//! Exactly one process runs: the one that holds the baton.
//!
//! The process that suspends takes the next event itself; when that lets it run again, it simply
//! goes on. Otherwise the baton goes back to the loop, which resumes the right carrier.
//!
//! ```text
//!  process A (runs)           world (locked)             process B (suspended)
//!   idle() ────────────────▶ next event: B runs
//!   suspends ──▶ loop ──────────────────────────────────▶ goes on
//! ```

use std::{
    any::Any,
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LockResult, Mutex, MutexGuard},
};

use super::{
    carrier::{self, Carrier},
    world::{Next, Pid, World},
};

thread_local! {
    /// The process that has the baton on this thread.
    static HERE: RefCell<Option<(Arc<Shared>, Pid)>> = const { RefCell::new(None) };
}

/// The process of this thread, if it is a simulated one.
pub(super) fn here() -> Option<(Arc<Shared>, Pid)> {
    HERE.with_borrow(Clone::clone)
}

/// What unwinds a process that the world ends: no panic, so no hook prints anything.
pub(super) struct Marker;

/// The program of every process; it keeps its result itself.
pub(super) type Program = Box<dyn Fn(&Arc<Shared>, Pid) + Send + Sync>;

/// What all processes of a simulation share.
pub(super) struct Shared {
    world: Mutex<World>,
    program: Program,
}

impl Shared {
    pub(super) fn new(world: World, program: Program) -> Arc<Self> {
        Arc::new(Self { world: Mutex::new(world), program })
    }

    /// The world; an error when a process panicked inside of it, which is a bug of the simulator.
    pub(super) fn lock(&self) -> LockResult<MutexGuard<'_, World>> {
        self.world.lock()
    }

    /// Runs the whole simulation.
    pub(super) fn run(self: &Arc<Self>) {
        let mut carriers: Vec<Carrier> = Vec::new();
        loop {
            let mut world = self.lock().unwrap_or_else(|_| panic!("{FAILED}"));
            let chosen = world.chosen.take();
            let next = chosen.unwrap_or_else(|| world.next());
            // Processes are numbered in the order of their birth.
            for newborn in carriers.len()..world.processes.len() {
                let shared = Arc::clone(self);
                carriers.push(Carrier::new(move || shared.live(newborn)));
            }
            drop(world);
            match next {
                Next::Run(process) => carriers[process].resume(),
                Next::Over => return,
            }
        }
    }

    /// Gives the baton away and waits until it comes back.
    pub(super) fn pause<'a>(
        &'a self,
        mut world: MutexGuard<'a, World>,
        me: Pid,
    ) -> MutexGuard<'a, World> {
        let next = world.next();
        if next == Next::Run(me) {
            return world;
        }
        world.chosen = Some(next);
        drop(world);
        // Others may have this thread meanwhile.
        let here = HERE.take();
        carrier::suspend();
        HERE.set(here);
        self.lock().unwrap_or_else(|_| panic!("{FAILED}"))
    }

    /// The life of one process.
    fn live(self: Arc<Self>, me: Pid) {
        HERE.set(Some((Arc::clone(&self), me)));
        let end = catch_unwind(AssertUnwindSafe(|| (self.program)(&self, me)));
        HERE.take();
        let panic = end.err().filter(|payload| !payload.is::<Marker>());
        if let Ok(mut world) = self.lock() {
            world.leave(me, panic.as_deref().map(message));
        }
    }
}

/// Said when a process panicked under the lock; the panic itself was printed before.
pub(super) const FAILED: &str = "the simulator failed; its own panic was printed before this one";

/// The words of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without words".to_owned())
}
