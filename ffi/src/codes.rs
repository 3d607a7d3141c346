//! Numbers of the interface: return codes, codes of faults, levels, timeouts.
//!
//! A fault has the number of its kind, or, where MPI or the application gave one, that number
//! itself. Numbers are never used again for something else.

use std::ffi::{CStr, c_char, c_int};

use fampi_core::{
    Cause, Codes, Error, FaultCode, Patience,
    fault::class_name,
    guest::MAX_TAG,
    mpi::{in_this_mpi, of_this_mpi},
    ulfm::Agreed,
};
use mpi::ffi;

/// What a function of the interface comes to: success, or the code to return.
pub(crate) type Result<T> = std::result::Result<T, c_int>;

/// What a call of MPI or of the interface has come to.
pub(crate) fn done(code: c_int) -> Result<()> {
    if code == FAMPI_SUCCESS { Ok(()) } else { Err(code) }
}

/// Done; equal to `MPI_SUCCESS`.
pub const FAMPI_SUCCESS: c_int = 0;

/// In the list of a query: the death of processes, soft and hard. MPI's own `MPI_ERR_PROC_FAILED`
/// asks for the same.
pub const FAMPI_ERR_PROC_FAILED: c_int = 262_144_000;
/// A process died; its node lives, as far as is known. `FAMPI_Get_failure_cause` says how.
pub const FAMPI_ERR_PROC_FAILED_SOFT: c_int = 262_144_001;
/// A node was lost with all its processes, each of which has this code; ask for
/// `FAMPI_ERR_PROC_FAILED`, which is both. A request that fails by a death has the soft code.
pub const FAMPI_ERR_PROC_FAILED_HARD: c_int = 262_144_002;
/// As a return code: not over within the timeout, which says nothing about the outcome: wait
/// again. As the code of a fault: a request was not complete at the deadline of finish.
pub const FAMPI_ERR_TIMEOUT: c_int = 262_144_003;
/// Cut short, because a failure elsewhere has doomed the block: finish it.
pub const FAMPI_ERR_INTERRUPTED: c_int = 262_144_004;
/// A rank released the block's request without finishing the block.
pub const FAMPI_ERR_LEFT: c_int = 262_144_005;
/// A rank has freed the communicator and starts no further block on it.
pub const FAMPI_ERR_ABANDONED: c_int = 262_144_006;
/// A block in the list of this one was faulty.
pub const FAMPI_ERR_INNER: c_int = 262_144_007;
/// A rank and the one that kept its copy are dead: start again from a file.
pub const FAMPI_ERR_STATE_LOST: c_int = 262_144_008;
/// A state was to be restored that no commit has protected: start from the beginning.
pub const FAMPI_ERR_NOTHING_PROTECTED: c_int = 262_144_009;
/// A block with `FAMPI_TRYBLOCK_WITH_COLLECTIVE` has no collective of all its ranks.
pub const FAMPI_ERR_NO_COLLECTIVE: c_int = 262_144_010;
/// Not all ranks ended the block with the same reduction: numbers, type, operation.
pub const FAMPI_ERR_MISMATCHED: c_int = 262_144_011;
/// A rank had left the job when others started the block: start the same blocks on all ranks before
/// one of them calls `MPI_Finalize`.
pub const FAMPI_ERR_FINALIZED: c_int = 262_144_012;
/// Some ranks agreed on a flag while others ended a block.
pub const FAMPI_ERR_NOT_AGREED: c_int = 262_144_014;
/// More ranks failed than a state was kept for.
pub const FAMPI_ERR_TOO_MANY_LOST: c_int = 262_144_015;
/// A message could not start, as too many older blocks are not decided here: wait for these first.
pub const FAMPI_ERR_TOO_MANY_OPEN: c_int = 262_144_018;
/// How a process died (`FAMPI_Get_failure_cause`): no living rank could say. It counts as soft.
pub const FAMPI_CAUSE_UNKNOWN: c_int = 0;
/// It exited before its end, with a status.
pub const FAMPI_CAUSE_EXITED: c_int = 1;
/// It was ended by a signal.
pub const FAMPI_CAUSE_KILLED: c_int = 2;
/// It made no progress for longer than the user allows, and was ended for that.
pub const FAMPI_CAUSE_HUNG: c_int = 3;
/// Its node was lost.
pub const FAMPI_CAUSE_NODE_LOST: c_int = 4;
/// A code for applications: a fault that trying again may cure.
pub const FAMPI_ERR_TRANSIENT: c_int = 262_144_120;
/// A code for applications: a fault that stays.
pub const FAMPI_ERR_PERMANENT: c_int = 262_144_121;
/// In the list of a query: every code matches.
pub const FAMPI_ERR_RCODES_ANY: c_int = 262_144_255;

/// The block is faulty, on all living ranks if it is global: ask the queries, recover.
pub const FAMPI_ERR_TRYBLOCK_FOUND_ERRORS: c_int = 262_144_140;
/// A null pointer, or a value that has no meaning here.
pub const FAMPI_ERR_ARG: c_int = 262_144_141;
/// A number of things that is negative, or more than there may be.
pub const FAMPI_ERR_COUNT: c_int = 262_144_142;
/// Not a request, or not one of the kind that is needed: freed, null, no block.
pub const FAMPI_ERR_REQUEST: c_int = 262_144_143;
/// No communicator that this call can work on.
pub const FAMPI_ERR_COMM: c_int = 262_144_144;
/// The block was finished already, or is not finished, or is not decided yet.
pub const FAMPI_ERR_STATE: c_int = 262_144_145;
/// Another communicator is being made; one at a time.
pub const FAMPI_ERR_PENDING: c_int = 262_144_146;
/// Processes died while a communicator was made; nothing was made, on no living rank.
pub const FAMPI_ERR_CREATION: c_int = 262_144_147;
/// This MPI, or this launch, will not do; `FAMPI_Doctor` says why. Or it is not the time: before
/// `MPI_Init`, after `MPI_Finalize`.
pub const FAMPI_ERR_UNSUPPORTED: c_int = 262_144_148;
/// One thread calls fampi: the one that called it first.
pub const FAMPI_ERR_THREAD: c_int = 262_144_149;
/// A defect of fampi; every later call returns this, too.
pub const FAMPI_ERR_INTERNAL: c_int = 262_144_150;
/// The folder has checkpoints of an earlier job, from which this one is not to go on: do that, or
/// choose an empty folder.
pub const FAMPI_ERR_CHECKPOINTS_EXIST: c_int = 262_144_151;
/// The job is to go on from a checkpoint, and none is there of which all ranks have their parts,
/// undamaged.
pub const FAMPI_ERR_NO_CHECKPOINT: c_int = 262_144_152;

/// A block of this rank alone: no message, faults known here only.
pub const FAMPI_TRYBLOCK_LOCAL: c_int = 0;
/// A block of all living ranks of its communicator, which agree at its end.
pub const FAMPI_TRYBLOCK_GLOBAL: c_int = 1;
/// A block with a synchronising collective among its requests. Taken as a global one.
pub const FAMPI_TRYBLOCK_WITH_COLLECTIVE: c_int = 2;

/// A death ends all that waits in a block.
pub const FAMPI_PROMPT: c_int = 0;
/// A death ends what needed the dead, and what no living rank will serve.
pub const FAMPI_PATIENT: c_int = 1;

/// The greatest tag of `FAMPI_Isend`, `FAMPI_Issend` and `FAMPI_Irecv`.
pub const FAMPI_MAX_TAG: c_int = 32_570;

const _: () = assert!(FAMPI_MAX_TAG.cast_unsigned() == MAX_TAG);

/// What a number says that a death does to blocks.
pub(crate) fn patience(number: c_int) -> Option<Patience> {
    match number {
        FAMPI_PROMPT => Some(Patience::Prompt),
        FAMPI_PATIENT => Some(Patience::Patient),
        _ => None,
    }
}

/// A recovery in which replacements take the failed ranks: spares of the launch first, then new
/// processes.
pub const FAMPI_RECOVERY_REBUILD: c_int = 0;
/// A recovery without replacements: the survivors are numbered anew, without gaps.
pub const FAMPI_RECOVERY_SHRINK: c_int = 1;
/// A recovery in which survivors move together, and replacements come behind them.
pub const FAMPI_RECOVERY_MERGE: c_int = 2;

/// Members that fail tests keep their work.
pub const FAMPI_SLOW_STAY: c_int = 0;
/// Members that fail tests are benched for good.
pub const FAMPI_SLOW_LEAVE: c_int = 1;
/// Members that fail tests are benched until they have passed enough of them in a row.
pub const FAMPI_SLOW_RETURN: c_int = 2;
/// So are they, and so is at first a process that takes the place of a dead one, if it is tested.
pub const FAMPI_SLOW_PROBATION: c_int = 3;

/// How long to wait, in nanoseconds; `FAMPI_TIMEOUT_POLL` and `FAMPI_TIMEOUT_NEVER` are special.
#[allow(non_camel_case_types)]
pub type FAMPI_Timeout = i64;

/// Look once, do not wait.
pub const FAMPI_TIMEOUT_POLL: FAMPI_Timeout = 0;
/// No limit.
pub const FAMPI_TIMEOUT_NEVER: FAMPI_Timeout = -1;

/// The numbers of fampi's own codes.
const OWN: std::ops::RangeInclusive<c_int> = FAMPI_ERR_PROC_FAILED..=FAMPI_ERR_RCODES_ANY;

// No sentence is longer than what programs have room for.
const _: () = assert!(ffi::MPI_MAX_ERROR_STRING >= 128);

// The numbers of faults are those of the library.
const _: () = {
    assert!(FAMPI_ERR_PROC_FAILED == Codes::NUMBER_OF_PROCESS_FAILURES);
    assert!(FAMPI_ERR_PROC_FAILED_SOFT == FaultCode::ProcessFailed.number());
    assert!(FAMPI_ERR_PROC_FAILED_HARD == FaultCode::NodeFailed.number());
    assert!(FAMPI_ERR_TIMEOUT == FaultCode::TimedOut.number());
    assert!(FAMPI_ERR_INTERRUPTED == FaultCode::Interrupted.number());
    assert!(FAMPI_ERR_LEFT == FaultCode::LeftBlock.number());
    assert!(FAMPI_ERR_ABANDONED == FaultCode::Abandoned.number());
    assert!(FAMPI_ERR_INNER == FaultCode::InnerBlock.number());
    assert!(FAMPI_ERR_STATE_LOST == FaultCode::StateLost.number());
    assert!(FAMPI_ERR_NOTHING_PROTECTED == FaultCode::NothingProtected.number());
    assert!(FAMPI_ERR_NO_COLLECTIVE == FaultCode::NoCollective.number());
    assert!(FAMPI_ERR_MISMATCHED == FaultCode::Mismatched.number());
    assert!(FAMPI_ERR_FINALIZED == FaultCode::Finalized(0).number());
    assert!(FAMPI_ERR_TOO_MANY_LOST == FaultCode::TooManyLost.number());
    assert!(FAMPI_ERR_TOO_MANY_OPEN == FaultCode::TooManyOpen.number());
    assert!(FAMPI_ERR_NOT_AGREED == FaultCode::NotAgreed.number());
    assert!(FAMPI_ERR_RCODES_ANY == Codes::NUMBER_OF_ANY);
};

// So are the numbers of causes.
const _: () = {
    assert!(FAMPI_CAUSE_UNKNOWN == Cause::Unknown.to_numbers().0 as c_int);
    assert!(FAMPI_CAUSE_EXITED == Cause::Exited(0).to_numbers().0 as c_int);
    assert!(FAMPI_CAUSE_KILLED == Cause::Killed(0).to_numbers().0 as c_int);
    assert!(FAMPI_CAUSE_HUNG == Cause::Hung.to_numbers().0 as c_int);
    assert!(FAMPI_CAUSE_NODE_LOST == Cause::NodeLost.to_numbers().0 as c_int);
};

/// The return code for an error.
pub(crate) fn of_error(error: &Error) -> c_int {
    match error {
        Error::Request(code) => number(*code),
        Error::WaitTimedOut => FAMPI_ERR_TIMEOUT,
        Error::Abandoned => FAMPI_ERR_COMM,
        Error::Left { .. } | Error::HasLeft => FAMPI_ERR_FINALIZED,
        Error::NotComplete => FAMPI_ERR_STATE,
        Error::LengthChanged { .. } => FAMPI_ERR_COUNT,
        Error::StateType { .. } => FAMPI_ERR_ARG,
        Error::StateLost { partner: Some(_), .. } => FAMPI_ERR_STATE_LOST,
        Error::StateLost { partner: None, .. } => FAMPI_ERR_TOO_MANY_LOST,
        Error::TooManyOpen => FAMPI_ERR_TOO_MANY_OPEN,
        Error::NothingProtected => FAMPI_ERR_NOTHING_PROTECTED,
        Error::CheckpointsExist { .. } => FAMPI_ERR_CHECKPOINTS_EXIST,
        Error::NoCheckpoint { .. } => FAMPI_ERR_NO_CHECKPOINT,
        Error::CreationPending => FAMPI_ERR_PENDING,
        Error::CreationFailed | Error::RecoveryExhausted { .. } => FAMPI_ERR_CREATION,
        Error::Unsupported(_) => FAMPI_ERR_UNSUPPORTED,
        Error::Mpi { class, .. } => in_this_mpi(*class),
        _ => FAMPI_ERR_INTERNAL,
    }
}

/// MPI's own code of a death.
pub(crate) const PROC_FAILED: c_int = in_this_mpi(FaultCode::ProcessFailed.to_mpi_class());

/// The number of a fault: a class of MPI has that of the library in use.
pub(crate) fn number(code: FaultCode) -> c_int {
    match code {
        FaultCode::Mpi(class) => in_this_mpi(class),
        code => code.number(),
    }
}

/// The numbers that a query asks for, as they are called inside.
pub(crate) fn asked(numbers: &[c_int]) -> Vec<c_int> {
    numbers.iter().copied().map(of_this_mpi).collect()
}

/// What an agreement returns.
pub(crate) fn of_agreement(agreed: &std::result::Result<Agreed, Error>) -> c_int {
    match agreed {
        Ok(agreed) if agreed.is_ok() => FAMPI_SUCCESS,
        Ok(_) => PROC_FAILED,
        Err(error) => of_error(error),
    }
}

/// True when an application may raise this code: no class of MPI, by which a living rank could be
/// taken for a dead one.
pub(crate) fn may_be_raised(code: c_int) -> bool {
    let own = [FAMPI_ERR_TRANSIENT, FAMPI_ERR_PERMANENT];
    let free = !OWN.contains(&code) && class_name(of_this_mpi(code)).is_none();
    code != FAMPI_SUCCESS && (free || own.contains(&code))
}

/// A sentence for each number.
fn sentence(code: c_int) -> &'static CStr {
    match code {
        FAMPI_SUCCESS => c"done",
        FAMPI_ERR_PROC_FAILED | FAMPI_ERR_PROC_FAILED_SOFT => c"a process failed",
        FAMPI_ERR_PROC_FAILED_HARD => c"the node of a process failed",
        FAMPI_ERR_TIMEOUT => {
            c"not over within the timeout: wait again, or, in a report, a late request"
        }
        FAMPI_ERR_INTERRUPTED => c"cut short by a failure elsewhere; finish the block",
        FAMPI_ERR_LEFT => c"a rank left the block without finishing it",
        FAMPI_ERR_ABANDONED => c"a rank has freed the communicator",
        FAMPI_ERR_INNER => c"a block in the list of this one was faulty",
        FAMPI_ERR_STATE_LOST => c"a rank died with the one that kept its copy; start from a file",
        FAMPI_ERR_NOTHING_PROTECTED => c"no commit has protected this state; start anew",
        FAMPI_ERR_NO_COLLECTIVE => c"a block with a collective has none of all its ranks",
        FAMPI_ERR_MISMATCHED => c"not all ranks ended the block with the same reduction",
        FAMPI_ERR_FINALIZED => c"a rank had left the job; all ranks start the same blocks",
        FAMPI_ERR_TOO_MANY_LOST => c"more ranks failed than a state was kept for",
        FAMPI_ERR_TOO_MANY_OPEN => c"too many older blocks are open; wait for them first",
        FAMPI_ERR_NOT_AGREED => c"ranks agree on a flag while others end a block",
        FAMPI_ERR_TRANSIENT => c"the application raised a transient fault",
        FAMPI_ERR_PERMANENT => c"the application raised a permanent fault",
        FAMPI_ERR_RCODES_ANY => c"any code",
        FAMPI_ERR_TRYBLOCK_FOUND_ERRORS => c"the block is faulty; query its faults and recover",
        FAMPI_ERR_ARG => c"a null pointer, or a value that has no meaning here",
        FAMPI_ERR_COUNT => c"a count is negative, or too large",
        FAMPI_ERR_REQUEST => c"not a request of the kind that is needed",
        FAMPI_ERR_COMM => c"not a communicator that this call can work on",
        FAMPI_ERR_STATE => c"the block is not in the state that this call needs",
        FAMPI_ERR_PENDING => c"another communicator is being made; wait for it first",
        FAMPI_ERR_CREATION => c"a process died while a communicator was made; recover again",
        FAMPI_ERR_UNSUPPORTED => c"this MPI or this launch will not do; see FAMPI_Doctor",
        FAMPI_ERR_THREAD => c"called from another thread than the first call",
        FAMPI_ERR_CHECKPOINTS_EXIST => {
            c"the folder has checkpoints of an earlier job: restart it, or use an empty folder"
        }
        FAMPI_ERR_NO_CHECKPOINT => {
            c"the folder has no complete checkpoint that these ranks can go on from"
        }
        FAMPI_ERR_INTERNAL => c"a defect of fampi; please report it",
        code if OWN.contains(&code) => c"a number without a meaning",
        _ => c"a code of the application, or a class of MPI; MPI_Error_string knows it",
    }
}

/// A sentence about a code, which lives as long as the program. Never null. Local, needs no MPI.
///
/// `MPI_Error_string` and `MPI_Error_class` know fampi's codes, too, where libfampi is linked
/// before MPI's library, as `mpicc` does it. The class of a death is MPI's own,
/// `MPI_ERR_PROC_FAILED`; each other code is a class of its own.
#[unsafe(no_mangle)]
pub extern "C" fn FAMPI_Error_string(code: c_int) -> *const c_char {
    sentence(code).as_ptr()
}

unsafe extern "C" {
    fn PMPI_Error_string(code: c_int, text: *mut c_char, length: *mut c_int) -> c_int;
    fn PMPI_Error_class(code: c_int, class: *mut c_int) -> c_int;
}

/// MPI's function of this name, which knows fampi's codes, too: MPI gives out codes and their texts
/// in an order of its own, so it cannot be told of numbers that are constants.
///
/// # Safety
///
/// As for MPI's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Error_string(
    code: c_int,
    text: *mut c_char,
    length: *mut c_int,
) -> c_int {
    if !OWN.contains(&code) || text.is_null() || length.is_null() {
        // SAFETY: our caller's promise.
        return unsafe { PMPI_Error_string(code, text, length) };
    }
    let words = sentence(code).to_bytes_with_nul();
    // SAFETY: the caller has room for `MPI_MAX_ERROR_STRING`, which no sentence of ours exceeds.
    unsafe { text.copy_from_nonoverlapping(words.as_ptr().cast(), words.len()) };
    // SAFETY: not null; our caller's promise.
    unsafe { length.write(words.len() as c_int - 1) };
    FAMPI_SUCCESS
}

/// MPI's function of this name, which knows fampi's codes, too.
///
/// # Safety
///
/// As for MPI's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Error_class(code: c_int, class: *mut c_int) -> c_int {
    if !OWN.contains(&code) || class.is_null() {
        // SAFETY: our caller's promise.
        return unsafe { PMPI_Error_class(code, class) };
    }
    let deaths = FAMPI_ERR_PROC_FAILED..=FAMPI_ERR_PROC_FAILED_HARD;
    // SAFETY: not null; our caller's promise.
    unsafe { class.write(if deaths.contains(&code) { PROC_FAILED } else { code }) };
    FAMPI_SUCCESS
}
