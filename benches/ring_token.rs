//! Tokens that go around a ring of ranks which die: the test of Bland 2012, §V.
//!
//! `cargo fampi figure ring-token` builds and launches this program. What a member does is in
//! `fampi_kit::tokens`; here its messages are those of one local block, which no death of a
//! stranger ends, and it learns of deaths from the library. Each rank that is to die knows its
//! moment, as all know when the first token was due, and kills itself then, whatever it holds.
//!
//! What is printed, in nanoseconds since the first token was due:
//!
//! | row | by | columns |
//! |---|---|---|
//! | `died` | a rank about to die | it, when |
//! | `known` | each rank before its end, for each death | the dead, the rank, when it was told |
//! | `token` | rank 0, for each token | number, when made, when back, hops; or `lost` for those |
//!
//! With `way plain` the same tokens go by blocking calls of MPI, without this library: what fault
//! tolerance costs is the difference.
//!
//! The clock is `CLOCK_MONOTONIC`, which all processes of a machine share, those in other name
//! spaces, too.
//!
//! `ring_token tokens 4000 pace 1000000 deaths 3@250000000,7@500000000`

use std::{
    fmt::{self, Write as _},
    io::{self, Write as _},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use fampi::{Error, Level, Patience, Rank, Request, Tag, Timeout, Tried, TryBlock, World, ulfm};
use fampi_kit::tokens::{Member, Message, Moment, Plan, Sends, Trip};
use mpi::traits::{Communicator as _, Destination as _, Source as _};
use rustix::{
    process::{Signal, getpid, kill_process},
    time::{ClockId, clock_gettime},
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

const TAG: Tag = Tag(1);
/// From the agreement on the beginning to the beginning.
const RUN_UP: Duration = Duration::from_millis(20);
/// A member looks for deaths at least so often.
const LOOK_PERIOD: Duration = Duration::from_micros(200);

/// When the library said who died.
static KNOWN: Mutex<Vec<(u32, u64)>> = Mutex::new(Vec::new());

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let (plan, is_plain) = match read(&words) {
        Ok(read) => read,
        Err(wrong) => {
            eprintln!("ring_token: {wrong}: start it by `cargo fampi figure ring-token`");
            std::process::exit(2);
        }
    };
    if is_plain {
        plain(&plan);
        return Ok(());
    }
    // It fails if there is one already.
    let _ = tracing::subscriber::set_global_default(Listener);
    let world = fampi::init()?;
    let begun = agree_on_beginning(&world)?;
    pass_on(&world, &plan, begun)?;
    world.finalize();
    Ok(())
}

/// The plan, and whether it is to be done without this library.
fn read(words: &[String]) -> Result<(Plan, bool), String> {
    let (mut plan, mut is_plain) = (Plan::default(), false);
    let (pairs, []) = words.as_chunks::<2>() else {
        return Err("the words come in pairs: a name and its value".into());
    };
    for [name, value] in pairs {
        match (&**name, &**value) {
            ("way", "plain") => is_plain = true,
            _ => plan.read(name, value)?,
        }
    }
    if plan.tokens == 0 || plan.pace == 0 {
        return Err("there is no token, or no pace".into());
    }
    Ok((plan, is_plain))
}

/// When the first token is due, on the clock that all share; rank 0 says so.
fn agree_on_beginning(world: &World) -> Result<u64, Error> {
    let begins = now() + nanoseconds(RUN_UP);
    let tried = world.try_block(fampi::BlockOptions::global(Timeout::Never), |block| {
        let told = block.ibcast(vec![begins], Rank::new(0))?;
        block.wait_local(told, Timeout::Never)?;
        block.take(told)
    })?;
    match tried {
        Tried::Committed(told, _) => Ok(told[0]),
        Tried::Faulty(..) => Err(Error::CreationFailed),
    }
}

/// What this rank has open in the block.
struct Links {
    block: TryBlock,
    /// From whom the next message is received; empty, or one.
    from: u32,
    receives: Vec<Request<u64>>,
}

impl Links {
    /// Receives from this rank, and from no other one.
    fn listen(&mut self, from: u32) -> Result<(), Error> {
        if self.from != from {
            for receive in std::mem::take(&mut self.receives) {
                // What comes from the dead is lost.
                self.block.cancel(receive)?;
            }
        }
        if self.receives.is_empty() {
            self.from = from;
            let room = vec![0; Message::WORDS];
            self.receives.push(self.block.irecv(room, Rank::new(from), TAG)?);
        }
        Ok(())
    }

    /// What comes within this time, if anything does.
    fn next(&mut self, within: Duration) -> Result<Option<Message>, Error> {
        match self.block.wait_next_local(&mut self.receives, Timeout::After(within)) {
            Ok(Some((receive, Ok(_)))) => {
                let words = self.block.take(receive)?;
                Ok(words.first_chunk().map(|words| Message::of_words(*words)))
            }
            // The predecessor is dead, which the library is about to say.
            Ok(_) | Err(Error::WaitTimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Passes tokens on until rank 0 ends the ring, or this rank dies.
fn pass_on(world: &World, plan: &Plan, begun: u64) -> Result<(), Error> {
    let me = world.rank().number();
    let mut member = Member::new(me, world.size(), plan);
    let dies = plan.death_of(me);
    let mut block = world.start(Level::Local)?;
    block.set_patience(Patience::Patient);
    let mut links = Links { block, from: me, receives: Vec::new() };
    let (mut sends, mut heard, mut arrived) = (Sends::new(), 0, None);
    thread::sleep(Duration::from_nanos(begun.saturating_sub(now())));
    while !member.is_ended() {
        let moment = since(begun);
        if dies.is_some_and(|dies| dies <= moment) {
            die(me, begun);
        }
        let failed = ulfm::get_failed(world);
        for dead in &failed[heard..] {
            member.handle_death(dead.number(), moment, &mut sends);
        }
        heard = failed.len();
        // Not before the news, or it might go to somebody who is known to be dead.
        if let Some(message) = arrived.take() {
            member.handle_message(message, moment, &mut sends);
        }
        member.handle_time(moment, &mut sends);
        links.listen(member.before())?;
        send(&mut links.block, &mut sends)?;
        let due = [dies, member.due()].into_iter().flatten().min();
        let left = due.map_or(LOOK_PERIOD, |due| Duration::from_nanos(due.saturating_sub(moment)));
        if !member.is_ended() {
            arrived = links.next(left.min(LOOK_PERIOD))?;
        }
    }
    tell(&member, me, begun);
    Ok(())
}

/// Sends what is to be sent; that the receiver is dead is no error here.
fn send(block: &mut TryBlock, sends: &mut Sends) -> Result<(), Error> {
    for (to, message) in sends.drain(..) {
        block.isend(message.to_words().to_vec(), Rank::new(to), TAG)?;
    }
    Ok(())
}

/// Says when, and what this rank knew, and dies.
fn die(me: u32, begun: u64) {
    print!("died,{me},{}\n{}", since(begun), all_known(me, begun));
    let _ = io::stdout().flush();
    let _ = kill_process(getpid(), Signal::KILL);
}

/// A row for each death that this rank knows of.
fn all_known(me: u32, begun: u64) -> String {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let row = |(dead, at): &(u32, u64)| format!("known,{dead},{me},{}\n", at.saturating_sub(begun));
    known.iter().map(row).collect()
}

/// Prints what this rank has seen.
fn tell(member: &Member, me: u32, begun: u64) {
    let mut text = all_known(me, begun);
    for (number, (made, trip)) in member.tokens().iter().enumerate() {
        let _ = match trip {
            Some(Trip { back, hops, .. }) => writeln!(text, "token,{number},{made},{back},{hops}"),
            None => writeln!(text, "token,{number},{made},lost,lost"),
        };
    }
    print!("{text}");
}

/// The same tokens by blocking calls of MPI, without a death.
fn plain(plan: &Plan) {
    let Some(universe) = mpi::initialize() else { return };
    let world = universe.world();
    let (me, size) = (world.rank(), world.size());
    let [before, after] = [size - 1, 1].map(|by| world.process_at_rank((me + by) % size));
    if me != 0 {
        for _ in 0..plan.tokens {
            let (mut message, _) = before.receive_vec::<u64>();
            message[Message::WORDS - 1] += 1;
            after.send(&message[..]);
        }
        return;
    }
    let begun = now();
    let mut member = Member::new(0, size as u32, plan);
    let (mut sends, mut back) = (Sends::new(), 0);
    while back < plan.tokens {
        member.handle_time(since(begun), &mut sends);
        for (_, message) in sends.drain(..) {
            after.send(&message.to_words()[..]);
        }
        if before.immediate_probe().is_none() {
            thread::yield_now();
            continue;
        }
        let (words, _) = before.receive_vec::<u64>();
        if let Some(words) = words.first_chunk() {
            member.handle_message(Message::of_words(*words), since(begun), &mut Sends::new());
            back += 1;
        }
    }
    tell(&member, 0, begun);
}

/// Hears who the library says is dead.
struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.is_event()
            && about.target() == "fampi::fault"
            && about.fields().field("dead").is_some()
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Dead(now()));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Notes who died of whom is said now.
struct Dead(u64);

impl Visit for Dead {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "dead"
            && let Ok(dead) = format!("{value:?}").parse()
        {
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            if !known.iter().any(|(rank, _)| *rank == dead) {
                known.push((dead, self.0));
            }
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn since(begun: u64) -> Moment {
    now().saturating_sub(begun)
}

/// Nanoseconds of a clock that all processes of the machine share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
