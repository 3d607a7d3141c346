//! Launches programs on real ranks for tests: with a time limit, and with nothing left behind.
//!
//! Every launch carries a mark in its environment, by which the processes that outlive their
//! launcher are found, and ended by their number. `timeout` watches the limit, so it holds even
//! when the test itself is ended.

use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What makes ranks survive each other.
pub const SURVIVING: &str = "--with-ft ulfm --mca async_mpi_finalize 1 --mca pml ob1 \
    --mca btl self,sm,tcp --mca coll ^han --mca coll_ftagree_era_topology 2";
/// Names our own launcher, if that is to be used: also for MPICH, whose own one ends the job when a
/// rank dies.
pub const OWN_LAUNCHER: &str = "FAMPI_TEST_LAUNCHER";
const MARK: &str = "FAMPI_TEST_LAUNCH";
/// Where Linux keeps memory that has a name.
const SHARED_MEMORY: &str = "/dev/shm";
/// The most of standard error that is kept: MPI says the same again and again after a death.
const KEPT_ERROR_BYTES: usize = 1024 * 1024;
/// How long a process of a job may take to end when its launcher has.
const MOMENT: Duration = Duration::from_secs(1);
/// How long a launcher may go on when nobody is left.
const ALONE: Duration = Duration::from_secs(15);

/// A launch that is being described.
#[must_use]
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    folder: Option<PathBuf>,
    ranks: u32,
    spares: u32,
    limit_seconds: u32,
    surviving: bool,
    ignoring_statuses: bool,
    alone: bool,
}

/// A launch that is over.
#[derive(Clone, Debug)]
pub struct Run {
    /// How to repeat it, for a person.
    pub line: String,
    /// The exit status as in a shell; 124 is the time limit.
    pub status: i32,
    /// Standard output of all ranks.
    pub output: String,
    /// The beginning of their standard error, without MPI's own complaints.
    pub errors: String,
    /// How many processes of fampi there were.
    pub processes: usize,
    /// How many of them ended in order.
    pub orderly: usize,
    /// The processes that outlived the launcher for longer than a moment, and the files that the
    /// job left in the folders that it was given: on the disk and in shared memory.
    pub left: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

impl Launch {
    /// This many ranks of a program.
    pub fn new(program: impl AsRef<Path>, ranks: u32) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: None,
            ranks,
            spares: 0,
            limit_seconds: 60,
            surviving: true,
            ignoring_statuses: false,
            alone: false,
        }
    }

    /// More words for the program.
    pub fn words<W: Into<String>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.arguments.extend(words.into_iter().map(Into::into));
        self
    }

    /// A variable for all ranks.
    pub fn variable(mut self, name: &str, value: &impl ToString) -> Self {
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    /// Parked processes behind the ranks.
    pub fn spares(mut self, spares: u32) -> Self {
        self.spares = spares;
        self
    }

    /// Another limit than a minute.
    pub fn limit(mut self, seconds: u32) -> Self {
        self.limit_seconds = seconds;
        self
    }

    /// Works in this folder.
    pub fn inside(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Forgets the flags of fault tolerance, as a person might.
    pub fn without_fault_tolerance(mut self) -> Self {
        self.surviving = false;
        self
    }

    /// Lets any number of ranks leave with a status other than 0: Open MPI's launcher counts each
    /// of them twice, and otherwise ends the job when half of it has left so.
    pub fn ignoring_statuses(mut self) -> Self {
        self.ignoring_statuses = true;
        self
    }

    /// Without a launcher at all, as a person might start it.
    pub fn without_launcher(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Runs it to the end.
    ///
    /// # Panics
    ///
    /// When it does not end by itself: there is no case in which that is right.
    #[track_caller]
    pub fn run(&self) -> Run {
        let run = self.run_to_limit();
        assert_ne!(run.status, 124, "not over after {} s: {run}", self.limit_seconds);
        run
    }

    /// Runs it to the end or to its limit.
    pub fn run_to_limit(&self) -> Run {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let [folder, memory] = [env::temp_dir(), PathBuf::from(SHARED_MEMORY)]
            .map(|parent| parent.join(format!("fampi-test-{mark}")));
        let reports = folder.join("status");
        fs::create_dir_all(&reports).expect("a temporary folder");
        fs::create_dir_all(&memory).expect("a folder in shared memory");
        let words = self.command_line();
        let mut command = Command::new("timeout");
        command.args(["-k", "5", &self.limit_seconds.to_string()]).args(&words);
        command.env(MARK, &mark).env("FAMPI_STATUS_DIR", &reports);
        // What launchers and observers leave when they are killed is removed with it, and what MPI
        // always leaves when it has no launcher.
        command.env("TMPDIR", &folder).env("XDG_RUNTIME_DIR", &folder);
        command.env("OMPI_MCA_btl_sm_backing_directory", &memory);
        command.env("FAMPI_SPARES", self.spares.to_string()).env("UCX_MEM_EVENTS", "n");
        let state = folder.with_extension("state");
        if own_launcher().is_some() {
            // Where it writes which jobs there are.
            command.env("XDG_STATE_HOME", &state);
            if self.surviving {
                command.envs(surviving_variables());
            }
        } else {
            command.env("LD_PRELOAD", mender());
        }
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let begun = Instant::now();
        let mut child = command.spawn().expect("the command `timeout` of the system");
        let output = read(child.stdout.take().expect("it is piped"), usize::MAX);
        let errors = read(child.stderr.take().expect("it is piped"), KEPT_ERROR_BYTES);
        let status = self.wait(&mut child, &mark);
        let took = begun.elapsed();
        let mut left = outliving(&mark);
        end_what_is_left(&mark);
        let [output, errors] = [output, errors].map(|text| text.join().expect("a reader"));
        let (processes, orderly) = count(&reports);
        let _ = fs::remove_dir_all(&reports);
        left.extend([&folder, &memory].into_iter().flat_map(|folder| files_below(folder)));
        let _ = fs::remove_dir_all(&folder);
        let _ = fs::remove_dir_all(&memory);
        let _ = fs::remove_dir_all(&state);
        let signal = status.signal().map(|signal| 128 + signal);
        let status = match status.code().or(signal).unwrap_or(1) {
            // `timeout` had to become rude.
            137 if took >= Duration::from_secs(self.limit_seconds.into()) => 124,
            status => status,
        };
        let line = self.line(&words);
        let (output, errors) = (output.replace(STRAY, ""), quiet(&errors));
        Run { line, status, output, errors, processes, orderly, left, took }
    }

    /// Waits for the end. The launcher of Open MPI 5 sometimes locks itself up when its ranks have
    /// all ended, one of them with another status than 0: then it is ended here, as `fampi run`
    /// does it. A rank that hangs is not helped by this.
    fn wait(&self, child: &mut Child, mark: &str) -> ExitStatus {
        let entry = format!("{MARK}={mark}");
        let (mut looked, mut alone) = (Instant::now(), None);
        loop {
            if let Some(status) = child.try_wait().expect("our child") {
                return status;
            }
            thread::sleep(Duration::from_millis(5));
            if self.alone || own_launcher().is_some() || looked.elapsed() < Duration::from_secs(1) {
                continue;
            }
            looked = Instant::now();
            // The watch over the time limit, and the launcher.
            let is_alone = marked(entry.as_bytes()).len() <= 2;
            alone = alone.filter(|_| is_alone).or(is_alone.then(Instant::now));
            if alone.is_some_and(|since: Instant| since.elapsed() >= ALONE) {
                end_what_is_left(mark);
                return child.wait().expect("our child");
            }
        }
    }

    fn command_line(&self) -> Vec<String> {
        let mut words = Vec::new();
        let processes = (self.ranks + self.spares).to_string();
        if let (false, Some(own)) = (self.alone, own_launcher()) {
            let prefix = launcher().ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default();
            let limit = self.limit_seconds.to_string();
            let own = [&own, Path::new("launch"), Path::new("--mpi"), &prefix];
            words.extend(own.map(|word| word.to_string_lossy().into_owned()));
            if prefix.join("bin/ompi_info").exists() {
                words.extend(["--preload".to_owned(), mender().to_string_lossy().into_owned()]);
            } else {
                words.extend(["--language", "pmi"].map(str::to_owned));
            }
            words.extend(["-n", &processes, "--limit", &limit, "--"].map(str::to_owned));
        } else if !self.alone {
            words.push(launcher().to_string_lossy().into_owned());
            if self.surviving {
                words.extend(SURVIVING.split_whitespace().map(str::to_owned));
            }
            if self.ignoring_statuses {
                let flag = "--prtemca state_base_error_non_zero_exit 0";
                words.extend(flag.split_whitespace().map(str::to_owned));
            }
            words.extend(["--oversubscribe", "-n", &processes].map(str::to_owned));
        }
        words.push(self.program.to_string_lossy().into_owned());
        words.extend(self.arguments.iter().cloned());
        words
    }

    fn line(&self, words: &[String]) -> String {
        let mut line = String::new();
        for (name, value) in &self.environment {
            let _ = write!(line, "{name}={value} ");
        }
        if self.spares > 0 {
            let _ = write!(line, "FAMPI_SPARES={} ", self.spares);
        }
        line + &words.join(" ")
    }
}

impl Run {
    /// The lines of standard output, in an order that does not depend on chance.
    pub fn sorted_lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.output.lines().collect();
        lines.sort_unstable();
        lines
    }

    /// Makes sure that all went well, with this many processes that ended in order.
    #[track_caller]
    pub fn expect_orderly(&self, processes: usize) -> &Self {
        assert_eq!(self.status, 0, "{self}");
        assert_eq!(self.orderly, processes, "processes that ended in order: {self}");
        self
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, status, output, errors, processes, orderly, left, took } = self;
        write!(
            f,
            "{line}\nstatus {status} after {took:?}, {orderly} of {processes} processes ended in \
             order, left over: {left:?}\n--- output\n{output}\n--- errors\n{errors}"
        )
    }
}

/// What `fampi setup` has made for the launcher, which it mends.
fn mender() -> PathBuf {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut made = above.map(|folder| folder.join("target/libfampi_prterun.so"));
    let found = made.find(|path| path.is_file());
    found.expect("nothing mends the launcher in the tests: run `cargo fampi setup`")
}

/// What Open MPI's launcher tells its ranks by [`SURVIVING`].
fn surviving_variables() -> Vec<(String, String)> {
    let words: Vec<&str> = SURVIVING.split_whitespace().collect();
    let named = |at: usize| (format!("OMPI_MCA_{}", words[at + 1]), words[at + 2].to_owned());
    let given = (0..words.len()).filter(|at| words[*at] == "--mca").map(named);
    given.chain([("OMPI_MCA_mpi_ft_enable".to_owned(), "1".to_owned())]).collect()
}

/// The launcher of our own, if it is to be used.
fn own_launcher() -> Option<PathBuf> {
    env::var_os(OWN_LAUNCHER).map(PathBuf::from)
}

/// The launcher of the MPI that this was built with.
pub fn launcher() -> PathBuf {
    let compiler = env::var_os("MPICC").map(PathBuf::from);
    let beside = compiler.and_then(|path| Some(path.parent()?.join("mpirun")));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let set_up = here.ancestors().map(|folder| folder.join("target/mpi/bin/mpirun"));
    beside
        .into_iter()
        .chain(set_up)
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("no MPI is set up for the tests: run `cargo fampi setup`"))
}

/// Reads to the end, whatever comes, and keeps the beginning.
fn read(mut from: impl Read + Send + 'static, keep: usize) -> JoinHandle<String> {
    thread::spawn(move || {
        let (mut kept, mut part) = (Vec::new(), [0; 8192]);
        while let Ok(count @ 1..) = from.read(&mut part) {
            let room = keep.saturating_sub(kept.len()).min(count);
            kept.extend_from_slice(&part[..room]);
        }
        String::from_utf8_lossy(&kept).into_owned()
    })
}

/// What MPI says of a collective that was ended, and ends the line of in a second write: now and
/// then the launcher puts the first one before what a rank says.
const STRAY: &str = "Error in NBC_Start_round() (-1)";

/// Without what MPI and its launcher say of any death.
fn quiet(errors: &str) -> String {
    let lines = errors
        .lines()
        .filter(|line| !(line.trim().is_empty() || line.starts_with("NBC_Progress: an error ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// The processes of a launch that are there although its launcher ended a moment ago.
fn outliving(mark: &str) -> Vec<String> {
    let (entry, begun) = (format!("{MARK}={mark}"), Instant::now());
    loop {
        let left = marked(entry.as_bytes());
        if left.is_empty() || begun.elapsed() >= MOMENT {
            let name = |process: String| {
                let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
                format!("process {process} ({})", name.trim())
            };
            return left.into_iter().map(name).collect();
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// All files below a folder, whose own folders are not listed.
fn files_below(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.flat_map(|entry| {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder { files_below(&path) } else { vec![path.display().to_string()] }
    });
    files.collect()
}

/// Ends the processes of a launch that outlived it, each by its own number.
fn end_what_is_left(mark: &str) {
    let entry = format!("{MARK}={mark}");
    for _ in 0..500 {
        let left = marked(entry.as_bytes());
        if left.is_empty() {
            return;
        }
        for process in &left {
            let kill = ["-KILL", process];
            let _ = Command::new("kill").args(kill).stderr(Stdio::null()).status();
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn marked(entry: &[u8]) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = processes.filter_map(|process| process.file_name().into_string().ok());
    names
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|name| {
            let environment = fs::read(format!("/proc/{name}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == entry)
        })
        .collect()
}

/// How many processes reported, and how many of them ended in order.
fn count(reports: &Path) -> (usize, usize) {
    let (mut processes, mut orderly) = (0, 0);
    for file in fs::read_dir(reports).into_iter().flatten().flatten() {
        let path = file.path();
        if path.extension() == Some(OsStr::new("new")) {
            continue;
        }
        processes += 1;
        let text = fs::read_to_string(path).unwrap_or_default();
        orderly += usize::from(matches!(text.trim(), "ok" | "unused"));
    }
    (processes, orderly)
}
