//! The server of a node: what the launcher asks of the library.

use std::ffi::{CStr, c_char, c_void};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::Process;
use crate::error::Error;
use crate::infos::{Array, Info, Value, c_text, check, key, raw};
use crate::library::Library;
use crate::raw::{ERR_PROC_TERM_WO_SYNC, OPERATION_SUCCEEDED, RANGE_LOCAL, SUCCESS, Status};
use crate::requests::Request;
use crate::upcalls::{QUEUE, Queue, modex_ready, module};

/// The server of this node.
#[derive(Debug)]
pub struct Server {
    library: &'static Library,
    queue: &'static Queue,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.version())
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Queue")
    }
}

/// What the library says at the end of something that is waited for.
#[derive(Default)]
struct Done {
    status: Mutex<Option<Status>>,
    changed: Condvar,
}

unsafe extern "C" fn done(status: Status, waiting: *mut c_void) {
    // SAFETY: `Server::wait` made it from an `Arc`, and this is called once.
    let waiting = unsafe { Arc::from_raw(waiting.cast_const().cast::<Done>()) };
    *waiting.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    waiting.changed.notify_all();
}

/// The event has been passed on.
unsafe extern "C" fn told(_: Status, infos: *mut c_void) {
    // SAFETY: `Server::tell_deaths` made it from a box, and this is called once.
    drop(unsafe { Box::from_raw(infos.cast::<Array>()) });
}

impl Server {
    /// Starts the server of the MPI at this prefix, once in a process.
    pub fn start(prefix: &Path, settings: &[Info]) -> Result<Self, Error> {
        let library = Library::open(prefix)?;
        let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        if QUEUE.set(Queue::new(signal)).is_err() {
            return Err(Error::Twice);
        }
        let queue = QUEUE.get().ok_or(Error::Twice)?;
        let server = Self { library, queue };
        let settings = server.array("start", settings)?;
        // The library keeps the table's functions, not the table.
        let table = Box::leak(Box::new(module()));
        // SAFETY: the table and the settings are what the library expects.
        let status = unsafe { (library.init)(table, settings.infos(), settings.len()) };
        server.judge("start", status)?;
        Ok(server)
    }

    /// What the library says it is.
    pub fn version(&self) -> String {
        self.library.version()
    }

    /// The oldest request that was not taken yet. To be called until there is none each time that
    /// the descriptor is readable.
    pub fn next(&self) -> Option<Request> {
        if let Some(request) = self.queue.pop() {
            return Some(request);
        }
        // What comes after this reading signals again.
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.queue.signal, &mut count);
        self.queue.pop()
    }

    /// Makes a namespace known, of which so many processes will be on this node.
    pub fn register_namespace(&self, name: &str, here: u32, infos: &[Info]) -> Result<(), Error> {
        let what = "register a namespace";
        let array = self.array(what, infos)?;
        let name = c_text(name);
        self.wait(what, |handle| {
            // SAFETY: a text, an array that lives until the end, and what `done` expects.
            unsafe {
                let call = self.library.register_namespace;
                call(
                    name.as_ptr(),
                    here.cast_signed(),
                    array.infos(),
                    array.len(),
                    Some(done),
                    handle,
                )
            }
        })
    }

    /// Expects a process of this user on this node.
    pub fn register_client(&self, process: &Process) -> Result<(), Error> {
        let (process, server) = (raw(process), ptr::null_mut());
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        self.wait("register a process", |handle| {
            // SAFETY: a process that lives until the end, and what `done` expects.
            unsafe {
                let call = self.library.register_client;
                call(&raw const process, user, group, server, Some(done), handle)
            }
        })
    }

    /// The variables by which a process finds this server.
    pub fn environment(&self, process: &Process) -> Result<Vec<(String, String)>, Error> {
        let process = raw(process);
        let mut list: *mut *mut c_char = ptr::null_mut();
        // SAFETY: a process, and an empty list that the library extends.
        let status = unsafe { (self.library.setup_fork)(&raw const process, &raw mut list) };
        let mut found = Vec::new();
        let mut at = list;
        while !at.is_null() {
            // SAFETY: the list ends with null, where this stops.
            let text = unsafe { *at };
            if text.is_null() {
                break;
            }
            // SAFETY: texts of the library end with a zero.
            let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
            found.extend(text.split_once('=').map(|(name, it)| (name.into(), it.into())));
            // SAFETY: this one was not the null, so there is a next one.
            at = unsafe { at.add(1) };
        }
        // SAFETY: the library has allocated the list for us; it takes null.
        unsafe { (self.library.free_texts)(list) };
        self.judge("prepare a process", status)?;
        Ok(found)
    }

    /// Tells the ranks of this node, in one event, that these processes are dead.
    pub fn tell_deaths(&self, processes: &[Process]) -> Result<(), Error> {
        let Some(first) = processes.first() else { return Ok(()) };
        let affected = |it: &Process| Info::new(key::AFFECTED, Value::Process(it.clone()));
        let mut infos: Vec<Info> = processes.iter().map(affected).collect();
        infos.push(Info::new(key::DO_NOT_CACHE, Value::Flag(true)));
        let array = Box::new(self.array("tell of a death", &infos)?);
        let (source, start, size) = (raw(first), array.infos(), array.len());
        let kept: *mut c_void = Box::into_raw(array).cast();
        // SAFETY: a process and an array that live until `told`, which expects it.
        let status = unsafe {
            let (call, code) = (self.library.notify, ERR_PROC_TERM_WO_SYNC);
            call(code, &raw const source, RANGE_LOCAL, start, size, Some(told), kept)
        };
        if status != SUCCESS {
            // It will not call back.
            // SAFETY: made above from a box.
            drop(unsafe { Box::from_raw(kept.cast::<Array>()) });
        }
        self.judge("tell of a death", status)
    }

    /// Asks for what a process of this node has to say: [`Request::ModexReady`] with this number.
    pub fn request_modex(&self, process: &Process, number: u64) -> Result<(), Error> {
        let process = raw(process);
        let number = number as usize as *mut c_void;
        // SAFETY: the library copies the process, and gives the number back untouched.
        let status =
            unsafe { (self.library.request_modex)(&raw const process, Some(modex_ready), number) };
        self.judge("ask a process for its data", status)
    }

    fn array(&self, what: &'static str, infos: &[Info]) -> Result<Array, Error> {
        Array::new(self.library, infos).map_err(|status| self.refused(what, status))
    }

    /// Starts something and waits for its end, which comes from the library's thread.
    fn wait(
        &self,
        what: &'static str,
        start: impl FnOnce(*mut c_void) -> Status,
    ) -> Result<(), Error> {
        let waiting = Arc::new(Done::default());
        let handle = Arc::into_raw(Arc::clone(&waiting));
        let status = start(handle.cast_mut().cast());
        if status != SUCCESS {
            // It will not call back.
            // SAFETY: made above from an `Arc`.
            drop(unsafe { Arc::from_raw(handle) });
            return self.judge(what, status);
        }
        let mut status = waiting.status.lock().unwrap_or_else(PoisonError::into_inner);
        while status.is_none() {
            status = waiting.changed.wait(status).unwrap_or_else(PoisonError::into_inner);
        }
        self.judge(what, status.unwrap_or(SUCCESS))
    }

    fn judge(&self, what: &'static str, status: Status) -> Result<(), Error> {
        let fine = status == OPERATION_SUCCEEDED || check(status).is_ok();
        if fine { Ok(()) } else { Err(self.refused(what, status)) }
    }

    fn refused(&self, what: &'static str, status: Status) -> Error {
        Error::Refused { what, reason: self.library.sentence(status) }
    }
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.signal.as_fd()
    }
}
