/*
 * States after a merge: where it has changed ranks nothing counts as protected, for all of them;
 * where nobody but the last has died it is like a rebuild. `moved RANK LOSSES`
 */
#include "check.h"

int main(int argc, char **argv)
{
  MPI_Comm world;
  MPI_Request block;
  int victim, losses, is_new, count, state = -1, got = -1, code, moves;
  begin(&argc, &argv);
  OK(FAMPI_World_init(FAMPI_RECOVERY_MERGE, argv, &world, &is_new));
  victim = atoi(argv[1]);
  losses = atoi(argv[2]);
  MPI_Comm_size(world, &size);
  moves = victim < size - 1;
  if (!is_new) {
    MPI_Comm_rank(world, &rank);
    state = 100 + rank;
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
    if (losses > 0) OK(FAMPI_Set_redundancy(block, FAMPI_REDUNDANCY_GROUP, 4, losses));
    OK(FAMPI_Protect(block, 0, &state, 1, MPI_INT));
    OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
    OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
    FAMPI_Request_free(&block);
    if (rank == victim) die();
    do {
      OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
      OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
      code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
      FAMPI_Request_free(&block);
    } while (code == 0);
    OK(FAMPI_World_recover(&world));
  }
  MPI_Comm_rank(world, &rank);
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  EXPECT(moves ? FAMPI_ERR_NOTHING_PROTECTED : 0,
         FAMPI_Restore(block, 0, &got, 1, MPI_INT, &count));
  OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
  code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  CHECK(code == (moves ? FAMPI_ERR_TRYBLOCK_FOUND_ERRORS : 0));
  CHECK(got == (moves ? -1 : 100 + rank));
  FAMPI_Request_free(&block);
  OK(FAMPI_World_free(&world));
  printf("rank %d: passed\n", rank);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
