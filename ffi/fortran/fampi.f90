! fampi: transactions that let MPI programs survive the death of processes, for Fortran.
!
! Generated from fampi.h, and checked by a test: FAMPI_WRITE_HEADER=1 cargo test -p fampi-ffi \
! --test header. What each procedure does, returns and needs stands there, and in its manual page.
!
! As in mpi_f08, ierror may be left out; an error then ends the program with its sentence. So may a
! status, after which arguments have their names. Places in lists begin with 1. A buffer is all of
! a variable, or a part without gaps, and is asynchronous until its request is over.
module fampi
  use, intrinsic :: iso_c_binding
  use mpi_f08, only: MPI_Comm, MPI_Datatype, MPI_Group, MPI_Op, MPI_Request, MPI_Status, &
    MPI_UNDEFINED
  use fampi_base
  implicit none
  private

  public :: FAMPI_IN_PLACE, FAMPI_Error_string, FAMPI_Doctor, FAMPI_World_init

  ! The kind of a timeout: nanoseconds.
  integer, parameter, public :: FAMPI_TIMEOUT_KIND = c_int64_t

  ! A group of recommended processes, which is the program's until FAMPI_Membership_free.
  type, public :: FAMPI_Membership
    private
    type(c_ptr) :: object = c_null_ptr
  end type

  ! The report of a block, which is the program's until FAMPI_Report_free.
  type, public :: FAMPI_Report
    private
    type(c_ptr) :: object = c_null_ptr
  end type

  ! Each rank saves its states in a file of its own.
  integer(c_int), parameter, public :: FAMPI_FILES_OF_RANKS = 0
  ! Ranks of a node that follow each other save theirs in one file.
  integer(c_int), parameter, public :: FAMPI_FILES_OF_NODES = 1
  ! All ranks save theirs in one file, in a folder that all nodes share.
  integer(c_int), parameter, public :: FAMPI_FILES_OF_JOB = 2
  ! The job goes on from the newest checkpoint that is there.
  integer(c_int), parameter, public :: FAMPI_CHECKPOINT_RESTART = 1
  ! States are compressed (LZ4), each where that makes it smaller.
  integer(c_int), parameter, public :: FAMPI_CHECKPOINT_COMPRESSED = 2
  ! There is no state to go on from: all ranks begin, and do not call FAMPI_Restore.
  integer(c_int), parameter, public :: FAMPI_STATES_NOWHERE = 0
  ! States are in the memory of ranks.
  integer(c_int), parameter, public :: FAMPI_STATES_IN_MEMORY = 1
  ! States were found in a checkpoint.
  integer(c_int), parameter, public :: FAMPI_STATES_IN_FILES = 2
  ! Done; equal to MPI_SUCCESS.
  integer(c_int), parameter, public :: FAMPI_SUCCESS = 0
  ! In the list of a query: the death of processes, soft and hard.
  integer(c_int), parameter, public :: FAMPI_ERR_PROC_FAILED = 262144000
  ! A process died; its node lives, as far as is known.
  integer(c_int), parameter, public :: FAMPI_ERR_PROC_FAILED_SOFT = 262144001
  ! A node was lost with all its processes, each of which has this code; ask for
  ! FAMPI_ERR_PROC_FAILED, which is both.
  integer(c_int), parameter, public :: FAMPI_ERR_PROC_FAILED_HARD = 262144002
  ! As a return code: not over within the timeout, which says nothing about the outcome: wait
  ! again.
  integer(c_int), parameter, public :: FAMPI_ERR_TIMEOUT = 262144003
  ! Cut short, because a failure elsewhere has doomed the block: finish it.
  integer(c_int), parameter, public :: FAMPI_ERR_INTERRUPTED = 262144004
  ! A rank released the block's request without finishing the block.
  integer(c_int), parameter, public :: FAMPI_ERR_LEFT = 262144005
  ! A rank has freed the communicator and starts no further block on it.
  integer(c_int), parameter, public :: FAMPI_ERR_ABANDONED = 262144006
  ! A block in the list of this one was faulty.
  integer(c_int), parameter, public :: FAMPI_ERR_INNER = 262144007
  ! A rank and the one that kept its copy are dead: start again from a file.
  integer(c_int), parameter, public :: FAMPI_ERR_STATE_LOST = 262144008
  ! A state was to be restored that no commit has protected: start from the beginning.
  integer(c_int), parameter, public :: FAMPI_ERR_NOTHING_PROTECTED = 262144009
  ! A block with FAMPI_TRYBLOCK_WITH_COLLECTIVE has no collective of all its ranks.
  integer(c_int), parameter, public :: FAMPI_ERR_NO_COLLECTIVE = 262144010
  ! Not all ranks ended the block with the same reduction: numbers, type, operation.
  integer(c_int), parameter, public :: FAMPI_ERR_MISMATCHED = 262144011
  ! A rank had left the job when others started the block: start the same blocks on all ranks
  ! before one of them calls MPI_Finalize.
  integer(c_int), parameter, public :: FAMPI_ERR_FINALIZED = 262144012
  ! Some ranks agreed on a flag while others ended a block.
  integer(c_int), parameter, public :: FAMPI_ERR_NOT_AGREED = 262144014
  ! More ranks failed than a state was kept for.
  integer(c_int), parameter, public :: FAMPI_ERR_TOO_MANY_LOST = 262144015
  ! A message could not start, as too many older blocks are not decided here: wait for these
  ! first.
  integer(c_int), parameter, public :: FAMPI_ERR_TOO_MANY_OPEN = 262144018
  ! How a process died (FAMPI_Get_failure_cause): no living rank could say.
  integer(c_int), parameter, public :: FAMPI_CAUSE_UNKNOWN = 0
  ! It exited before its end, with a status.
  integer(c_int), parameter, public :: FAMPI_CAUSE_EXITED = 1
  ! It was ended by a signal.
  integer(c_int), parameter, public :: FAMPI_CAUSE_KILLED = 2
  ! It made no progress for longer than the user allows, and was ended for that.
  integer(c_int), parameter, public :: FAMPI_CAUSE_HUNG = 3
  ! Its node was lost.
  integer(c_int), parameter, public :: FAMPI_CAUSE_NODE_LOST = 4
  ! A code for applications: a fault that trying again may cure.
  integer(c_int), parameter, public :: FAMPI_ERR_TRANSIENT = 262144120
  ! A code for applications: a fault that stays.
  integer(c_int), parameter, public :: FAMPI_ERR_PERMANENT = 262144121
  ! In the list of a query: every code matches.
  integer(c_int), parameter, public :: FAMPI_ERR_RCODES_ANY = 262144255
  ! The block is faulty, on all living ranks if it is global: ask the queries, recover.
  integer(c_int), parameter, public :: FAMPI_ERR_TRYBLOCK_FOUND_ERRORS = 262144140
  ! A null pointer, or a value that has no meaning here.
  integer(c_int), parameter, public :: FAMPI_ERR_ARG = 262144141
  ! A number of things that is negative, or more than there may be.
  integer(c_int), parameter, public :: FAMPI_ERR_COUNT = 262144142
  ! Not a request, or not one of the kind that is needed: freed, null, no block.
  integer(c_int), parameter, public :: FAMPI_ERR_REQUEST = 262144143
  ! No communicator that this call can work on.
  integer(c_int), parameter, public :: FAMPI_ERR_COMM = 262144144
  ! The block was finished already, or is not finished, or is not decided yet.
  integer(c_int), parameter, public :: FAMPI_ERR_STATE = 262144145
  ! Another communicator is being made; one at a time.
  integer(c_int), parameter, public :: FAMPI_ERR_PENDING = 262144146
  ! Processes died while a communicator was made; nothing was made, on no living rank.
  integer(c_int), parameter, public :: FAMPI_ERR_CREATION = 262144147
  ! This MPI, or this launch, will not do; FAMPI_Doctor says why.
  integer(c_int), parameter, public :: FAMPI_ERR_UNSUPPORTED = 262144148
  ! One thread calls fampi: the one that called it first.
  integer(c_int), parameter, public :: FAMPI_ERR_THREAD = 262144149
  ! A defect of fampi; every later call returns this, too.
  integer(c_int), parameter, public :: FAMPI_ERR_INTERNAL = 262144150
  ! The folder has checkpoints of an earlier job, from which this one is not to go on: do that, or
  ! choose an empty folder.
  integer(c_int), parameter, public :: FAMPI_ERR_CHECKPOINTS_EXIST = 262144151
  ! The job is to go on from a checkpoint, and none is there of which all ranks have their parts,
  ! undamaged.
  integer(c_int), parameter, public :: FAMPI_ERR_NO_CHECKPOINT = 262144152
  ! A block of this rank alone: no message, faults known here only.
  integer(c_int), parameter, public :: FAMPI_TRYBLOCK_LOCAL = 0
  ! A block of all living ranks of its communicator, which agree at its end.
  integer(c_int), parameter, public :: FAMPI_TRYBLOCK_GLOBAL = 1
  ! A block with a synchronising collective among its requests.
  integer(c_int), parameter, public :: FAMPI_TRYBLOCK_WITH_COLLECTIVE = 2
  ! A death ends all that waits in a block.
  integer(c_int), parameter, public :: FAMPI_PROMPT = 0
  ! A death ends what needed the dead, and what no living rank will serve.
  integer(c_int), parameter, public :: FAMPI_PATIENT = 1
  ! The greatest tag of FAMPI_Isend, FAMPI_Issend and FAMPI_Irecv.
  integer(c_int), parameter, public :: FAMPI_MAX_TAG = 32570
  ! A recovery in which replacements take the failed ranks: spares of the launch first, then new
  ! processes.
  integer(c_int), parameter, public :: FAMPI_RECOVERY_REBUILD = 0
  ! A recovery without replacements: the survivors are numbered anew, without gaps.
  integer(c_int), parameter, public :: FAMPI_RECOVERY_SHRINK = 1
  ! A recovery in which survivors move together, and replacements come behind them.
  integer(c_int), parameter, public :: FAMPI_RECOVERY_MERGE = 2
  ! Members that fail tests keep their work.
  integer(c_int), parameter, public :: FAMPI_SLOW_STAY = 0
  ! Members that fail tests are benched for good.
  integer(c_int), parameter, public :: FAMPI_SLOW_LEAVE = 1
  ! Members that fail tests are benched until they have passed enough of them in a row.
  integer(c_int), parameter, public :: FAMPI_SLOW_RETURN = 2
  ! So are they, and so is at first a process that takes the place of a dead one, if it is tested.
  integer(c_int), parameter, public :: FAMPI_SLOW_PROBATION = 3
  ! States that are protected are kept by their rank alone: a rank that dies takes its state
  ! along.
  integer(c_int), parameter, public :: FAMPI_REDUNDANCY_OWN = 0
  ! States that are protected are kept at a partner: half of the ranks further on, or, where that
  ! one is on the same node, one on another node, unless one node has more than half of the ranks.
  integer(c_int), parameter, public :: FAMPI_REDUNDANCY_PARTNER = 1
  ! States that are protected are kept in a code over groups of ranks.
  integer(c_int), parameter, public :: FAMPI_REDUNDANCY_GROUP = 2
  ! Look once, do not wait.
  integer(FAMPI_TIMEOUT_KIND), parameter, public :: FAMPI_TIMEOUT_POLL = 0
  ! No limit.
  integer(FAMPI_TIMEOUT_KIND), parameter, public :: FAMPI_TIMEOUT_NEVER = -1

  public :: FAMPI_Checkpoint, FAMPI_Comm_ack_failed, FAMPI_Comm_agree, FAMPI_Comm_benched, &
      FAMPI_Comm_failure_ack, FAMPI_Comm_failure_get_acked, FAMPI_Comm_get_failed, &
      FAMPI_Comm_iagree, FAMPI_Comm_is_revoked, FAMPI_Comm_known_failed, FAMPI_Comm_revoke, &
      FAMPI_Comm_set_patience, FAMPI_Comm_shrink, FAMPI_Comm_use, &
      FAMPI_Get_failed_communicators, FAMPI_Get_failed_group, FAMPI_Get_failed_requests, &
      FAMPI_Get_failure_cause, FAMPI_Get_version, FAMPI_Has_feature, FAMPI_Iallgather, &
      FAMPI_Iallgatherv, FAMPI_Iallreduce, FAMPI_Ialltoall, FAMPI_Ialltoallv, FAMPI_Ibarrier, &
      FAMPI_Ibcast, FAMPI_Iexscan, FAMPI_Igather, FAMPI_Igatherv, FAMPI_Inherit, FAMPI_Init, &
      FAMPI_Irecv, FAMPI_Ireduce, FAMPI_Iscan, FAMPI_Iscatter, FAMPI_Iscatterv, FAMPI_Isend, &
      FAMPI_Issend, FAMPI_Membership_epoch, FAMPI_Membership_free, FAMPI_Membership_has, &
      FAMPI_Membership_news, FAMPI_Membership_owner, FAMPI_Membership_renew, &
      FAMPI_Membership_start, FAMPI_Protect, FAMPI_Report_count, FAMPI_Report_fault, &
      FAMPI_Report_free, FAMPI_Report_get, FAMPI_Request_free, FAMPI_Request_get_status, &
      FAMPI_Request_raise_error, FAMPI_Restart, FAMPI_Restore, FAMPI_Saved, &
      FAMPI_Set_checkpoints, FAMPI_Set_redundancy, FAMPI_Test, FAMPI_Timeout_get_seconds, &
      FAMPI_Timeout_set_seconds, FAMPI_TryBlock_finish, FAMPI_TryBlock_finish_allreduce, &
      FAMPI_TryBlock_interrupt, FAMPI_TryBlock_start, FAMPI_Wait, FAMPI_Wait_local, &
      FAMPI_Waitall, FAMPI_Waitall_local, FAMPI_Waitany_local, FAMPI_Waitsome_local, &
      FAMPI_World_free, FAMPI_World_recover

  interface
    function c_FAMPI_Checkpoint(tb_request, step, flag) bind(C, name="FAMPI_Checkpoint") &
      result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int64_t), value :: step
      integer(c_int) :: flag
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_ack_failed(comm, num_to_ack, num_acked) bind(C, &
      name="FAMPI_Comm_ack_failed") result(c_code)
      import
      integer(handle), value :: comm
      integer(c_int), value :: num_to_ack
      integer(c_int) :: num_acked
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_agree(comm, flag) bind(C, name="FAMPI_Comm_agree") result(c_code)
      import
      integer(handle), value :: comm
      integer(c_int) :: flag
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_benched(comm, group) bind(C, name="FAMPI_Comm_benched") result(c_code)
      import
      integer(handle), value :: comm
      integer(handle) :: group
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_failure_ack(comm) bind(C, name="FAMPI_Comm_failure_ack") &
      result(c_code)
      import
      integer(handle), value :: comm
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_failure_get_acked(comm, failedgrp) bind(C, &
      name="FAMPI_Comm_failure_get_acked") result(c_code)
      import
      integer(handle), value :: comm
      integer(handle) :: failedgrp
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_get_failed(comm, failedgrp) bind(C, name="FAMPI_Comm_get_failed") &
      result(c_code)
      import
      integer(handle), value :: comm
      integer(handle) :: failedgrp
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_iagree(comm, flag, request) bind(C, name="FAMPI_Comm_iagree") &
      result(c_code)
      import
      integer(handle), value :: comm
      integer(c_int) :: flag
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_is_revoked(comm, flag) bind(C, name="FAMPI_Comm_is_revoked") &
      result(c_code)
      import
      integer(handle), value :: comm
      integer(c_int) :: flag
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_known_failed(comm, fgroup) bind(C, name="FAMPI_Comm_known_failed") &
      result(c_code)
      import
      integer(handle), value :: comm
      integer(handle) :: fgroup
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_revoke(comm) bind(C, name="FAMPI_Comm_revoke") result(c_code)
      import
      integer(handle), value :: comm
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_set_patience(comm, patience) bind(C, name="FAMPI_Comm_set_patience") &
      result(c_code)
      import
      integer(handle), value :: comm
      integer(c_int), value :: patience
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_shrink(comm, newcomm) bind(C, name="FAMPI_Comm_shrink") result(c_code)
      import
      integer(handle), value :: comm
      integer(handle) :: newcomm
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Comm_use(comm) bind(C, name="FAMPI_Comm_use") result(c_code)
      import
      integer(handle), value :: comm
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Get_failed_communicators(tb_request, error_codes_count, &
      array_of_error_codes, max_communicators_count, array_of_communicators, count) bind(C, &
      name="FAMPI_Get_failed_communicators") result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int), value :: error_codes_count
      integer(c_int) :: array_of_error_codes(*)
      integer(c_int), value :: max_communicators_count
      integer(handle) :: array_of_communicators(*)
      integer(c_int) :: count
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Get_failed_group(tb_request, error_codes_count, array_of_error_codes, &
      comm, fgroup) bind(C, name="FAMPI_Get_failed_group") result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int), value :: error_codes_count
      integer(c_int) :: array_of_error_codes(*)
      integer(handle), value :: comm
      integer(handle) :: fgroup
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Get_failed_requests(tb_request, error_codes_count, array_of_error_codes, &
      max_requests_count, array_of_indices, count) bind(C, name="FAMPI_Get_failed_requests") &
      result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int), value :: error_codes_count
      integer(c_int) :: array_of_error_codes(*)
      integer(c_int), value :: max_requests_count
      integer(c_int) :: array_of_indices(*)
      integer(c_int) :: count
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Get_failure_cause(tb_request, rank, cause, value) bind(C, &
      name="FAMPI_Get_failure_cause") result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int), value :: rank
      integer(c_int) :: cause
      integer(c_int) :: value
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Get_version(major, minor, patch) bind(C, name="FAMPI_Get_version") &
      result(c_code)
      import
      integer(c_int) :: major
      integer(c_int) :: minor
      integer(c_int) :: patch
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Has_feature(name, flag) bind(C, name="FAMPI_Has_feature") result(c_code)
      import
      character(kind=c_char) :: name(*)
      integer(c_int) :: flag
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Iallgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, &
      comm, request) bind(C, name="FAMPI_Iallgather") result(c_code)
      import
      type(c_ptr), value :: sendbuf
      integer(c_int), value :: sendcount
      integer(handle), value :: sendtype
      type(c_ptr), value :: recvbuf
      integer(c_int), value :: recvcount
      integer(handle), value :: recvtype
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Iallgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, &
      recvtype, comm, request) bind(C, name="FAMPI_Iallgatherv") result(c_code)
      import
      type(c_ptr), value :: sendbuf
      integer(c_int), value :: sendcount
      integer(handle), value :: sendtype
      type(c_ptr), value :: recvbuf
      integer(c_int) :: recvcounts(*)
      integer(c_int) :: displs(*)
      integer(handle), value :: recvtype
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request) bind(C, &
      name="FAMPI_Iallreduce") result(c_code)
      import
      type(c_ptr), value :: sendbuf
      type(c_ptr), value :: recvbuf
      integer(c_int), value :: count
      integer(handle), value :: datatype
      integer(handle), value :: op
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Ialltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, &
      comm, request) bind(C, name="FAMPI_Ialltoall") result(c_code)
      import
      type(c_ptr), value :: sendbuf
      integer(c_int), value :: sendcount
      integer(handle), value :: sendtype
      type(c_ptr), value :: recvbuf
      integer(c_int), value :: recvcount
      integer(handle), value :: recvtype
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Ialltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, &
      rdispls, recvtype, comm, request) bind(C, name="FAMPI_Ialltoallv") result(c_code)
      import
      type(c_ptr), value :: sendbuf
      integer(c_int) :: sendcounts(*)
      integer(c_int) :: sdispls(*)
      integer(handle), value :: sendtype
      type(c_ptr), value :: recvbuf
      integer(c_int) :: recvcounts(*)
      integer(c_int) :: rdispls(*)
      integer(handle), value :: recvtype
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Ibarrier(comm, request) bind(C, name="FAMPI_Ibarrier") result(c_code)
      import
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Ibcast(buffer, count, datatype, root, comm, request) bind(C, &
      name="FAMPI_Ibcast") result(c_code)
      import
      type(c_ptr), value :: buffer
      integer(c_int), value :: count
      integer(handle), value :: datatype
      integer(c_int), value :: root
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Iexscan(sendbuf, recvbuf, count, datatype, op, comm, request) bind(C, &
      name="FAMPI_Iexscan") result(c_code)
      import
      type(c_ptr), value :: sendbuf
      type(c_ptr), value :: recvbuf
      integer(c_int), value :: count
      integer(handle), value :: datatype
      integer(handle), value :: op
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Igather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, &
      comm, request) bind(C, name="FAMPI_Igather") result(c_code)
      import
      type(c_ptr), value :: sendbuf
      integer(c_int), value :: sendcount
      integer(handle), value :: sendtype
      type(c_ptr), value :: recvbuf
      integer(c_int), value :: recvcount
      integer(handle), value :: recvtype
      integer(c_int), value :: root
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Igatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, &
      recvtype, root, comm, request) bind(C, name="FAMPI_Igatherv") result(c_code)
      import
      type(c_ptr), value :: sendbuf
      integer(c_int), value :: sendcount
      integer(handle), value :: sendtype
      type(c_ptr), value :: recvbuf
      integer(c_int) :: recvcounts(*)
      integer(c_int) :: displs(*)
      integer(handle), value :: recvtype
      integer(c_int), value :: root
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Inherit(tb_request, slot, state, max_count, datatype, count, rank) bind(C, &
      name="FAMPI_Inherit") result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int), value :: slot
      type(c_ptr), value :: state
      integer(c_int), value :: max_count
      integer(handle), value :: datatype
      integer(c_int) :: count
      integer(c_int) :: rank
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Init(comm) bind(C, name="FAMPI_Init") result(c_code)
      import
      integer(handle), value :: comm
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Irecv(buf, count, datatype, source, tag, comm, request) bind(C, &
      name="FAMPI_Irecv") result(c_code)
      import
      type(c_ptr), value :: buf
      integer(c_int), value :: count
      integer(handle), value :: datatype
      integer(c_int), value :: source
      integer(c_int), value :: tag
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Ireduce(sendbuf, recvbuf, count, datatype, op, root, comm, request) &
      bind(C, name="FAMPI_Ireduce") result(c_code)
      import
      type(c_ptr), value :: sendbuf
      type(c_ptr), value :: recvbuf
      integer(c_int), value :: count
      integer(handle), value :: datatype
      integer(handle), value :: op
      integer(c_int), value :: root
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Iscan(sendbuf, recvbuf, count, datatype, op, comm, request) bind(C, &
      name="FAMPI_Iscan") result(c_code)
      import
      type(c_ptr), value :: sendbuf
      type(c_ptr), value :: recvbuf
      integer(c_int), value :: count
      integer(handle), value :: datatype
      integer(handle), value :: op
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Iscatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, &
      comm, request) bind(C, name="FAMPI_Iscatter") result(c_code)
      import
      type(c_ptr), value :: sendbuf
      integer(c_int), value :: sendcount
      integer(handle), value :: sendtype
      type(c_ptr), value :: recvbuf
      integer(c_int), value :: recvcount
      integer(handle), value :: recvtype
      integer(c_int), value :: root
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Iscatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, &
      recvtype, root, comm, request) bind(C, name="FAMPI_Iscatterv") result(c_code)
      import
      type(c_ptr), value :: sendbuf
      integer(c_int) :: sendcounts(*)
      integer(c_int) :: displs(*)
      integer(handle), value :: sendtype
      type(c_ptr), value :: recvbuf
      integer(c_int), value :: recvcount
      integer(handle), value :: recvtype
      integer(c_int), value :: root
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Isend(buf, count, datatype, dest, tag, comm, request) bind(C, &
      name="FAMPI_Isend") result(c_code)
      import
      type(c_ptr), value :: buf
      integer(c_int), value :: count
      integer(handle), value :: datatype
      integer(c_int), value :: dest
      integer(c_int), value :: tag
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Issend(buf, count, datatype, dest, tag, comm, request) bind(C, &
      name="FAMPI_Issend") result(c_code)
      import
      type(c_ptr), value :: buf
      integer(c_int), value :: count
      integer(handle), value :: datatype
      integer(c_int), value :: dest
      integer(c_int), value :: tag
      integer(handle), value :: comm
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Membership_epoch(membership, epoch) bind(C, name="FAMPI_Membership_epoch") &
      result(c_code)
      import
      type(c_ptr), value :: membership
      integer(c_int) :: epoch
      integer(c_int) :: c_code
    end function
    subroutine c_FAMPI_Membership_free(membership) bind(C, name="FAMPI_Membership_free")
      import
      type(c_ptr) :: membership
    end subroutine
    function c_FAMPI_Membership_has(membership, member, flag) bind(C, &
      name="FAMPI_Membership_has") result(c_code)
      import
      type(c_ptr), value :: membership
      integer(c_int), value :: member
      integer(c_int) :: flag
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Membership_news(membership, news) bind(C, name="FAMPI_Membership_news") &
      result(c_code)
      import
      type(c_ptr), value :: membership
      integer(c_int) :: news
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Membership_owner(membership, part, member) bind(C, &
      name="FAMPI_Membership_owner") result(c_code)
      import
      type(c_ptr), value :: membership
      integer(c_int), value :: part
      integer(c_int) :: member
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Membership_renew(membership, comm) bind(C, name="FAMPI_Membership_renew") &
      result(c_code)
      import
      type(c_ptr), value :: membership
      integer(handle), value :: comm
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Membership_start(comm, slow, membership) bind(C, &
      name="FAMPI_Membership_start") result(c_code)
      import
      integer(handle), value :: comm
      integer(c_int), value :: slow
      type(c_ptr) :: membership
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Protect(tb_request, slot, state, count, datatype) bind(C, &
      name="FAMPI_Protect") result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int), value :: slot
      type(c_ptr), value :: state
      integer(c_int), value :: count
      integer(handle), value :: datatype
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Report_count(report) bind(C, name="FAMPI_Report_count") result(c_code)
      import
      type(c_ptr), value :: report
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Report_fault(report, index, rank, code) bind(C, name="FAMPI_Report_fault") &
      result(c_code)
      import
      type(c_ptr), value :: report
      integer(c_int), value :: index
      integer(c_int) :: rank
      integer(c_int) :: code
      integer(c_int) :: c_code
    end function
    subroutine c_FAMPI_Report_free(report) bind(C, name="FAMPI_Report_free")
      import
      type(c_ptr), value :: report
    end subroutine
    function c_FAMPI_Report_get(tb_request, report) bind(C, name="FAMPI_Report_get") &
      result(c_code)
      import
      integer(handle), value :: tb_request
      type(c_ptr) :: report
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Request_free(request) bind(C, name="FAMPI_Request_free") result(c_code)
      import
      integer(handle) :: request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Request_get_status(request, flag, status) bind(C, &
      name="FAMPI_Request_get_status") result(c_code)
      import
      integer(handle), value :: request
      integer(c_int) :: flag
      type(c_ptr), value :: status
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Request_raise_error(request, error_code) bind(C, &
      name="FAMPI_Request_raise_error") result(c_code)
      import
      integer(handle), value :: request
      integer(c_int), value :: error_code
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Restart(tb_request, resizes, from, step, size) bind(C, &
      name="FAMPI_Restart") result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int), value :: resizes
      integer(c_int) :: from
      integer(c_int64_t) :: step
      integer(c_int) :: size
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Restore(tb_request, slot, state, max_count, datatype, count) bind(C, &
      name="FAMPI_Restore") result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int), value :: slot
      type(c_ptr), value :: state
      integer(c_int), value :: max_count
      integer(handle), value :: datatype
      integer(c_int) :: count
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Saved(rank, slot, state, max_count, datatype, count) bind(C, &
      name="FAMPI_Saved") result(c_code)
      import
      integer(c_int), value :: rank
      integer(c_int), value :: slot
      type(c_ptr), value :: state
      integer(c_int), value :: max_count
      integer(handle), value :: datatype
      integer(c_int) :: count
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Set_checkpoints(folder, every, files, flags) bind(C, &
      name="FAMPI_Set_checkpoints") result(c_code)
      import
      character(kind=c_char) :: folder(*)
      integer(c_int), value :: every
      integer(c_int), value :: files
      integer(c_int), value :: flags
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Set_redundancy(tb_request, redundancy, ranks, losses) bind(C, &
      name="FAMPI_Set_redundancy") result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int), value :: redundancy
      integer(c_int), value :: ranks
      integer(c_int), value :: losses
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Test(request, flag, status) bind(C, name="FAMPI_Test") result(c_code)
      import
      integer(handle) :: request
      integer(c_int) :: flag
      type(c_ptr), value :: status
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Timeout_get_seconds(timeout, seconds) bind(C, &
      name="FAMPI_Timeout_get_seconds") result(c_code)
      import
      integer(FAMPI_TIMEOUT_KIND), value :: timeout
      real(c_double) :: seconds
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Timeout_set_seconds(timeout, seconds) bind(C, &
      name="FAMPI_Timeout_set_seconds") result(c_code)
      import
      integer(FAMPI_TIMEOUT_KIND) :: timeout
      real(c_double), value :: seconds
      integer(c_int) :: c_code
    end function
    function c_FAMPI_TryBlock_finish(tb_request, count, array_of_requests, timeout) bind(C, &
      name="FAMPI_TryBlock_finish") result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int), value :: count
      integer(handle) :: array_of_requests(*)
      integer(FAMPI_TIMEOUT_KIND), value :: timeout
      integer(c_int) :: c_code
    end function
    function c_FAMPI_TryBlock_finish_allreduce(tb_request, count, array_of_requests, timeout, &
      sendbuf, recvbuf, numbers, datatype, op) bind(C, name="FAMPI_TryBlock_finish_allreduce") &
      result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int), value :: count
      integer(handle) :: array_of_requests(*)
      integer(FAMPI_TIMEOUT_KIND), value :: timeout
      type(c_ptr), value :: sendbuf
      type(c_ptr), value :: recvbuf
      integer(c_int), value :: numbers
      integer(handle), value :: datatype
      integer(handle), value :: op
      integer(c_int) :: c_code
    end function
    function c_FAMPI_TryBlock_interrupt(tb_request) bind(C, name="FAMPI_TryBlock_interrupt") &
      result(c_code)
      import
      integer(handle), value :: tb_request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_TryBlock_start(comm, flag, tb_request) bind(C, &
      name="FAMPI_TryBlock_start") result(c_code)
      import
      integer(handle), value :: comm
      integer(c_int), value :: flag
      integer(handle) :: tb_request
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Wait(request, status) bind(C, name="FAMPI_Wait") result(c_code)
      import
      integer(handle) :: request
      type(c_ptr), value :: status
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Wait_local(request, status, timeout) bind(C, name="FAMPI_Wait_local") &
      result(c_code)
      import
      integer(handle) :: request
      type(c_ptr), value :: status
      integer(FAMPI_TIMEOUT_KIND), value :: timeout
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Waitall(count, requests, statuses) bind(C, name="FAMPI_Waitall") &
      result(c_code)
      import
      integer(c_int), value :: count
      integer(handle) :: requests(*)
      type(c_ptr), value :: statuses
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Waitall_local(count, requests, statuses, timeout) bind(C, &
      name="FAMPI_Waitall_local") result(c_code)
      import
      integer(c_int), value :: count
      integer(handle) :: requests(*)
      type(c_ptr), value :: statuses
      integer(FAMPI_TIMEOUT_KIND), value :: timeout
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Waitany_local(count, requests, index, status, timeout) bind(C, &
      name="FAMPI_Waitany_local") result(c_code)
      import
      integer(c_int), value :: count
      integer(handle) :: requests(*)
      integer(c_int) :: index
      type(c_ptr), value :: status
      integer(FAMPI_TIMEOUT_KIND), value :: timeout
      integer(c_int) :: c_code
    end function
    function c_FAMPI_Waitsome_local(incount, requests, outcount, indices, statuses, timeout) &
      bind(C, name="FAMPI_Waitsome_local") result(c_code)
      import
      integer(c_int), value :: incount
      integer(handle) :: requests(*)
      integer(c_int) :: outcount
      integer(c_int) :: indices(*)
      type(c_ptr), value :: statuses
      integer(FAMPI_TIMEOUT_KIND), value :: timeout
      integer(c_int) :: c_code
    end function
    function c_FAMPI_World_free(world) bind(C, name="FAMPI_World_free") result(c_code)
      import
      integer(handle) :: world
      integer(c_int) :: c_code
    end function
    function c_FAMPI_World_recover(world) bind(C, name="FAMPI_World_recover") result(c_code)
      import
      integer(handle) :: world
      integer(c_int) :: c_code
    end function
  end interface

contains

  ! Saves the states that the last commit on this communicator has made valid, if a checkpoint is
  ! due, in a global block that is not finished.
  subroutine FAMPI_Checkpoint(tb_request, step, flag, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer(c_int64_t), intent(in) :: step
    logical, intent(inout) :: flag
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_flag
    integer(c_int) :: c_code
    c_flag = -1
    c_code = c_FAMPI_Checkpoint(to_c(tb_request), step, c_flag)
    if (c_flag >= 0) flag = c_flag /= 0
    call end_call(c_code, "FAMPI_Checkpoint", ierror)
  end subroutine

  ! Acknowledges the first so many of the dead that FAMPI_Comm_get_failed gives: agreements in
  ! which all have acknowledged a death are no error any more, and MPI's receives from any source
  ! work again once all that this rank knows of are acknowledged.
  subroutine FAMPI_Comm_ack_failed(comm, num_to_ack, num_acked, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(in) :: num_to_ack
    integer, asynchronous, intent(inout) :: num_acked
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Comm_ack_failed(to_c(comm), num_to_ack, num_acked)
    call end_call(c_code, "FAMPI_Comm_ack_failed", ierror)
  end subroutine

  ! Agrees on the bits that are set in the flags of all living ranks.
  subroutine FAMPI_Comm_agree(comm, flag, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, asynchronous, intent(inout) :: flag
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Comm_agree(to_c(comm), flag)
    call end_call(c_code, "FAMPI_Comm_agree", ierror)
  end subroutine

  ! The living ranks of a communicator that its last census has found too slow for work, as a
  ! group that the program frees: what a program that decides how to go on after a faulty block
  ! may want to know beside FAMPI_Comm_known_failed.
  subroutine FAMPI_Comm_benched(comm, group, ierror)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Group), intent(inout) :: group
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_group
    integer(c_int) :: c_code
    c_code = c_FAMPI_Comm_benched(to_c(comm), c_group)
    if (c_code == FAMPI_SUCCESS) call to_f(c_group, group)
    call end_call(c_code, "FAMPI_Comm_benched", ierror)
  end subroutine

  ! Acknowledges all deaths of which this rank knows.
  subroutine FAMPI_Comm_failure_ack(comm, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Comm_failure_ack(to_c(comm))
    call end_call(c_code, "FAMPI_Comm_failure_ack", ierror)
  end subroutine

  ! The dead whom this rank has acknowledged, as a group that the program frees.
  subroutine FAMPI_Comm_failure_get_acked(comm, failedgrp, ierror)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Group), intent(inout) :: failedgrp
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_failedgrp
    integer(c_int) :: c_code
    c_code = c_FAMPI_Comm_failure_get_acked(to_c(comm), c_failedgrp)
    if (c_code == FAMPI_SUCCESS) call to_f(c_failedgrp, failedgrp)
    call end_call(c_code, "FAMPI_Comm_failure_get_acked", ierror)
  end subroutine

  ! The dead of whom this rank knows, as a group that the program frees.
  subroutine FAMPI_Comm_get_failed(comm, failedgrp, ierror)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Group), intent(inout) :: failedgrp
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_failedgrp
    integer(c_int) :: c_code
    c_code = c_FAMPI_Comm_get_failed(to_c(comm), c_failedgrp)
    if (c_code == FAMPI_SUCCESS) call to_f(c_failedgrp, failedgrp)
    call end_call(c_code, "FAMPI_Comm_get_failed", ierror)
  end subroutine

  ! FAMPI_Comm_agree without waiting: request is complete when the ranks have agreed, and flag,
  ! which is read at once, is the result then.
  subroutine FAMPI_Comm_iagree(comm, flag, request, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, asynchronous, intent(inout) :: flag
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    c_code = c_FAMPI_Comm_iagree(to_c(comm), flag, c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Comm_iagree", ierror)
  end subroutine

  ! Whether a communicator is revoked, as far as this rank has heard.
  subroutine FAMPI_Comm_is_revoked(comm, flag, ierror)
    type(MPI_Comm), intent(in) :: comm
    logical, intent(inout) :: flag
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_flag
    integer(c_int) :: c_code
    c_flag = -1
    c_code = c_FAMPI_Comm_is_revoked(to_c(comm), c_flag)
    if (c_flag >= 0) flag = c_flag /= 0
    call end_call(c_code, "FAMPI_Comm_is_revoked", ierror)
  end subroutine

  ! The ranks that reports on this communicator, or on one with all its processes, have named dead
  ! so far, as a group that the program frees.
  subroutine FAMPI_Comm_known_failed(comm, fgroup, ierror)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Group), intent(inout) :: fgroup
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_fgroup
    integer(c_int) :: c_code
    c_code = c_FAMPI_Comm_known_failed(to_c(comm), c_fgroup)
    if (c_code == FAMPI_SUCCESS) call to_f(c_fgroup, fgroup)
    call end_call(c_code, "FAMPI_Comm_known_failed", ierror)
  end subroutine

  ! Revokes a communicator: on all living ranks what is pending on it ends, in MPI and in blocks,
  ! which are faulty from now on; agreements and shrinks work.
  subroutine FAMPI_Comm_revoke(comm, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Comm_revoke(to_c(comm))
    call end_call(c_code, "FAMPI_Comm_revoke", ierror)
  end subroutine

  ! Says what a death does to the blocks that this rank starts on a communicator from now on: with
  ! FAMPI_PATIENT, as at first, it ends what needed the dead; a request between two living ranks
  ! goes on until its peer has ended its part of the block without having served it.
  subroutine FAMPI_Comm_set_patience(comm, patience, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(in) :: patience
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Comm_set_patience(to_c(comm), patience)
    call end_call(c_code, "FAMPI_Comm_set_patience", ierror)
  end subroutine

  ! A communicator of the living ranks, in the same order, whoever dies meanwhile.
  subroutine FAMPI_Comm_shrink(comm, newcomm, ierror)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Comm), intent(inout) :: newcomm
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_newcomm
    integer(c_int) :: c_code
    c_code = c_FAMPI_Comm_shrink(to_c(comm), c_newcomm)
    if (c_code == FAMPI_SUCCESS) call to_f(c_newcomm, newcomm)
    call end_call(c_code, "FAMPI_Comm_shrink", ierror)
  end subroutine

  ! Takes a communicator into use as FAMPI_Init does, and keeps its error handler, but for that of
  ! MPI_COMM_WORLD and MPI_COMM_SELF, whose errors return.
  subroutine FAMPI_Comm_use(comm, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Comm_use(to_c(comm))
    call end_call(c_code, "FAMPI_Comm_use", ierror)
  end subroutine

  ! The communicators with a new fault of these codes: the block's own, and those of blocks and of
  ! requests in its list, which are in use in it.
  subroutine FAMPI_Get_failed_communicators(tb_request, error_codes_count, &
      array_of_error_codes, max_communicators_count, array_of_communicators, count, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer, intent(in) :: error_codes_count
    integer, intent(in) :: array_of_error_codes(*)
    integer, intent(in) :: max_communicators_count
    type(MPI_Comm), intent(inout) :: array_of_communicators(max_communicators_count)
    integer, asynchronous, intent(inout) :: count
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_array_of_communicators(max_communicators_count)
    integer(c_int) :: c_code
    c_array_of_communicators = to_c(array_of_communicators)
    c_code = c_FAMPI_Get_failed_communicators(to_c(tb_request), error_codes_count, &
      array_of_error_codes, max_communicators_count, c_array_of_communicators, count)
    if (c_code == FAMPI_SUCCESS) &
      call to_f(c_array_of_communicators(:min(count, max_communicators_count)), &
        array_of_communicators(:min(count, max_communicators_count)))
    call end_call(c_code, "FAMPI_Get_failed_communicators", ierror)
  end subroutine

  ! The ranks of comm with a fault of these codes, as a group that the program frees: the dead for
  ! process failures, the rank whose state is gone for FAMPI_ERR_STATE_LOST, the ranks that raised
  ! or met it for every other code.
  subroutine FAMPI_Get_failed_group(tb_request, error_codes_count, array_of_error_codes, comm, &
      fgroup, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer, intent(in) :: error_codes_count
    integer, intent(in) :: array_of_error_codes(*)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Group), intent(inout) :: fgroup
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_fgroup
    integer(c_int) :: c_code
    c_code = c_FAMPI_Get_failed_group(to_c(tb_request), error_codes_count, &
      array_of_error_codes, to_c(comm), c_fgroup)
    if (c_code == FAMPI_SUCCESS) call to_f(c_fgroup, fgroup)
    call end_call(c_code, "FAMPI_Get_failed_group", ierror)
  end subroutine

  ! The requests of this rank that did not complete, with one of these codes, as places in the
  ! list that was given to finish.
  subroutine FAMPI_Get_failed_requests(tb_request, error_codes_count, array_of_error_codes, &
      max_requests_count, array_of_indices, count, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer, intent(in) :: error_codes_count
    integer, intent(in) :: array_of_error_codes(*)
    integer, intent(in) :: max_requests_count
    integer, intent(inout) :: array_of_indices(*)
    integer, asynchronous, intent(inout) :: count
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    count = 0
    c_code = c_FAMPI_Get_failed_requests(to_c(tb_request), error_codes_count, &
      array_of_error_codes, max_requests_count, array_of_indices, count)
    array_of_indices(:min(count, max_requests_count)) = array_of_indices(:min(count, max_requests_count)) + 1
    call end_call(c_code, "FAMPI_Get_failed_requests", ierror)
  end subroutine

  ! How a dead rank of the block's own communicator died: cause is FAMPI_CAUSE_KILLED or another
  ! of these constants, value its exit status or signal, 0 for others.
  subroutine FAMPI_Get_failure_cause(tb_request, rank, cause, value, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer, intent(in) :: rank
    integer, asynchronous, intent(inout) :: cause
    integer, asynchronous, intent(inout) :: value
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Get_failure_cause(to_c(tb_request), rank, cause, value)
    call end_call(c_code, "FAMPI_Get_failure_cause", ierror)
  end subroutine

  ! The version of the library.
  subroutine FAMPI_Get_version(major, minor, patch, ierror)
    integer, asynchronous, intent(inout) :: major
    integer, asynchronous, intent(inout) :: minor
    integer, asynchronous, intent(inout) :: patch
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Get_version(major, minor, patch)
    call end_call(c_code, "FAMPI_Get_version", ierror)
  end subroutine

  ! Whether the library has a feature, by its name: tryblock, world (FAMPI_World_init and what
  ! goes with it), shrink, rebuild, interrupt, report, fused (reductions on the commit), copies
  ! (protect, restore), checkpoints (states in files), progress (blocks go on inside of MPI's own
  ! waits).
  subroutine FAMPI_Has_feature(name, flag, ierror)
    character(len=*), intent(in) :: name
    logical, intent(inout) :: flag
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_flag
    integer(c_int) :: c_code
    c_flag = -1
    c_code = c_FAMPI_Has_feature(to_text(name), c_flag)
    if (c_flag >= 0) flag = c_flag /= 0
    call end_call(c_code, "FAMPI_Has_feature", ierror)
  end subroutine

  ! MPI_Iallgather over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Iallgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, &
      request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    integer, intent(in) :: sendcount
    type(MPI_Datatype), intent(in) :: sendtype
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: recvcount
    type(MPI_Datatype), intent(in) :: recvtype
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iallgather", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iallgather", ierror)
      return
    end if
    c_code = c_FAMPI_Iallgather(address(sendbuf), sendcount, to_c(sendtype), address(recvbuf), &
      recvcount, to_c(recvtype), to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Iallgather", ierror)
  end subroutine

  ! MPI_Iallgatherv over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Iallgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, &
      recvtype, comm, request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    integer, intent(in) :: sendcount
    type(MPI_Datatype), intent(in) :: sendtype
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: recvcounts(*)
    integer, intent(in) :: displs(*)
    type(MPI_Datatype), intent(in) :: recvtype
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iallgatherv", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iallgatherv", ierror)
      return
    end if
    c_code = c_FAMPI_Iallgatherv(address(sendbuf), sendcount, to_c(sendtype), address(recvbuf), &
      recvcounts, displs, to_c(recvtype), to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Iallgatherv", ierror)
  end subroutine

  ! MPI_Iallreduce over the living ranks of a communicator, in a context of fampi's own.
  subroutine FAMPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    type(MPI_Op), intent(in) :: op
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iallreduce", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iallreduce", ierror)
      return
    end if
    c_code = c_FAMPI_Iallreduce(address(sendbuf), address(recvbuf), count, to_c(datatype), &
      to_c(op), to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Iallreduce", ierror)
  end subroutine

  ! MPI_Ialltoall over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Ialltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, &
      request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    integer, intent(in) :: sendcount
    type(MPI_Datatype), intent(in) :: sendtype
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: recvcount
    type(MPI_Datatype), intent(in) :: recvtype
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Ialltoall", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Ialltoall", ierror)
      return
    end if
    c_code = c_FAMPI_Ialltoall(address(sendbuf), sendcount, to_c(sendtype), address(recvbuf), &
      recvcount, to_c(recvtype), to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Ialltoall", ierror)
  end subroutine

  ! MPI_Ialltoallv over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Ialltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, &
      rdispls, recvtype, comm, request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    integer, intent(in) :: sendcounts(*)
    integer, intent(in) :: sdispls(*)
    type(MPI_Datatype), intent(in) :: sendtype
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: recvcounts(*)
    integer, intent(in) :: rdispls(*)
    type(MPI_Datatype), intent(in) :: recvtype
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Ialltoallv", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Ialltoallv", ierror)
      return
    end if
    c_code = c_FAMPI_Ialltoallv(address(sendbuf), sendcounts, sdispls, to_c(sendtype), &
      address(recvbuf), recvcounts, rdispls, to_c(recvtype), to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Ialltoallv", ierror)
  end subroutine

  ! MPI_Ibarrier over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Ibarrier(comm, request, ierror)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    c_code = c_FAMPI_Ibarrier(to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Ibarrier", ierror)
  end subroutine

  ! MPI_Ibcast over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Ibcast(buffer, count, datatype, root, comm, request, ierror)
    type(*), dimension(..), target, asynchronous :: buffer
    integer, intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    integer, intent(in) :: root
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(buffer)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Ibcast", ierror)
      return
    end if
    c_code = c_FAMPI_Ibcast(address(buffer), count, to_c(datatype), root, to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Ibcast", ierror)
  end subroutine

  ! MPI_Iexscan over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Iexscan(sendbuf, recvbuf, count, datatype, op, comm, request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    type(MPI_Op), intent(in) :: op
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iexscan", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iexscan", ierror)
      return
    end if
    c_code = c_FAMPI_Iexscan(address(sendbuf), address(recvbuf), count, to_c(datatype), &
      to_c(op), to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Iexscan", ierror)
  end subroutine

  ! MPI_Igather over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Igather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, &
      comm, request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    integer, intent(in) :: sendcount
    type(MPI_Datatype), intent(in) :: sendtype
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: recvcount
    type(MPI_Datatype), intent(in) :: recvtype
    integer, intent(in) :: root
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Igather", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Igather", ierror)
      return
    end if
    c_code = c_FAMPI_Igather(address(sendbuf), sendcount, to_c(sendtype), address(recvbuf), &
      recvcount, to_c(recvtype), root, to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Igather", ierror)
  end subroutine

  ! MPI_Igatherv over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Igatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, &
      recvtype, root, comm, request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    integer, intent(in) :: sendcount
    type(MPI_Datatype), intent(in) :: sendtype
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: recvcounts(*)
    integer, intent(in) :: displs(*)
    type(MPI_Datatype), intent(in) :: recvtype
    integer, intent(in) :: root
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Igatherv", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Igatherv", ierror)
      return
    end if
    c_code = c_FAMPI_Igatherv(address(sendbuf), sendcount, to_c(sendtype), address(recvbuf), &
      recvcounts, displs, to_c(recvtype), root, to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Igatherv", ierror)
  end subroutine

  ! The state of a rank that died before a shrink, on the rank that keeps its copy, in a block of
  ! the shrunken communicator.
  subroutine FAMPI_Inherit(tb_request, slot, state, max_count, datatype, count, rank, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer, intent(in) :: slot
    type(*), dimension(..), target, asynchronous :: state
    integer, intent(in) :: max_count
    type(MPI_Datatype), intent(in) :: datatype
    integer, asynchronous, intent(inout) :: count
    integer, asynchronous, intent(inout) :: rank
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    if (.not. is_contiguous(state)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Inherit", ierror)
      return
    end if
    c_code = c_FAMPI_Inherit(to_c(tb_request), slot, address(state), max_count, to_c(datatype), &
      count, rank)
    call end_call(c_code, "FAMPI_Inherit", ierror)
  end subroutine

  ! Takes a communicator into use, which the first FAMPI_TryBlock_start on it does otherwise.
  subroutine FAMPI_Init(comm, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Init(to_c(comm))
    call end_call(c_code, "FAMPI_Init", ierror)
  end subroutine

  ! MPI_Irecv of a message of FAMPI_Isend or FAMPI_Issend, as these.
  subroutine FAMPI_Irecv(buf, count, datatype, source, tag, comm, request, ierror)
    type(*), dimension(..), target, asynchronous :: buf
    integer, intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    integer, intent(in) :: source
    integer, intent(in) :: tag
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(buf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Irecv", ierror)
      return
    end if
    c_code = c_FAMPI_Irecv(address(buf), count, to_c(datatype), source, tag, to_c(comm), &
      c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Irecv", ierror)
  end subroutine

  ! MPI_Ireduce over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Ireduce(sendbuf, recvbuf, count, datatype, op, root, comm, request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    type(MPI_Op), intent(in) :: op
    integer, intent(in) :: root
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Ireduce", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Ireduce", ierror)
      return
    end if
    c_code = c_FAMPI_Ireduce(address(sendbuf), address(recvbuf), count, to_c(datatype), &
      to_c(op), root, to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Ireduce", ierror)
  end subroutine

  ! MPI_Iscan over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Iscan(sendbuf, recvbuf, count, datatype, op, comm, request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    type(MPI_Op), intent(in) :: op
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iscan", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iscan", ierror)
      return
    end if
    c_code = c_FAMPI_Iscan(address(sendbuf), address(recvbuf), count, to_c(datatype), to_c(op), &
      to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Iscan", ierror)
  end subroutine

  ! MPI_Iscatter over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Iscatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, &
      comm, request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    integer, intent(in) :: sendcount
    type(MPI_Datatype), intent(in) :: sendtype
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: recvcount
    type(MPI_Datatype), intent(in) :: recvtype
    integer, intent(in) :: root
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iscatter", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iscatter", ierror)
      return
    end if
    c_code = c_FAMPI_Iscatter(address(sendbuf), sendcount, to_c(sendtype), address(recvbuf), &
      recvcount, to_c(recvtype), root, to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Iscatter", ierror)
  end subroutine

  ! MPI_Iscatterv over the living, as FAMPI_Iallreduce.
  subroutine FAMPI_Iscatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, &
      recvtype, root, comm, request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    integer, intent(in) :: sendcounts(*)
    integer, intent(in) :: displs(*)
    type(MPI_Datatype), intent(in) :: sendtype
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: recvcount
    type(MPI_Datatype), intent(in) :: recvtype
    integer, intent(in) :: root
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iscatterv", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Iscatterv", ierror)
      return
    end if
    c_code = c_FAMPI_Iscatterv(address(sendbuf), sendcounts, displs, to_c(sendtype), &
      address(recvbuf), recvcount, to_c(recvtype), root, to_c(comm), c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Iscatterv", ierror)
  end subroutine

  ! MPI_Isend in a lane of fampi's own, which the receiver takes by FAMPI_Irecv.
  subroutine FAMPI_Isend(buf, count, datatype, dest, tag, comm, request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: buf
    integer, intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    integer, intent(in) :: dest
    integer, intent(in) :: tag
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(buf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Isend", ierror)
      return
    end if
    c_code = c_FAMPI_Isend(address(buf), count, to_c(datatype), dest, tag, to_c(comm), &
      c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Isend", ierror)
  end subroutine

  ! MPI_Issend in a lane of fampi's own: complete when its receive has started.
  subroutine FAMPI_Issend(buf, count, datatype, dest, tag, comm, request, ierror)
    type(*), dimension(..), target, asynchronous, intent(in) :: buf
    integer, intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    integer, intent(in) :: dest
    integer, intent(in) :: tag
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    if (.not. is_contiguous(buf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Issend", ierror)
      return
    end if
    c_code = c_FAMPI_Issend(address(buf), count, to_c(datatype), dest, tag, to_c(comm), &
      c_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Issend", ierror)
  end subroutine

  ! How often the group has changed, the same on all ranks that have taken the same censuses.
  subroutine FAMPI_Membership_epoch(membership, epoch, ierror)
    type(FAMPI_Membership), intent(in) :: membership
    integer, asynchronous, intent(inout) :: epoch
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Membership_epoch(membership%object, epoch)
    call end_call(c_code, "FAMPI_Membership_epoch", ierror)
  end subroutine

  ! Frees a group; membership becomes null.
  subroutine FAMPI_Membership_free(membership)
    type(FAMPI_Membership), intent(inout) :: membership
    call c_FAMPI_Membership_free(membership%object)
  end subroutine

  ! Whether a member, by its number, gets work: flag is 1, or 0 if it is benched, dead or unknown.
  subroutine FAMPI_Membership_has(membership, member, flag, ierror)
    type(FAMPI_Membership), intent(in) :: membership
    integer, intent(in) :: member
    logical, intent(inout) :: flag
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_flag
    integer(c_int) :: c_code
    c_flag = -1
    c_code = c_FAMPI_Membership_has(membership%object, member, c_flag)
    if (c_flag >= 0) flag = c_flag /= 0
    call end_call(c_code, "FAMPI_Membership_has", ierror)
  end subroutine

  ! What this rank has to tell the others: 0 while nothing is new.
  subroutine FAMPI_Membership_news(membership, news, ierror)
    type(FAMPI_Membership), intent(in) :: membership
    integer, asynchronous, intent(inout) :: news
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Membership_news(membership%object, news)
    call end_call(c_code, "FAMPI_Membership_news", ierror)
  end subroutine

  ! The member that works for a part of the whole, by its number: the part's own if it gets work,
  ! else the first that does in the order of part XOR 1, part XOR 2 and so on.
  subroutine FAMPI_Membership_owner(membership, part, member, ierror)
    type(FAMPI_Membership), intent(in) :: membership
    integer, intent(in) :: part
    integer, asynchronous, intent(inout) :: member
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Membership_owner(membership%object, part, member)
    call end_call(c_code, "FAMPI_Membership_owner", ierror)
  end subroutine

  ! Takes a census: all living ranks of comm tell each other what was counted of them, and get the
  ! same group from it.
  subroutine FAMPI_Membership_renew(membership, comm, ierror)
    type(FAMPI_Membership), intent(in) :: membership
    type(MPI_Comm), intent(in) :: comm
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Membership_renew(membership%object, to_c(comm))
    call end_call(c_code, "FAMPI_Membership_renew", ierror)
  end subroutine

  ! Begins a group of all ranks of comm, which is in use (FAMPI_Init): its members, numbered by
  ! their ranks there.
  subroutine FAMPI_Membership_start(comm, slow, membership, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(in) :: slow
    type(FAMPI_Membership), intent(inout) :: membership
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Membership_start(to_c(comm), slow, membership%object)
    call end_call(c_code, "FAMPI_Membership_start", ierror)
  end subroutine

  ! Protects the state of this rank, in a global block that is not finished: it goes to where the
  ! block keeps states (FAMPI_Set_redundancy), by default to a partner on another node, where
  ! there is one, and is valid with the block's commit, on all ranks or on none; until then the
  ! previous one is.
  subroutine FAMPI_Protect(tb_request, slot, state, count, datatype, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer, intent(in) :: slot
    type(*), dimension(..), target, asynchronous, intent(in) :: state
    integer, intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    if (.not. is_contiguous(state)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Protect", ierror)
      return
    end if
    c_code = c_FAMPI_Protect(to_c(tb_request), slot, address(state), count, to_c(datatype))
    call end_call(c_code, "FAMPI_Protect", ierror)
  end subroutine

  ! Number of faults in a report; 0 for null.
  function FAMPI_Report_count(report) result(c_code)
    type(FAMPI_Report), intent(in) :: report
    integer(c_int) :: c_code
    c_code = c_FAMPI_Report_count(report%object)
  end function

  ! A fault of a report: the rank that it concerns, in the block's communicator, and its code.
  subroutine FAMPI_Report_fault(report, index, rank, code, ierror)
    type(FAMPI_Report), intent(in) :: report
    integer, intent(in) :: index
    integer, asynchronous, intent(inout) :: rank
    integer, asynchronous, intent(inout) :: code
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Report_fault(report%object, index - 1, rank, code)
    call end_call(c_code, "FAMPI_Report_fault", ierror)
  end subroutine

  ! Frees a report; nothing happens to null.
  subroutine FAMPI_Report_free(report)
    type(FAMPI_Report), intent(in) :: report
    call c_FAMPI_Report_free(report%object)
  end subroutine

  ! The report of a decided block, as an object of its own that outlives the block.
  subroutine FAMPI_Report_get(tb_request, report, ierror)
    type(MPI_Request), intent(in) :: tb_request
    type(FAMPI_Report), intent(inout) :: report
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Report_get(to_c(tb_request), report%object)
    call end_call(c_code, "FAMPI_Report_get", ierror)
  end subroutine

  ! MPI_Request_free, for any request; nothing happens to MPI_REQUEST_NULL.
  subroutine FAMPI_Request_free(request, ierror)
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_code
    c_request = to_c(request)
    c_code = c_FAMPI_Request_free(c_request)
    call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Request_free", ierror)
  end subroutine

  ! MPI_Request_get_status that makes blocks go on.
  subroutine FAMPI_Request_get_status(request, flag, status, ierror)
    type(MPI_Request), intent(in) :: request
    logical, intent(inout) :: flag
    type(MPI_Status), optional, target, intent(inout) :: status
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_flag
    type(c_ptr) :: c_status
    integer(c_int) :: c_code
    c_flag = -1
    c_status = c_null_ptr
    if (present(status)) c_status = c_loc(status)
    c_code = c_FAMPI_Request_get_status(to_c(request), c_flag, c_status)
    if (c_flag >= 0) flag = c_flag /= 0
    call end_call(c_code, "FAMPI_Request_get_status", ierror)
  end subroutine

  ! Raises a fault of the application in a block between its start and its finish, or in a request
  ! that is to be given to a finish: the block is faulty on all ranks, with this code and this
  ! rank.
  subroutine FAMPI_Request_raise_error(request, error_code, ierror)
    type(MPI_Request), intent(in) :: request
    integer, intent(in) :: error_code
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Request_raise_error(to_c(request), error_code)
    call end_call(c_code, "FAMPI_Request_raise_error", ierror)
  end subroutine

  ! Says where the states are that ranks go on from, or whether they begin: the first call of a
  ! global block in which they do that, at the start of the program, after each recovery, and on
  ! replacements.
  subroutine FAMPI_Restart(tb_request, resizes, from, step, size, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer, intent(in) :: resizes
    integer, asynchronous, intent(inout) :: from
    integer(c_int64_t), intent(inout) :: step
    integer, asynchronous, intent(inout) :: size
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Restart(to_c(tb_request), resizes, from, step, size)
    call end_call(c_code, "FAMPI_Restart", ierror)
  end subroutine

  ! Brings the state back that the last commit protected, in a global block that is not finished.
  subroutine FAMPI_Restore(tb_request, slot, state, max_count, datatype, count, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer, intent(in) :: slot
    type(*), dimension(..), target, asynchronous :: state
    integer, intent(in) :: max_count
    type(MPI_Datatype), intent(in) :: datatype
    integer, asynchronous, intent(inout) :: count
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    if (.not. is_contiguous(state)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Restore", ierror)
      return
    end if
    c_code = c_FAMPI_Restore(to_c(tb_request), slot, address(state), max_count, to_c(datatype), &
      count)
    call end_call(c_code, "FAMPI_Restore", ierror)
  end subroutine

  ! The state of one of the ranks that have saved the checkpoint which FAMPI_Restart has found
  ! last, if these are not as many as there are now.
  subroutine FAMPI_Saved(rank, slot, state, max_count, datatype, count, ierror)
    integer, intent(in) :: rank
    integer, intent(in) :: slot
    type(*), dimension(..), target, asynchronous :: state
    integer, intent(in) :: max_count
    type(MPI_Datatype), intent(in) :: datatype
    integer, asynchronous, intent(inout) :: count
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    if (.not. is_contiguous(state)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_Saved", ierror)
      return
    end if
    c_code = c_FAMPI_Saved(rank, slot, address(state), max_count, to_c(datatype), count)
    call end_call(c_code, "FAMPI_Saved", ierror)
  end subroutine

  ! Says where protected states are saved, so that they outlive the job: in files of this folder,
  ! one set of files for each checkpoint.
  subroutine FAMPI_Set_checkpoints(folder, every, files, flags, ierror)
    character(len=*), intent(in) :: folder
    integer, intent(in) :: every
    integer, intent(in) :: files
    integer, intent(in) :: flags
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Set_checkpoints(to_text(folder), every, files, flags)
    call end_call(c_code, "FAMPI_Set_checkpoints", ierror)
  end subroutine

  ! Says where states are kept that are protected from now on in a global block that is not
  ! finished; without this call at a partner.
  subroutine FAMPI_Set_redundancy(tb_request, redundancy, ranks, losses, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer, intent(in) :: redundancy
    integer, intent(in) :: ranks
    integer, intent(in) :: losses
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Set_redundancy(to_c(tb_request), redundancy, ranks, losses)
    call end_call(c_code, "FAMPI_Set_redundancy", ierror)
  end subroutine

  ! MPI_Test that makes blocks go on.
  subroutine FAMPI_Test(request, flag, status, ierror)
    type(MPI_Request), intent(inout) :: request
    logical, intent(inout) :: flag
    type(MPI_Status), optional, target, intent(inout) :: status
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    integer(c_int) :: c_flag
    type(c_ptr) :: c_status
    integer(c_int) :: c_code
    c_request = to_c(request)
    c_flag = -1
    c_status = c_null_ptr
    if (present(status)) c_status = c_loc(status)
    c_code = c_FAMPI_Test(c_request, c_flag, c_status)
    call to_f(c_request, request)
    if (c_flag >= 0) flag = c_flag /= 0
    call end_call(c_code, "FAMPI_Test", ierror)
  end subroutine

  ! The seconds of a timeout; infinity for FAMPI_TIMEOUT_NEVER.
  subroutine FAMPI_Timeout_get_seconds(timeout, seconds, ierror)
    integer(FAMPI_TIMEOUT_KIND), intent(in) :: timeout
    real(c_double), intent(inout) :: seconds
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Timeout_get_seconds(timeout, seconds)
    call end_call(c_code, "FAMPI_Timeout_get_seconds", ierror)
  end subroutine

  ! Sets a timeout to so many seconds, fractions included.
  subroutine FAMPI_Timeout_set_seconds(timeout, seconds, ierror)
    integer(FAMPI_TIMEOUT_KIND), intent(inout) :: timeout
    real(c_double), intent(in) :: seconds
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_Timeout_set_seconds(timeout, seconds)
    call end_call(c_code, "FAMPI_Timeout_set_seconds", ierror)
  end subroutine

  ! Ends a block: when the requests of the list are over, this rank votes.
  subroutine FAMPI_TryBlock_finish(tb_request, count, array_of_requests, timeout, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer, intent(in) :: count
    type(MPI_Request), intent(inout) :: array_of_requests(count)
    integer(FAMPI_TIMEOUT_KIND), intent(in) :: timeout
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_array_of_requests(count)
    integer(c_int) :: c_code
    c_array_of_requests = to_c(array_of_requests)
    c_code = c_FAMPI_TryBlock_finish(to_c(tb_request), count, c_array_of_requests, timeout)
    call to_f(c_array_of_requests, array_of_requests)
    call end_call(c_code, "FAMPI_TryBlock_finish", ierror)
  end subroutine

  ! Ends a block as FAMPI_TryBlock_finish does, and reduces a few numbers over all its ranks with
  ! the messages of the commit, for nothing more.
  subroutine FAMPI_TryBlock_finish_allreduce(tb_request, count, array_of_requests, timeout, &
      sendbuf, recvbuf, numbers, datatype, op, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer, intent(in) :: count
    type(MPI_Request), intent(inout) :: array_of_requests(count)
    integer(FAMPI_TIMEOUT_KIND), intent(in) :: timeout
    type(*), dimension(..), target, asynchronous, intent(in) :: sendbuf
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: numbers
    type(MPI_Datatype), intent(in) :: datatype
    type(MPI_Op), intent(in) :: op
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_array_of_requests(count)
    integer(c_int) :: c_code
    c_array_of_requests = to_c(array_of_requests)
    if (.not. is_contiguous(sendbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_TryBlock_finish_allreduce", ierror)
      return
    end if
    if (.not. is_contiguous(recvbuf)) then
      call end_call(FAMPI_ERR_ARG, "FAMPI_TryBlock_finish_allreduce", ierror)
      return
    end if
    c_code = c_FAMPI_TryBlock_finish_allreduce(to_c(tb_request), count, c_array_of_requests, &
      timeout, address(sendbuf), address(recvbuf), numbers, to_c(datatype), to_c(op))
    call to_f(c_array_of_requests, array_of_requests)
    call end_call(c_code, "FAMPI_TryBlock_finish_allreduce", ierror)
  end subroutine

  ! Makes a block faulty and ends the waits of all ranks that are in it: what is pending on its
  ! communicator ends with an error, as the communicator is revoked.
  subroutine FAMPI_TryBlock_interrupt(tb_request, ierror)
    type(MPI_Request), intent(in) :: tb_request
    integer, optional, intent(out) :: ierror
    integer(c_int) :: c_code
    c_code = c_FAMPI_TryBlock_interrupt(to_c(tb_request))
    call end_call(c_code, "FAMPI_TryBlock_interrupt", ierror)
  end subroutine

  ! Starts a block on a communicator: local, no message, except that the first call with a
  ! communicator takes it into use (FAMPI_Init).
  subroutine FAMPI_TryBlock_start(comm, flag, tb_request, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(in) :: flag
    type(MPI_Request), intent(inout) :: tb_request
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_tb_request
    integer(c_int) :: c_code
    c_code = c_FAMPI_TryBlock_start(to_c(comm), flag, c_tb_request)
    if (c_code == FAMPI_SUCCESS) call to_f(c_tb_request, tb_request)
    call end_call(c_code, "FAMPI_TryBlock_start", ierror)
  end subroutine

  ! MPI_Wait that makes blocks go on meanwhile.
  subroutine FAMPI_Wait(request, status, ierror)
    type(MPI_Request), intent(inout) :: request
    type(MPI_Status), optional, target, intent(inout) :: status
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    type(c_ptr) :: c_status
    integer(c_int) :: c_code
    c_request = to_c(request)
    c_status = c_null_ptr
    if (present(status)) c_status = c_loc(status)
    c_code = c_FAMPI_Wait(c_request, c_status)
    call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Wait", ierror)
  end subroutine

  ! Waits for one request: any of MPI's, or a finished block.
  subroutine FAMPI_Wait_local(request, status, timeout, ierror)
    type(MPI_Request), intent(inout) :: request
    type(MPI_Status), optional, target, intent(inout) :: status
    integer(FAMPI_TIMEOUT_KIND), intent(in) :: timeout
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_request
    type(c_ptr) :: c_status
    integer(c_int) :: c_code
    c_request = to_c(request)
    c_status = c_null_ptr
    if (present(status)) c_status = c_loc(status)
    c_code = c_FAMPI_Wait_local(c_request, c_status, timeout)
    call to_f(c_request, request)
    call end_call(c_code, "FAMPI_Wait_local", ierror)
  end subroutine

  ! MPI_Waitall that makes blocks go on meanwhile.
  subroutine FAMPI_Waitall(count, requests, statuses, ierror)
    integer, intent(in) :: count
    type(MPI_Request), intent(inout) :: requests(count)
    type(MPI_Status), optional, target, intent(inout) :: statuses(count)
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_requests(count)
    type(c_ptr) :: c_statuses
    integer(c_int) :: c_code
    c_requests = to_c(requests)
    c_statuses = c_null_ptr
    if (present(statuses)) c_statuses = c_loc(statuses)
    c_code = c_FAMPI_Waitall(count, c_requests, c_statuses)
    call to_f(c_requests, requests)
    call end_call(c_code, "FAMPI_Waitall", ierror)
  end subroutine

  ! Waits for all requests of a list, as FAMPI_Wait_local does for one.
  subroutine FAMPI_Waitall_local(count, requests, statuses, timeout, ierror)
    integer, intent(in) :: count
    type(MPI_Request), intent(inout) :: requests(count)
    type(MPI_Status), optional, target, intent(inout) :: statuses(count)
    integer(FAMPI_TIMEOUT_KIND), intent(in) :: timeout
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_requests(count)
    type(c_ptr) :: c_statuses
    integer(c_int) :: c_code
    c_requests = to_c(requests)
    c_statuses = c_null_ptr
    if (present(statuses)) c_statuses = c_loc(statuses)
    c_code = c_FAMPI_Waitall_local(count, c_requests, c_statuses, timeout)
    call to_f(c_requests, requests)
    call end_call(c_code, "FAMPI_Waitall_local", ierror)
  end subroutine

  ! Waits for the next request of a list.
  subroutine FAMPI_Waitany_local(count, requests, index, status, timeout, ierror)
    integer, intent(in) :: count
    type(MPI_Request), intent(inout) :: requests(count)
    integer, intent(inout) :: index
    type(MPI_Status), optional, target, intent(inout) :: status
    integer(FAMPI_TIMEOUT_KIND), intent(in) :: timeout
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_requests(count)
    type(c_ptr) :: c_status
    integer(c_int) :: c_code
    c_requests = to_c(requests)
    index = MPI_UNDEFINED
    c_status = c_null_ptr
    if (present(status)) c_status = c_loc(status)
    c_code = c_FAMPI_Waitany_local(count, c_requests, index, c_status, timeout)
    call to_f(c_requests, requests)
    if (index /= MPI_UNDEFINED) index = index + 1
    call end_call(c_code, "FAMPI_Waitany_local", ierror)
  end subroutine

  ! Waits until at least one request of a list is over, and names all that are: outcount of them,
  ! MPI_UNDEFINED when all are MPI_REQUEST_NULL.
  subroutine FAMPI_Waitsome_local(incount, requests, outcount, indices, statuses, timeout, &
      ierror)
    integer, intent(in) :: incount
    type(MPI_Request), intent(inout) :: requests(incount)
    integer, asynchronous, intent(inout) :: outcount
    integer, intent(inout) :: indices(*)
    type(MPI_Status), optional, target, intent(inout) :: statuses(incount)
    integer(FAMPI_TIMEOUT_KIND), intent(in) :: timeout
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_requests(incount)
    type(c_ptr) :: c_statuses
    integer(c_int) :: c_code
    c_requests = to_c(requests)
    outcount = 0
    c_statuses = c_null_ptr
    if (present(statuses)) c_statuses = c_loc(statuses)
    c_code = c_FAMPI_Waitsome_local(incount, c_requests, outcount, indices, c_statuses, timeout)
    call to_f(c_requests, requests)
    indices(:min(outcount, incount)) = indices(:min(outcount, incount)) + 1
    call end_call(c_code, "FAMPI_Waitsome_local", ierror)
  end subroutine

  ! Frees the world, before MPI_Finalize, and lets the spares go.
  subroutine FAMPI_World_free(world, ierror)
    type(MPI_Comm), intent(inout) :: world
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_world
    integer(c_int) :: c_code
    c_world = to_c(world)
    c_code = c_FAMPI_World_free(c_world)
    call to_f(c_world, world)
    call end_call(c_code, "FAMPI_World_free", ierror)
  end subroutine

  ! Replaces the world after a faulty block on it, where a process has died.
  subroutine FAMPI_World_recover(world, ierror)
    type(MPI_Comm), intent(inout) :: world
    integer, optional, intent(out) :: ierror
    integer(handle) :: c_world
    integer(c_int) :: c_code
    c_world = to_c(world)
    c_code = c_FAMPI_World_recover(c_world)
    call to_f(c_world, world)
    call end_call(c_code, "FAMPI_World_recover", ierror)
  end subroutine
end module
