/*
 * A rank dies while megabytes are on their way to a receive from any source: those of its own, or
 * of another. What came is right, what did not come is named by the code of a death, and nothing
 * is written any more to a buffer that came back. `wildcards HOW`: by `own` messages of the
 * library, or by those of `mpi`.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>

#define DEATHS 4
#define LENGTH (1 << 19)

static int is_own;
static long sent[LENGTH], got[LENGTH], before[LENGTH];

static void fill(long *buffer, long value)
{
  int i;
  for (i = 0; i < LENGTH; i++) buffer[i] = value;
}

static void expect(const long *buffer, long value)
{
  int i;
  for (i = 0; i < LENGTH; i++) CHECK(buffer[i] == value);
}

static void nap(int milliseconds)
{
  const struct timespec moment = {0, milliseconds * 1000000L};
  nanosleep(&moment, NULL);
}

static void post_send(int to, MPI_Comm world, MPI_Request *request)
{
  OK(is_own ? FAMPI_Isend(sent, LENGTH, MPI_LONG, to, 1, world, request)
            : MPI_Isend(sent, LENGTH, MPI_LONG, to, 1, world, request));
}

static void post_receive(long *buffer, MPI_Comm world, MPI_Request *request)
{
  OK(is_own ? FAMPI_Irecv(buffer, LENGTH, MPI_LONG, MPI_ANY_SOURCE, 1, world, request)
            : MPI_Irecv(buffer, LENGTH, MPI_LONG, MPI_ANY_SOURCE, 1, world, request));
}

/* The last rank dies: it sends, or, in each second round, another does. */
static void lose_the_sender(MPI_Comm world, int round)
{
  MPI_Request block, request = MPI_REQUEST_NULL;
  MPI_Status status;
  int me, ranks, code, flag, sender, count, place = -1, died[1] = {FAMPI_ERR_PROC_FAILED};
  MPI_Comm_rank(world, &me);
  MPI_Comm_size(world, &ranks);
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  sender = ranks - 1 - round % 2;
  if (me == sender) {
    fill(sent, 7);
    post_send(0, world, &request);
  }
  if (me == ranks - 1) {
    nap(round % 2);
    die();
  }
  if (me == 0) post_receive(before, world, &request);
  OK(FAMPI_TryBlock_finish(block, 1, &request, FAMPI_TIMEOUT_NEVER));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS,
         FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, seconds(20)));
  if (me == 0) {
    OK(FAMPI_Get_failed_requests(block, 1, died, 1, &place, &count));
    code = FAMPI_Wait_local(&request, &status, seconds(20));
    CHECK(count == (code != FAMPI_SUCCESS) && place == (count == 0 ? -1 : 0));
    if (code == FAMPI_SUCCESS) {
      CHECK(status.MPI_SOURCE == sender);
      expect(before, 7);
    } else {
      /* Whichever the request heard of first, its death or the interruption. */
      EXPECT(FAMPI_ERR_PROC_FAILED_SOFT, code);
    }
    for (flag = 0; !flag;) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    fill(before, -1);
  }
  if (me == sender)
    for (flag = 0; !flag;) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  OK(FAMPI_Request_free(&block));
}

/* Each has its message from its neighbour, whom it does not name. */
static void exchange(MPI_Comm world)
{
  MPI_Request block, requests[2];
  MPI_Status status;
  int me, ranks, left;
  MPI_Comm_rank(world, &me);
  MPI_Comm_size(world, &ranks);
  left = (me + ranks - 1) % ranks;
  fill(sent, me);
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  post_receive(got, world, &requests[0]);
  post_send((me + 1) % ranks, world, &requests[1]);
  OK(commit(&block, 2, requests));
  OK(FAMPI_Wait_local(&requests[0], &status, FAMPI_TIMEOUT_NEVER));
  CHECK(status.MPI_SOURCE == left);
  expect(got, left);
  OK(FAMPI_Request_free(&requests[0]));
  OK(FAMPI_Request_free(&requests[1]));
  OK(FAMPI_Request_free(&block));
}

int main(int argc, char **argv)
{
  MPI_Comm world, next;
  MPI_Request request;
  int round;
  begin(&argc, &argv);
  is_own = strcmp(argv[1], "own") == 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  OK(FAMPI_Init(world));
  fill(before, -1);
  for (round = 0; round <= DEATHS; round++) {
    exchange(world);
    expect(before, -1);
    if (round == DEATHS) break;
    lose_the_sender(world, round);
    OK(FAMPI_Comm_ishrink(world, &next, &request));
    OK(FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, seconds(20)));
    OK(FAMPI_Request_free(&request));
    MPI_Comm_free(&world);
    world = next;
  }
  passed("passed");
  MPI_Comm_free(&world);
  MPI_Finalize();
  return 0;
}
