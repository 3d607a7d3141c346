//! What carries a process: a stack of its own, to be left in the middle and entered again.
//!
//! A coroutine on the caller's thread: a switch is a few dozen instructions, where waking a
//! thread costs microseconds, and a run of a simulation stays on one thread. Under Miri, which
//! knows no coroutines, a thread that waits for its turn does the same.

#[cfg(not(miri))]
pub(super) use coroutine::{Carrier, suspend};
#[cfg(miri)]
pub(super) use thread::{Carrier, suspend};

#[cfg(not(miri))]
mod coroutine {
    use std::{cell::RefCell, thread};

    use generator::{Generator, Gn};

    /// In machine words: two megabytes, as a thread has, of which only what is used is real.
    const STACK_WORDS: usize = 0x4_0000;

    /// Stacks that a thread keeps: mapping memory costs more than a short life does, above all
    /// while other threads run.
    const SPARE: usize = 64;

    thread_local! {
        /// Lives that have ended, for their stacks.
        static ENDED: RefCell<Vec<Generator<'static, (), ()>>> = const { RefCell::new(Vec::new()) };
    }

    /// A process that can be resumed until its life has ended.
    pub(in crate::sim) struct Carrier(Option<Generator<'static, (), ()>>);

    impl Carrier {
        pub(in crate::sim) fn new(life: impl FnOnce() + Send + 'static) -> Self {
            Self(Some(match ENDED.with_borrow_mut(Vec::pop) {
                Some(mut ended) => {
                    ended.init_code(life);
                    ended
                }
                None => Gn::new_opt(STACK_WORDS, life),
            }))
        }

        /// Goes on with the life until it is suspended or has ended.
        pub(in crate::sim) fn resume(&mut self) {
            self.0.as_mut().expect("taken when it is dropped").resume();
        }
    }

    impl Drop for Carrier {
        fn drop(&mut self) {
            let ended = self.0.take().filter(|life| life.is_done() && !thread::panicking());
            // A thread that ends keeps nothing any more.
            let _ = ENDED.try_with(|kept| {
                if let (Some(ended), Ok(mut kept)) = (ended, kept.try_borrow_mut())
                    && kept.len() < SPARE
                {
                    kept.push(ended);
                }
            });
        }
    }

    /// Leaves the life of the caller until it is resumed.
    #[expect(deprecated, reason = "a scope cannot be handed through the program to its platform")]
    pub(in crate::sim) fn suspend() {
        generator::yield_with(());
    }
}

#[cfg(miri)]
mod thread {
    use std::{
        cell::RefCell,
        sync::mpsc::{Receiver, Sender, channel},
        thread,
    };

    thread_local! {
        static TURNS: RefCell<Option<(Receiver<()>, Sender<()>)>> = const { RefCell::new(None) };
    }

    /// A process that can be resumed until its life has ended.
    pub(in crate::sim) struct Carrier {
        resume: Sender<()>,
        suspended: Receiver<()>,
    }

    impl Carrier {
        pub(in crate::sim) fn new(life: impl FnOnce() + Send + 'static) -> Self {
            let (resume, turns) = channel();
            let (suspend, suspended) = channel();
            thread::spawn(move || {
                if turns.recv().is_ok() {
                    TURNS.set(Some((turns, suspend.clone())));
                    life();
                }
                drop(suspend);
            });
            Self { resume, suspended }
        }

        /// Goes on with the life until it is suspended or has ended.
        pub(in crate::sim) fn resume(&mut self) {
            self.resume.send(()).expect("a life that has not ended");
            // An error says that the life has ended, which is a way to be suspended.
            let _ = self.suspended.recv();
        }
    }

    /// Leaves the life of the caller until it is resumed.
    pub(in crate::sim) fn suspend() {
        TURNS.with_borrow(|turns| {
            let (turns, suspend) = turns.as_ref().expect("set when the life began");
            suspend.send(()).expect("the carrier waits");
            turns.recv().expect("every life is resumed until it ends");
        });
    }
}
