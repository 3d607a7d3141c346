/* Blocking calls inside of blocks, where libfampi_watch.so is to see them, and outside of them. */
#include "check.h"

static MPI_Comm world;

/* By its name in the symbols of the program. */
void barrier(void);
void barrier(void) { MPI_Barrier(world); }

int main(int argc, char **argv)
{
  MPI_Request outer, inner, request;
  int k, sum, one = 1;
  begin(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_set_name(world, "the world");
  barrier();
  /* Taking a communicator into use blocks inside of fampi, and is not the program's. */
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &outer));
  for (k = 0; k < 3; k++) barrier();
  OK(FAMPI_TryBlock_start(MPI_COMM_SELF, FAMPI_TRYBLOCK_LOCAL, &inner));
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  OK(commit(&inner, 0, NULL));
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world, &request);
  OK(FAMPI_Wait(&request, MPI_STATUS_IGNORE));
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world, &request);
  OK(FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(commit(&outer, 1, &request));
  /* No block is open any more. */
  barrier();
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world);
  CHECK(sum == size);
  FAMPI_Request_free(&request);
  FAMPI_Request_free(&inner);
  FAMPI_Request_free(&outer);
  /* A block that is left is not open. */
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &outer));
  OK(FAMPI_Request_free(&outer));
  barrier();
  MPI_Comm_free(&world);
  passed("passed");
  MPI_Finalize();
  return 0;
}
