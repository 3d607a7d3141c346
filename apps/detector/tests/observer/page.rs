//! What processes of the tests show of their progress, rightly or not.

use std::{
    fs::{self, File},
    os::{fd::OwnedFd, unix::fs::FileExt as _},
    thread,
    time::Duration,
};

use fampi_detector::protocol::pulse::{
    AT_REST, AT_WORK, BEATS, COMMITS, LEFT, STATE, THREAD, WORDS,
};
use rustix::fs::{MemfdFlags, SealFlags};

/// As ranks do it.
pub(crate) const RIGHT: &str = "right";
const WORD: u64 = 8;
const RIGHT_BYTES: u64 = WORDS as u64 * WORD;

/// The descriptors that are handed over. Whoever believed a wrong one would see one beat for ever,
/// of a process at work.
pub(crate) fn made(what: &str) -> Vec<OwnedFd> {
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let right = || {
        let memory = memory(RIGHT_BYTES, all);
        let thread = fs::read_link("/proc/thread-self").expect("Linux");
        let thread = thread.file_name().and_then(|name| name.to_str()?.parse().ok());
        write(&memory, THREAD, thread.expect("a number"));
        memory
    };
    let beating = |memory: OwnedFd| {
        write(&memory, BEATS, 1);
        write(&memory, STATE, AT_WORK);
        memory
    };
    match what {
        RIGHT => vec![right()],
        "several" => vec![right(), beating(right()), beating(right()), beating(right())],
        "none" => Vec::new(),
        "short" => vec![beating(memory(RIGHT_BYTES - 1, all))],
        "long" => vec![beating(memory(RIGHT_BYTES + 1, all))],
        "shrinking" => vec![beating(memory(RIGHT_BYTES, SealFlags::GROW))],
        "unsealed" => vec![beating(memory(RIGHT_BYTES, SealFlags::empty()))],
        "pipe" => vec![OwnedFd::from(std::io::pipe().expect("a pipe").0)],
        "file" => {
            let file = tempfile::tempfile().expect("a file");
            file.set_len(RIGHT_BYTES).expect("ours");
            vec![beating(OwnedFd::from(file))]
        }
        "null" => vec![OwnedFd::from(File::open("/dev/null").expect("a device"))],
        "folder" => vec![OwnedFd::from(File::open("/proc/self").expect("a folder"))],
        other => panic!("no page is called {other:?}"),
    }
}

fn memory(bytes: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("page", flags).expect("memory");
    rustix::fs::ftruncate(&memory, bytes).expect("ours");
    rustix::fs::fcntl_add_seals(&memory, seals).expect("ours");
    memory
}

fn write(memory: &OwnedFd, word: usize, value: u64) {
    let file = File::from(memory.try_clone().expect("a descriptor"));
    file.write_all_at(&value.to_ne_bytes(), word as u64 * WORD).expect("ours");
}

/// Does with the first page what it is told; false if that is no such order.
pub(crate) fn obeys(pages: &[OwnedFd], order: &str) -> bool {
    let Some((order, word)) = order.split_once(' ') else { return false };
    let Some(page) = pages.first().filter(|_| order == "page") else { return false };
    match word {
        "beat" => write(page, BEATS, 1),
        "begin" => write(page, STATE, AT_WORK),
        "rest" => write(page, STATE, AT_REST),
        "leave" => write(page, STATE, LEFT),
        "spin" => {
            write(page, STATE, AT_WORK);
            loop {
                std::hint::spin_loop();
            }
        }
        // Milliseconds between beats, or commits, for ever.
        word => {
            let (counter, period) = match word.strip_prefix("commit ") {
                Some(period) => (COMMITS, period),
                None => (BEATS, word),
            };
            let period = Duration::from_millis(period.parse().expect("a number"));
            write(page, STATE, AT_WORK);
            for beat in 1.. {
                write(page, BEATS, beat);
                write(page, counter, beat);
                thread::sleep(period);
            }
        }
    }
    true
}
