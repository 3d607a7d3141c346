//! Steps that change few numbers of a state, so that a rank sends its partner only these. Whichever
//! rank dies, and in whichever order the blocks that carry a state are decided, each rank gets back
//! its own, of one step.

use fampi::{
    BlockOptions, Error, Flow, Interval, Level, Outcome, Pending, Placement, Redundancy, State,
    Step, Timeout, Tried, TryBlock, World, policy,
};

/// The slot of the state.
const SLOT: u32 = 3;
const BLOCK: BlockOptions = BlockOptions::global(Timeout::Never);

/// The steps after which a state is again what it was at first.
const PERIOD: u64 = 60;

/// What a rank has after so many steps: a step changes few of its numbers, a few all of them, and
/// a few none. About so many numbers; no two ranks beside each other have as many.
pub fn state(numbers: u64, rank: u32, steps: u64) -> Vec<f64> {
    let count = numbers + u64::from(rank) % 3;
    let mut state: Vec<f64> = (0..count).map(|at| (at * 7 + u64::from(rank)) as f64).collect();
    for step in 1..=steps % PERIOD {
        match step % 5 {
            0 => {}
            4 => state.iter_mut().for_each(|it| *it += step as f64),
            _ => {
                for at in [step * count / 11, step * count / 23] {
                    // Zeros of both signs are equal, and numbers that are none are not.
                    state[(at % count) as usize] = [-0.0, 0.0, f64::NAN][step as usize % 3];
                }
            }
        }
    }
    state
}

/// An error for a state that is not that of so many steps.
fn check(numbers: u64, (rank, steps): (u32, u64), found: &[f64]) -> Result<(), Error> {
    let bits = |state: &[f64]| -> Vec<u64> { state.iter().map(|it| it.to_bits()).collect() };
    let is_right = bits(found) == bits(&state(numbers, rank, steps));
    if is_right { Ok(()) } else { Err(Error::Raised(steps as i32)) }
}

struct Sheet {
    every: u32,
    numbers: Vec<f64>,
}

impl State for Sheet {
    fn interval(&self) -> Interval {
        Interval::Every(self.every)
    }

    fn protect(&self, block: &mut TryBlock) -> Result<(), Error> {
        block.protect(SLOT, &self.numbers)
    }

    fn restore(&mut self, block: &mut TryBlock) -> Result<(), Error> {
        self.numbers = block.restore(SLOT)?;
        Ok(())
    }
}

/// A run with so many numbers on a rank, which are copied after so many steps each, in which each
/// rank has before each step what it has to have, or panics. `then` says whether it goes on.
pub fn run(
    mut world: World,
    (numbers, every): (u64, u32),
    mut then: impl FnMut(&Step<'_>) -> Result<Flow, Error>,
) -> Result<World, Error> {
    let me = world.origin();
    let mut sheet = Sheet { every, numbers: state(numbers, me, 0) };
    let rebuild = policy::Rebuild { times: 40, ..policy::Rebuild::default() };
    let ended = world.run(&rebuild, &mut sheet, |step, sheet| {
        let number = step.number();
        let right = check(numbers, (me, number), &sheet.numbers);
        assert!(right.is_ok(), "the state of rank {me} before step {number}");
        sheet.numbers = state(numbers, me, number + 1);
        then(step)
    })?;
    ended.done().map(|_| world)
}

fn protect(block: &mut TryBlock, redundancy: Redundancy, state: &[f64]) -> Result<(), Error> {
    block.set_redundancy(redundancy);
    block.protect(SLOT, state)
}

/// After a death: all have the state of so many steps, or end with an error.
fn restored(world: World, numbers: u64, steps: u64) -> Result<World, Error> {
    let me = world.origin();
    match world.try_block(BLOCK, |block| block.restore::<f64>(SLOT))? {
        Tried::Committed(found, _) => check(numbers, (me, steps), &found).map(|()| world),
        Tried::Faulty(finished, error) => {
            Err(finished.agreed_error().or(error).unwrap_or(Error::NotCommitted))
        }
    }
}

/// The world after the death of the rank that `die` ends, once all others know what it has decided.
fn rebuilt(world: &World, die: impl Fn(u32)) -> Result<World, Error> {
    while world.start(Level::Global)?.finish(Timeout::Never).wait()?.is_committed() {
        die(world.origin());
    }
    world.rebuild(Placement::SameRanks)
}

/// The last step of what follows.
const LAST: u64 = 6;

/// Each of several blocks carries a state; a rank waits for the one before, or not, when it
/// protects the next and votes for it. If `around` is true, another block that carries it is open
/// all the time.
fn carry_in_a_row(
    world: &World,
    (numbers, around): (u64, bool),
    redundancy: Redundancy,
) -> Result<(), Error> {
    let me = world.origin();
    let mut open = around.then(|| world.start(Level::Global)).transpose()?;
    if let Some(open) = &mut open {
        protect(open, redundancy, &state(numbers, me, LAST + 1))?;
    }
    let mut before = None;
    let wait = |before: &mut Option<Pending>| -> Result<(), Error> {
        let ended = before.take().map(Pending::wait).transpose()?;
        if ended.is_none_or(|it| it.is_committed()) { Ok(()) } else { Err(Error::NotCommitted) }
    };
    for step in 0..=LAST {
        let waits = (step + u64::from(me)).is_multiple_of(2);
        if waits {
            wait(&mut before)?;
        }
        let mut block = world.start(Level::Global)?;
        protect(&mut block, redundancy, &state(numbers, me, step))?;
        let pending = block.finish(Timeout::Never);
        if !waits {
            wait(&mut before)?;
        }
        before = Some(pending);
    }
    wait(&mut before)?;
    wait(&mut open.map(|open| open.finish(Timeout::Never)))
}

/// Several blocks in a row carry a state, of which ranks know at different times whether the one
/// before is committed. Then `die` ends a rank, and all go on with the last one.
pub fn in_a_row(
    mut world: World,
    numbers: u64,
    redundancy: Redundancy,
    die: impl Fn(u32),
) -> Result<World, Error> {
    if !world.is_replacement() {
        carry_in_a_row(&world, (numbers, false), redundancy)?;
        world = rebuilt(&world, die)?;
    }
    restored(world, numbers, LAST)
}

/// The same, where a rank may die at any moment: which step all go on with, if any was committed.
pub fn cut_short(
    mut world: World,
    (numbers, around): (u64, bool),
    redundancy: Redundancy,
) -> Result<(World, Option<u64>), Error> {
    if !world.is_replacement() {
        if carry_in_a_row(&world, (numbers, around), redundancy).is_ok() {
            return Ok((world, Some(LAST)));
        }
        world = world.rebuild(Placement::SameRanks)?;
    }
    let me = world.origin();
    match world.try_block(BLOCK, |block| block.restore::<f64>(SLOT))? {
        Tried::Committed(found, _) => {
            let is_right = |step: &u64| check(numbers, (me, *step), &found).is_ok();
            let step = (0..=LAST).find(is_right).ok_or(Error::NotCommitted)?;
            Ok((world, Some(step)))
        }
        Tried::Faulty(finished, _) => match finished.agreed_error() {
            Some(Error::NothingProtected) => {
                drop(finished);
                Ok((world, None))
            }
            other => Err(other.unwrap_or(Error::NotCommitted)),
        },
    }
}

/// Which of two blocks the ranks end first.
#[derive(Clone, Copy, Debug)]
pub enum First {
    Older,
    Newer,
    /// The ranks differ in that.
    Either,
}

/// Two blocks carry one state, and, if there is a third, another one after them. Then `die` ends a
/// rank. Where ranks differ in which block they end first, they wait so long in between.
pub fn two_at_once(
    mut world: World,
    (first, third): (First, bool),
    (numbers, redundancy): (u64, Redundancy),
    apart: Timeout,
    die: impl Fn(u32),
) -> Result<World, Error> {
    let me = world.origin();
    let now = |steps| state(numbers, me, steps);
    if !world.is_replacement() {
        for step in 4..6 {
            let tried = world.try_block(BLOCK, |block| protect(block, redundancy, &now(step)))?;
            assert!(matches!(tried, Tried::Committed(..)));
        }
        let carrying = |step| -> Result<TryBlock, Error> {
            let mut block = world.start(Level::Global)?;
            protect(&mut block, redundancy, &now(step))?;
            Ok(block)
        };
        let (older, newer) = (carrying(6)?, carrying(7)?);
        let newer_first = match first {
            First::Older => false,
            First::Newer => true,
            First::Either => me.is_multiple_of(2),
        };
        let (one, other) = if newer_first { (newer, older) } else { (older, newer) };
        let one = one.finish(Timeout::Never);
        // Those that end the same one first see its decision before they end the other.
        let limit = if let First::Either = first { apart } else { Timeout::Never };
        let one = one.wait_local(limit)?;
        let other = other.finish(Timeout::Never).wait()?;
        let one = match one {
            Outcome::TimedOut(pending) => pending.wait()?,
            Outcome::Committed(finished) | Outcome::Faulty(finished) => finished,
        };
        assert!(one.is_committed() && other.is_committed());
        drop((one, other));
        if third {
            let tried = world.try_block(BLOCK, |block| protect(block, redundancy, &now(8)))?;
            assert!(matches!(tried, Tried::Committed(..)));
        }
        world = rebuilt(&world, die)?;
    }
    restored(world, numbers, if third { 8 } else { 7 })
}
