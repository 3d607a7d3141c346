//! Keys and values that go to the library, and those that come from it.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use crate::Process;
use crate::library::Library;
use crate::raw::{
    BOOL, DATA_ARRAY, DataArray, Info as RawInfo, Kind, NAMESPACE_BYTES, PROC, PROC_RANK, Proc,
    REGEX, STRING, SUCCESS, Status, UINT16, UINT32,
};

/// Keys of the standard. Units and types are those of the [`Value`] in brackets.
#[expect(missing_docs, reason = "they have the names of the standard")]
pub mod key {
    pub const APPLICATION: &str = "pmix.app.arr";
    pub const APPLICATION_LEADER: &str = "pmix.aldr";
    pub const APPLICATION_NUMBER: &str = "pmix.appnum";
    pub const APPLICATION_RANK: &str = "pmix.apprank";
    pub const APPLICATION_SIZE: &str = "pmix.app.size";
    pub const ARGUMENTS: &str = "pmix.app.argv";
    pub const FOLDER: &str = "pmix.wdir";
    pub const GLOBAL_RANK: &str = "pmix.grank";
    pub const HOST: &str = "pmix.host";
    pub const HOST_NAME: &str = "pmix.hname";
    pub const JOB: &str = "pmix.jobid";
    pub const JOB_APPLICATIONS: &str = "pmix.job.napps";
    pub const JOB_SIZE: &str = "pmix.job.size";
    pub const LOCAL_LEADER: &str = "pmix.lldr";
    pub const LOCAL_PEERS: &str = "pmix.lpeers";
    pub const LOCAL_RANK: &str = "pmix.lrank";
    pub const LOCAL_SIZE: &str = "pmix.local.size";
    pub const MAX_PROCESSES: &str = "pmix.max.size";
    pub const NODE: &str = "pmix.node.arr";
    pub const NODE_ID: &str = "pmix.nodeid";
    pub const NODE_MAP: &str = "pmix.nmap";
    pub const NODE_RANK: &str = "pmix.nrank";
    pub const NODE_SIZE: &str = "pmix.node.size";
    pub const NODES: &str = "pmix.num.nodes";
    pub const OVERSUBSCRIBED: &str = "pmix.ndosub";
    pub const PARENT: &str = "pmix.parent";
    pub const PERSISTENCE: &str = "pmix.persist";
    pub const PROCESS: &str = "pmix.pdata";
    pub const PROCESS_FOLDER: &str = "pmix.pdir";
    pub const PROCESS_MAP: &str = "pmix.pmap";
    pub const RANK: &str = "pmix.rank";
    pub const NAMESPACE_FOLDER: &str = "pmix.nsdir";
    pub const SERVER_NAMESPACE: &str = "pmix.srv.nspace";
    pub const SERVER_RANK: &str = "pmix.srv.rank";
    pub const SERVER_FOLDER: &str = "pmix.srvr.tmpdir";
    pub const SERVER_TOOLS: &str = "pmix.srvr.tool";
    pub const SESSION_FOLDER: &str = "pmix.tmpdir";
    pub const SPAWNED: &str = "pmix.spawned";
    pub const SYSTEM_FOLDER: &str = "pmix.sys.tmpdir";
    pub const UNIVERSE_SIZE: &str = "pmix.univ.size";
    pub const WAIT: &str = "pmix.wait";
    pub(crate) const AFFECTED: &str = "pmix.evproc";
    pub(crate) const DO_NOT_CACHE: &str = "pmix.evnocache";
}

/// What stands under a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A text.
    Text(String),
    /// A small number.
    Small(u16),
    /// A number.
    Number(u32),
    /// The number of a process.
    Rank(u32),
    /// A process.
    Process(Process),
    /// Names of nodes, separated by commas.
    Nodes(String),
    /// Ranks of each node: `0,1;2,3`.
    Processes(String),
    /// A list of its own.
    Infos(Vec<Info>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    key: &'static str,
    value: Value,
}

impl Info {
    /// This value under this key.
    pub const fn new(key: &'static str, value: Value) -> Self {
        Self { key, value }
    }

    /// A text.
    pub fn text(key: &'static str, text: impl Into<String>) -> Self {
        Self::new(key, Value::Text(text.into()))
    }

    /// A number.
    pub const fn number(key: &'static str, number: u32) -> Self {
        Self::new(key, Value::Number(number))
    }
}

/// A process in the library's form.
pub(crate) fn raw(process: &Process) -> Proc {
    let mut raw = Proc { namespace: [0; NAMESPACE_BYTES], rank: process.rank };
    let bytes = process.namespace.bytes().take(NAMESPACE_BYTES - 1);
    raw.namespace.iter_mut().zip(bytes).for_each(|(to, from)| *to = from as c_char);
    raw
}

/// A text of the library's that has a fixed size, up to its first zero.
pub(crate) fn fixed_text(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().take_while(|byte| **byte != 0).map(|b| *b as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Keys and values in the library's memory; given back when dropped.
pub(crate) struct Array {
    library: &'static Library,
    raw: DataArray,
}

// SAFETY: it is memory that belongs to this value alone, and no thread's.
unsafe impl Send for Array {}

impl Array {
    pub(crate) fn new(library: &'static Library, infos: &[Info]) -> Result<Self, Status> {
        // SAFETY: it takes nothing.
        let list = unsafe { (library.list_start)() };
        let added = infos.iter().try_for_each(|info| add(library, list, info));
        let mut array =
            Self { library, raw: DataArray { kind: 0, size: 0, array: ptr::null_mut() } };
        let done = added.and_then(|()| {
            // SAFETY: the list was started above; the array is ours to fill.
            check(unsafe { (library.list_convert)(list, &raw mut array.raw) })
        });
        // SAFETY: the list was started above, and what was converted is a copy.
        unsafe { (library.list_release)(list) };
        done.map(|()| array)
    }

    pub(crate) fn infos(&self) -> *mut RawInfo {
        self.raw.array.cast()
    }

    pub(crate) fn len(&self) -> usize {
        self.raw.size
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        // SAFETY: filled by the library, or empty; used no more.
        unsafe { (self.library.destruct_array)(&raw mut self.raw) };
    }
}

pub(crate) fn check(status: Status) -> Result<(), Status> {
    if status == SUCCESS { Ok(()) } else { Err(status) }
}

/// Adds a copy of this to a list of the library.
fn add(library: &'static Library, list: *mut c_void, info: &Info) -> Result<(), Status> {
    let key = c_text(info.key);
    let put = |value: *const c_void, kind: Kind| {
        // SAFETY: the list is live, the key ends with a zero, and the value has the type that the
        // kind names; the library copies both.
        check(unsafe { (library.list_add)(list, key.as_ptr(), value, kind) })
    };
    match &info.value {
        Value::Flag(flag) => put(ptr::from_ref(flag).cast(), BOOL),
        Value::Text(text) => put(c_text(text).as_ptr().cast(), STRING),
        Value::Small(number) => put(ptr::from_ref(number).cast(), UINT16),
        Value::Number(number) => put(ptr::from_ref(number).cast(), UINT32),
        Value::Rank(rank) => put(ptr::from_ref(rank).cast(), PROC_RANK),
        Value::Process(process) => put(ptr::from_ref(&raw(process)).cast(), PROC),
        Value::Nodes(nodes) => put(pattern(library.generate_nodes, nodes)?.0.cast(), REGEX),
        Value::Processes(map) => put(pattern(library.generate_processes, map)?.0.cast(), REGEX),
        Value::Infos(infos) => {
            let array = Array::new(library, infos)?;
            put((&raw const array.raw).cast(), DATA_ARRAY)
        }
    }
}

/// A text for the library; without what follows a zero byte in it.
pub(crate) fn c_text(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().take_while(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// A pattern that the library has made; given back when dropped.
struct Pattern(*mut c_char);

impl Drop for Pattern {
    fn drop(&mut self) {
        // SAFETY: the library has allocated it for us.
        unsafe { libc::free(self.0.cast()) };
    }
}

fn pattern(
    make: unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> Status,
    of: &str,
) -> Result<Pattern, Status> {
    let mut made = Pattern(ptr::null_mut());
    let text = c_text(of);
    // SAFETY: the text ends with a zero, and the result is a variable of ours.
    check(unsafe { make(text.as_ptr(), &raw mut made.0) })?;
    Ok(made)
}
