/*
 * Ranks die: inside a halo exchange, inside a collective, in the middle of a wait, before finish.
 * The survivors agree, shrink, and go on. `deaths WHERE`
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>

/* The last rank dies where the round says. */
static const char *where;

/* A state of many pages. */
#define LONG 20000
static int of_rank[LONG];

static int here(const char *place) { return strcmp(where, place) == 0; }

static int doomed(MPI_Comm world, int victim)
{
  int me, ranks, got[2] = {-1, -1}, one = 1, sum, code = 0, i;
  MPI_Request block, requests[3];
  MPI_Group group;
  int count, codes[1] = {MPI_ERR_PROC_FAILED}, old = -1, zero = 0;
  int cut_short[1] = {FAMPI_ERR_INTERRUPTED}, places[3];
  MPI_Group all;
  MPI_Comm_rank(world, &me);
  MPI_Comm_size(world, &ranks);
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (me == victim && here("start")) die();
  MPI_Irecv(&got[0], 1, MPI_INT, (me + ranks - 1) % ranks, 1, world, &requests[0]);
  MPI_Irecv(&got[1], 1, MPI_INT, (me + 1) % ranks, 1, world, &requests[1]);
  if (here("collective")) {
    if (me == victim) die();
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world, &requests[2]);
    code = FAMPI_Wait_local(&requests[2], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  } else if (here("silent")) {
    /* All wait for living neighbours, which never send. */
    if (me == victim) die();
    MPI_Irecv(&sum, 1, MPI_INT, (me + 1) % ranks == victim ? (me + 2) % ranks : (me + 1) % ranks,
              9, world, &requests[2]);
    code = FAMPI_Wait_local(&requests[2], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
    CHECK(code != 0);
  } else if (here("wildcard")) {
    if (me == victim) die();
    MPI_Irecv(&sum, 1, MPI_INT, MPI_ANY_SOURCE, 9, world, &requests[2]);
  } else {
    MPI_Isend(&me, 1, MPI_INT, (me + 1) % ranks, 1, world, &requests[2]);
    if (me == victim && here("halo")) die();
  }
  OK(FAMPI_TryBlock_finish(block, 3, requests, FAMPI_TIMEOUT_NEVER));
  if (me == victim) {
    const struct timespec moment = {0, 2000000};
    if (here("after")) nanosleep(&moment, NULL);
    die();
  }
  code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, seconds(20));
  if (here("after") && code == FAMPI_SUCCESS) return 0;
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, code);
  OK(FAMPI_Get_failed_group(block, 1, codes, world, &group));
  MPI_Group_size(group, &count);
  CHECK(count == 1);
  MPI_Comm_group(world, &all);
  MPI_Group_translate_ranks(group, 1, &zero, all, &old);
  CHECK(old == victim);
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  /* Whether a request heard first of the death or of its consequence makes no difference. */
  OK(FAMPI_Get_failed_requests(block, 1, cut_short, 0, NULL, &count));
  CHECK(count == 0);
  /* No rank sends to the left: this one waits for the dead, and is found by the code of a death. */
  OK(FAMPI_Get_failed_requests(block, 1, codes, 3, places, &count));
  for (i = 0; i < count && places[i] != 1; i++) continue;
  CHECK(i < count || (me + 1) % ranks != victim);
  for (i = 0; i < 3; i++) OK(FAMPI_Request_free(&requests[i]));
  OK(FAMPI_Request_free(&block));
  return 1;
}

/* A block of two ranks on a communicator of their own. It is pending while others die. */
static MPI_Comm pair = MPI_COMM_NULL;
static MPI_Request pair_block, pair_requests[2];
static int pair_got = -1;

static void begin_apart(void)
{
  MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &pair);
  if (pair == MPI_COMM_NULL) return;
  OK(FAMPI_TryBlock_start(pair, FAMPI_TRYBLOCK_GLOBAL, &pair_block));
  MPI_Irecv(&pair_got, 1, MPI_INT, 1 - rank, 1, pair, &pair_requests[0]);
  MPI_Irecv(&pair_got, 0, MPI_INT, 1 - rank, 2, pair, &pair_requests[1]);
  OK(FAMPI_TryBlock_finish(pair_block, 2, pair_requests, FAMPI_TIMEOUT_NEVER));
}

static void end_apart(void)
{
  if (pair == MPI_COMM_NULL) return;
  EXPECT(FAMPI_ERR_TIMEOUT,
         FAMPI_Wait_local(&pair_block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_POLL));
  MPI_Send(&rank, 1, MPI_INT, 1 - rank, 1, pair);
  MPI_Send(&rank, 0, MPI_INT, 1 - rank, 2, pair);
  OK(FAMPI_Wait_local(&pair_block, MPI_STATUS_IGNORE, seconds(20)));
  CHECK(pair_got == 1 - rank);
  OK(FAMPI_Request_free(&pair_requests[0]));
  OK(FAMPI_Request_free(&pair_requests[1]));
  OK(FAMPI_Request_free(&pair_block));
  MPI_Comm_free(&pair);
}

static MPI_Comm shrunken(MPI_Comm world)
{
  MPI_Comm smaller = MPI_COMM_NULL;
  MPI_Request request;
  int before, after;
  MPI_Comm_size(world, &before);
  OK(FAMPI_Comm_ishrink(world, &smaller, &request));
  OK(FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, seconds(20)));
  OK(MPI_Request_free(&request));
  CHECK(smaller != MPI_COMM_NULL);
  MPI_Comm_size(smaller, &after);
  CHECK(after == before - 1);
  return smaller;
}

/* A state that the partner keeps, half of the ranks further on. */
static void protect(MPI_Comm world)
{
  MPI_Request block;
  int me, round, i;
  MPI_Comm_rank(world, &me);
  for (i = 0; i < LONG; i++) of_rank[i] = me * LONG + i;
  me += 100;
  /* What has changed in the long one is sent. The second block is aborted. */
  for (round = -1; round < 2; round++) {
    of_rank[7] = of_rank[LONG - 1] = -me - (round == 0 ? 77 : round);
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
    OK(FAMPI_Protect(block, 3, &me, 1, MPI_INT));
    if (round == 0) of_rank[5000] = 0;
    OK(FAMPI_Protect(block, 4, of_rank, LONG, MPI_INT));
    if (round == 0) {
      OK(FAMPI_Request_raise_error(block, 1007));
      EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
      of_rank[5000] = (me - 100) * LONG + 5000;
    } else {
      OK(commit(&block, 0, NULL));
    }
    MPI_Request_free(&block);
  }
}

/* The long state is that of a rank. */
static void check_long(int count, int rank)
{
  int i;
  CHECK(count == LONG);
  for (i = 0; i < LONG; i++)
    CHECK(of_rank[i] == (i == 7 || i == LONG - 1 ? -(rank + 100) - 1 : rank * LONG + i));
}

/* The survivors have their own states, and one of them has that of the dead. */
static void inherit(MPI_Comm world, int victim, int ranks, int me)
{
  MPI_Request block;
  int state = -1, count, whose, keeper = (victim + ranks / 2) % ranks;
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_Restore(block, 3, &state, 1, MPI_INT, &count));
  CHECK(count == 1 && state == 100 + me);
  OK(FAMPI_Restore(block, 4, of_rank, LONG, MPI_INT, &count));
  check_long(count, me);
  if (me == keeper) {
    OK(FAMPI_Inherit(block, 4, of_rank, LONG, MPI_INT, &count, &whose));
    check_long(count, victim);
  }
  OK(FAMPI_Inherit(block, 3, &state, 1, MPI_INT, &count, &whose));
  CHECK(count == (me == keeper) && whose == (me == keeper ? victim : MPI_PROC_NULL));
  CHECK(state == 100 + (me == keeper ? victim : me));
  OK(commit(&block, 0, NULL));
  MPI_Request_free(&block);
}

int main(int argc, char **argv)
{
  MPI_Comm world, next;
  MPI_Request block, request;
  int round, i, sum, one = 1, me;
  begin(&argc, &argv);
  where = argv[1];
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  for (i = 0; i < 10; i++) {
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world, &request);
    OK(commit(&block, 1, &request));
    MPI_Request_free(&request);
    MPI_Request_free(&block);
  }
  for (round = 0; round < 2; round++) {
    MPI_Comm_size(world, &size);
    MPI_Comm_rank(world, &me);
    protect(world);
    if (round == 0) begin_apart();
    while (!doomed(world, round == 0 ? size - 1 : 0)) {
    }
    /* Blocks go on working on what has lost a rank. */
    for (i = 0; i < 20; i++) {
      OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
      OK(commit(&block, 0, NULL));
      MPI_Request_free(&block);
    }
    if (round == 0) end_apart();
    next = shrunken(world);
    MPI_Comm_free(&world);
    world = next;
    inherit(world, round == 0 ? size - 1 : 0, size, me);
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world, &request);
    OK(commit(&block, 1, &request));
    MPI_Request_free(&request);
    MPI_Request_free(&block);
    MPI_Comm_size(world, &size);
    CHECK(sum == size);
  }
  passed("survived");
  MPI_Comm_free(&world);
  MPI_Finalize();
  return 0;
}
