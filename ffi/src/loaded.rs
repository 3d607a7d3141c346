//! What happens when the library is loaded, before the program begins.

use std::{hint::black_box, panic::catch_unwind};

use fampi_core::mpi::before_mpi;

/// Lets a process that is being started watch its own start.
extern "C" fn loaded() {
    // Without a watch a start is what it was.
    drop(catch_unwind(before_mpi));
}

#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
static LOADED: extern "C" fn() = loaded;

/// Makes a program that has this library in it take the variable above, too.
pub(crate) fn keep() {
    black_box(&LOADED);
}
