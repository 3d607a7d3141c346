//! What lies in the file system is ours alone, or is not used.
//!
//! Whoever can write to a folder can put a socket of their own there, and whoever can read the plan
//! knows the secret. So the folder of the socket, and the file of the plan, belong to our user, and
//! others may do nothing with them.

use std::{
    fs::{self, Metadata},
    io::{self, Read as _},
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Mode, OFlags};

use crate::protocol::plan::Plan;

/// The most bytes of a plan.
const MAX_PLAN: u64 = 64 << 20;
/// A socket that is younger may be one at which its observer is about to listen.
const YOUNG: Duration = Duration::from_secs(60);

/// Reads a plan, and removes its file, which holds the secret.
pub fn take_plan(path: &Path) -> Result<Plan> {
    let shown = path.display();
    // Following a link, or waiting for a pipe, is not what a plan needs.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = fs::File::options().read(true).custom_flags(flags).open(path);
    let file = file.with_context(|| format!("cannot open the plan {shown}"))?;
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "the plan {shown} is not a file");
    ensure!(
        is_ours_alone(&metadata),
        "the plan {shown} holds a secret, and others may read it: make it yours, with mode 0600"
    );
    ensure!(metadata.len() <= MAX_PLAN, "the plan {shown} is too long");
    let mut text = String::new();
    file.take(MAX_PLAN)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {shown}"))?;
    fs::remove_file(path).with_context(|| format!("cannot remove the plan {shown}"))?;
    Plan::parse(&text).with_context(|| format!("{shown} is no plan"))
}

/// The path of a socket, which is removed in the end.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl SocketFile {
    /// Listens at this path.
    pub fn listen(path: &str) -> Result<(Self, UnixListener)> {
        let path = PathBuf::from(path);
        ensure!(path.is_absolute(), "the socket's path in the plan should begin with /");
        let folder = path.parent().context("the socket's path in the plan names no folder")?;
        let metadata = fs::symlink_metadata(folder)
            .with_context(|| format!("cannot look at the folder {}", folder.display()))?;
        ensure!(
            metadata.is_dir() && is_ours_alone(&metadata),
            "the folder {} is not yours alone: make it yours, with mode 0700",
            folder.display()
        );
        remove_dead_sockets(folder, YOUNG);
        let listener =
            bind(&path).with_context(|| format!("cannot listen at {}", path.display()))?;
        Ok((Self(path), listener))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Removes the sockets that observers of this user left in the folder when they were killed.
fn remove_dead_sockets(folder: &Path, young: Duration) {
    // A living observer counts connections that come to nothing, so that those known here, in this
    // network namespace, are not asked.
    let known = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let is_known = |path: &Path| {
        let name = path.as_os_str().to_string_lossy();
        known.lines().any(|line| line.ends_with(&*name))
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let metadata = entry.metadata().ok().filter(|it| it.file_type().is_socket());
        let age = metadata.and_then(|it| it.modified().ok()?.elapsed().ok());
        let path = entry.path();
        if age.is_some_and(|age| age >= young) && !is_known(&path) && is_dead(&path) {
            let _ = fs::remove_file(path);
        }
    }
}

/// True for a socket at which no process listens.
fn is_dead(socket: &Path) -> bool {
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    UnixStream::connect(socket).is_err_and(refused)
}

/// Binds, also where an observer that was killed has left its socket.
fn bind(path: &Path) -> Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_socket = fs::symlink_metadata(path)?.file_type().is_socket();
            if !is_socket || !is_dead(path) {
                bail!("an observer serves there already");
            }
            fs::remove_file(path)?;
            Ok(UnixListener::bind(path)?)
        }
        bound => Ok(bound?),
    }
}

fn is_ours_alone(metadata: &Metadata) -> bool {
    let others = Mode::RWXG | Mode::RWXO;
    metadata.uid() == rustix::process::geteuid().as_raw()
        && !Mode::from_raw_mode(metadata.mode()).intersects(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_at_which_nobody_listens_is_removed() {
        let folder = std::env::temp_dir().join(format!("fampi-place-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let at = |name: &str| folder.join(name);
        let served = UnixListener::bind(at("served.sock")).expect("a socket");
        drop(UnixListener::bind(at("killed.sock")).expect("a socket"));
        fs::write(at("plan"), "a file").expect("written");
        let left = |young| {
            remove_dead_sockets(&folder, young);
            ["served.sock", "killed.sock", "plan"].map(|name| at(name).exists())
        };
        let (early, late) = (left(YOUNG), left(Duration::ZERO));
        drop(served);
        fs::remove_dir_all(&folder).expect("removed");
        assert_eq!((early, late), ([true; 3], [true, false, true]));
    }
}
