/*
 * Two deaths and one spare, where nothing is to be started: the second recovery is refused on all
 * ranks, and the world is as it was. Before that what the functions of worlds refuse.
 */
#include "check.h"

static MPI_Comm world;

static void misuse(void)
{
  MPI_Comm made = MPI_COMM_SELF, own = MPI_COMM_SELF;
  int is_new = -5;
  EXPECT(FAMPI_ERR_STATE, FAMPI_World_recover(&own));
  EXPECT(FAMPI_ERR_STATE, FAMPI_World_free(&own));
  EXPECT(FAMPI_ERR_ARG, FAMPI_World_init(3, NULL, &made, &is_new));
  EXPECT(FAMPI_ERR_ARG, FAMPI_World_init(FAMPI_RECOVERY_REBUILD, NULL, NULL, &is_new));
  EXPECT(FAMPI_ERR_ARG, FAMPI_World_init(FAMPI_RECOVERY_REBUILD, NULL, &made, NULL));
  CHECK(made == MPI_COMM_SELF && is_new == -5);
}

static void misuse_inside(void)
{
  MPI_Comm made = MPI_COMM_SELF, own = MPI_COMM_SELF, same = world;
  MPI_Request block;
  int is_new = -5;
  EXPECT(FAMPI_ERR_STATE, FAMPI_World_init(FAMPI_RECOVERY_REBUILD, NULL, &made, &is_new));
  EXPECT(FAMPI_ERR_COMM, FAMPI_World_recover(&own));
  EXPECT(FAMPI_ERR_COMM, FAMPI_World_free(&own));
  EXPECT(FAMPI_ERR_ARG, FAMPI_World_recover(NULL));
  EXPECT(FAMPI_ERR_ARG, FAMPI_World_free(NULL));
  CHECK(made == MPI_COMM_SELF && own == MPI_COMM_SELF && is_new == -5);
  /* A fault without a death leaves the world as it is. */
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (rank == 0) OK(FAMPI_Request_raise_error(block, 1007));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  OK(FAMPI_World_recover(&world));
  CHECK(world == same);
}

int main(int argc, char **argv)
{
  MPI_Comm before;
  int is_new;
  begin(&argc, &argv);
  misuse();
  OK(FAMPI_World_init(FAMPI_RECOVERY_REBUILD, NULL, &world, &is_new));
  if (!is_new) {
    misuse_inside();
    lose_one(world);
    OK(FAMPI_World_recover(&world));
  }
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  CHECK(size == 4 && is_new == (rank == 1));
  /* Not the one that was a spare. */
  if (rank == 2) die();
  lose_one(world);
  before = world;
  EXPECT(FAMPI_ERR_CREATION, FAMPI_World_recover(&world));
  CHECK(world == before);
  passed("no recovery");
  OK(FAMPI_World_free(&world));
  MPI_Finalize();
  return 0;
}
