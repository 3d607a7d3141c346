//! Programs that own their MPI rebuild their communicators. Whichever processes die, and whenever,
//! survivors and new processes end with one communicator or with none, and with the states of a run
//! without deaths or with one error.

use std::time::Duration;

use fampi::{
    CommId, FaultCode, Rank, RankSet, Redundancy, Timeout,
    engine::platform::{DataId, Origin, Place, Platform as _, UniverseId},
    guest::{Guest, GuestComm, Repairing, Task, Wait},
    sim::{Crash, Draw, Ending, ProcessReport, Report, SimPlatform, Simulation},
};

use fampi_kit::seeds::number;

use super::{LIMIT, Member};

const RANKS: u32 = 4;
const STEPS: u64 = 4;
/// The first effects of a process make the communicator that is rebuilt.
const LAUNCH_EFFECTS: u64 = 8;
/// With so many a process leaves, after its last step.
const LAST_EFFECTS: u64 = 9;
/// How long a rank does something else between two looks at a rebuild.
const MEANWHILE: Duration = Duration::from_micros(20);

/// How a process has ended.
#[derive(Clone, Debug, PartialEq)]
enum Ended {
    /// With all steps, as this rank and with this number.
    Done(u32, u64),
    /// The state of a rank is lost: all ranks have found that.
    Lost,
    /// It is a new process, and nothing came of the rebuild that it was for.
    NotNeeded,
}

/// What a rank has after so many steps.
fn after(rank: u32, steps: u64) -> u64 {
    (0..steps).fold(rank.into(), |number: u64, step| number.wrapping_mul(31).wrapping_add(step))
}

/// New processes and the living, linked to each other, as one of them has it.
#[derive(Clone, Copy)]
struct Link {
    universe: UniverseId,
    me: u32,
    attempt: u64,
}

/// A communicator that was made by a rebuild.
#[derive(Clone, Copy)]
struct Made {
    comm: GuestComm,
    universe: UniverseId,
    data: DataId,
}

/// Does what a rebuild asks for until it is over; with a link, if there is one.
fn drive(guest: &mut Guest, mut repairing: Repairing, link: Option<Link>) -> Option<Made> {
    let (mut made, mut steps) = (None, Guest::in_steps(Timeout::Never));
    loop {
        match (guest.next_task(&mut repairing), link) {
            (None, _) => assert_eq!(guest.step_of_wait(&mut steps, MEANWHILE), Wait::Done),
            (Some(Task::Make), Some(Link { universe, me, attempt })) => {
                let merged = guest.with_sim(|sim| sim.merge_link(universe));
                made = merged.ok().map(|data| {
                    let (id, place) = (CommId(100 + attempt), (RANKS, Rank::new(me)));
                    let comm = guest.adopt(id, universe, place, data);
                    Made { comm, universe, data }
                });
                repairing.handle_made(made.map(|made| made.comm));
            }
            (Some(Task::Make), None) => repairing.handle_made(None),
            (Some(Task::Cut), Some(link)) => guest.with_sim(|sim| sim.cut_link(link.universe)),
            (Some(Task::Cut), None) => {}
            (Some(Task::Complete), _) => return Some(made.expect("it was made")),
            (Some(Task::Fail), _) => return None,
        }
    }
}

/// A rank of a communicator that is rebuilt.
struct Rebuilt {
    member: Member,
    /// Which attempt at a rebuild is the next, on all ranks alike.
    attempt: u64,
    redundancy: Redundancy,
    /// Its steps so far, and the number to which they have led.
    steps: u64,
    number: u64,
    /// The states of all are to be brought back.
    outdated: bool,
}

impl Rebuilt {
    /// A rank of the launch.
    fn enter(platform: SimPlatform, redundancy: Redundancy) -> Self {
        let member = Member::enter(platform, RANKS);
        let number = member.me.into();
        Self { member, attempt: 1, redundancy, steps: 0, number, outdated: false }
    }

    /// A new process, if it is needed.
    fn join(platform: SimPlatform, redundancy: Redundancy) -> Option<Self> {
        let mut guest = Guest::new(Box::new(platform));
        let linked = guest.with_sim(SimPlatform::enter_link).ok();
        let link = linked.map(|(universe, rank, brought)| {
            let attempt = u64::from_le_bytes(*brought.first_chunk().expect("all bring it"));
            Link { universe, me: rank.number(), attempt }
        });
        let made = link.and_then(|_| drive(&mut guest, Guest::enter_repair(), link));
        let (Some(Link { me, attempt, .. }), Some(Made { comm, universe, data })) = (link, made)
        else {
            guest.leave();
            return None;
        };
        let member = Member { guest, comm, universe, data, me };
        let (attempt, number) = (attempt + 1, me.into());
        Some(Self { member, attempt, redundancy, steps: 0, number, outdated: true })
    }

    /// Tries to rebuild until that succeeds.
    fn rebuild(&mut self) {
        loop {
            let Member { guest, comm, universe, me, .. } = &mut self.member;
            let (failed, universe, me, attempt) = (*comm, *universe, *me, self.attempt);
            let dead: RankSet = guest.left_out(failed);
            self.attempt += 1;
            // The call waits for all of the living, and no death ends it.
            let mut steps = Guest::in_steps(Timeout::Never);
            let place = Place::Universe(universe);
            while !guest.with_platform(|platform| platform.meet(place, &dead)) {
                assert_eq!(guest.step_of_wait(&mut steps, MEANWHILE), Wait::Done);
            }
            let brought = attempt.to_le_bytes();
            let linked = guest.with_sim(|sim| sim.link_new(universe, dead, &brought));
            let link = linked.ok().map(|universe| Link { universe, me, attempt });
            let repairing = match link {
                Some(_) => guest.repair(failed),
                None => guest.decline_repair(failed),
            };
            let made = drive(guest, repairing, link);
            if let Some(Made { comm, universe, data }) = made {
                guest.abandon(failed);
                let member = &mut self.member;
                (member.comm, member.universe, member.data) = (comm, universe, data);
                self.outdated = true;
                return;
            }
            // Who else is dead, the next block says.
            let block = self.member.start();
            let _ = self.member.concludes(block);
        }
    }

    /// A step, or what brings the states back; false where a state is gone.
    fn advance(&mut self) -> bool {
        let block = self.member.start();
        let guest = &mut self.member.guest;
        let (mut steps, mut number) = (self.steps, self.number);
        if self.outdated {
            if let Ok(bytes) = guest.restore(block, 0) {
                let words: &[[u8; 8]] = bytes.as_chunks().0;
                (steps, number) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
            }
        } else {
            number = number.wrapping_mul(31).wrapping_add(steps);
            steps += 1;
            guest.set_redundancy(block, self.redundancy);
            let _ = guest.protect(block, 0, &[steps.to_le_bytes(), number.to_le_bytes()].concat());
        }
        let (committed, codes) = self.member.concludes(block);
        if committed {
            (self.steps, self.number, self.outdated) = (steps, number, false);
        } else if !self.member.guest.left_out(self.member.comm).is_empty() {
            self.rebuild();
        } else if codes.contains(&FaultCode::NothingProtected) {
            (self.steps, self.number) = (0, self.member.me.into());
            self.outdated = false;
        } else {
            let is_loss = |code| matches!(code, &FaultCode::StateLost | &FaultCode::TooManyLost);
            return !codes.iter().any(is_loss);
        }
        true
    }
}

/// What each process of a job does.
fn program(platform: SimPlatform, redundancy: Redundancy) -> Ended {
    let rank = match platform.setup().origin {
        Origin::Spawned => Rebuilt::join(platform, redundancy),
        Origin::Launched { .. } => Some(Rebuilt::enter(platform, redundancy)),
    };
    let Some(mut rank) = rank else { return Ended::NotNeeded };
    let mut ended = Ended::Lost;
    while rank.advance() {
        if rank.steps == STEPS && !rank.outdated {
            ended = Ended::Done(rank.member.me, rank.number);
            break;
        }
    }
    rank.member.guest.leave();
    ended
}

fn launch(redundancy: Redundancy, seed: u64, crashes: Vec<Crash>) -> Report<Ended> {
    let latency = Duration::from_micros(1)..=Duration::from_micros(40);
    let simulation = Simulation::new(RANKS).seed(seed).latency(latency).time_limit(LIMIT);
    simulation.crashes(crashes).run(move |platform| program(platform, redundancy))
}

/// What has come of a job with deaths: how many ranks have come to its end, with the right numbers;
/// nothing if all that are left have found a state to be gone.
#[track_caller]
fn outcome(report: Report<Ended>, what: &str) -> Option<usize> {
    let text = format!("{what}: {report}");
    let is_dead = |ending: &Ending<Ended>| matches!(ending, Ending::Crashed);
    let deaths = report.processes.iter().filter(|it| is_dead(&it.ending)).count();
    let is_in_vain =
        |it: &ProcessReport<Ended>| !it.spawned && it.ending.finished() == Some(&Ended::NotNeeded);
    assert!(!report.processes.iter().any(is_in_vain), "{text}");
    let ended = report.expect_orderly();
    let mut ranks: Vec<u32> = Vec::new();
    for end in &ended {
        if let Ended::Done(rank, found) = end {
            assert_eq!(*found, after(*rank, STEPS), "rank {rank}: {text}");
            assert!(!ranks.contains(rank), "two have rank {rank}: {text}");
            ranks.push(*rank);
        }
    }
    let lost = ended.contains(&Ended::Lost);
    assert!(ranks.is_empty() || !lost, "some have lost what others have: {text}");
    assert!(lost || ranks.len() + deaths >= RANKS as usize, "a rank is missing: {text}");
    (!lost).then_some(ranks.len())
}

const KINDS: [Redundancy; 3] = [
    Redundancy::Partner,
    Redundancy::Group { ranks: 4, losses: 1 },
    Redundancy::Group { ranks: 4, losses: 2 },
];

#[test]
fn a_death_before_any_effect_is_repaired_with_the_states_that_all_had() {
    for (redundancy, victim) in KINDS.into_iter().flat_map(|it| [(it, 0), (it, 2)]) {
        let effects = launch(redundancy, 0, Vec::new()).processes[victim as usize].effects;
        let (mut repaired, mut at_the_end) = (0, 0);
        for effect in LAUNCH_EFFECTS..effects {
            let crash = vec![Crash::before_effect(victim, effect)];
            let what = format!("{redundancy:?}, rank {victim} before effect {effect}");
            // A rank that dies after its last step is not replaced.
            match outcome(launch(redundancy, effect, crash), &what) {
                Some(4) => repaired += 1,
                Some(3) if effect + LAST_EFFECTS >= effects => at_the_end += 1,
                other => panic!("{other:?}: {what}"),
            }
        }
        assert!(repaired > at_the_end, "{redundancy:?}: {repaired} of {effects}");
    }
}

#[test]
fn deaths_in_a_rebuild_also_of_new_processes_have_one_end() {
    let seeds = number("FAMPI_SEEDS").unwrap_or(1_000);
    let (mut well, mut lost) = (0, 0);
    for seed in 0..seeds {
        let mut draw = Draw(seed);
        let redundancy = KINDS[draw.below(3) as usize];
        // Of two or three processes, among them the first new one.
        let count = 2 + draw.below(2);
        let mut victims: Vec<u32> = Vec::new();
        while victims.len() < count as usize {
            let victim = draw.below(u64::from(RANKS) + 1) as u32;
            if !victims.contains(&victim) {
                victims.push(victim);
            }
        }
        let first = 8 + draw.below(80);
        let crash = |(at, victim): (usize, u32)| {
            let effect = match (at, victim) {
                (_, RANKS) => 1 + draw.below(60),
                (0, _) => first,
                // Soon after the first death, in the block that names it or in the rebuild.
                _ => first + draw.below(30),
            };
            Crash::before_effect(victim, effect)
        };
        let crashes: Vec<Crash> = victims.into_iter().enumerate().map(crash).collect();
        let what = format!("{redundancy:?}, seed {seed}, {crashes:?}");
        match outcome(launch(redundancy, seed, crashes), &what) {
            Some(4) => well += 1,
            Some(_) => {}
            None => lost += 1,
        }
    }
    assert!(seeds < 100 || well * 3 > seeds && lost * 10 > seeds, "{well} and {lost} of {seeds}");
}
