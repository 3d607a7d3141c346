//! The trace of a process: what happens to it, in a file, while it happens.
//!
//! `cargo fampi run --trace FILE` records a run of any program; without that tool the environment
//! variable `FAMPI_TRACE_DIR` names a folder, in which each process writes a file of its own. The
//! library records what it does itself; a program adds its own phases with the functions of this
//! module, which do nothing when the process is not recorded:
//!
//! ```
//! fampi::trace::begin("assembly", &[]);
//! fampi::trace::mark("mesh refined", &[("elements", 4096)]);
//! fampi::trace::end("assembly", &[("nonzeros", 110_592)]);
//! ```
//!
//! Files are in the trace event format, which Perfetto and `chrome://tracing` open. Each line is an
//! event and is handed to the system with one call at once, so that a process that is killed leaves
//! all that it has written. Times are microseconds of a clock that all processes of a node share;
//! the first line names the node and says what its wall clock showed.
//!
//! ```text
//! [
//! {"name":"process_name","ph":"M","ts":81.001,"pid":7,"tid":7,"args":{"node":"n","wall":…}},
//! {"name":"placed","cat":"life","ph":"i",…,"args":{"process":2,"rank":2,"origin":2,…}},
//! {"name":"block","cat":"block","ph":"b",…,"id":7,"args":{"level":"Global",…}},
//! {"name":"vote","cat":"block","ph":"n",…,"id":7},
//! {"name":"block","cat":"block","ph":"e",…,"id":7,"args":{"verdict":"committed"}},
//! {"name":"death detected","cat":"fault","ph":"i",…,"args":{"process":3,"rank":3}},
//! {"name":"rebuild","cat":"recovery","ph":"B",…},
//! {"name":"rebuild","cat":"recovery","ph":"E",…},
//! ```
//!
//! **Guarantees.** No program has to subscribe to anything to be recorded. A trace that cannot be
//! written any more ends; the process goes on. Reference: Google, Trace Event Format, 2016.

use alloc::{
    boxed::Box,
    string::{String, ToString as _},
};
use core::{
    fmt::{self, Display, Write as _},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};
use std::{
    io::Write,
    process,
    sync::{Mutex, OnceLock, PoisonError},
    time::Instant,
};

/// Blocks of a process that are recorded; a long run would fill the disk.
const BLOCKS: u32 = 20_000;
/// Blocks that are recorded after a fault in any case.
const BLOCKS_AFTER_A_FAULT: u32 = 1_000;

/// The trace of this process, if it is recorded.
static RECORDER: OnceLock<Mutex<Recorder>> = OnceLock::new();
/// Whether its blocks are, too.
static RECORDS_BLOCKS: AtomicBool = AtomicBool::new(false);

/// Where a process records what happens to it.
pub(crate) struct Recorder {
    /// The file; none when it could not be written any more.
    sink: Option<Box<dyn Write + Send>>,
    /// A moment, and what the clock of the node showed then.
    clock: (Instant, Duration),
    line: String,
    blocks_left: u32,
    /// The block from which on none is recorded.
    skips_from: u64,
}

/// Begins to record this process; `now` is the time on the clock of the node, and `about` says
/// which node that is and what its wall clock shows. Without its blocks a run pays nothing for it.
#[cfg(feature = "mpi")]
pub(crate) fn record(
    sink: Box<dyn Write + Send>,
    blocks: bool,
    now: Duration,
    (node, wall): (&str, Duration),
) {
    RECORDS_BLOCKS.store(blocks, Relaxed);
    let mut recorder = Recorder::new(sink, (Instant::now(), now));
    recorder.write(|event| {
        event.head('M', "", "process_name");
        event.text("name", format_args!("process {}", process::id()));
        event.text("node", node);
        event.number("monotonic", now.as_nanos());
        event.number("wall", wall.as_nanos());
    });
    let _ = RECORDER.set(Mutex::new(recorder));
}

/// Records a moment of the program in the trace of this process, with numbers that belong to it.
/// Nothing happens when the process is not recorded.
pub fn mark(name: &str, numbers: &[(&str, u64)]) {
    add('i', name, numbers);
}

/// Records the beginning of a phase of the program, as [`mark`] does a moment.
pub fn begin(name: &str, numbers: &[(&str, u64)]) {
    add('B', name, numbers);
}

/// Records the end of the newest phase of this name.
pub fn end(name: &str, numbers: &[(&str, u64)]) {
    add('E', name, numbers);
}

fn add(kind: char, name: &str, numbers: &[(&str, u64)]) {
    with_recorder(|recorder| {
        recorder.write(|event| {
            event.head(kind, "program", name);
            for (name, number) in numbers {
                event.number(name, number);
            }
        });
    });
}

/// Acts on the trace of this process, if it is recorded.
pub(crate) fn with_recorder(act: impl FnOnce(&mut Recorder)) {
    if let Some(recorder) = RECORDER.get() {
        act(&mut recorder.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// True when the blocks of this process are recorded.
#[inline]
pub(crate) fn has_blocks() -> bool {
    RECORDS_BLOCKS.load(Relaxed)
}

impl Recorder {
    fn new(sink: Box<dyn Write + Send>, clock: (Instant, Duration)) -> Self {
        let (line, skips_from) = (String::from("[\n"), u64::MAX);
        Self { sink: Some(sink), clock, line, blocks_left: BLOCKS, skips_from }
    }

    /// Writes an event, which happens now.
    pub(crate) fn write(&mut self, describe: impl FnOnce(&mut Event<'_>)) {
        let Some(sink) = &mut self.sink else { return };
        let now = self.clock.1 + self.clock.0.elapsed();
        let mut event = Event { line: &mut self.line, now, has_args: false };
        describe(&mut event);
        event.finish();
        if sink.write_all(self.line.as_bytes()).is_err() {
            self.sink = None;
            tracing::warn!(target: "fampi::trace", "the trace cannot be written: it ends here");
        }
        self.line.clear();
    }

    /// Whether a block that begins is recorded.
    pub(crate) fn takes_block(&mut self, block: u64) -> bool {
        if self.blocks_left == 0 {
            self.skips_from = self.skips_from.min(block);
            return false;
        }
        self.blocks_left -= 1;
        true
    }

    /// Whether the beginning of a block is recorded.
    pub(crate) const fn has_block(&self, block: u64) -> bool {
        block < self.skips_from
    }

    /// A fault is recorded with the blocks after it.
    pub(crate) fn handle_fault(&mut self) {
        self.blocks_left = self.blocks_left.max(BLOCKS_AFTER_A_FAULT);
        self.skips_from = u64::MAX;
    }
}

/// A line of a trace in the making.
pub(crate) struct Event<'a> {
    line: &'a mut String,
    now: Duration,
    has_args: bool,
}

impl Event<'_> {
    /// Writes the kind of an event, in the letters of the format, its category and its name.
    pub(crate) fn head(&mut self, kind: char, category: &str, name: &str) {
        let (pid, at) = (process::id(), Micros(self.now));
        let _ = write!(self.line, "{{\"name\":{},\"cat\":\"{category}\"", Quoted(name));
        let _ = write!(self.line, ",\"ph\":\"{kind}\",\"ts\":{at},\"pid\":{pid},\"tid\":{pid}");
    }

    /// Writes what a block's events have in common.
    pub(crate) fn block(&mut self, kind: char, name: &str, block: u64) {
        self.head(kind, "block", name);
        let _ = write!(self.line, ",\"id\":{block}");
    }

    /// Writes the head of a slice that took so long until now.
    pub(crate) fn slice(&mut self, category: &str, name: &str, took: Duration) {
        self.now = self.now.saturating_sub(took);
        self.head('X', category, name);
        let _ = write!(self.line, ",\"dur\":{}", Micros(took));
    }

    pub(crate) fn number(&mut self, name: &str, number: impl Display) {
        let before = if self.has_args { "," } else { ",\"args\":{" };
        self.has_args = true;
        let _ = write!(self.line, "{before}{}:{number}", Quoted(name));
    }

    pub(crate) fn perhaps(&mut self, name: &str, number: Option<impl Display>) {
        match number {
            Some(number) => self.number(name, number),
            None => self.number(name, "null"),
        }
    }

    pub(crate) fn text(&mut self, name: &str, text: impl Display) {
        self.number(name, Quoted(&text.to_string()));
    }

    fn finish(self) {
        self.line.push_str(if self.has_args { "}},\n" } else { "},\n" });
    }
}

/// Microseconds, with the nanoseconds behind the point.
struct Micros(Duration);

impl Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0.as_micros(), self.0.subsec_nanos() % 1000)
    }
}

/// A string of JSON.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for letter in self.0.chars() {
            match letter {
                '"' | '\\' => write!(f, "\\{letter}")?,
                '\0'..' ' => write!(f, "\\u{:04x}", u32::from(letter))?,
                _ => f.write_char(letter)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use alloc::{sync::Arc, vec::Vec};

    use super::*;

    /// A recorder and what it has written.
    pub(in crate::seam) struct Recorded {
        pub(in crate::seam) recorder: Recorder,
        bytes: Arc<Mutex<Vec<u8>>>,
    }

    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Recorded {
        pub(in crate::seam) fn new(blocks_left: u32) -> Self {
            let bytes = Arc::default();
            let sink = Box::new(Sink(Arc::clone(&bytes)));
            let mut recorder = Recorder::new(sink, (Instant::now(), Duration::from_nanos(81_007)));
            recorder.blocks_left = blocks_left;
            Self { recorder, bytes }
        }

        pub(in crate::seam) fn text(&self) -> String {
            String::from_utf8(self.bytes.lock().expect("no panic").clone()).expect("text")
        }
    }

    #[test]
    fn an_event_is_a_line_of_json() {
        let mut recorded = Recorded::new(1);
        recorded.recorder.write(|event| {
            event.slice("program", "a \"quoted\"\nname", Duration::from_nanos(7));
            event.number("one", 1);
            event.text("two", "x");
        });
        let text = recorded.text();
        assert!(
            text.starts_with(
                r#"[
{"name":"a \"quoted\"\u000aname","cat":"program","ph":"X","ts":8"#
            ),
            "{text}"
        );
        let end = ",\"dur\":0.007,\"args\":{\"one\":1,\"two\":\"x\"}},\n";
        assert!(text.ends_with(end), "{text}");
        assert_eq!(Micros(Duration::from_nanos(1_000_081_007)).to_string(), "1000081.007");
    }
}
