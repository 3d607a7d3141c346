/*
 * What the FA-MPI paper has and no other program here asks for: a block that promises a
 * collective, files and windows among its requests, codes of applications, soft and hard deaths, a
 * shrink as a request of a block, a replacement that was there before. `papers levels`,
 * `papers deaths`, `papers aside`
 */
#include "check.h"


#include <fampi_names.h>

/* How many ranks have one of these codes. */
static int failed(MPI_Request block, int count, int *codes, MPI_Comm comm)
{
  MPI_Group group;
  int ranks;
  OK(MPI_Get_failed_group(block, count, codes, comm, &group));
  MPI_Group_size(group, &ranks);
  MPI_Group_free(&group);
  return ranks;
}

/* With the collective that it promises, and with one that a rank objects to. */
static void with_collective(MPI_Comm comm)
{
  int one = 1, sum = 0, round, code, me, all;
  int codes[2] = {MPI_ERR_TRANSIENT, MPI_ERR_PERMANENT}, any[1] = {MPI_ERR_RCODES_ANY};
  MPI_Request block, request;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &all);
  for (round = 0; round < 2; round++) {
    OK(MPI_TryBlock_start(comm, MPI_TRYBLOCK_WITH_COLLECTIVE, &block));
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
    if (round == 1 && me == 1) OK(MPI_Request_raise_error(block, MPI_ERR_PERMANENT));
    code = commit(&block, 1, &request);
    EXPECT(round == 1 ? MPI_ERR_TRYBLOCK_FOUND_ERRORS : MPI_SUCCESS, code);
    CHECK(sum == all);
    CHECK(failed(block, 1, &codes[0], comm) == 0);
    CHECK(failed(block, 1, &codes[1], comm) == (round == 1));
    CHECK(failed(block, 2, codes, comm) == (round == 1));
    CHECK(failed(block, 1, any, comm) == (round == 1));
    OK(MPI_Request_free(&request));
    OK(MPI_Request_free(&block));
    sum = 0;
  }
}

/* Ended by a reduction on its commit, and without the collective that it promises. */
static void without_collective(void)
{
  int value = 7, got = 0, one = 1, sum = 0, me, all, code[1] = {FAMPI_ERR_NO_COLLECTIVE};
  MPI_Request block, requests[2];
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &all);
  OK(MPI_TryBlock_start(comm, MPI_TRYBLOCK_WITH_COLLECTIVE, &block));
  OK(FAMPI_TryBlock_finish_allreduce(block, 0, NULL, FAMPI_TIMEOUT_NEVER, &one, &sum, 1, MPI_INT,
                                     MPI_SUM));
  OK(MPI_Wait_local(&block, MPI_STATUS_IGNORE, MPI_TIMEOUT_ZERO));
  CHECK(sum == all);
  OK(MPI_Request_free(&block));
  OK(MPI_TryBlock_start(comm, MPI_TRYBLOCK_WITH_COLLECTIVE, &block));
  MPI_Irecv(&got, 1, MPI_INT, (me + 1) % all, 0, comm, &requests[0]);
  MPI_Isend(&value, 1, MPI_INT, (me + all - 1) % all, 0, comm, &requests[1]);
  EXPECT(MPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 2, requests));
  CHECK(failed(block, 1, code, comm) >= 1);
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  OK(MPI_Request_free(&block));
  MPI_Comm_free(&comm);
}

/* Each rank writes to a file and reads it, and gets from a window of its neighbour. */
static void files_and_windows(MPI_Comm comm)
{
  int value = 7, from_file = 0, from_window = 0, *memory;
  MPI_Request block, requests[2];
  MPI_File file;
  MPI_Win window;
  OK(MPI_File_open(MPI_COMM_SELF, "papers.bin",
                   MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                   &file));
  MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &memory, &window);
  *memory = 100 + rank;
  MPI_Barrier(comm);
  MPI_Win_lock_all(0, window);
  OK(MPI_TryBlock_start(comm, MPI_TRYBLOCK_GLOBAL, &block));
  MPI_File_iwrite_at(file, 4 * rank, &value, 1, MPI_INT, &requests[0]);
  MPI_Rget(&from_window, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window, &requests[1]);
  OK(commit(&block, 2, requests));
  CHECK(from_window == 100 + (rank + 1) % size);
  OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  OK(MPI_Request_free(&block));
  OK(MPI_TryBlock_start(comm, MPI_TRYBLOCK_GLOBAL, &block));
  MPI_File_iread_at(file, 4 * rank, &from_file, 1, MPI_INT, &requests[0]);
  OK(commit(&block, 1, requests));
  CHECK(from_file == 7);
  OK(MPI_Request_free(&requests[0]));
  OK(MPI_Request_free(&block));
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_File_close(&file);
}

/* The last rank dies in a block that promises a collective; the shrink is a request of the next. */
static void a_death(MPI_Comm comm)
{
  int one = 1, sum, all, left, me;
  int soft[1] = {FAMPI_ERR_PROC_FAILED_SOFT}, hard[1] = {FAMPI_ERR_PROC_FAILED_HARD};
  int ulfm[1] = {MPI_ERR_PROC_FAILED}, cause, value;
  MPI_Comm living;
  MPI_Request block, request;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &all);
  OK(MPI_TryBlock_start(comm, MPI_TRYBLOCK_WITH_COLLECTIVE, &block));
  if (me == all - 1) die();
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
  EXPECT(MPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 1, &request));
  CHECK(failed(block, 1, ulfm, comm) == 1 && failed(block, 1, soft, comm) == 1);
  CHECK(failed(block, 1, hard, comm) == 0);
  /* Its parent may have been told first: then nobody knows, and all say so. */
  OK(FAMPI_Get_failure_cause(block, all - 1, &cause, &value));
  CHECK(cause == FAMPI_CAUSE_KILLED ? value == 9 : cause == FAMPI_CAUSE_UNKNOWN && value == 0);
  CHECK(FAMPI_Get_failure_cause(block, me, &cause, &value) == FAMPI_ERR_ARG);
  CHECK(FAMPI_Get_failure_cause(block, all - 1, NULL, &value) == FAMPI_ERR_ARG);
  OK(MPI_Request_free(&request));
  OK(MPI_Request_free(&block));
  /* A block on a communicator that has lost a rank, around the recovery. */
  OK(MPI_TryBlock_start(comm, MPI_TRYBLOCK_GLOBAL, &block));
  OK(MPI_Comm_ishrink(comm, &living, &request));
  OK(MPI_Wait_local(&request, MPI_STATUS_IGNORE, MPI_TIMEOUT_ZERO));
  OK(commit(&block, 1, &request));
  OK(MPI_Request_free(&request));
  OK(MPI_Request_free(&block));
  /* The old one is as it was. */
  MPI_Comm_size(comm, &left);
  CHECK(left == all);
  MPI_Comm_size(living, &left);
  CHECK(left == all - 1);
  OK(MPI_TryBlock_start(living, MPI_TRYBLOCK_GLOBAL, &block));
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, living, &request);
  OK(commit(&block, 1, &request));
  CHECK(sum == left);
  OK(MPI_Request_free(&request));
  OK(MPI_Request_free(&block));
  MPI_Comm_free(&living);
}

/* The last rank stands aside from the launch on, and takes the place of rank 1. In the link it is
 * in the other group, or in that of the survivors; then rank 0 of the launch, which is in no
 * communicator that is rebuilt, is the other group. */
static void one_that_was_there(int is_local)
{
  const int aside = size - 1, victim = 1 + is_local, first = is_local;
  int sum = 0, me, all, ranks[1] = {0};
  MPI_Comm failed_one = MPI_COMM_NULL, living = MPI_COMM_SELF, bridge, link;
  MPI_Comm world = MPI_COMM_NULL;
  MPI_Request block, request;
  MPI_Comm_split(MPI_COMM_WORLD, rank == aside || rank < first ? MPI_UNDEFINED : 0, rank,
                 &failed_one);
  if (rank != aside && rank >= first) {
    OK(MPI_TryBlock_start(failed_one, MPI_TRYBLOCK_GLOBAL, &block));
    if (rank == victim) die();
    EXPECT(MPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
    OK(MPI_Request_free(&block));
    OK(MPI_Comm_ishrink(failed_one, &living, &request));
    OK(MPI_Wait_local(&request, MPI_STATUS_IGNORE, MPI_TIMEOUT_ZERO));
    OK(MPI_Request_free(&request));
  }
  /* MPI makes no link over a communicator that has lost a rank. */
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPIX_Comm_shrink(MPI_COMM_WORLD, &bridge);
  if (is_local) {
    ranks[0] = aside - 1 - first;
    MPI_Comm_split(bridge, rank < first, rank, &living);
    OK(MPI_Intercomm_create(living, 0, bridge, rank < first ? first : 0, 7, &link));
    if (rank < first) {
      OK(FAMPI_Init(link));
      return;
    }
  } else {
    OK(MPI_Intercomm_create(living, 0, bridge, rank == aside ? 0 : aside - 1, 7, &link));
  }
  if (rank == aside) OK(MPI_Comm_irebuild_join(link, &world, &request));
  else OK(MPI_Comm_irebuild(failed_one, 0, link, 1, ranks, is_local, &world, &request));
  OK(MPI_Wait_local(&request, MPI_STATUS_IGNORE, MPI_TIMEOUT_ZERO));
  OK(MPI_Request_free(&request));
  MPI_Comm_rank(world, &me);
  MPI_Comm_size(world, &all);
  CHECK(all == size - 1 - first && me == (rank == aside ? victim : rank) - first);
  OK(MPI_TryBlock_start(world, MPI_TRYBLOCK_GLOBAL, &block));
  MPI_Iallreduce(&me, &sum, 1, MPI_INT, MPI_SUM, world, &request);
  OK(commit(&block, 1, &request));
  CHECK(sum == all * (all - 1) / 2);
  OK(MPI_Request_free(&request));
  OK(MPI_Request_free(&block));
  MPI_Comm_free(&world);
}

int main(int argc, char **argv)
{
  MPI_Comm world;
  begin(&argc, &argv);
  if (strcmp(argv[1], "aside") == 0 || strcmp(argv[1], "beside") == 0) {
    one_that_was_there(argv[1][0] == 'b');
  } else {
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    with_collective(world);
    without_collective();
    if (strcmp(argv[1], "deaths") == 0) a_death(world);
    else files_and_windows(world);
    MPI_Comm_free(&world);
  }
  passed("passed");
  MPI_Finalize();
  return 0;
}
