//! The types and numbers of the PMIx standard, in the layout of its C library.

use std::ffi::{c_char, c_int, c_void};

pub(crate) type Status = c_int;
pub(crate) type Kind = u16;

pub(crate) const SUCCESS: Status = 0;
pub(crate) const ERROR: Status = -1;
pub(crate) const ERR_NOT_FOUND: Status = -46;
pub(crate) const ERR_NOT_SUPPORTED: Status = -47;
pub(crate) const ERR_LOST_CONNECTION: Status = -61;
pub(crate) const OPERATION_SUCCEEDED: Status = -157;
pub(crate) const ERR_PROC_TERM_WO_SYNC: Status = -200;

pub(crate) const BOOL: Kind = 1;
pub(crate) const STRING: Kind = 3;
pub(crate) const INT: Kind = 6;
pub(crate) const UINT16: Kind = 13;
pub(crate) const UINT32: Kind = 14;
pub(crate) const PROC: Kind = 22;
pub(crate) const INFO: Kind = 24;
pub(crate) const PERSIST: Kind = 30;
pub(crate) const DATA_ARRAY: Kind = 39;
pub(crate) const PROC_RANK: Kind = 40;
pub(crate) const ENVAR: Kind = 46;
pub(crate) const REGEX: Kind = 49;

/// `PMIX_RANGE_LOCAL`: the processes of this node.
pub(crate) const RANGE_LOCAL: u8 = 2;
/// `PMIX_PERSIST_FIRST_READ`.
pub(crate) const UNTIL_FIRST_READ: u8 = 1;

pub(crate) const NAMESPACE_BYTES: usize = 256;
pub(crate) const KEY_BYTES: usize = 512;

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Proc {
    pub(crate) namespace: [c_char; NAMESPACE_BYTES],
    pub(crate) rank: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Envar {
    pub(crate) name: *mut c_char,
    pub(crate) value: *mut c_char,
    pub(crate) separator: c_char,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Data {
    pub(crate) flag: u8,
    pub(crate) text: *mut c_char,
    pub(crate) int: c_int,
    pub(crate) number: u32,
    pub(crate) small: u8,
    pub(crate) envar: Envar,
    pub(crate) words: [u64; 3],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    pub(crate) data: Data,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Info {
    pub(crate) key: [c_char; KEY_BYTES],
    pub(crate) flags: u32,
    pub(crate) value: Value,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Pdata {
    pub(crate) process: Proc,
    pub(crate) key: [c_char; KEY_BYTES],
    pub(crate) value: Value,
}

#[repr(C)]
pub(crate) struct App {
    pub(crate) command: *mut c_char,
    pub(crate) arguments: *mut *mut c_char,
    pub(crate) environment: *mut *mut c_char,
    pub(crate) folder: *mut c_char,
    pub(crate) processes: c_int,
    pub(crate) infos: *mut Info,
    pub(crate) info_count: usize,
}

#[repr(C)]
pub(crate) struct DataArray {
    pub(crate) kind: Kind,
    pub(crate) size: usize,
    pub(crate) array: *mut c_void,
}

#[repr(C)]
pub(crate) struct DataBuffer {
    pub(crate) base: *mut c_char,
    pub(crate) pack: *mut c_char,
    pub(crate) unpack: *mut c_char,
    pub(crate) allocated: usize,
    pub(crate) used: usize,
}

#[repr(C)]
pub(crate) struct ByteObject {
    pub(crate) bytes: *mut c_char,
    pub(crate) size: usize,
}

pub(crate) type Release = Option<unsafe extern "C" fn(*mut c_void)>;
pub(crate) type OpCallback = Option<unsafe extern "C" fn(Status, *mut c_void)>;
pub(crate) type ModexCallback =
    Option<unsafe extern "C" fn(Status, *const c_char, usize, *mut c_void, Release, *mut c_void)>;
pub(crate) type LookupCallback =
    Option<unsafe extern "C" fn(Status, *mut Pdata, usize, *mut c_void)>;
pub(crate) type SpawnCallback = Option<unsafe extern "C" fn(Status, *mut c_char, *mut c_void)>;
pub(crate) type ModexResponse =
    Option<unsafe extern "C" fn(Status, *mut c_char, usize, *mut c_void)>;

pub(crate) type ClientFn =
    unsafe extern "C" fn(*const Proc, *mut c_void, OpCallback, *mut c_void) -> Status;
pub(crate) type ConnectedFn = unsafe extern "C" fn(
    *const Proc,
    *mut c_void,
    *mut Info,
    usize,
    OpCallback,
    *mut c_void,
) -> Status;
pub(crate) type AbortFn = unsafe extern "C" fn(
    *const Proc,
    *mut c_void,
    c_int,
    *const c_char,
    *mut Proc,
    usize,
    OpCallback,
    *mut c_void,
) -> Status;
pub(crate) type FenceFn = unsafe extern "C" fn(
    *const Proc,
    usize,
    *const Info,
    usize,
    *mut c_char,
    usize,
    ModexCallback,
    *mut c_void,
) -> Status;
pub(crate) type ModexFn =
    unsafe extern "C" fn(*const Proc, *const Info, usize, ModexCallback, *mut c_void) -> Status;
pub(crate) type PublishFn =
    unsafe extern "C" fn(*const Proc, *const Info, usize, OpCallback, *mut c_void) -> Status;
pub(crate) type LookupFn = unsafe extern "C" fn(
    *const Proc,
    *mut *mut c_char,
    *const Info,
    usize,
    LookupCallback,
    *mut c_void,
) -> Status;
pub(crate) type UnpublishFn = unsafe extern "C" fn(
    *const Proc,
    *mut *mut c_char,
    *const Info,
    usize,
    OpCallback,
    *mut c_void,
) -> Status;
pub(crate) type SpawnFn = unsafe extern "C" fn(
    *const Proc,
    *const Info,
    usize,
    *const App,
    usize,
    SpawnCallback,
    *mut c_void,
) -> Status;
pub(crate) type ConnectFn =
    unsafe extern "C" fn(*const Proc, usize, *const Info, usize, OpCallback, *mut c_void) -> Status;
pub(crate) type EventsFn =
    unsafe extern "C" fn(*mut Status, usize, *const Info, usize, OpCallback, *mut c_void) -> Status;
pub(crate) type NoEventsFn =
    unsafe extern "C" fn(*mut Status, usize, OpCallback, *mut c_void) -> Status;
pub(crate) type NotifyFn = unsafe extern "C" fn(
    Status,
    *const Proc,
    u8,
    *mut Info,
    usize,
    OpCallback,
    *mut c_void,
) -> Status;

/// What the library calls. Entries that stay empty are answered by it: not supported. Versions
/// differ in what follows the last one here, so there is room that stays zero.
#[repr(C)]
pub(crate) struct Module {
    pub(crate) client_connected: Option<ClientFn>,
    pub(crate) client_finalized: Option<ClientFn>,
    pub(crate) abort: Option<AbortFn>,
    pub(crate) fence: Option<FenceFn>,
    pub(crate) direct_modex: Option<ModexFn>,
    pub(crate) publish: Option<PublishFn>,
    pub(crate) lookup: Option<LookupFn>,
    pub(crate) unpublish: Option<UnpublishFn>,
    pub(crate) spawn: Option<SpawnFn>,
    pub(crate) connect: Option<ConnectFn>,
    pub(crate) disconnect: Option<ConnectFn>,
    pub(crate) register_events: Option<EventsFn>,
    pub(crate) deregister_events: Option<NoEventsFn>,
    pub(crate) listener: usize,
    pub(crate) notify_event: Option<NotifyFn>,
    /// Query, tools, log, allocation, job control, monitor, credentials twice, output, input,
    /// groups and fabric.
    pub(crate) not_supported: [usize; 12],
    pub(crate) client_connected2: Option<ConnectedFn>,
    pub(crate) room: [usize; 36],
}

const _: () = {
    assert!(size_of::<Proc>() == 260);
    assert!(size_of::<Data>() == 24);
    assert!(size_of::<Value>() == 32);
    assert!(size_of::<Info>() == 552);
    assert!(size_of::<Pdata>() == 808);
    assert!(size_of::<App>() == 56);
    assert!(size_of::<DataArray>() == 24);
    assert!(size_of::<DataBuffer>() == 40);
    assert!(size_of::<ByteObject>() == 16);
    assert!(std::mem::offset_of!(Module, notify_event) == 14 * size_of::<usize>());
    assert!(std::mem::offset_of!(Module, client_connected2) == 27 * size_of::<usize>());
    assert!(size_of::<Module>() == 64 * size_of::<usize>());
};
