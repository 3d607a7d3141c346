/*
 * Finish and wait in a loop, as the papers' programs do it: a rank that is late but alive makes the
 * others ask again, and the block commits when it comes.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>
#include <unistd.h>

static void nap(double time)
{
  struct timespec left = {(time_t)time, (long)((time - (time_t)time) * 1e9)};
  nanosleep(&left, NULL);
}

static void exchange(MPI_Request *requests, int *got)
{
  MPI_Irecv(got, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests[1]);
}

static void give_back(MPI_Request *block, int count, MPI_Request *requests)
{
  int k;
  for (k = 0; k < count; k++) OK(MPI_Request_free(&requests[k]));
  OK(MPI_Request_free(block));
}

/* `finish(limit)`, `wait(wait)`, on timeout again; how often. Finish again, or only wait again. */
static int ask(MPI_Request block, int count, MPI_Request *requests, double limit, double wait,
               int again, int expected)
{
  int code, times = 0;
  do {
    if (again || times == 0)
      OK(FAMPI_TryBlock_finish(block, count, requests, seconds(limit)));
    code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, seconds(wait));
    times++;
  } while (code == FAMPI_ERR_TIMEOUT);
  EXPECT(expected, code);
  return times;
}

/* One rank computes for a second. Work of another kind may come between two questions. */
static void a_late_rank(int looks, int again, double limit, double wait)
{
  MPI_Request block, requests[2], other;
  int got = -1, times, k, one = rank, back = -1;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (rank == 1) nap(1);
  exchange(requests, &got);
  if (looks && rank != 1) {
    OK(FAMPI_TryBlock_finish(block, 2, requests, seconds(limit)));
    EXPECT(FAMPI_ERR_TIMEOUT, FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, seconds(wait)));
    /* Past the limit, and no wait for this block goes on beyond it. */
    for (k = 0; k < 3; k++) {
      EXPECT(FAMPI_ERR_TIMEOUT, FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_POLL));
      MPI_Irecv(&back, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &other);
      MPI_Send(&one, 1, MPI_INT, 0, 5, MPI_COMM_SELF);
      OK(FAMPI_Wait_local(&other, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
      OK(MPI_Request_free(&other));
      CHECK(back == rank);
    }
  }
  times = ask(block, 2, requests, limit, wait, again, FAMPI_SUCCESS);
  CHECK(rank == 1 || times > 1);
  CHECK(got == (rank + size - 1) % size);
  give_back(&block, 2, requests);
}

/* A rank that was stopped for a while is late for the waits of all others. */
static void a_stopped_rank(void)
{
  MPI_Request block, requests[2];
  int got = -1, rounds;
  for (rounds = 0; rounds < 3; rounds++) {
    OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
    exchange(requests, &got);
    if (rounds == 1 && rank == size - 1) {
      pid_t child = fork();
      if (child == 0) {
        nap(0.8);
        kill(getppid(), SIGCONT);
        _exit(0);
      }
      raise(SIGSTOP);
    }
    ask(block, 2, requests, 0.2, 0.2, rounds != 1, FAMPI_SUCCESS);
    give_back(&block, 2, requests);
  }
}

/* A wait of MPI's own has no limit: what is late in it is a fault, on all ranks. */
static void a_wait_in_mpi(void)
{
  MPI_Request block, copy, request = MPI_REQUEST_NULL;
  int got = -1, code;
  double began = MPI_Wtime();
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (rank == 1) MPI_Irecv(&got, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, &request);
  OK(FAMPI_TryBlock_finish(block, 1, &request, seconds(0.5)));
  copy = block;
  code = MPI_Wait(&copy, MPI_STATUS_IGNORE);
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, code);
  CHECK(MPI_Wtime() - began > 0.4);
  if (rank == 1) OK(MPI_Request_free(&request));
}

/* What no rank will ever serve is a fault in a wait that goes on beyond the limit. */
static void a_request_that_stays(double wait)
{
  MPI_Request block, request = MPI_REQUEST_NULL;
  int got = -1, index, count, code, codes[1] = {FAMPI_ERR_TIMEOUT};
  double began = MPI_Wtime();
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (rank == 2) MPI_Irecv(&got, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, &request);
  OK(FAMPI_TryBlock_finish(block, 1, &request, seconds(1)));
  do {
    code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, seconds(wait));
  } while (code == FAMPI_ERR_TIMEOUT && wait < 1);
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, code);
  CHECK(MPI_Wtime() - began > 0.9);
  OK(FAMPI_Get_failed_requests(block, 1, codes, 1, &index, &count));
  CHECK(count == (rank == 2));
  if (rank == 2) OK(MPI_Request_free(&request));
  OK(MPI_Request_free(&block));
}

int main(int argc, char **argv)
{
  begin(&argc, &argv);
  OK(FAMPI_Init(MPI_COMM_WORLD));
  a_late_rank(0, 1, 0.3, 0.3);
  a_late_rank(0, 0, 0.3, 0.3);
  a_late_rank(1, 1, 0.3, 0.3);
  a_late_rank(1, 0, 0.3, 0.3);
  a_late_rank(0, 1, 0.3, 0.05);
  a_late_rank(1, 1, 0.3, 0.1);
  a_stopped_rank();
  a_wait_in_mpi();
  a_request_that_stays(5);
  /* Short waits add up. */
  a_request_that_stays(0.11);
  passed("passed");
  MPI_Finalize();
  return 0;
}
