//! From what each process wrote to the rows of a trace.
//!
//! A process that was killed cannot say so. Its row ends when it said that it would kill itself,
//! or when the first of the others knew of its death, which is a little late; blocks that were
//! open then end there, too.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Event;
use super::parts::Part;

/// Rows of spares come after those of the ranks.
const SPARES_FROM: u32 = 1_000_000;
/// Slices that overlap without one being inside the other get lanes of their own.
const LANE: u32 = 10_000_000;

/// What a spare does until it is needed.
const PARKED: &str = "parked";

/// The events of all parts, in the order of their times.
pub(super) fn events(parts: &[Part]) -> Vec<Event> {
    let origin = parts.iter().map(|part| part.begun).fold(f64::INFINITY, f64::min);
    let deaths = deaths(parts);
    let mut events = Vec::new();
    for (part, death) in parts.iter().zip(deaths) {
        events.append(&mut Story::new(part, death).tell());
    }
    for event in &mut events {
        event.ts -= origin;
    }
    lay_out(&mut events);
    let mut all = names(&events);
    all.append(&mut events);
    all
}

/// Who is dead, as far as the others know: when the first of them knew.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Death {
    at: f64,
    /// The process of this number has seen it; none when the dead one itself said it would die.
    seen_by: Option<u32>,
}

/// When a death was known, who is dead, and who knew.
type News = (f64, Named, u32);

/// For each part, whether that process died.
fn deaths(parts: &[Part]) -> Vec<Option<Death>> {
    let all: Vec<Option<Place>> = parts.iter().map(place).collect();
    let mut news: Vec<News> = Vec::new();
    for (part, place) in parts.iter().zip(&all) {
        let seen_by = place.map_or(0, |place| place.number());
        for event in part.events.iter().filter(|event| event.is_instant("death detected")) {
            let who = Named::new(event.number("process"), event.number("rank").unwrap_or_default());
            news.push((event.ts, who, seen_by));
        }
    }
    news.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    let both = parts.iter().zip(all);
    both.map(|(part, place)| death_of(part, place?, &news)).collect()
}

/// Whether and when a process died, by itself or by the news in the order of time.
fn death_of(part: &Part, place: Place, news: &[News]) -> Option<Death> {
    if let Some(word) = part.events.iter().find(|event| event.is_instant("killed by plan")) {
        return Some(Death { at: word.ts, seen_by: None });
    }
    if has_left(part) {
        return None;
    }
    let me = Named::new(place.process, place.number());
    let known = news.iter().find(|(at, who, _)| *who == me && *at >= part.begun)?;
    Some(Death { at: known.0.max(last_word(part)), seen_by: Some(known.2) })
}

fn has_left(part: &Part) -> bool {
    part.events.iter().any(|event| event.is_instant("leaves"))
}

fn last_word(part: &Part) -> f64 {
    part.events.last().map_or(part.begun, Event::end)
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
    fn of(event: &Event) -> Self {
        let [process, rank, origin] = ["process", "rank", "origin"].map(|name| event.number(name));
        Self { process, rank, origin }
    }

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

/// The first place of a process. A program that enters no job may name its rank itself.
fn place(part: &Part) -> Option<Place> {
    let named = |event: &&Event| event.cat == "program" && event.args.contains_key("rank");
    let placed = part.events.iter().find(|event| event.is_instant("placed"));
    placed.or_else(|| part.events.iter().find(named)).map(Place::of)
}

/// A slice that is not over, since the time of its event.
struct Open {
    voted: Option<f64>,
    event: Event,
}

impl Open {
    fn new(event: Event) -> Self {
        Self { voted: None, event }
    }
}

/// The events of one process in the making.
struct Story<'a> {
    part: &'a Part,
    end: f64,
    death: Option<Death>,
    row: u32,
    life: Option<Open>,
    blocks: BTreeMap<u64, Open>,
    /// Parts of recoveries and phases of the program.
    works: Vec<Open>,
    events: Vec<Event>,
}

impl<'a> Story<'a> {
    fn new(part: &'a Part, death: Option<Death>) -> Self {
        let last = last_word(part);
        let end = death.map_or(last, |death| death.at.max(last));
        let (life, blocks, works, events) = (None, BTreeMap::new(), Vec::new(), Vec::new());
        Self { part, end, death, row: SPARES_FROM, life, blocks, works, events }
    }

    fn tell(mut self) -> Vec<Event> {
        let is_placed = self.part.events.iter().any(|event| event.is_instant("placed"));
        if let Some(place) = place(self.part).filter(|_| !is_placed) {
            self.settle(self.part.begun, place, "rank");
        }
        for event in &self.part.events {
            self.handle_event(event.clone());
        }
        let (blocks, works) = (std::mem::take(&mut self.blocks), std::mem::take(&mut self.works));
        for mut open in blocks.into_values().chain(works) {
            open.event.args.insert("end".to_owned(), "unfinished".into());
            self.slice(open, self.end);
        }
        if let Some(death) = self.death {
            let seen_by = death.seen_by.map_or(json!("itself"), |process| json!(process));
            let args = fields(json!({ "known to process": seen_by }));
            self.instant(event("died", "death", "i", self.end, args));
        } else if !has_left(self.part) {
            self.instant(event("last word", "death", "i", self.end, Map::new()));
        }
        self.end_life(self.end);
        self.events
    }

    fn handle_event(&mut self, mut event: Event) {
        let (at, block) = (event.ts, event.id.take().unwrap_or_default());
        match event.ph.as_str() {
            "b" => {
                let of_recovery = event.arg("communicator").as_deref() == Some("universe");
                let level = event.arg("level").unwrap_or_default();
                if of_recovery {
                    (event.name, event.cat) = ("agreement".to_owned(), "agreement".to_owned());
                } else {
                    event.name = format!("{level} block");
                }
                self.blocks.insert(block, Open::new(event));
            }
            "n" => {
                if let Some(open) = self.blocks.get_mut(&block) {
                    open.voted = Some(at);
                }
            }
            "e" => {
                let Some(mut open) = self.blocks.remove(&block) else { return };
                if event.arg("verdict").as_deref() == Some("faulty") {
                    open.event.name += ": faulty";
                }
                open.event.args.append(&mut event.args);
                self.slice(open, at);
            }
            "B" => self.works.push(Open::new(event)),
            "E" => {
                let meant = |it: &Open| {
                    it.event.name == event.name || (event.name == PARKED && it.event.name == "join")
                };
                if let Some(place) = self.works.iter().rposition(meant) {
                    let mut open = self.works.remove(place);
                    open.event.args.append(&mut event.args);
                    self.slice(open, at);
                }
            }
            "X" => {
                let end = event.end();
                self.slice(Open::new(event), end);
            }
            _ if event.is_instant("placed") => {
                let role = event.arg("role").unwrap_or_default();
                self.settle(at, Place::of(&event), &role);
            }
            _ => self.instant(event),
        }
    }

    /// The process holds this place from now on.
    fn settle(&mut self, at: f64, place: Place, role: &str) {
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
        self.life = Some(Open::new(event(&name, "life", "X", since, args)));
    }

    /// What is under way goes on in another row; a spare that gets a rank joins.
    fn move_works(&mut self, at: f64) {
        for open in std::mem::take(&mut self.works) {
            let mut event = open.event.clone();
            self.slice(open, at);
            if event.name == PARKED {
                "join".clone_into(&mut event.name);
            }
            event.ts = at;
            self.works.push(Open::new(event));
        }
    }

    fn end_life(&mut self, at: f64) {
        if let Some(life) = self.life.take() {
            self.slice(life, at);
        }
    }

    fn slice(&mut self, open: Open, end: f64) {
        let Open { voted, mut event } = open;
        if let Some(voted) = voted.filter(|_| event.cat == "block") {
            let commit = self::event("commit", "commit", "X", voted, Map::new());
            self.slice(Open::new(commit), end);
        }
        "X".clone_into(&mut event.ph);
        event.dur = end - event.ts;
        event.pid = self.row;
        self.events.push(event);
    }

    fn instant(&mut self, mut event: Event) {
        (event.pid, event.s) = (self.row, "p".to_owned());
        self.events.push(event);
    }
}

fn event(name: &str, category: &str, phase: &str, ts: f64, args: Map<String, Value>) -> Event {
    let (name, cat, ph) = (name.to_owned(), category.to_owned(), phase.to_owned());
    Event { name, cat, ph, ts, args, ..Event::default() }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Sorts by time, outer slices first, and puts into lanes what overlaps.
fn lay_out(events: &mut [Event]) {
    const OUTER_FIRST: [&str; 6] = ["life", "program", "recovery", "agreement", "block", "commit"];
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
            let mut name = event(kind, "", "M", 0.0, fields(json!({ "name": text })));
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
