/*
 * Rank 2 sends a message on a communicator that rank 0 has freed already, as after a creation that
 * failed there and not here. Rank 0 makes others, of itself alone and of all: none gets it.
 */
#include "check.h"

enum { LATER = 20 };

int main(int argc, char **argv)
{
  MPI_Request block;
  MPI_Comm lost, later[LATER];
  int i, flag, value = 7;
  begin(&argc, &argv);
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &lost) == 0);
  if (rank == 0) MPI_Comm_free(&lost);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 2) MPI_Send(&value, 1, MPI_INT, 0, 1, lost);
  MPI_Barrier(MPI_COMM_WORLD);
  for (i = 0; i < LATER; i++) {
    MPI_Comm parent = rank == 0 && i % 2 == 0 ? MPI_COMM_SELF : MPI_COMM_WORLD;
    if (i % 2 != 0 || rank == 0) CHECK(MPI_Comm_dup(parent, &later[i]) == 0);
  }
  for (i = 0; i < LATER; i++) {
    if (i % 2 == 0 && rank != 0) continue;
    CHECK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, later[i], &flag, MPI_STATUS_IGNORE) == 0);
    CHECK(!flag);
    MPI_Comm_free(&later[i]);
  }
  passed("passed");
  MPI_Finalize();
  return 0;
}
