//! The functions that the library calls, on a thread of its own: each copies what it is given into
//! a [`Request`], queues that, and returns at once.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::OwnedFd;
use std::slice;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::Process;
use crate::infos::{fixed_text, key};
use crate::library::{Library, text_of};
use crate::raw::{
    App, ENVAR, ERROR, INT, Info, LookupCallback, ModexCallback, Module, OPERATION_SUCCEEDED,
    OpCallback, PERSIST, Proc, STRING, SUCCESS, SpawnCallback, Status, UNTIL_FIRST_READ, Value,
};
use crate::requests::{
    Answer, Detail, Handle, LookupAnswer, ModexAnswer, Program, Request, SpawnAnswer, bytes_of,
    failure_of, pack,
};

/// What was asked and not taken yet.
pub(crate) struct Queue {
    requests: Mutex<VecDeque<Request>>,
    /// Readable while there may be some.
    pub(crate) signal: OwnedFd,
}

pub(crate) static QUEUE: OnceLock<Queue> = OnceLock::new();

impl Queue {
    pub(crate) fn new(signal: OwnedFd) -> Self {
        Self { requests: Mutex::default(), signal }
    }

    fn push(&self, request: Request) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push_back(request);
        // A full counter is readable already.
        let _ = rustix::io::write(&self.signal, &1_u64.to_ne_bytes());
    }

    pub(crate) fn pop(&self) -> Option<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Queues a request; the library calls only after the server was started.
fn push(request: Request) -> Status {
    QUEUE.get().map_or(ERROR, |queue| {
        queue.push(request);
        SUCCESS
    })
}

/// The table of these functions.
pub(crate) fn module() -> Module {
    Module {
        client_connected: None,
        client_finalized: Some(finalized),
        abort: Some(abort),
        fence: Some(fence),
        direct_modex: Some(modex),
        publish: Some(publish),
        lookup: Some(lookup),
        unpublish: Some(unpublish),
        spawn: Some(spawn),
        connect: Some(connect),
        disconnect: Some(disconnect),
        register_events: Some(events),
        deregister_events: Some(no_events),
        listener: 0,
        notify_event: Some(notify),
        not_supported: [0; 12],
        client_connected2: Some(connected),
        room: [0; 36],
    }
}

fn process(raw: &Proc) -> Process {
    Process { namespace: fixed_text(&raw.namespace), rank: raw.rank }
}

/// The elements of an array of the library.
///
/// # Safety
///
/// There are so many, or none, for as long as the result is used.
unsafe fn list<'a, T>(start: *const T, size: usize) -> &'a [T] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: the caller says so.
    unsafe { slice::from_raw_parts(start, size) }
}

/// # Safety
///
/// As that of [`list`].
unsafe fn processes(start: *const Proc, size: usize) -> Vec<Process> {
    // SAFETY: the caller says so.
    unsafe { list(start, size) }.iter().map(process).collect()
}

/// # Safety
///
/// A list of texts that ends with null, or none.
unsafe fn texts(mut at: *const *mut c_char) -> Vec<String> {
    let mut found = Vec::new();
    while !at.is_null() {
        // SAFETY: the list goes on to its null.
        let text = unsafe { *at };
        if text.is_null() {
            break;
        }
        found.push(text_of(text));
        // SAFETY: this one was not the null, so there is a next one.
        at = unsafe { at.add(1) };
    }
    found
}

/// The one process that an upcall is about.
///
/// # Safety
///
/// It points to one, for the time of the upcall.
unsafe fn one(raw: *const Proc) -> Process {
    // SAFETY: the caller says so.
    process(unsafe { &*raw })
}

unsafe extern "C" fn connected(
    who: *const Proc,
    _: *mut c_void,
    _: *mut Info,
    _: usize,
    _: OpCallback,
    _: *mut c_void,
) -> Status {
    // SAFETY: the library names a process.
    push(Request::Connected(unsafe { one(who) }));
    OPERATION_SUCCEEDED
}

unsafe extern "C" fn finalized(
    who: *const Proc,
    _: *mut c_void,
    _: OpCallback,
    _: *mut c_void,
) -> Status {
    // SAFETY: the library names a process.
    push(Request::Finalized(unsafe { one(who) }));
    OPERATION_SUCCEEDED
}

unsafe extern "C" fn abort(
    who: *const Proc,
    _: *mut c_void,
    status: c_int,
    message: *const c_char,
    _: *mut Proc,
    _: usize,
    _: OpCallback,
    _: *mut c_void,
) -> Status {
    // SAFETY: the library names a process.
    let who = unsafe { one(who) };
    push(Request::Abort(who, status, text_of(message)));
    OPERATION_SUCCEEDED
}

unsafe extern "C" fn fence(
    who: *const Proc,
    size: usize,
    _: *const Info,
    _: usize,
    data: *mut c_char,
    bytes: usize,
    callback: ModexCallback,
    handle: *mut c_void,
) -> Status {
    // SAFETY: the library says how many there are.
    let who = unsafe { processes(who, size) };
    // SAFETY: likewise.
    let said = unsafe { bytes_of(data, bytes) };
    if !data.is_null() {
        // SAFETY: the library has allocated the data for its host, which has to free them.
        unsafe { libc::free(data.cast()) };
    }
    push(Request::Fence(who, said, ModexAnswer(callback, Handle(handle))))
}

unsafe extern "C" fn connect(
    who: *const Proc,
    size: usize,
    _: *const Info,
    _: usize,
    callback: OpCallback,
    handle: *mut c_void,
) -> Status {
    // SAFETY: the library says how many there are.
    let who = unsafe { processes(who, size) };
    push(Request::Connect(who, Answer(callback, Handle(handle))))
}

unsafe extern "C" fn disconnect(
    who: *const Proc,
    size: usize,
    _: *const Info,
    _: usize,
    callback: OpCallback,
    handle: *mut c_void,
) -> Status {
    // SAFETY: the library says how many there are.
    let who = unsafe { processes(who, size) };
    push(Request::Disconnect(who, Answer(callback, Handle(handle))))
}

unsafe extern "C" fn modex(
    of: *const Proc,
    _: *const Info,
    _: usize,
    callback: ModexCallback,
    handle: *mut c_void,
) -> Status {
    // SAFETY: the library names a process.
    let of = unsafe { one(of) };
    push(Request::Modex(of, ModexAnswer(callback, Handle(handle))))
}

/// What the library found out for another node.
pub(crate) unsafe extern "C" fn modex_ready(
    status: Status,
    data: *mut c_char,
    size: usize,
    number: *mut c_void,
) {
    // SAFETY: the library says how many bytes there are, and keeps them.
    let said = unsafe { bytes_of(data, size) };
    let said = if status == SUCCESS { Ok(said) } else { Err(failure_of(status)) };
    push(Request::ModexReady(number as u64, said));
}

unsafe extern "C" fn publish(
    who: *const Proc,
    infos: *const Info,
    size: usize,
    callback: OpCallback,
    handle: *mut c_void,
) -> Status {
    // SAFETY: the library names a process.
    let who = unsafe { one(who) };
    // SAFETY: the library says how many there are.
    let infos = unsafe { list(infos, size) };
    let Some(library) = Library::opened() else { return ERROR };
    let (mut entries, mut once) = (Vec::new(), false);
    for info in infos {
        let name = fixed_text(&info.key);
        if name == key::PERSISTENCE {
            // SAFETY: a persistence is one byte.
            let small = unsafe { info.value.data.small };
            once = info.value.kind == PERSIST && small == UNTIL_FIRST_READ;
        }
        if !name.starts_with("pmix.") {
            entries.extend(pack(library, info));
        }
    }
    push(Request::Publish(who, entries, once, Answer(callback, Handle(handle))))
}

/// True when a flag, or a number of values to wait for, is set.
fn is_set(value: &Value) -> bool {
    // SAFETY: a number is four bytes.
    let number = unsafe { value.data.int };
    // SAFETY: a flag is one byte.
    let flag = unsafe { value.data.flag };
    // A number of zero says to wait for all.
    value.kind == INT && number >= 0 || flag != 0
}

unsafe extern "C" fn lookup(
    who: *const Proc,
    keys: *mut *mut c_char,
    infos: *const Info,
    size: usize,
    callback: LookupCallback,
    handle: *mut c_void,
) -> Status {
    // SAFETY: the library names a process.
    let who = unsafe { one(who) };
    // SAFETY: a list of texts that ends with null.
    let keys = unsafe { texts(keys) };
    // SAFETY: the library says how many there are.
    let infos = unsafe { list(infos, size) };
    let waits = infos.iter().any(|it| fixed_text(&it.key) == key::WAIT && is_set(&it.value));
    push(Request::Lookup(who, keys, waits, LookupAnswer(callback, Handle(handle))))
}

unsafe extern "C" fn unpublish(
    who: *const Proc,
    keys: *mut *mut c_char,
    _: *const Info,
    _: usize,
    callback: OpCallback,
    handle: *mut c_void,
) -> Status {
    // SAFETY: the library names a process.
    let who = unsafe { one(who) };
    // SAFETY: a list of texts that ends with null.
    let keys = unsafe { texts(keys) };
    push(Request::Unpublish(who, keys, Answer(callback, Handle(handle))))
}

fn detail(info: &Info) -> (String, Detail) {
    let value = match info.value.kind {
        // SAFETY: a text, as its kind says.
        STRING => Detail::Text(text_of(unsafe { info.value.data.text })),
        ENVAR => {
            // SAFETY: a variable, as its kind says.
            let variable = unsafe { info.value.data.envar };
            Detail::Variable(text_of(variable.name), text_of(variable.value))
        }
        _ => Detail::Other,
    };
    (fixed_text(&info.key), value)
}

/// # Safety
///
/// What it points to is what its fields say.
unsafe fn program(app: &App, for_all: &[(String, Detail)]) -> Program {
    // SAFETY: the caller says so.
    let infos = unsafe { list(app.infos, app.info_count) };
    let details = infos.iter().map(detail).chain(for_all.iter().cloned()).collect();
    let folder = Some(text_of(app.folder)).filter(|folder| !folder.is_empty());
    Program {
        command: text_of(app.command),
        // SAFETY: the caller says so.
        arguments: unsafe { texts(app.arguments) },
        // SAFETY: likewise.
        environment: unsafe { texts(app.environment) },
        folder,
        processes: app.processes.max(0).cast_unsigned(),
        details,
    }
}

unsafe extern "C" fn spawn(
    who: *const Proc,
    infos: *const Info,
    size: usize,
    apps: *const App,
    count: usize,
    callback: SpawnCallback,
    handle: *mut c_void,
) -> Status {
    // SAFETY: the library names a process.
    let who = unsafe { one(who) };
    // SAFETY: the library says how many there are.
    let infos = unsafe { list(infos, size) };
    // SAFETY: likewise.
    let apps = unsafe { list(apps, count) };
    let for_all: Vec<_> = infos.iter().map(detail).collect();
    // SAFETY: the library's programs are what they say.
    let programs = apps.iter().map(|app| unsafe { program(app, &for_all) }).collect();
    push(Request::Spawn(who, programs, SpawnAnswer(callback, Handle(handle))))
}

unsafe extern "C" fn events(
    _: *mut Status,
    _: usize,
    _: *const Info,
    _: usize,
    _: OpCallback,
    _: *mut c_void,
) -> Status {
    OPERATION_SUCCEEDED
}

unsafe extern "C" fn no_events(_: *mut Status, _: usize, _: OpCallback, _: *mut c_void) -> Status {
    OPERATION_SUCCEEDED
}

unsafe extern "C" fn notify(
    _: Status,
    _: *const Proc,
    _: u8,
    _: *mut Info,
    _: usize,
    _: OpCallback,
    _: *mut c_void,
) -> Status {
    OPERATION_SUCCEEDED
}
