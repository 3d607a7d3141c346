//! One thread per process, exactly one running: whoever holds the baton.
//!
//! The thread that suspends takes the next event itself, under the one lock, and wakes exactly the
//! thread that this event lets run; when that is itself, it simply goes on. There is no scheduler
//! thread, so a switch costs one wake-up.
//!
//! ```text
//!  thread A (runs)          world (locked)            thread B (parked at its gate)
//!   idle() ───────────────▶ next event: B runs
//!   opens B's gate ─────────────────────────────────▶ goes on
//!   parks at its own gate
//! ```

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, LockResult, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
};

use super::{
    here,
    platform::SimPlatform,
    world::{Next, Pid, World},
};

/// Where one thread waits for the baton.
#[derive(Debug, Default)]
pub(super) struct Gate {
    open: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Gate {
    /// Waits until the gate is opened, and closes it.
    fn pass(&self) {
        while !self.open.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }

    fn open(&self) {
        self.open.store(true, Ordering::Release);
        self.thread.get().expect("set when the thread was started").unpark();
    }
}

/// What unwinds a process that the world ends: no panic, so no hook prints anything.
pub(super) struct Marker;

/// The program of every process; it keeps its result itself.
pub(super) type Program = Box<dyn Fn(SimPlatform) + Send + Sync>;

/// What all threads of a simulation share.
pub(super) struct Shared {
    world: Mutex<World>,
    over: Gate,
    program: Program,
}

impl Shared {
    pub(super) fn new(world: World, program: Program) -> Arc<Self> {
        Arc::new(Self { world: Mutex::new(world), over: Gate::default(), program })
    }

    /// The world; an error when a thread panicked inside of it, which is a bug of the simulator.
    pub(super) fn lock(&self) -> LockResult<MutexGuard<'_, World>> {
        self.world.lock()
    }

    /// Runs the whole simulation, from the caller's thread.
    pub(super) fn run(self: &Arc<Self>) {
        self.over.thread.set(thread::current()).expect("a simulation runs once");
        self.hand_over(self.lock().expect("nobody else has it yet"));
        self.over.pass();
        let mut world = self.lock().unwrap_or_else(|_| panic!("{FAILED}"));
        let threads = std::mem::take(&mut world.threads);
        drop(world);
        for thread in threads {
            // A thread catches the panics of its program, so this cannot fail.
            let _ = thread.join();
        }
    }

    /// Gives the baton away and waits until it comes back.
    pub(super) fn pause<'a>(
        self: &'a Arc<Self>,
        mut world: MutexGuard<'a, World>,
        me: Pid,
    ) -> MutexGuard<'a, World> {
        let next = self.next(&mut world);
        if next == Next::Run(me) {
            return world;
        }
        let mine = Arc::clone(&world.processes[me].gate);
        self.open(world, next);
        mine.pass();
        self.lock().unwrap_or_else(|_| panic!("{FAILED}"))
    }

    /// Gives the baton away for good.
    fn hand_over(self: &Arc<Self>, mut world: MutexGuard<'_, World>) {
        let next = self.next(&mut world);
        self.open(world, next);
    }

    fn next(self: &Arc<Self>, world: &mut World) -> Next {
        let next = world.next();
        for newborn in std::mem::take(&mut world.newborn) {
            self.launch(world, newborn);
        }
        next
    }

    fn open(&self, world: MutexGuard<'_, World>, next: Next) {
        match next {
            Next::Run(process) => {
                let gate = Arc::clone(&world.processes[process].gate);
                drop(world);
                gate.open();
            }
            Next::Over => {
                drop(world);
                self.over.open();
            }
        }
    }

    fn launch(self: &Arc<Self>, world: &mut World, process: Pid) {
        let gate = Arc::clone(&world.processes[process].gate);
        let shared = Arc::clone(self);
        let mine = Arc::clone(&gate);
        let builder = thread::Builder::new().name(format!("process {process}"));
        let thread = builder.spawn(move || shared.live(process, &mine));
        let thread = thread.expect("the system has room for a thread per process");
        gate.thread.set(thread.thread().clone()).expect("a process is launched once");
        world.threads.push(thread);
    }

    /// The life of one process.
    fn live(self: &Arc<Self>, me: Pid, gate: &Gate) {
        gate.pass();
        let platform = || SimPlatform::new(Arc::clone(self), me);
        let end = catch_unwind(AssertUnwindSafe(|| {
            here::live(platform(), || {
                platform().begin();
                (self.program)(platform());
            });
        }));
        let panic = end.err().filter(|payload| !payload.is::<Marker>());
        let handed_over = catch_unwind(AssertUnwindSafe(|| {
            let mut world = self.lock().unwrap_or_else(|_| panic!("{FAILED}"));
            world.leave(me, panic.as_deref().map(message));
            self.hand_over(world);
        }));
        if handed_over.is_err() {
            self.over.open();
        }
    }
}

/// Said when a thread panicked under the lock; the panic itself was printed before.
pub(super) const FAILED: &str = "the simulator failed; its own panic was printed before this one";

/// The words of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without words".to_owned())
}
