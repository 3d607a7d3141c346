//! The MPI that this process runs with, as far as it is not as the standard says.
//!
//! What the other rooms ask of it has names of its own here, after the moment or the question; the
//! room of that MPI answers, [`openmpi5`] or [`mpich`]. One of them is chosen here, by the MPI that
//! this crate is built for, which the build script finds out. No other file needs an `if`.

pub(super) use super::node::unreported_exit;
#[cfg(not(mpich))]
pub(super) use super::openmpi5::{
    agree_on_self::can_agree,
    deaf_queue::is_headless as may_be_deaf,
    ends_waits_for_the_dead,
    failed_lists::may_be_listed,
    first_of_program,
    idup_numbering::unlock as before_creation,
    init_state::{Start, init_state},
    inject_failure, is_shared,
    kept_requests::{Free, Keeping, Seen},
    know, launch_census,
    leaders_answer::{Leader, Linking, while_linking},
    lost_answer::ask_again,
    matched_wildcards::protect as protect_receive,
    may_be_duplicated, may_free_at_the_end, mend_end as before_finalize,
    mend_initialised as after_init, mend_library as when_loaded,
    request_origin::origin,
    romio::{choose as prepare_files, test_access},
    shared_machine::yield_when_idle,
    spawn_lookup,
    used_numbers::free_for_ever,
    version, was_spawned, when_idle,
};

#[cfg(mpich)]
pub(super) use super::mpich::{
    Leader, Linking, Start, after_init, ask_again, before_creation, before_finalize, can_agree,
    ends_waits_for_the_dead, free_for_ever, init_state,
    kept_requests::{Free, Keeping, Seen, is_shared},
    know, launch_census, list_of_the_dead as inject_failure, may_be_deaf, may_be_duplicated,
    may_be_listed, may_free_at_the_end, origin, prepare_files, protect_receive,
    refused_access::test_access,
    set_aside::first_of_program,
    spawn_lookup, version, was_spawned, when_idle, when_loaded, while_linking, yield_when_idle,
};
