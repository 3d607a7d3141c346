/*
 * Messages of fampi's own on a communicator that loses ranks: `patient WHAT`
 *
 * late     a pair that the death does not concern completes, although one of them is late
 * vain     what a living rank does not serve is ended, and is the only other fault
 * inside   the same in a wait inside of the block
 * ever     any number of aborts and deaths, each followed by a good block
 * any      as ever, and what is received comes from any source
 * stale    what an aborted block has left meets no later one, tags and status are the program's
 * strangers the same with MPI's own messages, also on a communicator of the pair
 * local    a pair in a local block, of which one is late by more than a death is waited for
 * prompt   the same as late, and the pair is cut
 * plain    on a communicator that is not in use these are MPI's own
 */
#include "check.h"

enum { LONG = 100000, TAG = 7 };

static MPI_Comm world;
static const int dead = 4;
/* Receives are from any source, of messages that go without their receiver. */
static int from_any;
static int mine[LONG], got[LONG];

static MPI_Request start(void)
{
  MPI_Request block;
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  return block;
}

static int end(MPI_Request block, int count, MPI_Request *list)
{
  OK(FAMPI_TryBlock_finish(block, count, list, FAMPI_TIMEOUT_NEVER));
  return FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, seconds(20));
}

/* The places of requests that failed with this code, as bits. */
static int failed(MPI_Request block, int code)
{
  int places[16], count, bits = 0;
  OK(FAMPI_Get_failed_requests(block, 1, &code, 16, places, &count));
  for (int i = 0; i < count; i++) bits |= 1 << places[i];
  return bits;
}

static void fill(int value)
{
  for (int i = 0; i < LONG; i++) mine[i] = value, got[i] = -1;
}

static void holds(int value)
{
  for (int i = 0; i < LONG; i++) CHECK(got[i] == value);
}

/* A ring of the ranks below `living` with fampi's own messages: the code of its block. */
static int ring(int living, int value, int long_ones)
{
  const int count = !long_ones ? 1 : from_any ? 900 : LONG;
  MPI_Request block = start(), list[2];
  int code, next = (rank + 1) % living, before = (rank + living - 1) % living;
  const int source = from_any ? MPI_ANY_SOURCE : before;
  MPI_Status status;
  fill(value + rank);
  OK(FAMPI_Irecv(got, count, MPI_INT, source, TAG, world, &list[0]));
  OK(FAMPI_Isend(mine, count, MPI_INT, next, TAG, world, &list[1]));
  code = end(block, 2, list);
  if (code == FAMPI_SUCCESS) {
    CHECK(got[0] == value + before && got[count - 1] == value + before);
    OK(MPI_Wait(&list[0], &status));
    CHECK(status.MPI_SOURCE == before && status.MPI_TAG == TAG);
    OK(FAMPI_Request_free(&list[1]));
  } else {
    OK(FAMPI_Request_free(&list[0]));
    OK(FAMPI_Request_free(&list[1]));
  }
  OK(FAMPI_Request_free(&block));
  return code;
}

static void pair(int patience)
{
  MPI_Request block, list[2];
  int code, n = 0, with = 1 - rank;
  OK(FAMPI_Comm_set_patience(world, patience));
  block = start();
  if (rank == dead) die();
  fill(rank);
  for (double began = MPI_Wtime(); rank == 1 && MPI_Wtime() < began + 0.7;) {}
  if (rank < 2) {
    OK(FAMPI_Irecv(got, LONG, MPI_INT, with, TAG, world, &list[n++]));
    OK(FAMPI_Issend(mine, LONG, MPI_INT, with, TAG, world, &list[n++]));
  }
  if (rank == 2) OK(FAMPI_Irecv(got, 1, MPI_INT, dead, TAG, world, &list[n++]));
  code = end(block, n, list);
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, code);
  CHECK(reports(block, FAMPI_ERR_PROC_FAILED_SOFT));
  if (rank == 2) CHECK(failed(block, FAMPI_ERR_PROC_FAILED) == 1);
  if (rank < 2 && patience == FAMPI_PATIENT) {
    CHECK(failed(block, FAMPI_ERR_RCODES_ANY) == 0);
    holds(with);
  }
  if (rank == 0 && patience == FAMPI_PROMPT) CHECK(failed(block, FAMPI_ERR_INTERRUPTED) != 0);
  for (int i = 0; i < n; i++) OK(FAMPI_Request_free(&list[i]));
  OK(FAMPI_Request_free(&block));
}

/* A pair in a local block: a death is no affair of it. */
static void local(void)
{
  MPI_Request block, list[2];
  if (rank == dead) die();
  if (rank > 1) return;
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_LOCAL, &block));
  fill(rank);
  for (double began = MPI_Wtime(); rank == 1 && MPI_Wtime() < began + 2.5;) {}
  OK(FAMPI_Irecv(got, LONG, MPI_INT, 1 - rank, TAG, world, &list[0]));
  OK(FAMPI_Isend(mine, LONG, MPI_INT, 1 - rank, TAG, world, &list[1]));
  EXPECT(FAMPI_SUCCESS, end(block, 2, list));
  holds(1 - rank);
  OK(FAMPI_Request_free(&list[0]));
  OK(FAMPI_Request_free(&list[1]));
  OK(FAMPI_Request_free(&block));
}

/* MPI's own messages of such a pair, on the block's communicator and on one of the two alone, and
 * one from the dead. */
static void strangers(MPI_Comm both)
{
  MPI_Comm comms[2] = {world, both};
  MPI_Request block, list[2];
  double began = MPI_Wtime();
  if (rank == dead) die();
  if (rank > 1) return;
  for (int at = 0; at < 2; at++) {
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_LOCAL, &block));
    fill(rank);
    while (rank == 1 && MPI_Wtime() < began + 2.5 * (at + 1)) {}
    OK(MPI_Irecv(got, LONG, MPI_INT, 1 - rank, TAG, comms[at], &list[0]));
    OK(MPI_Isend(mine, LONG, MPI_INT, 1 - rank, TAG, comms[at], &list[1]));
    EXPECT(FAMPI_SUCCESS, end(block, 2, list));
    holds(1 - rank);
    OK(MPI_Wait(&list[0], MPI_STATUS_IGNORE));
    OK(MPI_Wait(&list[1], MPI_STATUS_IGNORE));
    OK(FAMPI_Request_free(&block));
  }
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_LOCAL, &block));
  MPI_Irecv(got, LONG, MPI_INT, dead, TAG, world, &list[0]);
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, end(block, 1, list));
  CHECK(failed(block, FAMPI_ERR_PROC_FAILED_SOFT) | failed(block, MPI_ERR_PROC_FAILED));
  MPI_Request_free(&list[0]);
  OK(FAMPI_Request_free(&block));
}

/* Rank 0 loses the dead and does not go on to its partner, which has done its part. */
static void vain(int inside)
{
  MPI_Request block = start(), list[3];
  int code, n = 0;
  if (rank == dead) die();
  fill(rank);
  if (rank == 0) OK(FAMPI_Irecv(got, 1, MPI_INT, dead, TAG, world, &list[n++]));
  if (rank == 1) {
    OK(FAMPI_Irecv(got, LONG, MPI_INT, 0, TAG, world, &list[n++]));
    OK(FAMPI_Isend(mine, LONG, MPI_INT, 0, TAG, world, &list[n++]));
    OK(FAMPI_Isend(mine, 1, MPI_INT, 2, TAG, world, &list[n++]));
  }
  if (rank == 2) OK(FAMPI_Irecv(got, 1, MPI_INT, 1, TAG, world, &list[n++]));
  if (rank == 3) OK(FAMPI_Irecv(got, 1, MPI_INT, MPI_ANY_SOURCE, TAG, world, &list[n++]));
  if (inside && rank < 2)
    CHECK(FAMPI_Wait_local(&list[0], MPI_STATUS_IGNORE, seconds(20)) != FAMPI_SUCCESS);
  code = end(block, n, list);
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, code);
  CHECK(reports(block, FAMPI_ERR_PROC_FAILED_SOFT));
  if (rank == 0) CHECK(failed(block, FAMPI_ERR_PROC_FAILED) == 1);
  if (rank == 1) CHECK(failed(block, FAMPI_ERR_INTERRUPTED) == 3);
  if (rank == 2) CHECK(failed(block, FAMPI_ERR_RCODES_ANY) == 0);
  if (rank == 3) CHECK(failed(block, FAMPI_ERR_RCODES_ANY) == 1);
  if (rank == 1) EXPECT(FAMPI_ERR_INTERRUPTED, FAMPI_Wait_local(&list[1], MPI_STATUS_IGNORE, seconds(20)));
  for (int i = 0; i < n; i++) OK(FAMPI_Request_free(&list[i]));
  OK(FAMPI_Request_free(&block));
}

/* An aborted block in which each has sent what nobody receives, under the tag of the good ones. */
static void aborted(int living, int round)
{
  MPI_Request block = start(), list[2];
  int code, n = 0;
  fill(-7);
  OK(FAMPI_Isend(mine, round % 2 ? LONG : 1, MPI_INT, (rank + 1) % living, TAG, world, &list[n++]));
  if (round % 3 == 0 && rank == 0) OK(FAMPI_Request_raise_error(block, 4711));
  if (round % 3 == 1 && rank == 1) OK(FAMPI_TryBlock_interrupt(block));
  if (round % 3 == 2) OK(FAMPI_Irecv(got, 1, MPI_INT, (rank + 1) % living, 9, world, &list[n++]));
  OK(FAMPI_TryBlock_finish(block, n, list, seconds(0.05)));
  code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, seconds(20));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, code);
  if (round % 3 == 0) CHECK(reports(block, 4711));
  for (int i = 0; i < n; i++) OK(FAMPI_Request_free(&list[i]));
  OK(FAMPI_Request_free(&block));
}

/* Good blocks with aborted ones between them, and deaths of the last ranks. */
static void ever(void)
{
  int living = size;
  for (int round = 0; round < 40; round++) {
    if (living > 2 && round % 12 == 5) {
      MPI_Request block = start(), lost;
      int code, n = 0;
      if (rank == --living) die();
      if (rank == 0) {
        OK(FAMPI_Irecv(got, 1, MPI_INT, living, TAG, world, &lost));
        n = 1;
      }
      code = end(block, n, &lost);
      EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, code);
      CHECK(reports(block, FAMPI_ERR_PROC_FAILED_SOFT));
      if (n) OK(FAMPI_Request_free(&lost));
      OK(FAMPI_Request_free(&block));
    }
    aborted(living, round);
    EXPECT(FAMPI_SUCCESS, ring(living, 1000 * round, round % 2));
  }
}

int main(int argc, char **argv)
{
  begin(&argc, &argv);
  const char *what = argc > 1 ? argv[1] : "";
  MPI_Comm both;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_split(world, rank > 1, rank, &both);
  if (strcmp(what, "plain") == 0) {
    MPI_Request list[2];
    int value = -1;
    OK(FAMPI_Irecv(&value, 1, MPI_INT, (rank + size - 1) % size, MPI_ANY_TAG, world, &list[0]));
    OK(FAMPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 40000, world, &list[1]));
    OK(MPI_Waitall(2, list, MPI_STATUSES_IGNORE));
    CHECK(value == (rank + size - 1) % size);
    OK(FAMPI_Init(world));
    EXPECT(MPI_ERR_TAG, FAMPI_Isend(&rank, 1, MPI_INT, 0, 40000, world, &list[1]));
    EXPECT(MPI_ERR_TAG, FAMPI_Irecv(&value, 1, MPI_INT, 0, MPI_ANY_TAG, world, &list[1]));
    EXPECT(FAMPI_ERR_ARG, FAMPI_Isend(&rank, 1, MPI_INT, 0, 0, world, NULL));
    EXPECT(FAMPI_ERR_ARG, FAMPI_Comm_set_patience(world, 3));
    OK(FAMPI_Isend(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, world, &list[1]));
    OK(MPI_Wait(&list[1], MPI_STATUS_IGNORE));
    EXPECT(FAMPI_SUCCESS, ring(size, 5, 1));
    passed("passed");
    MPI_Finalize();
    return 0;
  }
  OK(FAMPI_Init(world));
  EXPECT(FAMPI_SUCCESS, ring(size, 1, 1));
  if (strcmp(what, "late") == 0) pair(FAMPI_PATIENT);
  if (strcmp(what, "local") == 0) local();
  if (strcmp(what, "strangers") == 0) strangers(both);
  if (strcmp(what, "prompt") == 0) pair(FAMPI_PROMPT);
  if (strcmp(what, "vain") == 0) vain(0);
  if (strcmp(what, "inside") == 0) vain(1);
  from_any = strcmp(what, "any") == 0;
  if (from_any || strcmp(what, "ever") == 0) ever();
  if (strcmp(what, "stale") == 0)
    for (int round = 0; round < 40; round++) {
      aborted(size, round);
      EXPECT(FAMPI_SUCCESS, ring(size, round, (round + 1) % 2));
    }
  if (strcmp(what, "late") == 0 || strcmp(what, "vain") == 0 || strcmp(what, "inside") == 0)
    for (int round = 0; round < 5; round++) EXPECT(FAMPI_SUCCESS, ring(dead, round, round % 2));
  passed("passed");
  MPI_Finalize();
  return 0;
}
