/*
 * The papers' and their authors' names for fampi, so that code written for them compiles
 * unchanged: MPI_TryBlock_*, MPI_Tryblock_*, MPI_*_local, MPI_Get_failed_*, MPI_Comm_i*.
 *
 * Include it after everything that declares functions of MPI. It also sends MPI_Wait, MPI_Test,
 * MPI_Waitall, MPI_Request_free and MPI_Request_get_status through fampi, which passes on
 * what is not its own; define FAMPI_NAMES_KEEP_MPI to keep MPI's own, which work, too.
 *
 * All names are macros: no symbol here begins with MPI_.
 */
#ifndef FAMPI_NAMES_H
#define FAMPI_NAMES_H

#include "fampi.h"

/* Appendix A of the paper. */
#define MPI_Timeout FAMPI_Timeout
#define MPI_TryBlock_start FAMPI_TryBlock_start
#define MPI_TryBlock_finish FAMPI_TryBlock_finish
#define MPI_Timeout_set_seconds FAMPI_Timeout_set_seconds
#define MPI_Timeout_get_seconds FAMPI_Timeout_get_seconds
#define MPI_Request_raise_error FAMPI_Request_raise_error
#define MPI_Wait_local FAMPI_Wait_local
#define MPI_Waitall_local FAMPI_Waitall_local
#define MPI_Waitany_local FAMPI_Waitany_local
#define MPI_Waitsome_local FAMPI_Waitsome_local
#define MPI_Get_failed_requests FAMPI_Get_failed_requests
#define MPI_Get_failed_communicators FAMPI_Get_failed_communicators
#define MPI_Get_failed_group FAMPI_Get_failed_group
#define MPI_Comm_ishrink FAMPI_Comm_ishrink
#define MPI_Comm_irebuild FAMPI_Comm_irebuild
#define MPI_Comm_irebuild_join FAMPI_Comm_irebuild_join

/*
 * With FAMPI_NAMES_MESSAGES defined before, messages go in lanes of fampi's own, where nothing of an
 * aborted block meets a later one and a death ends only what needed the dead (FAMPI_Isend). All that
 * sends and receives on a communicator in use is compiled with it, then, and has no MPI_Send,
 * MPI_Recv, MPI_Probe or persistent message there.
 */
#ifdef FAMPI_NAMES_MESSAGES
#define MPI_Isend FAMPI_Isend
#define MPI_Issend FAMPI_Issend
#define MPI_Irecv FAMPI_Irecv
#endif

/*
 * With FAMPI_NAMES_COLLECTIVES defined before, nonblocking collectives of blocks run over the living
 * in contexts of fampi's own (FAMPI_Iallreduce), on communicators in use. All that starts collectives
 * in blocks is compiled with it, on all ranks, or nothing is.
 */
#ifdef FAMPI_NAMES_COLLECTIVES
#define MPI_Ibarrier FAMPI_Ibarrier
#define MPI_Ibcast FAMPI_Ibcast
#define MPI_Ireduce FAMPI_Ireduce
#define MPI_Iallreduce FAMPI_Iallreduce
#define MPI_Iscan FAMPI_Iscan
#define MPI_Iexscan FAMPI_Iexscan
#define MPI_Igather FAMPI_Igather
#define MPI_Igatherv FAMPI_Igatherv
#define MPI_Iscatter FAMPI_Iscatter
#define MPI_Iscatterv FAMPI_Iscatterv
#define MPI_Iallgather FAMPI_Iallgather
#define MPI_Iallgatherv FAMPI_Iallgatherv
#define MPI_Ialltoall FAMPI_Ialltoall
#define MPI_Ialltoallv FAMPI_Ialltoallv
#endif

/* The authors' codes: finish has no limit, finish_local has one. */
#define MPI_Tryblock_start FAMPI_TryBlock_start
#define MPI_Tryblock_finish(tb, count, requests) \
  FAMPI_TryBlock_finish((tb), (count), (requests), FAMPI_TIMEOUT_NEVER)
#define MPI_Tryblock_finish_local FAMPI_TryBlock_finish
#define MPI_TryBlock_finish_local FAMPI_TryBlock_finish

/* Beyond the papers. */
#define MPI_TryBlock_interrupt FAMPI_TryBlock_interrupt
#define MPI_TryBlock_finish_allreduce FAMPI_TryBlock_finish_allreduce

#define MPI_TRYBLOCK_LOCAL FAMPI_TRYBLOCK_LOCAL
#define MPI_TRYBLOCK_GLOBAL FAMPI_TRYBLOCK_GLOBAL
#define MPI_TRYBLOCK_WITH_COLLECTIVE FAMPI_TRYBLOCK_WITH_COLLECTIVE

/* The authors pass it where they need completion. */
#define MPI_TIMEOUT_ZERO FAMPI_TIMEOUT_NEVER

#define MPI_ERR_TIMEOUT FAMPI_ERR_TIMEOUT
#define MPI_ERR_TRYBLOCK_FOUND_ERRORS FAMPI_ERR_TRYBLOCK_FOUND_ERRORS
#define MPI_ERR_TRYBLOCK_FAILED FAMPI_ERR_TRYBLOCK_FOUND_ERRORS
#define MPI_ERR_TRANSIENT FAMPI_ERR_TRANSIENT
#define MPI_ERR_PERMANENT FAMPI_ERR_PERMANENT
#define MPI_ERR_RCODES_ANY FAMPI_ERR_RCODES_ANY
#define MPI_ERR_CODES_ANY FAMPI_ERR_RCODES_ANY
#ifndef MPI_ERR_PROC_FAILED
#define MPI_ERR_PROC_FAILED FAMPI_ERR_PROC_FAILED
#endif

#ifndef FAMPI_NAMES_KEEP_MPI
#define MPI_Wait FAMPI_Wait
#define MPI_Test FAMPI_Test
#define MPI_Waitall FAMPI_Waitall
#define MPI_Request_free FAMPI_Request_free
#define MPI_Request_get_status FAMPI_Request_get_status
#endif

#endif
