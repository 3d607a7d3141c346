# What the extension module uses of fampi.h.

from libc.stdint cimport int64_t
from mpi4py.libmpi cimport (
    MPI_Comm, MPI_Datatype, MPI_Group, MPI_Op, MPI_Request, MPI_Status,
)

cdef extern from "fampi.h" nogil:
    enum:
        FAMPI_ERR_PROC_FAILED
        FAMPI_ERR_PROC_FAILED_SOFT
        FAMPI_ERR_PROC_FAILED_HARD
        FAMPI_ERR_TIMEOUT
        FAMPI_ERR_INTERRUPTED
        FAMPI_ERR_LEFT
        FAMPI_ERR_ABANDONED
        FAMPI_ERR_INNER
        FAMPI_ERR_STATE_LOST
        FAMPI_ERR_NOTHING_PROTECTED
        FAMPI_ERR_NO_COLLECTIVE
        FAMPI_ERR_MISMATCHED
        FAMPI_ERR_FINALIZED
        FAMPI_ERR_NOT_AGREED
        FAMPI_ERR_TOO_MANY_LOST
        FAMPI_ERR_TOO_MANY_OPEN
        FAMPI_ERR_TRANSIENT
        FAMPI_ERR_PERMANENT
        FAMPI_ERR_RCODES_ANY
        FAMPI_ERR_TRYBLOCK_FOUND_ERRORS
        FAMPI_ERR_ARG
        FAMPI_ERR_COUNT
        FAMPI_ERR_REQUEST
        FAMPI_ERR_COMM
        FAMPI_ERR_STATE
        FAMPI_ERR_PENDING
        FAMPI_ERR_CREATION
        FAMPI_ERR_UNSUPPORTED
        FAMPI_ERR_THREAD
        FAMPI_ERR_INTERNAL
        FAMPI_ERR_CHECKPOINTS_EXIST
        FAMPI_ERR_NO_CHECKPOINT
        FAMPI_TRYBLOCK_LOCAL
        FAMPI_TRYBLOCK_GLOBAL
        FAMPI_TRYBLOCK_WITH_COLLECTIVE
        FAMPI_PROMPT
        FAMPI_PATIENT
        FAMPI_MAX_TAG
        FAMPI_RECOVERY_REBUILD
        FAMPI_RECOVERY_SHRINK
        FAMPI_RECOVERY_MERGE
        FAMPI_REDUNDANCY_OWN
        FAMPI_REDUNDANCY_PARTNER
        FAMPI_REDUNDANCY_GROUP
        FAMPI_STATES_NOWHERE
        FAMPI_STATES_IN_MEMORY
        FAMPI_STATES_IN_FILES
        FAMPI_FILES_OF_RANKS
        FAMPI_CAUSE_UNKNOWN
        FAMPI_CAUSE_EXITED
        FAMPI_CAUSE_KILLED
        FAMPI_CAUSE_HUNG
        FAMPI_CAUSE_NODE_LOST

    ctypedef struct FAMPI_Report:
        pass

    int FAMPI_Get_version(int*, int*, int*)
    int FAMPI_Doctor(char*, int, int*)
    const char* FAMPI_Error_string(int)

    int FAMPI_Init(MPI_Comm)
    int FAMPI_TryBlock_start(MPI_Comm, int, MPI_Request*)
    int FAMPI_TryBlock_finish(MPI_Request, int, MPI_Request*, int64_t)
    int FAMPI_TryBlock_finish_allreduce(
        MPI_Request, int, MPI_Request*, int64_t, const void*, void*, int, MPI_Datatype, MPI_Op)
    int FAMPI_TryBlock_interrupt(MPI_Request)
    int FAMPI_Request_raise_error(MPI_Request, int)
    int FAMPI_Request_free(MPI_Request*)
    int FAMPI_Request_get_status(MPI_Request, int*, MPI_Status*)
    int FAMPI_Wait_local(MPI_Request*, MPI_Status*, int64_t)
    int FAMPI_Comm_set_patience(MPI_Comm, int)

    int FAMPI_Isend(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)
    int FAMPI_Issend(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)
    int FAMPI_Irecv(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)
    int FAMPI_Ibarrier(MPI_Comm, MPI_Request*)
    int FAMPI_Ibcast(void*, int, MPI_Datatype, int, MPI_Comm, MPI_Request*)
    int FAMPI_Ireduce(
        const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Request*)
    int FAMPI_Iallreduce(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*)
    int FAMPI_Iscan(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*)
    int FAMPI_Iexscan(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*)
    int FAMPI_Igather(
        const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm, MPI_Request*)
    int FAMPI_Iscatter(
        const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm, MPI_Request*)
    int FAMPI_Iallgather(
        const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Request*)
    int FAMPI_Ialltoall(
        const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Request*)

    int FAMPI_Set_redundancy(MPI_Request, int, int, int)
    int FAMPI_Protect(MPI_Request, int, const void*, int, MPI_Datatype)
    int FAMPI_Restore(MPI_Request, int, void*, int, MPI_Datatype, int*)
    int FAMPI_Set_checkpoints(const char*, int, int, int)
    int FAMPI_Restart(MPI_Request, int, int*, int64_t*, int*)
    int FAMPI_Checkpoint(MPI_Request, int64_t, int*)
    int FAMPI_Saved(int, int, void*, int, MPI_Datatype, int*)
    int FAMPI_Inherit(MPI_Request, int, void*, int, MPI_Datatype, int*, int*)

    int FAMPI_Get_failed_requests(MPI_Request, int, int*, int, int*, int*)
    int FAMPI_Get_failed_group(MPI_Request, int, int*, MPI_Comm, MPI_Group*)
    int FAMPI_Get_failure_cause(MPI_Request, int, int*, int*)
    int FAMPI_Report_get(MPI_Request, FAMPI_Report**)
    int FAMPI_Report_count(const FAMPI_Report*)
    int FAMPI_Report_fault(const FAMPI_Report*, int, int*, int*)
    void FAMPI_Report_free(FAMPI_Report*)

    int FAMPI_Comm_shrink(MPI_Comm, MPI_Comm*)
    int FAMPI_Comm_agree(MPI_Comm, int*)
    int FAMPI_World_init(int, char**, MPI_Comm*, int*)
    int FAMPI_World_recover(MPI_Comm*)
    int FAMPI_World_free(MPI_Comm*)
