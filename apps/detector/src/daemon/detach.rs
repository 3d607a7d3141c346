//! A process that is left behind: it leads its own session, and holds nothing of its caller's.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use super::PROGRAM;

/// What the process that is left behind says when processes can register.
const READY: &str = "ready";

/// Leaves an observer behind, and returns when it is ready.
///
/// Standard input is handed on: it may be the socket for packets ([`super::link`]).
pub fn leave_behind(plan: &Path) -> Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(PROGRAM).arg("--detached").arg("--plan").arg(plan);
    command.stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start this program a second time")?;
    let mut line = String::new();
    let said = child.stdout.take().map(|output| BufReader::new(output).read_line(&mut line));
    if line.trim_end() == READY {
        return Ok(());
    }
    let mut complaint = String::new();
    let _ = child.stderr.take().map(|mut errors| errors.read_to_string(&mut complaint));
    let status = child.wait().context("the observer is gone")?;
    said.transpose().context("cannot read from the observer")?;
    let complaint = complaint.trim_end();
    bail!("{}", complaint.strip_prefix("fampi-observer: ").unwrap_or(&format!("ended: {status}")));
}

/// Signals to the session of the caller are not for us. Who leads a session already stays there.
pub fn lead_own_session() {
    let _ = rustix::process::setsid();
}

/// Says that processes can register.
pub fn say_ready() -> Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{READY}").and_then(|()| output.flush()).context("nobody waits for us")
}

/// Lets go of all that was inherited.
pub fn let_go() -> Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null");
    let nothing = nothing.context("cannot open /dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(std::env::set_current_dir("/")?)
}
