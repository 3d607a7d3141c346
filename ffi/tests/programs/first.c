/*
 * A rank dies in `FAMPI_World_init`, where it makes the first world: who takes its place, a new
 * process or a spare, is like all others, as nobody has any data. `first`
 */
#include "check.h"

/* Whether this process dies in its next split. */
static int dies;

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made)
{
  if (dies) die();
  return PMPI_Comm_split(comm, color, key, made);
}

int main(int argc, char **argv)
{
  MPI_Comm world;
  MPI_Request block, sum;
  int mine[2], all[2], is_new = -1, ranks, is_spawned;
  MPI_Comm parent;
  begin(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  is_spawned = parent != MPI_COMM_NULL;
  dies = !is_spawned && rank == 1;
  OK(FAMPI_World_init(FAMPI_RECOVERY_REBUILD, argv, &world, &is_new));
  EXPECT(FAMPI_ERR_STATE, FAMPI_World_init(FAMPI_RECOVERY_REBUILD, argv, &parent, &is_new));
  EXPECT(is_spawned ? FAMPI_ERR_STATE : 0, FAMPI_Comm_get_parent(&parent));
  CHECK(is_new == 0);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &ranks);
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  mine[0] = rank;
  mine[1] = is_new;
  OK(FAMPI_Iallreduce(mine, all, 2, MPI_INT, MPI_SUM, world, &sum));
  OK(FAMPI_TryBlock_finish(block, 1, &sum, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  CHECK(ranks == 4 && all[0] == 6 && all[1] == 0);
  FAMPI_Request_free(&sum);
  FAMPI_Request_free(&block);
  OK(FAMPI_World_free(&world));
  EXPECT(FAMPI_ERR_STATE, FAMPI_World_init(FAMPI_RECOVERY_REBUILD, argv, &world, &is_new));
  printf("rank %d: passed\n", rank);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
