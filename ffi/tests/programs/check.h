/* What the test programs share: a check that ends the job, and a death. */
#ifndef CHECK_H
#define CHECK_H

#include <fampi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#else
/* MPICH, whose own shrink ends the process. */
#define MPI_ERR_PROC_FAILED MPIX_ERR_PROC_FAILED
#define MPI_ERR_REVOKED MPIX_ERR_REVOKED
#define MPIX_Comm_shrink FAMPI_Comm_shrink
#endif

static int rank, size;

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      printf("rank %d: %s:%d: not true: %s\n", rank, __FILE__, __LINE__, #condition); \
      fflush(stdout);                                                                 \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                   \
    }                                                                                 \
  } while (0)

#define EXPECT(expected, call)                                                          \
  do {                                                                                  \
    int code_ = (call);                                                                 \
    if (code_ != (expected)) {                                                          \
      printf("rank %d: %s:%d: %s gave %d, %s\n", rank, __FILE__, __LINE__, #call, code_, \
             FAMPI_Error_string(code_));                                                \
      fflush(stdout);                                                                   \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                     \
    }                                                                                   \
  } while (0)

#define OK(call) EXPECT(FAMPI_SUCCESS, call)

static inline void begin(int *argc, char ***argv)
{
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static inline void die(void)
{
  fflush(stdout);
  raise(SIGKILL);
}

static inline FAMPI_Timeout seconds(double number)
{
  FAMPI_Timeout timeout;
  OK(FAMPI_Timeout_set_seconds(&timeout, number));
  return timeout;
}

/* Ends a block without requests, or with some, and frees its request. */
static inline int commit(MPI_Request *block, int count, MPI_Request *requests)
{
  int code;
  OK(FAMPI_TryBlock_finish(*block, count, requests, FAMPI_TIMEOUT_NEVER));
  code = FAMPI_Wait_local(block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  return code;
}

/* Whether the report of a block, which all ranks share, has a fault with this code. */
static inline int reports(MPI_Request block, int code)
{
  FAMPI_Report *report;
  int about, at, found = 0;
  OK(FAMPI_Report_get(block, &report));
  for (int i = 0; i < FAMPI_Report_count(report); i++) {
    OK(FAMPI_Report_fault(report, i, &about, &at));
    found |= at == code;
  }
  FAMPI_Report_free(report);
  return found;
}

/* Rank 1 of a communicator dies in a block. */
static inline void lose_one(MPI_Comm comm)
{
  MPI_Request block;
  int me;
  MPI_Comm_rank(comm, &me);
  OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (me == 1) die();
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
}

/* Shrinks a communicator in blocks, until one commits in which so many ranks are left. */
static inline void shrink_to(MPI_Comm comm, int ranks)
{
  MPI_Comm living;
  MPI_Request block, request;
  int code, left;
  do {
    OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
    OK(FAMPI_Comm_ishrink(comm, &living, &request));
    code = commit(&block, 1, &request);
    OK(FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
    MPI_Comm_size(living, &left);
    OK(FAMPI_Request_free(&request));
    OK(FAMPI_Request_free(&block));
    MPI_Comm_free(&living);
  } while (code != FAMPI_SUCCESS || left > ranks);
}

static inline void passed(const char *what)
{
  printf("rank %d: %s\n", rank, what);
  fflush(stdout);
}

#endif
