"""Blocks, requests and buffers: the calls of libfampi on handles of mpi4py.

A request keeps its buffers for as long as MPI may write to them. Those that a block could not bring
to their end are kept in `_cut_short`, until MPI is done with them or the process ends.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_ANY_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from mpi4py.libmpi cimport *
from mpi4py cimport MPI

import os
from time import monotonic as _monotonic

from mpi4py import MPI as _mpi

from fampi._library cimport *

cdef object _IN_PLACE = _mpi.IN_PLACE
cdef list _cut_short = []
cdef list _never_over = []

cdef enum:
    OPEN
    FINISHED
    DECIDED
    GONE


def constants():
    """The numbers of fampi.h by their names."""
    return {
        "ERR_PROC_FAILED": FAMPI_ERR_PROC_FAILED,
        "ERR_PROC_FAILED_SOFT": FAMPI_ERR_PROC_FAILED_SOFT,
        "ERR_PROC_FAILED_HARD": FAMPI_ERR_PROC_FAILED_HARD,
        "ERR_TIMEOUT": FAMPI_ERR_TIMEOUT,
        "ERR_INTERRUPTED": FAMPI_ERR_INTERRUPTED,
        "ERR_LEFT": FAMPI_ERR_LEFT,
        "ERR_ABANDONED": FAMPI_ERR_ABANDONED,
        "ERR_INNER": FAMPI_ERR_INNER,
        "ERR_STATE_LOST": FAMPI_ERR_STATE_LOST,
        "ERR_NOTHING_PROTECTED": FAMPI_ERR_NOTHING_PROTECTED,
        "ERR_NO_COLLECTIVE": FAMPI_ERR_NO_COLLECTIVE,
        "ERR_MISMATCHED": FAMPI_ERR_MISMATCHED,
        "ERR_FINALIZED": FAMPI_ERR_FINALIZED,
        "ERR_NOT_AGREED": FAMPI_ERR_NOT_AGREED,
        "ERR_TOO_MANY_LOST": FAMPI_ERR_TOO_MANY_LOST,
        "ERR_TOO_MANY_OPEN": FAMPI_ERR_TOO_MANY_OPEN,
        "ERR_TRANSIENT": FAMPI_ERR_TRANSIENT,
        "ERR_PERMANENT": FAMPI_ERR_PERMANENT,
        "ERR_RCODES_ANY": FAMPI_ERR_RCODES_ANY,
        "ERR_TRYBLOCK_FOUND_ERRORS": FAMPI_ERR_TRYBLOCK_FOUND_ERRORS,
        "ERR_ARG": FAMPI_ERR_ARG,
        "ERR_COUNT": FAMPI_ERR_COUNT,
        "ERR_REQUEST": FAMPI_ERR_REQUEST,
        "ERR_COMM": FAMPI_ERR_COMM,
        "ERR_STATE": FAMPI_ERR_STATE,
        "ERR_PENDING": FAMPI_ERR_PENDING,
        "ERR_CREATION": FAMPI_ERR_CREATION,
        "ERR_UNSUPPORTED": FAMPI_ERR_UNSUPPORTED,
        "ERR_THREAD": FAMPI_ERR_THREAD,
        "ERR_INTERNAL": FAMPI_ERR_INTERNAL,
        "ERR_CHECKPOINTS_EXIST": FAMPI_ERR_CHECKPOINTS_EXIST,
        "ERR_NO_CHECKPOINT": FAMPI_ERR_NO_CHECKPOINT,
        "LOCAL": FAMPI_TRYBLOCK_LOCAL,
        "GLOBAL": FAMPI_TRYBLOCK_GLOBAL,
        "WITH_COLLECTIVE": FAMPI_TRYBLOCK_WITH_COLLECTIVE,
        "PROMPT": FAMPI_PROMPT,
        "PATIENT": FAMPI_PATIENT,
        "MAX_TAG": FAMPI_MAX_TAG,
        "RECOVERY_REBUILD": FAMPI_RECOVERY_REBUILD,
        "RECOVERY_SHRINK": FAMPI_RECOVERY_SHRINK,
        "RECOVERY_MERGE": FAMPI_RECOVERY_MERGE,
        "REDUNDANCY_OWN": FAMPI_REDUNDANCY_OWN,
        "REDUNDANCY_PARTNER": FAMPI_REDUNDANCY_PARTNER,
        "REDUNDANCY_GROUP": FAMPI_REDUNDANCY_GROUP,
        "STATES_NOWHERE": FAMPI_STATES_NOWHERE,
        "STATES_IN_MEMORY": FAMPI_STATES_IN_MEMORY,
        "STATES_IN_FILES": FAMPI_STATES_IN_FILES,
        "CAUSE_UNKNOWN": FAMPI_CAUSE_UNKNOWN,
        "CAUSE_EXITED": FAMPI_CAUSE_EXITED,
        "CAUSE_KILLED": FAMPI_CAUSE_KILLED,
        "CAUSE_HUNG": FAMPI_CAUSE_HUNG,
        "CAUSE_NODE_LOST": FAMPI_CAUSE_NODE_LOST,
    }


def error_string(int code):
    """A sentence about a code."""
    return FAMPI_Error_string(code).decode()


def mpi_library():
    """The MPI that libfampi works with, in its own words."""
    cdef char text[MPI_MAX_LIBRARY_VERSION_STRING + 1]
    cdef int length = 0
    memset(text, 0, sizeof(text))
    MPI_Get_library_version(text, &length)
    return text[:length].decode()


def doctor():
    """What this MPI and this launch would survive, in sentences."""
    cdef int length = 0
    _check(FAMPI_Doctor(NULL, 0, &length))
    cdef bytearray text = bytearray(length + 1)
    _check(FAMPI_Doctor(text, length + 1, &length))
    return text[:length].decode()


cdef int _check(int code) except -1:
    if code != 0:
        _refuse(code)
    return 0


cdef _refuse(int code):
    from fampi.errors import Error, Timeout
    raise (Timeout if code == FAMPI_ERR_TIMEOUT else Error)(code)


include "_buffers.pxi"
include "_requests.pxi"
include "_transaction.pxi"
include "_operations.pxi"


cdef MPI.Intracomm _comm_of(MPI_Comm handle):
    cdef MPI.Intracomm comm = MPI.Intracomm.__new__(MPI.Intracomm)
    comm.ob_mpi = handle
    return comm


def take_into_use(MPI.Comm comm not None):
    """Takes a communicator into use, as the first block on it does; collective."""
    cdef int code
    with nogil:
        code = FAMPI_Init(comm.ob_mpi)
    _check(code)


def set_patience(MPI.Comm comm not None, int patience):
    """Says what a death does to later blocks: `PATIENT` (at first) or `PROMPT`."""
    _check(FAMPI_Comm_set_patience(comm.ob_mpi, patience))


def shrink(MPI.Comm comm not None):
    """A communicator of the living ranks, in the same order; the caller frees it by `Free`."""
    cdef MPI_Comm made = MPI_COMM_NULL
    cdef int code
    with nogil:
        code = FAMPI_Comm_shrink(comm.ob_mpi, &made)
    _check(code)
    return _comm_of(made)


def agree(MPI.Comm comm not None, int flag):
    """The bits that all living ranks have set; collective."""
    cdef int code
    with nogil:
        code = FAMPI_Comm_agree(comm.ob_mpi, &flag)
    _check(code)
    return flag


def saved(int rank, int slot):
    """The bytes of a rank in the checkpoint of another number of ranks that `Block.restart` found.

    Local. A `KeyError` where there is no such state, an `OSError` where its file cannot be read.
    """
    cdef int code, count = 0
    with nogil:
        code = FAMPI_Saved(rank, slot, NULL, 0, MPI_BYTE, &count)
    # Other ranks know nothing of these: they are no errors with which a block can go on.
    if code == FAMPI_ERR_NOTHING_PROTECTED:
        raise KeyError(slot)
    if code == FAMPI_ERR_NO_CHECKPOINT:
        raise OSError(f"the file with the state of rank {rank} cannot be read any more")
    _check(code)
    cdef bytearray state = bytearray(count)
    cdef char* start = state
    with nogil:
        code = FAMPI_Saved(rank, slot, start, count, MPI_BYTE, &count)
    _check(code)
    return state


def save_nothing():
    """From the next `Block.restart` on no checkpoint is saved; all ranks call it."""
    _check(FAMPI_Set_checkpoints(NULL, 0, FAMPI_FILES_OF_RANKS, 0))


def world_init(int recovery, words):
    """The world's communicator, and whether this process is a replacement in it."""
    cdef MPI_Comm world = MPI_COMM_NULL
    cdef int is_replacement = 0, code
    cdef char** argv = NULL
    cdef list texts = [os.fsencode(word) for word in words or ()]
    cdef Py_ssize_t place
    if words is not None:
        argv = <char**> malloc((len(texts) + 1) * sizeof(char*))
        if argv == NULL:
            raise MemoryError()
        for place in range(len(texts)):
            argv[place] = <bytes> texts[place]
        argv[len(texts)] = NULL
    with nogil:
        code = FAMPI_World_init(recovery, argv, &world, &is_replacement)
    free(argv)
    _check(code)
    return _comm_of(world), bool(is_replacement)


def world_recover(MPI.Intracomm comm not None):
    """The next world's communicator; the same one if nobody has died. The old one is null then."""
    cdef MPI_Comm world = comm.ob_mpi
    cdef int code
    with nogil:
        code = FAMPI_World_recover(&world)
    _check(code)
    if world == comm.ob_mpi:
        return comm
    comm.ob_mpi = MPI_COMM_NULL
    cut_short()
    return _comm_of(world)


def world_free(MPI.Intracomm comm not None):
    """Ends the world; its communicator is null then."""
    cdef MPI_Comm world = comm.ob_mpi
    cdef int code
    with nogil:
        code = FAMPI_World_free(&world)
    comm.ob_mpi = world
    _check(code)
