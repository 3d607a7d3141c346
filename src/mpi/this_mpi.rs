//! The MPI that this process runs with, as far as it is not as the standard says.
//!
//! What the other rooms ask of it has names of its own here, after the moment or the question; the
//! room of that MPI, [`openmpi5`], answers. A second MPI has a room beside it, and this file is
//! where one of them is chosen: by a feature when this crate is built for one MPI, or by functions
//! that ask the library. No other file needs an `if`.

pub(super) use super::openmpi5::{
    agree_on_self::can_agree,
    failed_lists::may_be_listed,
    idup_numbering::unlock as before_creation,
    init_state::{Start, init_state},
    inject_failure,
    kept_requests::{Free, Keeping, Seen},
    launch_census,
    leaders_answer::{Leader, Linking, while_linking},
    matched_wildcards::protect as protect_receive,
    mend_end as before_finalize, mend_initialised as after_init, mend_library as when_loaded,
    request_origin::origin,
    romio::choose as prepare_files,
    shared_machine::yield_when_idle,
    spawn_lookup, unreported_exit,
    used_numbers::for_ever,
    version, was_spawned,
};
