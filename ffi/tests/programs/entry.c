/*
 * Ranks die, or get errors, in each call of MPI by which a communicator is taken into use. The
 * others have it all alike: it is in use, and its first block names the dead, or it is refused, now
 * and later. `entry errors`, `entry before SIGNAL`, `entry after SIGNAL`
 */
#include "check.h"

#include <mpi-ext.h>
#include <unistd.h>

/* The calls so far, and what is to happen in one of them at this rank. */
static int calls, at;
static const char *what;
static int by_signal;

static int is_now(const char *word) { return calls == at && strcmp(what, word) == 0; }

static void perish(void)
{
  if (by_signal) die();
  fflush(stdout);
  _exit(1);
}

/* Stands around each call that is made to take a communicator into use. */
#define AROUND(call)                                 \
  do {                                               \
    int code_;                                       \
    calls++;                                         \
    if (is_now("before")) perish();                  \
    code_ = (call);                                  \
    if (is_now("after")) perish();                   \
    return is_now("errors") ? MPIX_ERR_PROC_FAILED : code_; \
  } while (0)

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made) { AROUND(PMPI_Comm_dup(comm, made)); }

int MPI_Iallgather(const void *from, int count, MPI_Datatype type, void *to, int to_count,
                   MPI_Datatype to_type, MPI_Comm comm, MPI_Request *request)
{
  AROUND(PMPI_Iallgather(from, count, type, to, to_count, to_type, comm, request));
}

int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
  AROUND(PMPI_Iallreduce(from, to, count, type, op, comm, request));
}

int MPI_Ibcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request *request)
{
  AROUND(PMPI_Ibcast(buffer, count, type, root, comm, request));
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) { AROUND(PMPI_Wait(request, status)); }

/* MPI itself gives all the same answer here: there are no errors to be made up. */
int MPIX_Comm_agree(MPI_Comm comm, int *flag)
{
  int code;
  calls++;
  if (is_now("before")) perish();
  code = PMPIX_Comm_agree(comm, flag);
  if (is_now("after")) perish();
  return code;
}

/* Takes a communicator into use; in call number `place` something happens, at the last rank. */
static int enter(MPI_Comm comm, int place)
{
  int me, ranks, code;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &ranks);
  calls = 0;
  at = me == ranks - 1 ? place : 0;
  code = FAMPI_Init(comm);
  at = 0;
  CHECK(code == 0 || code == FAMPI_ERR_CREATION);
  return code;
}

/* All ranks that live have this in common. */
static void all_have(MPI_Comm comm, int mine)
{
  int both[2] = {mine, ~mine};
  /* What else they return is whether somebody has died. */
  PMPIX_Comm_agree(comm, &both[0]);
  PMPIX_Comm_agree(comm, &both[1]);
  CHECK(both[0] == mine && both[1] == ~mine);
}

int main(int argc, char **argv)
{
  MPI_Comm comm, next;
  MPI_Request block;
  MPI_Group group;
  int place, total, code, dead, codes[1] = {FAMPI_ERR_PROC_FAILED};
  begin(&argc, &argv);
  what = argv[1];
  by_signal = argc > 2 && strcmp(argv[2], "kill") == 0;
  PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  OK(enter(comm, 0));
  total = calls;
  CHECK(total > 4);
  for (place = 1; place <= total; place++) {
    int is_refused, is_harmless;
    MPI_Comm_size(comm, &size);
    CHECK(size > 2);
    if (strcmp(what, "errors") == 0)
      PMPI_Comm_dup(MPI_COMM_WORLD, &next);
    else
      OK(MPIX_Comm_shrink(comm, &next));
    MPI_Comm_free(&comm);
    comm = next;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    code = enter(comm, place);
    all_have(comm, code);
    is_refused = code != 0;
    /* Errors are made up in all calls but the two agreements. */
    is_harmless = strcmp(what, "errors") == 0 && !is_refused;
    if (is_refused) {
      EXPECT(FAMPI_ERR_CREATION, FAMPI_Init(comm));
      EXPECT(FAMPI_ERR_CREATION, FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
    } else {
      OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
      EXPECT(is_harmless ? 0 : FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
      OK(FAMPI_Get_failed_group(block, 1, codes, comm, &group));
      MPI_Group_size(group, &dead);
      CHECK(dead == (is_harmless ? 0 : 1));
      MPI_Group_free(&group);
      OK(FAMPI_Request_free(&block));
    }
    if (rank == 0) printf("call %d: %s\n", place, is_refused ? "refused" : "in use");
  }
  passed("passed");
  MPI_Finalize();
  return 0;
}
