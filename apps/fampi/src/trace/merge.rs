//! From what each process wrote to the rows of a trace.
//!
//! A process that was killed cannot say so. Its row ends when it said that it would kill itself,
//! or when the first of the others knew of its death, which is a little late; blocks that were
//! open then end there, too.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Event;
use super::parts::{Part, Time, What};

/// Rows of spares come after those of the ranks.
const SPARES_FROM: u32 = 1_000_000;
/// Slices that overlap without one being inside the other get lanes of their own.
const LANE: u32 = 10_000_000;

/// What a spare does until it is needed.
const PARKED: &str = "parked";

/// The events of all parts, in the order of their times.
pub(super) fn events(parts: &[Part]) -> Vec<Event> {
    let origin = parts.iter().map(|part| part.begun).min().unwrap_or_default();
    let deaths = deaths(parts);
    let mut events = Vec::new();
    for (part, death) in parts.iter().zip(deaths) {
        events.append(&mut Story::new(part, death, origin).tell());
    }
    lay_out(&mut events);
    let mut all = names(&events);
    all.append(&mut events);
    all
}

/// Who is dead, as far as the others know: when the first of them knew.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Death {
    at: Time,
    /// The process of this number has seen it; none when the dead one itself said it would die.
    seen_by: Option<u32>,
}

/// For each part, whether that process died.
fn deaths(parts: &[Part]) -> Vec<Option<Death>> {
    let all: Vec<Option<Place>> = parts.iter().map(place).collect();
    let mut news: Vec<(Time, Named, u32)> = Vec::new();
    for (part, place) in parts.iter().zip(&all) {
        let seen_by = place.map_or(0, |place| place.number());
        for (at, what) in &part.entries {
            if let What::Died { process, rank } = what {
                news.push((*at, Named::new(*process, *rank), seen_by));
            }
        }
    }
    news.sort_unstable();
    let both = parts.iter().zip(all);
    both.map(|(part, place)| death_of(part, place?, &news)).collect()
}

/// `news` tells who is dead, when somebody knew, and who, in the order of time.
fn death_of(part: &Part, place: Place, news: &[(Time, Named, u32)]) -> Option<Death> {
    if let Some((at, ..)) = part.words.iter().find(|(_, word, _)| word == "killed by plan") {
        return Some(Death { at: *at, seen_by: None });
    }
    if part.entries.iter().any(|(_, what)| *what == What::Left) {
        return None;
    }
    let me = Named::new(place.process, place.number());
    let known = news.iter().find(|(at, who, _)| *who == me && *at >= part.begun)?;
    let last = part.entries.last().map_or(part.begun, |(at, _)| *at);
    Some(Death { at: known.0.max(last), seen_by: Some(known.2) })
}

/// How others call a process: by its number in the job; by its rank where there are no numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Process(u32),
    Rank(u32),
}

impl Named {
    fn new(process: Option<u32>, rank: u32) -> Self {
        process.map_or(Self::Rank(rank), Self::Process)
    }
}

/// Where a process is.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    process: Option<u32>,
    rank: Option<u32>,
    origin: Option<u32>,
}

impl Place {
    /// What tells it from others, for a person.
    fn number(&self) -> u32 {
        self.process.or(self.rank).unwrap_or_default()
    }

    fn row(&self) -> u32 {
        match self.origin.or(self.rank) {
            Some(rank) => rank + 1,
            None => SPARES_FROM + self.number(),
        }
    }
}

/// The first place of a process.
fn place(part: &Part) -> Option<Place> {
    part.entries.iter().find_map(|(_, what)| match what {
        What::Placed { process, rank, origin, .. } => {
            Some(Place { process: *process, rank: *rank, origin: *origin })
        }
        _ => None,
    })
}

/// A block or a part of a recovery that is not over.
struct Open {
    since: Time,
    voted: Option<Time>,
    event: Event,
}

/// The events of one process in the making.
struct Story<'a> {
    part: &'a Part,
    origin: Time,
    end: Time,
    death: Option<Death>,
    row: u32,
    life: Option<(Time, Event)>,
    blocks: BTreeMap<u64, Open>,
    works: Vec<Open>,
    events: Vec<Event>,
}

impl<'a> Story<'a> {
    fn new(part: &'a Part, death: Option<Death>, origin: Time) -> Self {
        let last = part.entries.last().map_or(part.begun, |(at, _)| *at);
        let end = death.map_or(last, |death| death.at.max(last));
        let row = place(part).map_or(SPARES_FROM, |place| place.row());
        let (life, blocks, works, events) = (None, BTreeMap::new(), Vec::new(), Vec::new());
        Self { part, origin, end, death, row, life, blocks, works, events }
    }

    fn tell(mut self) -> Vec<Event> {
        for (at, what) in &self.part.entries {
            self.handle_entry(*at, what);
        }
        for (at, word, fields) in &self.part.words {
            self.instant(*at, word, "program", fields.clone());
        }
        let (blocks, works) = (std::mem::take(&mut self.blocks), std::mem::take(&mut self.works));
        for mut open in blocks.into_values().chain(works) {
            open.event.args.insert("end".to_owned(), "unfinished".into());
            self.slice(open, self.end);
        }
        if let Some(death) = self.death {
            let seen_by = death.seen_by.map_or(json!("itself"), |process| json!(process));
            let args = fields(json!({ "known to process": seen_by }));
            self.instant(self.end, "died", "death", args);
        } else if !self.part.entries.iter().any(|(_, what)| *what == What::Left) {
            self.instant(self.end, "last word", "death", Map::new());
        }
        self.end_life(self.end);
        self.events
    }

    fn handle_entry(&mut self, at: Time, what: &What) {
        match what {
            What::Process { .. } => {}
            What::Placed { process, rank, origin, role } => {
                let place = Place { process: *process, rank: *rank, origin: *origin };
                self.settle(at, place, role);
            }
            What::Started { block, number, level, comm } => {
                let args = json!({ "level": level, "communicator": comm, "number": number });
                let (name, category) = match comm.as_str() {
                    "universe" => ("agreement".to_owned(), "agreement"),
                    _ => (format!("{level} block"), "block"),
                };
                let event = event(&name, category, "X", fields(args));
                self.blocks.insert(*block, Open { since: at, voted: None, event });
            }
            What::Voted { block } => {
                if let Some(open) = self.blocks.get_mut(block) {
                    open.voted = Some(at);
                }
            }
            What::Ended { block, committed } => {
                let Some(mut open) = self.blocks.remove(block) else { return };
                let verdict = if *committed { "committed" } else { "faulty" };
                open.event.args.insert("verdict".to_owned(), verdict.into());
                if !committed {
                    open.event.name += ": faulty";
                }
                self.slice(open, at);
            }
            What::Interrupted { .. } => self.instant(at, "interrupted", "fault", Map::new()),
            What::Died { process, rank } => {
                let args = json!({ "process": process.unwrap_or(*rank) });
                self.instant(at, "death detected", "fault", fields(args));
            }
            What::Agreed { comm, report } => {
                let args = json!({ "communicator": comm, "report": report });
                self.instant(at, "report agreed", "report", fields(args));
            }
            What::Begun { work, spawn } => {
                let args = if *spawn > 0 { json!({ "spawned": spawn }) } else { json!({}) };
                let event = event(work, "recovery", "X", fields(args));
                self.works.push(Open { since: at, voted: None, event });
            }
            What::Done { work } => {
                let meant = |it: &Open| {
                    it.event.name == *work || (work == PARKED && it.event.name == "join")
                };
                if let Some(place) = self.works.iter().rposition(meant) {
                    let open = self.works.remove(place);
                    self.slice(open, at);
                }
            }
            What::Left => self.instant(at, "leaves", "life", Map::new()),
        }
    }

    /// The process holds this place from now on.
    fn settle(&mut self, at: Time, place: Place, role: &str) {
        let row = place.row();
        if self.life.is_some() && row == self.row {
            return;
        }
        let since = if self.life.is_none() { self.part.begun } else { at };
        if self.life.is_some() {
            self.move_works(at);
        }
        self.end_life(at);
        self.row = row;
        let name = match place.rank {
            None => format!("spare, process {}", place.number()),
            Some(_) if role == "replacement" => format!("replacement, process {}", place.number()),
            Some(_) => format!("process {}", place.number()),
        };
        let args = fields(json!({ "pid": self.part.pid, "rank": place.rank }));
        self.life = Some((since, event(&name, "life", "X", args)));
    }

    /// What is under way goes on in another row; a spare that gets a rank joins.
    fn move_works(&mut self, at: Time) {
        for open in std::mem::take(&mut self.works) {
            let mut event = open.event.clone();
            self.slice(open, at);
            if event.name == PARKED {
                "join".clone_into(&mut event.name);
            }
            self.works.push(Open { since: at, voted: None, event });
        }
    }

    fn end_life(&mut self, at: Time) {
        if let Some((since, event)) = self.life.take() {
            self.slice(Open { since, voted: None, event }, at);
        }
    }

    fn slice(&mut self, open: Open, end: Time) {
        let Open { since, voted, mut event } = open;
        if let Some(voted) = voted.filter(|_| event.cat == "block") {
            let commit = self::event("commit", "commit", "X", Map::new());
            self.slice(Open { since: voted, voted: None, event: commit }, end);
        }
        event.ts = self.microseconds(since);
        event.dur = self.microseconds(end) - event.ts;
        event.pid = self.row;
        self.events.push(event);
    }

    fn instant(&mut self, at: Time, name: &str, category: &str, args: Map<String, Value>) {
        let mut event = event(name, category, "i", args);
        (event.ts, event.pid, event.s) = (self.microseconds(at), self.row, "p".to_owned());
        self.events.push(event);
    }

    fn microseconds(&self, at: Time) -> f64 {
        (at - self.origin) as f64 / 1e3
    }
}

fn event(name: &str, category: &str, phase: &str, args: Map<String, Value>) -> Event {
    let (name, cat, ph) = (name.to_owned(), category.to_owned(), phase.to_owned());
    Event { name, cat, ph, ts: 0.0, dur: 0.0, pid: 0, tid: 0, s: String::new(), args }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Sorts by time, outer slices first, and puts into lanes what overlaps.
fn lay_out(events: &mut [Event]) {
    const OUTER_FIRST: [&str; 5] = ["life", "recovery", "agreement", "block", "commit"];
    let depth = |event: &Event| OUTER_FIRST.iter().position(|category| *category == event.cat);
    events.sort_by(|one, other| {
        let times = one.ts.total_cmp(&other.ts).then(other.dur.total_cmp(&one.dur));
        times.then_with(|| depth(one).cmp(&depth(other)))
    });
    // For each row and lane the ends of the slices that are open, the innermost last.
    let mut lanes: BTreeMap<u32, Vec<Vec<f64>>> = BTreeMap::new();
    for event in events {
        if event.ph != "X" {
            event.tid = event.pid;
            continue;
        }
        let lanes = lanes.entry(event.pid).or_default();
        let mut lane = 0;
        loop {
            if lane == lanes.len() {
                lanes.push(Vec::new());
            }
            let open = &mut lanes[lane];
            while open.last().is_some_and(|end| *end <= event.ts) {
                open.pop();
            }
            if open.last().is_none_or(|end| *end >= event.end()) {
                open.push(event.end());
                break;
            }
            lane += 1;
        }
        event.tid = event.pid + LANE * lane as u32;
    }
}

/// What the rows and their lanes are called.
fn names(events: &[Event]) -> Vec<Event> {
    let mut lanes: Vec<(u32, u32)> = events.iter().map(|event| (event.pid, event.tid)).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let mut names = Vec::new();
    for (pid, tid) in lanes {
        let row = match pid.checked_sub(SPARES_FROM) {
            None => format!("rank {}", pid - 1),
            Some(process) => format!("spare {process}"),
        };
        let lane = tid / LANE;
        let mut name = |kind: &str, text: &str| {
            let mut name = event(kind, "", "M", fields(json!({ "name": text })));
            (name.pid, name.tid) = (pid, tid);
            names.push(name);
        };
        if lane == 0 {
            name("process_name", &row);
            name("thread_name", &row);
        } else {
            name("thread_name", &format!("{row}, at the same time"));
        }
    }
    names
}
