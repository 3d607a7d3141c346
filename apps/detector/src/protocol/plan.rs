//! The plan: what an observer is told at its start, as text.
//!
//! ```text
//! fampi-observer 3
//! secret 00112233…                 64 hexadecimal digits, the same for the whole job
//! socket run/4f3a-0.sock           where the processes of this node register
//! me 0 0                           node, and which of its observers
//! period 100000                    δ, in microseconds
//! timeout 1000000                  η
//! start 10000000                   until the first heartbeat, and the first registration
//! grace 200000                     until a process that was told to stop is killed
//! hung 0                           until one without progress is hung; 0: nobody is
//! diagnosis 0 250 5                microseconds between tests, 0 for none; κ in hundredths; ζ
//! node 10.0.0.1:4711 nid0001       one line for each node, in order
//! node 10.0.0.2:4711 nid0002
//! ranks 0 0 1 1                    the node of each rank of the launch
//! ```
//!
//! Words are separated by one space, lines come in this order, and nothing else is a plan. All
//! observers of a job have the same nodes and ranks, and find the same ring by the names.
//!
//! It holds the secret: it is kept where only its user can read it.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{
    fmt::{self, Write as _},
    net::SocketAddr,
    str::{FromStr, Lines},
    time::Duration,
};

use super::{
    Host, Incarnation, Node, Timing, diagnosis::schedule::Schedule, envelope::Secret,
    layout::Layout, order::spread,
};

const TITLE: &str = "fampi-observer 3";
const REQUESTS: u8 = 3;

/// One node: where its observer is, and its name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// Where packets for its observer go.
    pub address: SocketAddr,
    /// Its name, which may say where it stands; without spaces.
    pub name: String,
}

/// What an observer has to know.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the job's processes know and nobody else.
    pub secret: Secret,
    /// The path of the socket where processes register.
    pub socket: String,
    /// Which observer this is for.
    pub me: Host,
    /// How long things take.
    pub timing: Timing,
    /// The nodes of the job, by number.
    pub nodes: Vec<Place>,
    /// The nodes of the ranks of the launch, by rank.
    pub nodes_of: Vec<Node>,
}

/// What is wrong with a plan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flaw {
    line: usize,
    what: &'static str,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the plan should be {}", self.line, self.what)
    }
}

impl core::error::Error for Flaw {}

impl Plan {
    /// The text, which holds the secret.
    pub fn to_text(&self) -> String {
        let mut text = String::from(TITLE);
        text.push_str("\nsecret ");
        self.secret.reveal().iter().for_each(|byte| put(&mut text, format_args!("{byte:02x}")));
        put(&mut text, format_args!("\nsocket {}", self.socket));
        put(&mut text, format_args!("\nme {} {}", self.me.node.0, self.me.incarnation.0));
        let Timing { period, timeout, start, requests: _, grace, hung, diagnosis } = self.timing;
        let hung = hung.unwrap_or_default();
        let times = [("period", period), ("timeout", timeout), ("start", start)];
        for (word, time) in times.into_iter().chain([("grace", grace), ("hung", hung)]) {
            put(&mut text, format_args!("\n{word} {}", time.as_micros()));
        }
        let none = Schedule { interval: Duration::ZERO, kappa_percent: 0, zeta: 0 };
        let Schedule { interval, kappa_percent, zeta } = diagnosis.unwrap_or(none);
        let interval = interval.as_micros();
        put(&mut text, format_args!("\ndiagnosis {interval} {kappa_percent} {zeta}"));
        for Place { address, name } in &self.nodes {
            put(&mut text, format_args!("\nnode {address} {name}"));
        }
        text.push_str("\nranks");
        self.nodes_of.iter().for_each(|node| put(&mut text, format_args!(" {}", node.0)));
        text.push('\n');
        text
    }

    /// The plan in this text.
    ///
    /// # Errors
    ///
    /// The first line that is wrong, and what should be there.
    pub fn parse(text: &str) -> Result<Self, Flaw> {
        let mut lines = Source { lines: text.lines(), line: 0 };
        lines.exactly(TITLE)?;
        let secret = lines.read("secret", SECRET, |word| hexadecimal(word).map(Secret::new))?;
        let socket = lines.read("socket", SOCKET, |path| Some(String::from(path)))?;
        let me = lines.read("me", ME, |words| {
            let (node, life) = words.split_once(' ')?;
            Some(Host { node: Node(number(node)?), incarnation: Incarnation(number(life)?) })
        })?;
        let mut time =
            |word, what| lines.read(word, what, |word| number(word).map(Duration::from_micros));
        let timing = Timing {
            period: time("period", PERIOD)?,
            timeout: time("timeout", TIMEOUT)?,
            start: time("start", START)?,
            requests: REQUESTS,
            grace: time("grace", GRACE)?,
            hung: Some(time("hung", HUNG)?).filter(|limit| !limit.is_zero()),
            diagnosis: lines
                .read("diagnosis", DIAGNOSIS, schedule)
                .map(|it| Some(it).filter(|it| !it.interval.is_zero()))?,
        };
        if timing.period.is_zero() || timing.timeout <= timing.period {
            return Err(lines.flaw("a timeout above the period, and a period above 0"));
        }
        let (mut nodes, last) = lines.places()?;
        let words = last.strip_prefix("ranks").ok_or_else(|| lines.flaw(RANKS))?;
        let nodes_of: Option<Vec<Node>> =
            words.split(' ').skip(1).map(|word| number(word).map(Node)).collect();
        let nodes_of = nodes_of.ok_or_else(|| lines.flaw(RANKS))?;
        nodes.shrink_to_fit();
        let plan = Self { secret, socket, me, timing, nodes, nodes_of };
        match plan.try_layout() {
            Some(layout) if layout.contains(me.node) && lines.lines.next().is_none() => Ok(plan),
            _ => Err(lines.flaw("the last one, with `ranks` on the nodes above, as is `me`")),
        }
    }

    /// Who is where; the same for all observers of the job.
    ///
    /// # Panics
    ///
    /// When a rank is on no node of the plan; not for a plan that was parsed.
    pub fn layout(&self) -> Arc<Layout> {
        Arc::new(self.try_layout().expect("ranks on nodes of the plan"))
    }

    fn try_layout(&self) -> Option<Layout> {
        let names: Vec<&str> = self.nodes.iter().map(|place| place.name.as_str()).collect();
        Layout::new(spread(&names), self.nodes_of.clone())
    }
}

const SECRET: &str = "`secret` and 64 hexadecimal digits";
const SOCKET: &str = "`socket` and a path";
const ME: &str = "`me`, a node and its incarnation";
const PERIOD: &str = "`period` and microseconds";
const TIMEOUT: &str = "`timeout` and microseconds";
const START: &str = "`start` and microseconds";
const GRACE: &str = "`grace` and microseconds";
const HUNG: &str = "`hung` and microseconds";
const DIAGNOSIS: &str = "`diagnosis`, microseconds, hundredths and a number of tests";
const NODE: &str = "`node`, an address with its port, and a name";
const RANKS: &str = "`ranks` and the node of each rank";

/// The lines of a plan, and how many were read.
struct Source<'a> {
    lines: Lines<'a>,
    line: usize,
}

impl<'a> Source<'a> {
    fn flaw(&self, what: &'static str) -> Flaw {
        Flaw { line: self.line, what }
    }

    fn next(&mut self, what: &'static str) -> Result<&'a str, Flaw> {
        self.line += 1;
        self.lines.next().ok_or(Flaw { line: self.line, what })
    }

    fn exactly(&mut self, line: &'static str) -> Result<(), Flaw> {
        if self.next(line)? == line { Ok(()) } else { Err(self.flaw(line)) }
    }

    /// The rest of a line that begins with this word.
    fn read<T>(
        &mut self,
        word: &str,
        what: &'static str,
        read: impl FnOnce(&'a str) -> Option<T>,
    ) -> Result<T, Flaw> {
        let rest = self.next(what)?.strip_prefix(word).and_then(|rest| rest.strip_prefix(' '));
        rest.and_then(read).ok_or_else(|| self.flaw(what))
    }

    /// All nodes, and the line after them.
    fn places(&mut self) -> Result<(Vec<Place>, &'a str), Flaw> {
        let mut places = Vec::new();
        loop {
            let line = self.next(NODE)?;
            let Some(rest) = line.strip_prefix("node ") else { return Ok((places, line)) };
            let place = rest.split_once(' ').and_then(|(address, name)| {
                let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
                let address = address.parse().ok().filter(|_| is_name)?;
                Some(Place { address, name: name.into() })
            });
            places.push(place.ok_or_else(|| self.flaw(NODE))?);
        }
    }
}

fn put(text: &mut String, words: fmt::Arguments<'_>) {
    // A string takes everything.
    let _ = text.write_fmt(words);
}

fn schedule(words: &str) -> Option<Schedule> {
    let (interval, rest) = words.split_once(' ')?;
    let (kappa_percent, zeta) = rest.split_once(' ')?;
    let interval = Duration::from_micros(number(interval)?);
    Some(Schedule { interval, kappa_percent: number(kappa_percent)?, zeta: number(zeta)? })
}

/// A number without signs.
fn number<T: FromStr>(word: &str) -> Option<T> {
    word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok())?
}

fn hexadecimal(word: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if word.len() != 64 || !word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&word[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, vec};
    use proptest::prelude::*;

    fn plan() -> Plan {
        let place = |port, name: &str| Place {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            name: name.into(),
        };
        Plan {
            secret: Secret::new(core::array::from_fn(|at| at as u8 * 7)),
            socket: "run/with space.sock".into(),
            me: Host { node: Node(1), incarnation: Incarnation(2) },
            timing: Timing { requests: REQUESTS, ..Timing::with_period(Duration::from_millis(10)) },
            nodes: vec![place(4711, "x1c1n1"), place(4712, "x1c1n2"), place(4713, "x1c2n1")],
            nodes_of: [0, 0, 1, 2, 2].map(Node).to_vec(),
        }
    }

    #[test]
    fn a_plan_is_read_as_written() {
        let (written, text) = (plan(), plan().to_text());
        let read = Plan::parse(&text).expect("it was written so");
        assert_eq!(read.secret.reveal(), written.secret.reveal());
        assert_eq!((&read.socket, read.me), (&written.socket, written.me));
        assert_eq!((read.timing, &read.nodes), (written.timing, &written.nodes));
        assert_eq!(read.nodes_of, written.nodes_of);
        assert_eq!(read.layout().predecessors(Node(1)).next(), Some(Node(2)), "ring by names");
        assert_eq!(read.to_text(), text);
        let watchful = Timing {
            hung: Some(Duration::from_millis(1500)),
            diagnosis: Schedule::parse("50ms:2.5:7"),
            ..written.timing
        };
        let watchful = Plan { timing: watchful, ..written };
        let read = Plan::parse(&watchful.to_text()).expect("it was written so");
        assert_eq!(read.timing, watchful.timing);
    }

    #[test]
    fn the_secret_is_not_printed_by_accident() {
        let written = plan();
        let text = written.to_text();
        let digits = text.lines().nth(1).and_then(|line| line.strip_prefix("secret "));
        assert!(!format!("{written:?}").contains(digits.expect("the secret")));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let text = plan().to_text();
        let flaw = |from: &str, to: &str| {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            format!("{}", Plan::parse(&changed).expect_err(to))
        };
        assert_eq!(
            flaw("period 10000", "period ten"),
            "line 5 of the plan should be `period` and microseconds"
        );
        assert!(flaw("fampi-observer 3", "fampi-observer 2").contains("line 1 "));
        assert!(flaw("secret 00", "secret 0").contains("64 hexadecimal"));
        assert!(flaw("hung 0", "hung never").contains("`hung` and microseconds"));
        assert!(flaw("diagnosis 0 0 0", "diagnosis 0 0").contains("`diagnosis`, microseconds"));
        assert!(flaw("me 1 2", "me 3 2").contains("ranks"));
        assert!(flaw("timeout 20000", "timeout 10000").contains("above the period"));
        assert!(flaw("127.0.0.1:4712", "127.0.0.1").contains("address with its port"));
        assert!(flaw("ranks 0 0", "ranks 0 9").contains("ranks"));
        assert!(flaw("ranks 0 0", "ranks 0 +0").contains("ranks"));
        assert!(Plan::parse(&format!("{text}more\n")).is_err());
        assert!(Plan::parse("").is_err());
    }

    proptest! {
        #[test]
        fn reading_never_panics(
            at in any::<prop::sample::Index>(), byte in any::<char>(), cut in any::<bool>()
        ) {
            let text = plan().to_text();
            let at = at.index(text.len());
            let rest = if cut { "" } else { &text[at + 1..] };
            let changed = format!("{}{byte}{rest}", &text[..at]);
            // Some changes leave a plan.
            let _ = Plan::parse(&changed);
        }
    }
}
