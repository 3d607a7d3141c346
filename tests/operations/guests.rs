//! Programs that own their MPI, and the requests that they start themselves: how those end when a
//! rank dies or leaves.

use std::time::Duration;

use fampi::{
    CommId, Error, FaultCode, Level, Rank, Timeout,
    engine::platform::{DataId, Operation, PostId, Request, UniverseId},
    guest::{Guest, GuestBlock, GuestComm, Part, Wait},
    sim::{self, Simulation},
};

mod checkpoints;
mod rebuilds;

const TAG: u32 = 5;
const LIMIT: Duration = Duration::from_secs(50);
/// Long enough for all ranks to hear of what one has done.
const A_WHILE: Duration = Duration::from_millis(50);

/// A process with a communicator of all.
struct Member {
    guest: Guest,
    comm: GuestComm,
    universe: UniverseId,
    data: DataId,
    me: u32,
}

impl Member {
    fn enter(platform: sim::SimPlatform, ranks: u32) -> Self {
        let me = platform.process() as u32;
        let mut guest = Guest::new(Box::new(platform));
        let made = guest.with_sim(sim::SimPlatform::adopt_comm);
        let (universe, data) = made.expect("all live");
        let comm = guest.adopt(CommId(100), universe, (ranks, Rank::new(me)), data);
        // All have come so far.
        let members = (0..ranks).map(Rank::new).collect();
        let everybody = Request::Gather { universe: UniverseId(0), members };
        drop(guest.with_platform(|platform| platform.make(everybody)));
        Self { guest, comm, universe, data, me }
    }

    fn start(&mut self) -> GuestBlock {
        self.guest.start(self.comm, Level::Global)
    }

    /// A receive of the program's own, of which the library does not know whom it needs; nothing
    /// when a doomed block has revoked the communicator.
    fn foreign(&mut self, peer: u32) -> Option<PostId> {
        let (data, me) = (self.data, self.me);
        self.guest.with_sim(|sim| sim.start_request(data, &from(peer), vec![me]))
    }

    /// A message in a lane of the library.
    fn message(&mut self, operation: &Operation) -> PostId {
        let (lane, wire) = self.guest.lane(self.comm, TAG);
        let mut operation = operation.clone();
        match &mut operation {
            Operation::Send { tag, .. } => *tag = wire,
            Operation::Receive { tag, .. } => *tag = Some(wire),
            _ => unreachable!("messages only"),
        }
        let post = self.guest.with_sim(|sim| sim.start_in(lane, &operation, vec![self.me]));
        post.expect("nothing is revoked")
    }

    fn finish(&mut self, block: GuestBlock, parts: &[Part]) {
        let data = self.data;
        for post in parts.iter().filter_map(Part::post) {
            self.guest.with_sim(|sim| sim.assign_request(post, data));
        }
        self.guest.finish(block, parts, Timeout::Never);
    }

    /// Whether a block commits that is finished with these parts.
    fn commits(&mut self, block: GuestBlock, parts: &[Part]) -> bool {
        self.finish(block, parts);
        assert_eq!(self.guest.wait_block(block, Timeout::Never), Wait::Done);
        self.guest.verdict(block).expect("it is over")
    }

    /// Whether a block without messages of the program's own commits; what its report names.
    fn concludes(&mut self, block: GuestBlock) -> (bool, Vec<FaultCode>) {
        self.guest.finish(block, &[], Timeout::Never);
        assert_eq!(self.guest.wait_block(block, Timeout::Never), Wait::Done);
        let (committed, report) = self.guest.report(block).expect("it is over");
        self.guest.release(block);
        (committed, report.faults().iter().map(|fault| fault.code).collect())
    }

    /// Rank 2 dies, and a block of the others tells them.
    fn survive_rank_2(&mut self) {
        let block = self.start();
        if self.me == 2 {
            sim::crash();
        }
        assert!(!self.commits(block, &[]), "the death is new");
    }

    /// Waits inside of the open blocks for one request.
    fn wait(&mut self, post: PostId, own: Option<u32>) -> Wait {
        let messages: Vec<_> =
            own.map(|peer| (self.comm, Some(Rank::new(peer)), post)).into_iter().collect();
        let foreign = own.is_none();
        self.guest.wait(Timeout::Never, (&messages, foreign), |probe| probe.request(post))
    }

    fn now(&mut self) -> Duration {
        self.guest.with_platform(|platform| platform.now())
    }

    fn content(&mut self, post: PostId) -> Option<Vec<u32>> {
        self.guest.with_sim(|sim| sim.content_of(post))
    }
}

fn from(peer: u32) -> Operation {
    Operation::Receive { from: Some(Rank::new(peer)), tag: Some(TAG) }
}

fn to(peer: u32) -> Operation {
    Operation::Send { to: Rank::new(peer), tag: TAG, synchronous: false }
}

/// Runs a program on so many ranks, of which this one may die. Its results on the others.
fn run<R: Copy + Send + 'static>(
    ranks: u32,
    dies: Option<u32>,
    program: impl Fn(&mut Member) -> R + Send + Sync + Clone + 'static,
) -> Vec<Vec<R>> {
    let mut all = Vec::new();
    for seed in 0..20 {
        let program = program.clone();
        let latency = Duration::from_micros(1)..=Duration::from_millis(9);
        let simulation = Simulation::new(ranks).seed(seed).latency(latency).time_limit(LIMIT);
        let report = simulation.run(move |platform| {
            let mut member = Member::enter(platform, ranks);
            let result = program(&mut member);
            member.guest.leave();
            result
        });
        let results: Vec<R> = report.results().copied().collect();
        assert_eq!(results.len() as u32, ranks - u32::from(dies.is_some()), "{seed}: {report}");
        all.push(results);
    }
    all
}

/// Two ranks wait for each other, in requests of the program's own, when a third one dies: of
/// which rank they wait, only the program knows.
#[test]
fn requests_that_may_have_needed_the_dead_end() {
    for (early, inside) in [(false, false), (true, false), (false, true)] {
        run(3, Some(2), move |member| {
            let block = member.start();
            if member.me == 2 {
                return sim::crash();
            }
            let post = member.foreign(1 - member.me);
            if early {
                // The death is known before the requests are given to the block.
                let mut steps = Guest::in_steps(Timeout::After(A_WHILE));
                while member.guest.step_of_wait(&mut steps, A_WHILE / 10) == Wait::Done {}
            }
            if let Some(post) = post.filter(|_| inside) {
                // It is over, as the block is doomed.
                member.wait(post, None);
            }
            let parts: Vec<Part> = post.into_iter().map(Part::Request).collect();
            assert!(!member.commits(block, &parts));
        });
    }
}

/// A message from the dead fails alone: the block goes on among the living.
#[test]
fn a_message_that_fails_with_its_sender_dooms_nothing_else() {
    run(3, Some(2), |member| {
        let block = member.start();
        if member.me == 2 {
            return sim::crash();
        }
        let lost = member.message(&from(2));
        assert_eq!(member.wait(lost, Some(2)), Wait::Done);
        let operation = if member.me == 0 { to(1) } else { from(0) };
        let post = member.message(&operation);
        assert_eq!(member.wait(post, Some(1 - member.me)), Wait::Done);
        if member.me == 1 {
            assert_eq!(member.content(post), Some(vec![0]));
        }
        let peer = Some(Rank::new(1 - member.me));
        assert!(!member.commits(block, &[Part::Message(post, peer)]), "the death is new");
    });
}

/// Whom the requests of the others need is unknown, so they cannot ask how far this rank is.
#[test]
fn all_hear_at_once_of_a_rank_that_leaves_a_block_after_a_death() {
    let times = run(3, Some(2), |member| {
        member.survive_rank_2();
        let (block, began) = (member.start(), member.now());
        if member.me == 1 {
            member.guest.leave_block(block);
        } else {
            let parts: Vec<Part> = member.foreign(1).into_iter().map(Part::Request).collect();
            assert!(!member.commits(block, &parts));
        }
        member.now().saturating_sub(began)
    });
    assert!(times.iter().flatten().all(|time| *time < Duration::from_millis(100)), "{times:?}");
}

/// A rank that has finished its part of a block, with or without faults, serves nobody in it any
/// more: whoever waits inside of the block for that rank is told.
#[test]
fn a_wait_inside_for_a_rank_that_has_finished_its_part_ends() {
    for own in [true, false] {
        run(3, Some(2), move |member| {
            member.survive_rank_2();
            let block = member.start();
            if member.me == 1 {
                member.guest.raise(block, 1);
                assert!(!member.commits(block, &[]));
            } else if own {
                let post = member.message(&from(1));
                assert_eq!(member.wait(post, Some(1)), Wait::Done);
                assert!(!member.commits(block, &[Part::Message(post, Some(Rank::new(1)))]));
            } else {
                let post = member.foreign(1).expect("nothing is revoked yet");
                member.wait(post, None);
                assert!(!member.commits(block, &[Part::Request(post)]));
            }
        });
    }
}

/// A rank may hear that its peer has finished before the peer's message has arrived.
#[test]
fn what_is_on_its_way_when_its_sender_has_come_to_its_end_arrives() {
    run(3, Some(2), |member| {
        member.survive_rank_2();
        for _ in 0..10 {
            let block = member.start();
            let peer = 1 - member.me;
            let operation = if member.me == 0 { from(peer) } else { to(peer) };
            let post = member.message(&operation);
            assert!(member.commits(block, &[Part::Message(post, Some(Rank::new(peer)))]));
        }
    });
}

/// An inner block on the same communicator is aborted. The two ranks learn of it one after the
/// other, and messages of the outer block match all the same.
#[test]
fn messages_of_a_block_meet_after_the_abort_of_one_inside_of_it() {
    let all = run(2, None, |member| {
        let (outer, inner) = (member.start(), member.start());
        if member.me == 0 {
            member.guest.raise(inner, 1);
        }
        let receives = member.me == 1;
        let early = receives.then(|| {
            member.finish(inner, &[]);
            member.message(&from(0))
        });
        if !receives {
            assert!(!member.commits(inner, &[]));
        }
        let post = early.unwrap_or_else(|| member.message(&to(1)));
        let peer = 1 - member.me;
        member.wait(post, Some(peer));
        let content = member.content(post).map(|content| content[0]);
        assert!(!member.commits(outer, &[Part::Message(post, Some(Rank::new(peer)))]));
        (receives, content)
    });
    for results in &all {
        assert!(results.contains(&(true, Some(0))), "{all:?}");
    }
}

/// A state is kept when the blocks before are decided. Who waits for that waits in vain when
/// another rank ends the block first, and that one only then.
#[test]
fn a_rank_that_keeps_a_state_hears_that_its_block_is_doomed() {
    run(2, None, |member| {
        let blocks = [member.start(), member.start()];
        if member.me == 0 {
            member.finish(blocks[0], &[]);
            let kept = member.guest.protect(blocks[1], 0, &[1]);
            assert_eq!(kept, Err(Error::Request(FaultCode::Interrupted)));
            assert!(!member.commits(blocks[1], &[]));
        } else {
            member.guest.interrupt(blocks[1]);
            assert!(!member.commits(blocks[1], &[]));
            member.finish(blocks[0], &[]);
        }
        assert_eq!(member.guest.wait_block(blocks[0], Timeout::Never), Wait::Done);
    });
}
