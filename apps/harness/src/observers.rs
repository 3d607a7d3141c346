//! Observers that stand still in some turns of a measurement, so that turns with them and without
//! alternate on the same ranks of one launch, and both meet whatever else goes on.
//!
//! One that stands still sends, hears and wakes up nothing. One that goes on takes what has come,
//! and asks for heartbeats that are late, before it takes a node for lost; what that costs counts
//! as a cost of the service. Ranks are to do meanwhile as if they had none
//! ([`fampi::World::set_observed`]).

use std::{
    env, fs,
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

/// Written into each process by the launcher: the job that it belongs to.
const JOB: &str = "PMIX_NAMESPACE";
/// Sends the signal that it reads to the processes in its arguments. When its input ends, as it
/// does however the measuring program ends, it lets all of them go on. It waits between two of
/// them: observers that go on at one moment would send their heartbeats in step, as those of a job
/// do not.
const SWITCH: &str = r#"while read -r signal; do
    failed=0
    for process in "$@"; do kill -"$signal" "$process" || failed=1; sleep 0.002; done
    echo $failed
done
kill -CONT "$@""#;

/// The observers, which go on or stand still.
pub struct Observers {
    /// That of the ranks, and those beside it.
    numbers: Vec<u32>,
    switch: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    on: bool,
    since: Instant,
    /// In turns with the service and without: how long they were, and what each observer has used.
    spent: [(Duration, Vec<Duration>); 2],
    used: Vec<Duration>,
}

impl Observers {
    /// The observer of this launch on this node, and these beside it; they go on.
    ///
    /// # Errors
    ///
    /// When this launch has no observer, or the system refuses something.
    pub fn find(beside: &[u32]) -> io::Result<Self> {
        let none = || io::Error::other("this launch has no observer: see the warnings");
        let mut numbers = vec![own().ok_or_else(none)?];
        numbers.extend(beside);
        let mut command = Command::new("setsid");
        // Who ends the session of this launch should not end it, too.
        command.args(["sh", "-c", SWITCH, "switch"]).args(numbers.iter().map(u32::to_string));
        let mut switch = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = switch.stdin.take();
        let answers = BufReader::new(switch.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        let nothing = || (Duration::ZERO, vec![Duration::ZERO; numbers.len()]);
        let spent = [nothing(), nothing()];
        let used = used(&numbers)?;
        Ok(Self { numbers, switch, orders, answers, on: true, since: Instant::now(), spent, used })
    }

    /// Lets them go on, or stops them.
    ///
    /// # Errors
    ///
    /// When one of them has ended.
    pub fn set(&mut self, on: bool) -> io::Result<()> {
        if on != self.on {
            self.on = on;
            let signal = if on { "CONT" } else { "STOP" };
            writeln!(self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?, "{signal}")?;
            let mut answer = String::new();
            self.answers.read_line(&mut answer)?;
            if answer.trim_end() != "0" {
                let what = "an observer has ended in the middle of the measurement";
                return Err(io::Error::other(what));
            }
        }
        (self.since, self.used) = (Instant::now(), used(&self.numbers)?);
        Ok(())
    }

    /// A turn is over.
    ///
    /// # Errors
    ///
    /// When one of them has ended.
    pub fn account(&mut self) -> io::Result<()> {
        let now = used(&self.numbers)?;
        let (time, each) = &mut self.spent[usize::from(self.on)];
        *time += self.since.elapsed();
        for (each, (now, before)) in each.iter_mut().zip(now.into_iter().zip(&self.used)) {
            *each += now.saturating_sub(*before);
        }
        Ok(())
    }

    /// Prints what each has used, `number,off,on` in microseconds on a processor in a second of
    /// turns without the service and with it. They go on.
    ///
    /// # Errors
    ///
    /// When one of them has ended.
    pub fn end(mut self) -> io::Result<()> {
        self.set(true)?;
        drop(self.orders.take());
        self.switch.wait()?;
        for (number, at) in self.numbers.iter().zip(0..) {
            let [off, on] =
                self.spent.each_ref().map(|(time, each): &(Duration, Vec<Duration>)| {
                    each[at].as_secs_f64() * 1e6 / time.as_secs_f64()
                });
            println!("{number},{off:.1},{on:.1}");
        }
        Ok(())
    }
}

/// The observer of our launch on this node.
fn own() -> Option<u32> {
    let program = fs::canonicalize(env::var_os("FAMPI_OBSERVER")?).ok()?;
    let job = format!("{JOB}={}", env::var(JOB).ok()?);
    let numbers = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|number| {
        let process = Path::new("/proc").join(number.to_string());
        let ours = |variables: Vec<u8>| {
            variables.split(|byte| *byte == 0).any(|variable| variable == job.as_bytes())
        };
        fs::read_link(process.join("exe")).is_ok_and(|path| path == program)
            && fs::read(process.join("environ")).is_ok_and(ours)
    })
}

/// How long each of these processes has been on a processor.
fn used(numbers: &[u32]) -> io::Result<Vec<Duration>> {
    let of = |number: &u32| {
        let text = fs::read_to_string(format!("/proc/{number}/schedstat"))?;
        let nanoseconds = text.split(' ').next().unwrap_or_default().parse();
        nanoseconds.map(Duration::from_nanos).map_err(io::Error::other)
    };
    numbers.iter().map(of).collect()
}
