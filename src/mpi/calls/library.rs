//! Checked calls that belong to no communicator: the start, the end, the library itself.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
};

use mpi::ffi;

use super::inside;
pub(in crate::mpi) use crate::fault::class::{
    BUFFER, COUNT, PROC_FAILED, PROC_FAILED_PENDING, REVOKED,
};
use crate::{error::Error, fault::FaultCode, seam::platform::LEAST_MAX_TAG};

/// A call that MPI refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::mpi) struct Refusal {
    /// The function.
    pub(in crate::mpi) call: &'static str,
    /// MPI's error class.
    pub(in crate::mpi) class: i32,
}

impl Refusal {
    /// True when a death explains it.
    pub(in crate::mpi) fn is_failure(self) -> bool {
        matches!(self.class, PROC_FAILED | PROC_FAILED_PENDING | REVOKED)
    }

    /// What it means to the application when an operation ends so.
    pub(in crate::mpi) fn fault(self) -> FaultCode {
        FaultCode::from_mpi_class(self.class)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Mpi { call: refusal.call, class: refusal.class }
    }
}

/// What a call of MPI gives.
pub(in crate::mpi) type Checked<T> = Result<T, Refusal>;

/// Turns a return code into a result.
#[inline]
pub(in crate::mpi) fn check(call: &'static str, code: c_int) -> Checked<()> {
    if code == 0 { Ok(()) } else { Err(refusal(call, code)) }
}

#[cold]
fn refusal(call: &'static str, code: c_int) -> Refusal {
    let mut class = code;
    // SAFETY: the pointer is to a variable of ours; the function works at any time.
    if unsafe { ffi::MPI_Error_class(code, &raw mut class) } != 0 {
        class = code;
    }
    #[cfg(mpich)]
    let class = super::classes::ours(class);
    Refusal { call, class }
}

/// `MPI_Initialized`.
pub(in crate::mpi) fn initialized() -> Checked<bool> {
    let mut flag = 0;
    // SAFETY: the pointer is to a variable of ours; the function works at any time.
    check("MPI_Initialized", unsafe { ffi::MPI_Initialized(&raw mut flag) })?;
    Ok(flag != 0)
}

/// `MPI_Finalized`.
pub(in crate::mpi) fn finalized() -> Checked<bool> {
    let mut flag = 0;
    // SAFETY: the pointer is to a variable of ours; the function works at any time.
    check("MPI_Finalized", unsafe { ffi::MPI_Finalized(&raw mut flag) })?;
    Ok(flag != 0)
}

/// `MPI_Init_thread` with the level that one MPI thread among others needs.
pub(in crate::mpi) fn initialize() -> Checked<()> {
    let _inside = inside::starting();
    let mut provided = 0;
    // SAFETY: reading a constant that MPI's library defines.
    let wanted = unsafe { ffi::RSMPI_THREAD_FUNNELED };
    let (none, no_arguments) = (ptr::null_mut(), ptr::null_mut());
    check("MPI_Init_thread", {
        // SAFETY: MPI allows null for both arguments; the last pointer is to a variable of ours.
        unsafe { ffi::MPI_Init_thread(none, no_arguments, wanted, &raw mut provided) }
    })
}

/// `MPI_Finalize`.
pub(in crate::mpi) fn finalize() -> Checked<()> {
    let _inside = inside::finalize();
    // SAFETY: called once, by the owner of MPI's initialisation, who makes no call afterwards.
    check("MPI_Finalize", unsafe { ffi::MPI_Finalize() })
}

/// `MPI_Get_library_version`: one sentence, or several lines.
pub(in crate::mpi) fn library_version() -> Checked<String> {
    // Longer than the `MPI_MAX_LIBRARY_VERSION_STRING` of any library (MPICH: 8192).
    let mut text = vec![0_u8; 16384];
    let mut length = 0;
    let pointer = text.as_mut_ptr().cast::<c_char>();
    check("MPI_Get_library_version", {
        // SAFETY: the text is longer than the library's limit, checked against its constant.
        unsafe { ffi::MPI_Get_library_version(pointer, &raw mut length) }
    })?;
    text.truncate(usize::try_from(length).unwrap_or(0));
    Ok(String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned())
}

/// The bytes of a control variable of MPI's tool interface.
pub(in crate::mpi) fn control_variable(name: &CStr) -> Option<Vec<u8>> {
    let mut provided = 0;
    // SAFETY: the pointer is to a variable of ours; the tool interface may be started repeatedly.
    let started = unsafe { ffi::MPI_T_init_thread(0, &raw mut provided) };
    if started != 0 {
        return None;
    }
    let value = read_control_variable(name);
    // SAFETY: ends what was started above.
    unsafe { ffi::MPI_T_finalize() };
    value
}

/// Sets a control variable that is a text; false when there is none, or it cannot be set.
#[cfg_attr(mpich, allow(dead_code, reason = "for what Open MPI's room mends"))]
pub(in crate::mpi) fn set_control_variable(name: &CStr, value: &CStr) -> bool {
    let mut provided = 0;
    // SAFETY: the pointer is to a variable of ours; the tool interface may be started repeatedly.
    if unsafe { ffi::MPI_T_init_thread(0, &raw mut provided) } != 0 {
        return false;
    }
    let written = handle_of(name).is_some_and(|(mut handle, _)| {
        // SAFETY: the handle was allocated above; the text ends with a zero.
        let code = unsafe { ffi::MPI_T_cvar_write(handle, value.as_ptr().cast()) };
        // SAFETY: as above, and not used afterwards.
        unsafe { ffi::MPI_T_cvar_handle_free(&raw mut handle) };
        code == 0
    });
    // SAFETY: ends what was started above.
    unsafe { ffi::MPI_T_finalize() };
    written
}

/// A handle of a control variable, which the caller frees, and its number of elements.
fn handle_of(name: &CStr) -> Option<(ffi::MPI_T_cvar_handle, c_int)> {
    let mut index = 0;
    // SAFETY: the name ends with a zero; the index is a variable of ours.
    if unsafe { ffi::MPI_T_cvar_get_index(name.as_ptr(), &raw mut index) } != 0 {
        return None;
    }
    let (mut handle, mut count) = (ptr::null_mut(), 0);
    let object = ptr::null_mut::<c_void>();
    let allocated = {
        // SAFETY: the index is valid, no object is needed, results are variables of ours.
        unsafe { ffi::MPI_T_cvar_handle_alloc(index, object, &raw mut handle, &raw mut count) }
    };
    (allocated == 0).then_some((handle, count))
}

fn read_control_variable(name: &CStr) -> Option<Vec<u8>> {
    let (mut handle, count) = handle_of(name)?;
    // No element is longer than eight bytes; texts may grow after their length was told.
    let mut bytes = vec![0_u8; usize::try_from(count).ok()? * 8 + 4096];
    // SAFETY: the bytes have room for `count` elements.
    let code = unsafe { ffi::MPI_T_cvar_read(handle, bytes.as_mut_ptr().cast()) };
    // SAFETY: the handle was allocated above and is not used afterwards.
    unsafe { ffi::MPI_T_cvar_handle_free(&raw mut handle) };
    (code == 0).then_some(bytes)
}

/// The greatest tag that each MPI has.
const LEAST_OF_MPI: u32 = 32767;

/// `MPI_TAG_UB`: the greatest tag, which `MPI_COMM_WORLD` alone has (MPI 4.1 §9.1.2). To ask a
/// derived communicator gives the least that MPI promises.
pub(in crate::mpi) fn greatest_tag(world: ffi::MPI_Comm) -> Result<u32, Error> {
    let too_few = |greatest: u32| {
        Err(Error::Unsupported(format!(
            "this MPI has tags up to {greatest}, and fampi needs them up to {LEAST_MAX_TAG}; use \
             another transport or MPI"
        )))
    };
    let (mut value, mut flag) = (ptr::null_mut::<c_int>(), 0);
    let key = ffi::MPI_TAG_UB.cast_signed();
    check("MPI_Comm_get_attr", {
        // SAFETY: the world is live; MPI writes a pointer to a number of its own.
        unsafe { ffi::MPI_Comm_get_attr(world, key, (&raw mut value).cast(), &raw mut flag) }
    })?;
    if flag == 0 || value.is_null() {
        return too_few(LEAST_OF_MPI);
    }
    // SAFETY: the attribute is set, so the pointer is to a number that lives as long as MPI.
    let greatest = unsafe { *value }.cast_unsigned();
    if greatest < LEAST_MAX_TAG { too_few(greatest) } else { Ok(greatest) }
}

/// True when MPI lets several threads call it at once, which it then protects itself from.
#[cfg(mpich)]
pub(in crate::mpi) fn threads_may_call_at_once() -> bool {
    let mut level = 0;
    // SAFETY: the result is a variable of ours.
    let known = unsafe { ffi::MPI_Query_thread(&raw mut level) } == 0;
    // SAFETY: reading a constant that MPI's library defines.
    !known || level == unsafe { ffi::RSMPI_THREAD_MULTIPLE }
}

#[cfg(all(test, not(mpich)))]
mod tests {
    use super::*;
    use crate::fault::{CLASSES, FaultCode, class_name};

    /// Compares the names of the pure table with the constants of the library.
    macro_rules! compare {
        ($($name:ident)*) => {
            vec![$((ffi::$name as i32, stringify!($name))),*]
        };
    }

    #[test]
    #[rustfmt::skip]
    fn the_table_of_error_classes_is_that_of_the_library() {
        let real = compare! {
            MPI_ERR_BUFFER MPI_ERR_COUNT MPI_ERR_TYPE MPI_ERR_TAG MPI_ERR_COMM MPI_ERR_RANK
            MPI_ERR_REQUEST MPI_ERR_ROOT MPI_ERR_GROUP MPI_ERR_OP MPI_ERR_TOPOLOGY MPI_ERR_DIMS
            MPI_ERR_ARG MPI_ERR_UNKNOWN MPI_ERR_TRUNCATE MPI_ERR_OTHER MPI_ERR_INTERN
            MPI_ERR_IN_STATUS MPI_ERR_PENDING MPI_ERR_ACCESS MPI_ERR_AMODE MPI_ERR_ASSERT
            MPI_ERR_BAD_FILE MPI_ERR_BASE MPI_ERR_CONVERSION MPI_ERR_DISP MPI_ERR_DUP_DATAREP
            MPI_ERR_FILE_EXISTS MPI_ERR_FILE_IN_USE MPI_ERR_FILE MPI_ERR_INFO_KEY
            MPI_ERR_INFO_NOKEY MPI_ERR_INFO_VALUE MPI_ERR_INFO MPI_ERR_IO MPI_ERR_KEYVAL
            MPI_ERR_LOCKTYPE MPI_ERR_NAME MPI_ERR_NO_MEM MPI_ERR_NOT_SAME MPI_ERR_NO_SPACE
            MPI_ERR_NO_SUCH_FILE MPI_ERR_PORT MPI_ERR_QUOTA MPI_ERR_READ_ONLY
            MPI_ERR_RMA_CONFLICT MPI_ERR_RMA_SYNC MPI_ERR_SERVICE MPI_ERR_SIZE MPI_ERR_SPAWN
            MPI_ERR_UNSUPPORTED_DATAREP MPI_ERR_UNSUPPORTED_OPERATION MPI_ERR_WIN
            MPI_ERR_RMA_RANGE MPI_ERR_RMA_ATTACH MPI_ERR_RMA_FLAVOR MPI_ERR_RMA_SHARED
            MPI_ERR_PROC_ABORTED MPI_ERR_PROC_FAILED MPI_ERR_PROC_FAILED_PENDING MPI_ERR_REVOKED
            MPI_ERR_SESSION MPI_ERR_VALUE_TOO_LARGE
        };
        for (class, name) in &real {
            assert_eq!(class_name(*class), Some(*name));
        }
        assert_eq!(CLASSES.len(), real.len(), "each has been compared");
        assert_eq!([PROC_FAILED, PROC_FAILED_PENDING, REVOKED, COUNT], [75, 76, 77, 2]);
        assert_eq!(FaultCode::from_mpi_class(ffi::MPI_ERR_REVOKED as i32), FaultCode::Interrupted);
    }
}
