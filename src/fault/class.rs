//! MPI's error classes: names, numbers, and what they say to a user.
//!
//! The numbers are those of Open MPI 5 (`mpi.h`), which a test in `src/mpi` compares. Other
//! libraries have the same names with other numbers.
//!
//! Reference: MPI 4.1 §9.4; for failed processes Bland et al. 2013.

/// Writes the table of classes.
macro_rules! classes {
    ($($name:ident = $number:literal, $meaning:literal;)*) => {
        $(
            #[allow(dead_code, reason = "a table, of which not every line is used")]
            pub(crate) const $name: i32 = $number;
        )*

        /// The name of an error class of MPI.
        pub const fn class_name(class: i32) -> Option<&'static str> {
            match class {
                $($number => Some(concat!("MPI_ERR_", stringify!($name))),)*
                _ => None,
            }
        }

        /// What an error class of MPI says about a call.
        pub const fn class_meaning(class: i32) -> Option<&'static str> {
            match class {
                $($number => Some($meaning),)*
                _ => None,
            }
        }

        /// All that have a name.
        #[cfg(all(test, feature = "mpi"))]
        pub(crate) const CLASSES: &[i32] = &[$($number),*];
    };
}

classes! {
    BUFFER = 1, "the buffer is not valid";
    COUNT = 2, "a count is not valid, or does not fit those of the others";
    TYPE = 3, "the datatype is not valid, or differs from that of the others";
    TAG = 4, "the tag is not valid";
    COMM = 5, "the communicator is not valid";
    RANK = 6, "the rank does not exist";
    REQUEST = 7, "the request is not valid";
    ROOT = 8, "the root does not exist";
    GROUP = 9, "the group is not valid";
    OP = 10, "the reduction is not valid for this datatype";
    TOPOLOGY = 11, "the topology is not valid";
    DIMS = 12, "the dimensions are not valid";
    ARG = 13, "an argument is not valid";
    UNKNOWN = 14, "MPI does not know why";
    TRUNCATE = 15, "the message is longer than the buffer; receive it into a longer one";
    OTHER = 16, "MPI knows more about it than it can say by a class";
    INTERN = 17, "MPI failed inside; its memory or its connections may be used up";
    IN_STATUS = 18, "the statuses say more";
    PENDING = 19, "the request is pending";
    ACCESS = 20, "permission denied";
    AMODE = 21, "the mode of access is not valid";
    ASSERT = 22, "the assertion is not valid";
    BAD_FILE = 23, "the name of the file is not valid";
    BASE = 24, "the base of the window is not valid";
    CONVERSION = 25, "the data could not be converted";
    DISP = 26, "the displacement is not valid";
    DUP_DATAREP = 27, "the data representation exists already";
    FILE_EXISTS = 28, "the file exists already";
    FILE_IN_USE = 29, "the file is in use";
    FILE = 30, "the file handle is not valid";
    INFO_KEY = 31, "the key of the hint is too long";
    INFO_NOKEY = 32, "the hint has no such key";
    INFO_VALUE = 33, "the value of the hint is too long";
    INFO = 34, "the hint is not valid";
    IO = 35, "input or output failed";
    KEYVAL = 36, "the key of the attribute is not valid";
    LOCKTYPE = 37, "the kind of lock is not valid";
    NAME = 38, "nobody has published that name";
    NO_MEM = 39, "there is no memory left";
    NOT_SAME = 40, "the ranks gave different arguments";
    NO_SPACE = 41, "there is no space left on the device";
    NO_SUCH_FILE = 42, "the file does not exist";
    PORT = 43, "the port is not valid";
    QUOTA = 44, "the quota is used up";
    READ_ONLY = 45, "the file or its system is read-only";
    RMA_CONFLICT = 46, "accesses to the window conflict";
    RMA_SYNC = 47, "the window is not synchronised for this call";
    SERVICE = 48, "the service could not be unpublished";
    SIZE = 49, "the size is not valid";
    SPAWN = 50, "processes could not be started; the launcher may have no place for them";
    UNSUPPORTED_DATAREP = 51, "the data representation is not supported";
    UNSUPPORTED_OPERATION = 52, "the operation is not supported";
    WIN = 53, "the window is not valid";
    RMA_RANGE = 68, "the target is outside of the window";
    RMA_ATTACH = 69, "the memory cannot be attached";
    RMA_FLAVOR = 70, "the window is of another kind";
    RMA_SHARED = 71, "the memory cannot be shared";
    PROC_ABORTED = 74, "a process aborted";
    PROC_FAILED = 75, "a process failed";
    PROC_FAILED_PENDING = 76, "a process failed that may have been to send";
    REVOKED = 77, "the communicator was revoked";
    SESSION = 78, "the session is not valid";
    VALUE_TOO_LARGE = 79, "the value does not fit into its type";
}
