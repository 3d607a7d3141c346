/*
 * Recoveries that are pending when their block is finished: a shrink or a rebuild is an element of
 * the list, and so is the join of the process that comes in. A rank dies so many microseconds after
 * it has begun; 0 is never, and of a rebuild -1 before it takes part and -2 when its block is
 * finished. `pending shrink|nested|inside_mpi|rebuild MICROSECONDS`
 */
#include "check.h"

#include <sys/time.h>

static const char *what;
static long moment;

/* Dies a while from now, by a signal that ends a process. */
static void die_later(int me)
{
  struct itimerval after = {{0, 0}, {moment / 1000000, moment % 1000000}};
  if (me == 3 && moment > 0) setitimer(ITIMER_REAL, &after, NULL);
}


/* What a round came to is the same on all living ranks of the communicator. */
static void the_same(MPI_Comm comm, int first, int second, int third)
{
  int mine[6] = {first, -first, second, -second, third, -third}, all[6], code;
  MPI_Request block, request;
  do {
    OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
    OK(FAMPI_Iallreduce(mine, all, 6, MPI_INT, MPI_MAX, comm, &request));
    code = commit(&block, 1, &request);
    OK(FAMPI_Request_free(&request));
    OK(FAMPI_Request_free(&block));
  } while (code != FAMPI_SUCCESS);
  for (int i = 0; i < 6; i += 2) CHECK(all[i] == -all[i + 1]);
}

static int ranks_with(MPI_Request block, int code, MPI_Comm comm)
{
  MPI_Group group;
  int ranks;
  OK(FAMPI_Get_failed_group(block, 1, &code, comm, &group));
  MPI_Group_size(group, &ranks);
  MPI_Group_free(&group);
  return ranks;
}

static int failed_requests(MPI_Request block, int code)
{
  int at[4] = {-1, -1, -1, -1}, count = 0;
  OK(FAMPI_Get_failed_requests(block, 1, &code, 4, at, &count));
  return count;
}

/* Waits for a block by MPI's own call, where that is the question. */
static int wait_for(MPI_Request *block)
{
  if (strcmp(what, "inside_mpi") == 0) {
    MPI_Request copy = *block;
    int flag = 0;
    MPI_Status status;
    while (!flag) PMPI_Request_get_status(copy, &flag, &status);
  }
  return FAMPI_Wait_local(block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
}

/* A shrink is pending in the list of a block, or of one inside of it, until one commits. */
static void shrink(void)
{
  MPI_Comm comm, living;
  MPI_Request block, outer = MPI_REQUEST_NULL, request;
  int code, made, left, me, round = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  lose_one(comm);
  MPI_Comm_rank(comm, &me);
  die_later(me);
  do {
    living = MPI_COMM_NULL;
    outer = MPI_REQUEST_NULL;
    if (strcmp(what, "nested") == 0) OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &outer));
    OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
    OK(FAMPI_Comm_ishrink(comm, &living, &request));
    OK(FAMPI_TryBlock_finish(block, 1, &request, FAMPI_TIMEOUT_NEVER));
    if (outer != MPI_REQUEST_NULL) {
      OK(FAMPI_TryBlock_finish(outer, 1, &block, FAMPI_TIMEOUT_NEVER));
      code = FAMPI_Wait_local(&outer, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
      /* A rank may die between the two ends. */
      made = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_POLL);
      CHECK(made == code || made == FAMPI_SUCCESS);
      OK(FAMPI_Request_free(&block));
      block = outer;
    } else {
      code = wait_for(&block);
    }
    CHECK(code == FAMPI_SUCCESS || code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS);
    made = FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
    CHECK(made == FAMPI_SUCCESS);
    MPI_Comm_size(living, &left);
    CHECK(code == FAMPI_SUCCESS || ranks_with(block, FAMPI_ERR_PROC_FAILED, comm) == 2);
    the_same(comm, code, made, left);
    OK(FAMPI_Request_free(&request));
    OK(FAMPI_Request_free(&block));
    MPI_Comm_free(&living);
    CHECK(++round < 1000);
  } while (code != FAMPI_SUCCESS || (moment > 0 && left == 4));
  MPI_Comm_free(&comm);
}

/* Waits until rank 3 of a communicator is dead, if it is to die. */
static void await_death(MPI_Comm comm)
{
  MPI_Request block;
  MPI_Group group;
  int dead = 0;
  while (moment != 0 && dead < 2) {
    OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
    commit(&block, 0, NULL);
    OK(FAMPI_Request_free(&block));
    OK(FAMPI_Comm_known_failed(comm, &group));
    MPI_Group_size(group, &dead);
    MPI_Group_free(&group);
  }
}

/* The last rank stands aside and takes the place of rank 1; its join and the rebuild of the others
 * are pending in the lists of blocks. */
static void rebuild(void)
{
  const int aside = size - 1;
  int code, made, all = -1, place = -1, ranks[1] = {0}, alone = 0;
  MPI_Comm old = MPI_COMM_NULL, living = MPI_COMM_SELF, bridge, link, world = MPI_COMM_NULL;
  MPI_Request block, request;
  MPI_Comm_split(MPI_COMM_WORLD, rank == aside ? MPI_UNDEFINED : 0, rank, &old);
  if (rank != aside) {
    lose_one(old);
    OK(FAMPI_Comm_ishrink(old, &living, &request));
    OK(FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
    OK(FAMPI_Request_free(&request));
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPIX_Comm_shrink(MPI_COMM_WORLD, &bridge);
  OK(MPI_Intercomm_create(living, 0, bridge, rank == aside ? 0 : aside - 1, 7, &link));
  die_later(rank);
  OK(FAMPI_TryBlock_start(rank == aside ? MPI_COMM_SELF : old, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (rank == aside) OK(FAMPI_Comm_irebuild_join(link, &world, &request));
  else if (rank == 3 && moment == -1) die();
  else OK(FAMPI_Comm_irebuild(old, 0, link, 1, ranks, 0, &world, &request));
  OK(FAMPI_TryBlock_finish(block, 1, &request, FAMPI_TIMEOUT_NEVER));
  if (rank == 3 && moment == -2) die();
  code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  CHECK(code == FAMPI_SUCCESS || code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS);
  made = FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  CHECK(made == FAMPI_SUCCESS || made == FAMPI_ERR_CREATION);
  CHECK(made == FAMPI_SUCCESS || code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS);
  CHECK(failed_requests(block, FAMPI_ERR_CREATION) == (made == FAMPI_ERR_CREATION));
  alone = rank == aside;
  if (made == FAMPI_ERR_CREATION) {
    CHECK(ranks_with(block, FAMPI_ERR_CREATION, alone ? MPI_COMM_SELF : old) == (alone ? 1 : 3));
    CHECK(moment != 0);
  } else {
    MPI_Comm_size(world, &all);
    MPI_Comm_rank(world, &place);
    CHECK(all == size - 1 && place == (alone ? 1 : rank));
  }
  OK(FAMPI_Request_free(&request));
  OK(FAMPI_Request_free(&block));
  if (!alone) the_same(old, code, made, all);
  if (made == FAMPI_SUCCESS) the_same(world, made, all, 0);
  printf("rank %d: %s\n", rank, made == FAMPI_SUCCESS ? "whole" : "failed");
  if (!alone) await_death(old);
}

int main(int argc, char **argv)
{
  begin(&argc, &argv);
  what = argv[1];
  moment = atol(argv[2]);
  if (strcmp(what, "rebuild") == 0) rebuild();
  else shrink();
  passed("passed");
  MPI_Finalize();
  return 0;
}
