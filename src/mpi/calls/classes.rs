//! Error classes have one number in this project, that of Open MPI; other libraries have others.

#[cfg(mpich)]
use mpi::ffi;

#[cfg(mpich)]
use crate::fault::class;

/// The numbers are the same.
#[cfg(not(mpich))]
const PAIRS: &[(i32, i32)] = &[];

/// Writes the numbers of the library beside ours.
#[cfg(mpich)]
macro_rules! pairs {
    ($($ours:ident $theirs:ident,)*) => {
        const PAIRS: &[(i32, i32)] = &[$((class::$ours, ffi::$theirs as i32)),*];
    };
}

#[cfg(mpich)]
pairs! {
    BUFFER MPI_ERR_BUFFER,
    COUNT MPI_ERR_COUNT,
    TYPE MPI_ERR_TYPE,
    TAG MPI_ERR_TAG,
    COMM MPI_ERR_COMM,
    RANK MPI_ERR_RANK,
    REQUEST MPI_ERR_REQUEST,
    ROOT MPI_ERR_ROOT,
    GROUP MPI_ERR_GROUP,
    OP MPI_ERR_OP,
    TOPOLOGY MPI_ERR_TOPOLOGY,
    DIMS MPI_ERR_DIMS,
    ARG MPI_ERR_ARG,
    UNKNOWN MPI_ERR_UNKNOWN,
    TRUNCATE MPI_ERR_TRUNCATE,
    OTHER MPI_ERR_OTHER,
    INTERN MPI_ERR_INTERN,
    IN_STATUS MPI_ERR_IN_STATUS,
    PENDING MPI_ERR_PENDING,
    ACCESS MPI_ERR_ACCESS,
    AMODE MPI_ERR_AMODE,
    ASSERT MPI_ERR_ASSERT,
    BAD_FILE MPI_ERR_BAD_FILE,
    BASE MPI_ERR_BASE,
    CONVERSION MPI_ERR_CONVERSION,
    DISP MPI_ERR_DISP,
    DUP_DATAREP MPI_ERR_DUP_DATAREP,
    FILE_EXISTS MPI_ERR_FILE_EXISTS,
    FILE_IN_USE MPI_ERR_FILE_IN_USE,
    FILE MPI_ERR_FILE,
    INFO_KEY MPI_ERR_INFO_KEY,
    INFO_NOKEY MPI_ERR_INFO_NOKEY,
    INFO_VALUE MPI_ERR_INFO_VALUE,
    INFO MPI_ERR_INFO,
    IO MPI_ERR_IO,
    KEYVAL MPI_ERR_KEYVAL,
    LOCKTYPE MPI_ERR_LOCKTYPE,
    NAME MPI_ERR_NAME,
    NO_MEM MPI_ERR_NO_MEM,
    NOT_SAME MPI_ERR_NOT_SAME,
    NO_SPACE MPI_ERR_NO_SPACE,
    NO_SUCH_FILE MPI_ERR_NO_SUCH_FILE,
    PORT MPI_ERR_PORT,
    QUOTA MPI_ERR_QUOTA,
    READ_ONLY MPI_ERR_READ_ONLY,
    RMA_CONFLICT MPI_ERR_RMA_CONFLICT,
    RMA_SYNC MPI_ERR_RMA_SYNC,
    SERVICE MPI_ERR_SERVICE,
    SIZE MPI_ERR_SIZE,
    SPAWN MPI_ERR_SPAWN,
    UNSUPPORTED_DATAREP MPI_ERR_UNSUPPORTED_DATAREP,
    UNSUPPORTED_OPERATION MPI_ERR_UNSUPPORTED_OPERATION,
    WIN MPI_ERR_WIN,
    RMA_RANGE MPI_ERR_RMA_RANGE,
    RMA_ATTACH MPI_ERR_RMA_ATTACH,
    RMA_FLAVOR MPI_ERR_RMA_FLAVOR,
    RMA_SHARED MPI_ERR_RMA_SHARED,
    PROC_ABORTED MPI_ERR_PROC_ABORTED,
    SESSION MPI_ERR_SESSION,
    VALUE_TOO_LARGE MPI_ERR_VALUE_TOO_LARGE,
    PROC_FAILED MPIX_ERR_PROC_FAILED,
    PROC_FAILED_PENDING MPIX_ERR_PROC_FAILED_PENDING,
    REVOKED MPIX_ERR_REVOKED,
}

/// The number that the library has for a class of ours; one that is no class stays what it is.
pub const fn in_this_mpi(ours: i32) -> i32 {
    let mut at = 0;
    while at < PAIRS.len() {
        if PAIRS[at].0 == ours {
            return PAIRS[at].1;
        }
        at += 1;
    }
    ours
}

/// The number that we have for a class of the library; one that is no class stays what it is.
pub fn of_this_mpi(theirs: i32) -> i32 {
    PAIRS.iter().find(|(_, class)| *class == theirs).map_or(theirs, |(ours, _)| *ours)
}

/// Our number for a class of the library: that of an error that says nothing if there is none.
#[cfg(mpich)]
pub(super) fn ours(theirs: i32) -> i32 {
    let known = PAIRS.iter().find(|(_, class)| *class == theirs);
    known.map_or(class::OTHER, |(ours, _)| *ours)
}

#[cfg(all(test, mpich))]
mod tests {
    use super::*;
    use crate::fault::CLASSES;

    #[test]
    fn each_class_has_one_number_here_and_one_in_the_library() {
        for ours_of in CLASSES {
            let theirs: Vec<i32> =
                PAIRS.iter().filter(|(it, _)| it == ours_of).map(|(_, theirs)| *theirs).collect();
            assert_eq!(theirs.len(), 1, "{ours_of}");
            assert_eq!(ours(theirs[0]), *ours_of);
            assert_eq!((in_this_mpi(*ours_of), of_this_mpi(theirs[0])), (theirs[0], *ours_of));
        }
        assert_eq!(ours(0x3fff_fffe), class::OTHER);
    }
}
