/*
 * Small collectives of fampi's own in blocks with a collective: `riders WHAT`
 *
 * plain    the last one rides on the commit, without a message; a rank that waits for it before,
 *          by whichever call, has it all the same
 * before   rank 1 dies before it has posted it, or
 * in       when it has, or
 * waiting  while it waits for it, or
 * after    when the block is committed; the next blocks go on without it
 */
#include "check.h"

enum { NUMBERS = 8, BLOCKS = 10 };

static long sends;

/* Counts what the library sends by MPI, too. */
int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
  sends++;
  return PMPI_Isend(buf, count, type, dest, tag, comm, request);
}

static MPI_Request start(int level)
{
  MPI_Request block;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, level, &block));
  return block;
}

static int living;

/* One block that ends with a sum of so many numbers, with a barrier for 0, or with nothing. */
static void one(int level, int numbers)
{
  double ones[2 * NUMBERS], sums[2 * NUMBERS];
  MPI_Request block = start(level), last;
  for (int i = 0; i < 2 * NUMBERS; i++) ones[i] = 1, sums[i] = -1;
  if (numbers > 0)
    OK(FAMPI_Iallreduce(ones, sums, numbers, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &last));
  if (numbers == 0) OK(FAMPI_Ibarrier(MPI_COMM_WORLD, &last));
  OK(commit(&block, numbers >= 0, &last));
  for (int i = 0; i < numbers; i++) CHECK(sums[i] == living);
  CHECK(sums[numbers > 0 ? numbers : 0] == -1);
  if (numbers >= 0) OK(MPI_Wait(&last, MPI_STATUS_IGNORE));
  OK(FAMPI_Request_free(&block));
}

static long cost(int level, int numbers)
{
  one(level, numbers);
  long before = sends;
  for (int i = 0; i < BLOCKS; i++) one(level, numbers);
  return sends - before;
}

/* Waits for a request in one of several ways; true if it has come to its end. */
static int wait_by(int way, MPI_Request *request)
{
  MPI_Request copy = *request;
  int flag = 0, index;
  switch (way) {
    case 0: return FAMPI_Wait_local(request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER) == 0;
    case 1:
      while (!flag) OK(MPI_Request_get_status(copy, &flag, MPI_STATUS_IGNORE));
      return 1;
    case 2:
      return FAMPI_Waitany_local(1, request, &index, MPI_STATUS_IGNORE, seconds(20)) == 0;
    case 3:
      while (FAMPI_Wait_local(request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_POLL) != 0) {}
      return 1;
    default: return 1;
  }
}

/* All ranks have the results, whoever waits for which of them, and how. */
static void results(int round)
{
  enum { ALL = 5 };
  MPI_Request block = start(FAMPI_TRYBLOCK_WITH_COLLECTIVE), list[ALL];
  int truth = rank != 1, own = rank + 5, min = 0, both = -7;
  unsigned char bit = 1 << rank % 8, bits = 0;
  double mine[2] = {0.1 * (rank + 1), 1e16}, sum[2] = {0, 0}, again = rank;
  OK(FAMPI_Iallreduce(&truth, &both, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD, &list[0]));
  OK(FAMPI_Iallreduce(&own, &min, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &list[1]));
  OK(FAMPI_Ibarrier(MPI_COMM_WORLD, &list[2]));
  OK(FAMPI_Iallreduce(&bit, &bits, 1, MPI_UNSIGNED_CHAR, MPI_BOR, MPI_COMM_WORLD, &list[3]));
  int waits = (round + rank) % 3 == 0 ? -1 : (round + rank) % 4;
  if (waits >= 0) CHECK(wait_by((round + 2 * rank) % 5, &list[waits]));
  OK(FAMPI_Iallreduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &list[4]));
  if (round % 4 == rank % 4) CHECK(wait_by(round % 5, &list[4]));
  /* What is not in the list is of the block all the same. */
  int listed = round % 2 ? ALL : ALL - 1;
  OK(FAMPI_TryBlock_finish(block, listed, list, seconds(20)));
  if (round % 3 == 0) CHECK(wait_by(round % 5, &list[4]));
  OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Waitall_local(ALL, list, MPI_STATUSES_IGNORE, FAMPI_TIMEOUT_NEVER));
  CHECK(both == 0 && min == 5 && bits == (1 << size) - 1);
  CHECK(sum[1] == 1e16 * size && sum[0] > 0);
  OK(MPI_Waitall(ALL, list, MPI_STATUSES_IGNORE));
  OK(FAMPI_Request_free(&block));
  /* The same bits on all ranks; and in place. */
  block = start(FAMPI_TRYBLOCK_WITH_COLLECTIVE);
  double extremes[2] = {sum[0], -sum[0]};
  OK(FAMPI_Iallreduce(MPI_IN_PLACE, extremes, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &list[0]));
  OK(FAMPI_Iallreduce(MPI_IN_PLACE, &again, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &list[1]));
  OK(commit(&block, 2, list));
  CHECK(extremes[0] == sum[0] && -extremes[1] == sum[0] && again == size - 1);
  OK(MPI_Waitall(2, list, MPI_STATUSES_IGNORE));
  OK(FAMPI_Request_free(&block));
}

/* A death around a block, and what all living ranks know of it. */
static void death(const char *when)
{
  MPI_Request block, sum;
  int mine = 1, all = -1, codes[1] = {FAMPI_ERR_PROC_FAILED}, count, code, index;
  MPI_Group group;
  if (strcmp(when, "after") == 0) {
    block = start(FAMPI_TRYBLOCK_WITH_COLLECTIVE);
    OK(FAMPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &sum));
    OK(commit(&block, 1, &sum));
    CHECK(all == size);
    OK(MPI_Wait(&sum, MPI_STATUS_IGNORE));
    OK(FAMPI_Request_free(&block));
    if (rank == 1) die();
    all = -1;
  }
  block = start(FAMPI_TRYBLOCK_WITH_COLLECTIVE);
  if (rank == 1 && strcmp(when, "before") == 0) die();
  OK(FAMPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &sum));
  if (rank == 1 && strcmp(when, "in") == 0) die();
  code = 0;
  if (strcmp(when, "waiting") == 0) {
    if (rank == 1) die();
    code = FAMPI_Wait_local(&sum, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  }
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 1, &sum));
  OK(FAMPI_Get_failed_group(block, 1, codes, MPI_COMM_WORLD, &group));
  MPI_Group_size(group, &count);
  CHECK(count == 1);
  MPI_Group_free(&group);
  OK(FAMPI_Get_failed_requests(block, 1, codes, 1, &index, &count));
  CHECK(count == (all == -1) && (count == 0 || index == 0));
  /* Ahead of the commit it may have been there, with what the dead gave before. */
  CHECK(all == -1 || (all == size && code == 0 && strcmp(when, "waiting") == 0));
  code = FAMPI_Wait_local(&sum, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  CHECK(all == size ? code == 0 : code == FAMPI_ERR_PROC_FAILED_SOFT);
  OK(FAMPI_Request_free(&sum));
  OK(FAMPI_Request_free(&block));
  living = size - 1;
  for (int i = 0; i < BLOCKS; i++) one(FAMPI_TRYBLOCK_WITH_COLLECTIVE, i % (NUMBERS + 1));
}

int main(int argc, char **argv)
{
  begin(&argc, &argv);
  living = size;
  OK(FAMPI_Init(MPI_COMM_WORLD));
  if (argc > 1 && strcmp(argv[1], "plain") != 0) {
    death(argv[1]);
  } else {
    long nothing = cost(FAMPI_TRYBLOCK_GLOBAL, -1);
    CHECK(cost(FAMPI_TRYBLOCK_WITH_COLLECTIVE, NUMBERS) == nothing);
    CHECK(cost(FAMPI_TRYBLOCK_WITH_COLLECTIVE, 1) == nothing);
    CHECK(cost(FAMPI_TRYBLOCK_WITH_COLLECTIVE, 0) == nothing);
    /* Where votes go by MPI, and anything is sent: more numbers than a commit carries do not. */
    if (getenv("FAMPI_MAILBOX") != NULL) CHECK(nothing >= BLOCKS);
    CHECK(cost(FAMPI_TRYBLOCK_WITH_COLLECTIVE, NUMBERS + 1) > nothing);
    CHECK(cost(FAMPI_TRYBLOCK_GLOBAL, 1) > nothing);
    for (int round = 0; round < 60; round++) results(round);
  }
  passed("passed");
  MPI_Finalize();
  return 0;
}
