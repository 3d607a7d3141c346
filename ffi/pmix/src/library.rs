//! The functions of the library, looked up once; it stays open for the life of the process.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix;

use crate::error::Error;
use crate::raw::{
    ByteObject, DataArray, DataBuffer, Info, Kind, ModexResponse, Module, OpCallback, Proc, Status,
};

/// Where Open MPI keeps it, below its prefix: its own copy, or that of the system.
const PLACES: [&str; 3] = ["lib/openmpi/libpmix.so.2", "lib/libpmix.so.2", "lib64/libpmix.so.2"];
/// The versions whose layout this crate has.
const OLDEST: (u32, u32) = (4, 2);
const NEWEST_MAJOR: u32 = 6;

static OPENED: OnceLock<Library> = OnceLock::new();

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $symbol:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*)
    => {
        /// The functions that a server uses.
        pub(crate) struct Library {
            $($(#[$doc])* pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _open: unix::Library,
        }

        impl Library {
            fn of(open: unix::Library, path: &Path) -> Result<Self, Error> {
                $(
                    // SAFETY: the type is that of the standard for a function of this name.
                    let found = unsafe { open.get::<
                        unsafe extern "C" fn($($argument),*) $(-> $result)?
                    >($symbol) };
                    let $field = *found.map_err(|error| Error::no_library(path, &error))?;
                )*
                Ok(Self { $($field,)* _open: open })
            }
        }
    };
}

functions! {
    version = b"PMIx_Get_version\0": fn() -> *const c_char;
    error_text = b"PMIx_Error_string\0": fn(Status) -> *const c_char;
    init = b"PMIx_server_init\0": fn(*mut Module, *mut Info, usize) -> Status;
    register_namespace = b"PMIx_server_register_nspace\0":
        fn(*const c_char, c_int, *mut Info, usize, OpCallback, *mut c_void) -> Status;
    register_client = b"PMIx_server_register_client\0":
        fn(*const Proc, u32, u32, *mut c_void, OpCallback, *mut c_void) -> Status;
    setup_fork = b"PMIx_server_setup_fork\0": fn(*const Proc, *mut *mut *mut c_char) -> Status;
    request_modex = b"PMIx_server_dmodex_request\0":
        fn(*const Proc, ModexResponse, *mut c_void) -> Status;
    notify = b"PMIx_Notify_event\0":
        fn(Status, *const Proc, u8, *const Info, usize, OpCallback, *mut c_void) -> Status;
    generate_nodes = b"PMIx_generate_regex\0": fn(*const c_char, *mut *mut c_char) -> Status;
    generate_processes = b"PMIx_generate_ppn\0": fn(*const c_char, *mut *mut c_char) -> Status;
    free_texts = b"PMIx_Argv_free\0": fn(*mut *mut c_char);
    list_start = b"PMIx_Info_list_start\0": fn() -> *mut c_void;
    list_add = b"PMIx_Info_list_add\0":
        fn(*mut c_void, *const c_char, *const c_void, Kind) -> Status;
    list_convert = b"PMIx_Info_list_convert\0": fn(*mut c_void, *mut DataArray) -> Status;
    list_release = b"PMIx_Info_list_release\0": fn(*mut c_void);
    destruct_array = b"PMIx_Data_array_destruct\0": fn(*mut DataArray);
    construct_buffer = b"PMIx_Data_buffer_construct\0": fn(*mut DataBuffer);
    destruct_buffer = b"PMIx_Data_buffer_destruct\0": fn(*mut DataBuffer);
    pack = b"PMIx_Data_pack\0":
        fn(*const Proc, *mut DataBuffer, *mut c_void, i32, Kind) -> Status;
    unpack = b"PMIx_Data_unpack\0":
        fn(*const Proc, *mut DataBuffer, *mut c_void, *mut i32, Kind) -> Status;
    /// Takes what is in the buffer, which is empty afterwards.
    unload = b"PMIx_Data_unload\0": fn(*mut DataBuffer, *mut ByteObject) -> Status;
    /// Copies these bytes into the buffer.
    embed = b"PMIx_Data_embed\0": fn(*mut DataBuffer, *const ByteObject) -> Status;
    destruct_info = b"PMIx_Info_destruct\0": fn(*mut Info);
}

impl Library {
    /// The library of the MPI at this prefix; the first call of the process decides which.
    pub(crate) fn open(prefix: &Path) -> Result<&'static Self, Error> {
        if let Some(opened) = OPENED.get() {
            return Ok(opened);
        }
        let path = Self::find(prefix).ok_or_else(|| Error::Missing(prefix.to_path_buf()))?;
        // What mends the library's use of libevent finds the functions behind its own only if all
        // names are visible to all.
        let flags = unix::RTLD_NOW | unix::RTLD_GLOBAL;
        // SAFETY: opening it runs its initialisers, which only set up its own memory.
        let open = unsafe { unix::Library::open(Some(&path), flags) };
        let open = open.map_err(|error| Error::no_library(&path, &error))?;
        let library = Self::of(open, &path)?;
        check_version(&path, &library.version())?;
        Ok(OPENED.get_or_init(|| library))
    }

    /// The file of the library below this prefix.
    fn find(prefix: &Path) -> Option<PathBuf> {
        PLACES.iter().map(|place| prefix.join(place)).find(|path| path.is_file())
    }

    /// The one that was opened, if any.
    pub(crate) fn opened() -> Option<&'static Self> {
        OPENED.get()
    }

    pub(crate) fn version(&self) -> String {
        // SAFETY: it takes nothing, and returns a constant.
        let text = unsafe { (self.version)() };
        text_of(text)
    }

    /// What the library says of a status.
    pub(crate) fn sentence(&self, status: Status) -> String {
        // SAFETY: it takes any number, and returns a constant.
        let text = unsafe { (self.error_text)(status) };
        text_of(text)
    }
}

/// A copy of a text of the library; empty if there is none.
pub(crate) fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: texts of the library end with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The numbers in a sentence like `OpenPMIx 5.0.9a1 (PMIx Standard: 5.1, …)`.
fn numbers_in(version: &str) -> Option<(u32, u32)> {
    let word =
        version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = word.split('.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse::<u32>().ok()
    });
    Some((parts.next()??, parts.next()??))
}

fn check_version(path: &Path, version: &str) -> Result<(), Error> {
    let fits = |numbers: (u32, u32)| numbers >= OLDEST && numbers.0 <= NEWEST_MAJOR;
    if numbers_in(version).is_some_and(fits) {
        return Ok(());
    }
    Err(Error::Version { path: path.to_path_buf(), version: version.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_with_a_known_layout_are_used() {
        let check = |version: &str| check_version(Path::new("libpmix.so.2"), version);
        for good in ["OpenPMIx 5.0.9a1 (PMIx Standard: 5.1)", "OpenPMIx 4.2.2", "PMIx 6.1.0rc1"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["OpenPMIx 4.1.0", "OpenPMIx 3.2.5", "OpenPMIx 7.0.0", "no number", ""] {
            let refused = check(bad).expect_err(bad).to_string();
            assert!(refused.contains("4.2 to 6"), "{refused}");
        }
    }

    #[test]
    fn a_prefix_without_a_library_says_what_is_missing() {
        let refused = Library::open(Path::new("no/such/prefix")).expect_err("nothing there");
        assert!(refused.to_string().contains("libpmix.so.2"), "{refused}");
    }
}
