/*
 * Rank 1 has a fault in a block and goes on at once: who is still in it takes no message of the
 * next block for one of its own, in either direction.
 * `left leave|raise`: rank 1 leaves the block, or says that it is faulty.
 */
#include "check.h"

#define TAG 5

static MPI_Request start(void)
{
  MPI_Request block;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  return block;
}

/* Ends a block in which something was wrong on some rank; all are told that. */
static void fail(MPI_Request *block, int count, MPI_Request *requests)
{
  OK(FAMPI_TryBlock_finish(*block, count, requests, seconds(0.2)));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS,
         FAMPI_Wait_local(block, MPI_STATUS_IGNORE, seconds(20)));
}

static int faults_of(MPI_Request block)
{
  FAMPI_Report *report;
  int count;
  OK(FAMPI_Report_get(block, &report));
  count = FAMPI_Report_count(report);
  FAMPI_Report_free(report);
  return count;
}

/* The word that the message to or from the other rank brings, and what all words come to. */
static void post(int *word, int *sum, MPI_Request requests[2])
{
  if (rank == 1)
    OK(FAMPI_Isend(word, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, &requests[0]));
  else
    OK(FAMPI_Irecv(word, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, &requests[0]));
  OK(FAMPI_Iallreduce(MPI_IN_PLACE, sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]));
}

/* Rank 0 is still in the block, and receives nothing there. */
static void stay(void)
{
  int word = -1, sum = 1;
  MPI_Request block = start(), requests[2];
  post(&word, &sum, requests);
  CHECK(FAMPI_Wait_local(&requests[0], MPI_STATUS_IGNORE, seconds(0.3)) != FAMPI_SUCCESS);
  CHECK(FAMPI_Wait_local(&requests[1], MPI_STATUS_IGNORE, seconds(0.1)) != FAMPI_SUCCESS);
  fail(&block, 2, requests);
  CHECK(word == -1);
  OK(FAMPI_Request_free(&requests[0]));
  OK(FAMPI_Request_free(&requests[1]));
  OK(FAMPI_Request_free(&block));
}

int main(int argc, char **argv)
{
  int word = rank, sum, code;
  MPI_Request block, left, requests[2];
  begin(&argc, &argv);
  if (rank == 0) {
    stay();
  } else {
    left = start();
    if (strcmp(argv[1], "leave") == 0) {
      OK(FAMPI_Request_free(&left));
    } else {
      OK(FAMPI_Request_raise_error(left, 1007));
      OK(FAMPI_TryBlock_finish(left, 0, NULL, FAMPI_TIMEOUT_NEVER));
    }
  }
  word = rank == 1 ? 100 : -1;
  sum = 100;
  block = start();
  post(&word, &sum, requests);
  fail(&block, 2, requests);
  CHECK(word == (rank == 1 ? 100 : -1));
  CHECK(faults_of(block) > 0);
  OK(FAMPI_Request_free(&requests[0]));
  OK(FAMPI_Request_free(&requests[1]));
  OK(FAMPI_Request_free(&block));
  if (rank == 1 && strcmp(argv[1], "raise") == 0) {
    EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, FAMPI_Wait_local(&left, MPI_STATUS_IGNORE, seconds(20)));
    OK(FAMPI_Request_free(&left));
  }
  do {
    word = rank;
    sum = 1;
    block = start();
    post(&word, &sum, requests);
    code = commit(&block, 2, requests);
    OK(FAMPI_Request_free(&requests[0]));
    OK(FAMPI_Request_free(&requests[1]));
    OK(FAMPI_Request_free(&block));
  } while (code != FAMPI_SUCCESS);
  CHECK(word == 1 && sum == 2);
  passed("passed");
  MPI_Finalize();
  return 0;
}
