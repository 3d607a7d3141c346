//! What ranks ask of their server, and the answers that it owes them.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use crate::infos::{c_text, fixed_text, raw};
use crate::library::Library;
use crate::raw::{
    ByteObject, DataBuffer, ERR_LOST_CONNECTION, ERR_NOT_FOUND, ERR_NOT_SUPPORTED, ERROR, INFO,
    Info as RawInfo, KEY_BYTES, LookupCallback, ModexCallback, OpCallback, Pdata, SUCCESS,
    SpawnCallback, Status,
};
use crate::{Failure, Process};

/// What a rank of this node, or the library itself, asks or says.
#[derive(Debug)]
pub enum Request {
    /// A process has found its server.
    Connected(Process),
    /// A process is done with MPI: its end will be in order.
    Finalized(Process),
    /// A process wants the job to end with this status.
    Abort(Process, i32, String),
    /// All processes of this node that take part are in a fence; their data go to all nodes, and
    /// those of all nodes are the answer.
    Fence(Vec<Process>, Vec<u8>, ModexAnswer),
    /// All of this node are in a connect.
    Connect(Vec<Process>, Answer),
    /// All of this node are in a disconnect.
    Disconnect(Vec<Process>, Answer),
    /// What this process of another node has to say is needed here.
    Modex(Process, ModexAnswer),
    /// What a process of this node had to say for another node, by the number of
    /// [`Server::request_modex`](crate::Server::request_modex).
    ModexReady(u64, Result<Vec<u8>, Failure>),
    /// A process publishes values: key, and value in the library's form. True: each is to be
    /// read once.
    Publish(Process, Vec<(String, Vec<u8>)>, bool, Answer),
    /// A process looks for values. True: it waits until they are there.
    Lookup(Process, Vec<String>, bool, LookupAnswer),
    /// A process takes back what it has published under these keys.
    Unpublish(Process, Vec<String>, Answer),
    /// A process starts new ones.
    Spawn(Process, Vec<Program>, SpawnAnswer),
}

/// A program that is to be started on several processes.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Program {
    /// The file.
    pub command: String,
    /// Its arguments, the first of which names it.
    pub arguments: Vec<String>,
    /// Variables that are added, as `NAME=value`.
    pub environment: Vec<String>,
    /// Where to start it, if that is said.
    pub folder: Option<String>,
    /// How many processes.
    pub processes: u32,
    /// Further wishes.
    pub details: Vec<(String, Detail)>,
}

/// The value of a wish.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Detail {
    /// A text.
    Text(String),
    /// A variable with its value.
    Variable(String, String),
    /// Of a type that is not looked at.
    Other,
}

/// A value that was found: who published it, its key, and its value in the library's form.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Found {
    /// Who published it.
    pub publisher: Process,
    /// Its key.
    pub key: String,
    /// Its value, as the library has packed it.
    pub packed: Vec<u8>,
}

/// What the library wants to see again with an answer.
#[derive(Debug)]
pub struct Handle(pub(crate) *mut c_void);

// SAFETY: it is never looked into; the library takes it back on any thread.
unsafe impl Send for Handle {}

/// The answer to a request that only succeeds or fails.
#[derive(Debug)]
#[must_use = "the rank waits for it"]
pub struct Answer(pub(crate) OpCallback, pub(crate) Handle);

/// The answer to a fence or a direct modex: bytes.
#[derive(Debug)]
#[must_use = "the rank waits for it"]
pub struct ModexAnswer(pub(crate) ModexCallback, pub(crate) Handle);

/// The answer to a lookup.
#[derive(Debug)]
#[must_use = "the rank waits for it"]
pub struct LookupAnswer(pub(crate) LookupCallback, pub(crate) Handle);

/// The answer to a spawn: the new namespace.
#[derive(Debug)]
#[must_use = "the rank waits for it"]
pub struct SpawnAnswer(pub(crate) SpawnCallback, pub(crate) Handle);

fn status_of<T>(result: &Result<T, Failure>) -> Status {
    match result {
        Ok(_) => SUCCESS,
        Err(Failure::NotFound) => ERR_NOT_FOUND,
        Err(Failure::LostConnection) => ERR_LOST_CONNECTION,
        Err(Failure::NotSupported) => ERR_NOT_SUPPORTED,
        Err(Failure::NotStarted) => ERROR,
    }
}

pub(crate) fn failure_of(status: Status) -> Failure {
    match status {
        ERR_NOT_FOUND => Failure::NotFound,
        ERR_NOT_SUPPORTED => Failure::NotSupported,
        _ => Failure::LostConnection,
    }
}

impl Answer {
    /// Answers. Not inside an upcall.
    pub fn give(self, result: &Result<(), Failure>) {
        let Some(callback) = self.0 else { return };
        // SAFETY: the library gave both for one answer, which consumes them.
        unsafe { callback(status_of(result), self.1.0) };
    }
}

/// Gives back bytes that an answer carried.
unsafe extern "C" fn release(bytes: *mut c_void) {
    // SAFETY: `ModexAnswer::give` made it from a box.
    drop(unsafe { Box::from_raw(bytes.cast::<Vec<u8>>()) });
}

impl ModexAnswer {
    /// Answers. Not inside an upcall.
    pub fn give(self, result: Result<Vec<u8>, Failure>) {
        let Some(callback) = self.0 else { return };
        let status = status_of(&result);
        let Ok(bytes) = result else {
            // SAFETY: the library gave both for one answer, which consumes them.
            unsafe { callback(status, ptr::null(), 0, self.1.0, None, ptr::null_mut()) };
            return;
        };
        let bytes = Box::new(bytes);
        let (start, size) = (bytes.as_ptr().cast::<c_char>(), bytes.len());
        let kept: *mut c_void = Box::into_raw(bytes).cast();
        // SAFETY: likewise; the bytes live until the library calls `release`.
        unsafe { callback(status, start, size, self.1.0, Some(release), kept) };
    }
}

impl LookupAnswer {
    /// Answers. Not inside an upcall.
    pub fn give(self, result: Result<Vec<Found>, Failure>) {
        let (Some(callback), Some(library)) = (self.0, Library::opened()) else { return };
        let found = result.and_then(|found| {
            let unpacked = found.iter().map(|it| Unpacked::of(library, it));
            unpacked.collect::<Option<Vec<_>>>().ok_or(Failure::NotFound)
        });
        let status = status_of(&found);
        let found = found.unwrap_or_default();
        let mut data: Vec<Pdata> = found.iter().map(|it| it.data).collect();
        // SAFETY: the library gave both for one answer, which consumes them; it copies the data.
        unsafe { callback(status, data.as_mut_ptr(), data.len(), self.1.0) };
    }
}

/// A value in the library's memory; given back when dropped.
struct Unpacked {
    library: &'static Library,
    info: Box<RawInfo>,
    data: Pdata,
}

impl Unpacked {
    fn of(library: &'static Library, found: &Found) -> Option<Self> {
        let mut buffer = Buffer::new(library);
        let bytes =
            ByteObject { bytes: found.packed.as_ptr().cast_mut().cast(), size: found.packed.len() };
        // SAFETY: a live buffer; it copies the bytes, which live here.
        if unsafe { (library.embed)(&raw mut buffer.raw, &raw const bytes) } != SUCCESS {
            return None;
        }
        // SAFETY: plain numbers and pointers, for which zero is a value.
        let mut info: Box<RawInfo> = Box::new(unsafe { std::mem::zeroed() });
        let mut count = 1;
        // SAFETY: a live buffer, and room for one key with its value.
        let status = unsafe {
            let to = (&raw mut *info).cast();
            (library.unpack)(ptr::null(), &raw mut buffer.raw, to, &raw mut count, INFO)
        };
        let mut key = [0; KEY_BYTES];
        let bytes = found.key.bytes().take(KEY_BYTES - 1);
        key.iter_mut().zip(bytes).for_each(|(to, from)| *to = from as c_char);
        let data = Pdata { process: raw(&found.publisher), key, value: info.value };
        (status == SUCCESS && count == 1).then_some(Self { library, info, data })
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        // SAFETY: filled by the library; `data`, which shares its memory, is used no more.
        unsafe { (self.library.destruct_info)(&raw mut *self.info) };
    }
}

/// A buffer of the library; given back when dropped.
struct Buffer {
    library: &'static Library,
    raw: DataBuffer,
}

impl Buffer {
    fn new(library: &'static Library) -> Self {
        let empty = ptr::null_mut();
        let raw = DataBuffer { base: empty, pack: empty, unpack: empty, allocated: 0, used: 0 };
        let mut buffer = Self { library, raw };
        // SAFETY: room for a buffer.
        unsafe { (library.construct_buffer)(&raw mut buffer.raw) };
        buffer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: constructed by `new`, used no more.
        unsafe { (self.library.destruct_buffer)(&raw mut self.raw) };
    }
}

/// The bytes of a key with its value, in the library's form.
pub(crate) fn pack(library: &'static Library, info: &RawInfo) -> Option<(String, Vec<u8>)> {
    let mut buffer = Buffer::new(library);
    let from: *mut c_void = ptr::from_ref(info).cast_mut().cast();
    // SAFETY: a live buffer and one live key with its value, which is only read.
    if unsafe { (library.pack)(ptr::null(), &raw mut buffer.raw, from, 1, INFO) } != SUCCESS {
        return None;
    }
    let mut bytes = ByteObject { bytes: ptr::null_mut(), size: 0 };
    // SAFETY: a live buffer, whose content becomes ours.
    if unsafe { (library.unload)(&raw mut buffer.raw, &raw mut bytes) } != SUCCESS {
        return None;
    }
    // SAFETY: the library says so many bytes are there.
    let packed = unsafe { bytes_of(bytes.bytes, bytes.size) };
    // SAFETY: the library has allocated it for us.
    unsafe { libc::free(bytes.bytes.cast()) };
    Some((fixed_text(&info.key), packed))
}

/// A copy of these bytes.
///
/// # Safety
///
/// There are so many, or none.
pub(crate) unsafe fn bytes_of(start: *const c_char, size: usize) -> Vec<u8> {
    if start.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller says so.
    unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) }.to_vec()
}

impl SpawnAnswer {
    /// Answers. Not inside an upcall.
    pub fn give(self, result: &Result<String, Failure>) {
        let Some(callback) = self.0 else { return };
        let name = result.as_deref().map_or_else(|_| CString::default(), c_text);
        // The library copies a whole namespace, however long it is.
        let mut space = [0; crate::raw::NAMESPACE_BYTES];
        let bytes = name.as_bytes().iter().take(space.len() - 1);
        space.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from as c_char);
        // SAFETY: the library gave both for one answer, which consumes them; it copies the name.
        unsafe { callback(status_of(result), space.as_mut_ptr(), self.1.0) };
    }
}
