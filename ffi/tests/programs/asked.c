/*
 * Rank 0 knows that a block is committed, and waits in MPI's own call for rank 9, which has to ask
 * for it: rank 8 has freed the communicator, while rank 1, from which rank 9 would hear, is late.
 *
 *     rank    0 … 7     combine their votes, which rank 2 gives last
 *             8, 9      give theirs to ranks 0 and 1, from which they hear what has come of it
 *
 *     asks    9 ── 8 ── 0
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>
#include <unistd.h>

static void pause_for(long milliseconds)
{
  const struct timespec length = {0, milliseconds * 1000000};
  nanosleep(&length, NULL);
}

int main(int argc, char **argv)
{
  MPI_Comm comm;
  MPI_Request block;
  int word = 7;
  begin(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (rank == 2) pause_for(500);
  OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
  if (rank == 1) {
    EXPECT(FAMPI_ERR_TIMEOUT, FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, seconds(0.25)));
    pause_for(750);
  }
  OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Request_free(&block));
  if (rank == 0) MPI_Recv(&word, 1, MPI_INT, 9, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 9) MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  MPI_Comm_free(&comm);
  passed("passed");
  MPI_Finalize();
  return 0;
}
