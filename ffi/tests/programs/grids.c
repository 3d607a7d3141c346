/*
 * A grid of ROWS x COLUMNS ranks that loses one or two of them, and one or two more at a step of
 * its recovery: world, rows and columns are whole again, each rank in its place. `grids ROWS COLUMNS`
 */
#define _POSIX_C_SOURCE 200809L
#include "grid.h"

/* Rows and columns of the world, on all of its ranks or on none. */
static int derive(void)
{
  MPI_Request block;
  int code;
  OK(FAMPI_TryBlock_start(grid[0], FAMPI_TRYBLOCK_GLOBAL, &block));
  step("split");
  code = MPI_Comm_split(grid[0], rank / columns, rank, &grid[1]);
  if (code != 0) grid[1] = MPI_COMM_NULL;
  step("between");
  if (code == 0) {
    code = MPI_Comm_split(grid[0], rank % columns, rank, &grid[2]);
    if (code != 0) grid[2] = MPI_COMM_NULL;
  }
  step("use");
  if (code == 0) code = FAMPI_Init(grid[1]);
  if (code == 0) code = FAMPI_Init(grid[2]);
  if (code != 0) {
    OK(FAMPI_Request_raise_error(block, NOT_MADE));
    OK(FAMPI_TryBlock_interrupt(block));
  }
  code = commit(&block, 0, NULL);
  OK(FAMPI_Request_free(&block));
  return code;
}

int main(int argc, char **argv)
{
  int rounds = 0, code, before, is_new;
  MPI_Init(&argc, &argv);
  rows = atoi(argv[1]);
  columns = atoi(argv[2]);
  OK(FAMPI_World_init(FAMPI_RECOVERY_REBUILD, argv, &grid[0], &is_new));
  MPI_Comm_rank(grid[0], &rank);
  recovers = is_new;
  if (is_new) step("new");
  while (rounds < ROUNDS) {
    code = grid[1] == MPI_COMM_NULL || grid[2] == MPI_COMM_NULL ? derive() : FAMPI_SUCCESS;
    if (code == FAMPI_SUCCESS) {
      check_places();
      code = use_all(&rounds);
    }
    if (code == FAMPI_SUCCESS) {
      if (rounds == 1 && !is_new && is_named("GRIDS_DEAD", rank)) end_here();
      continue;
    }
    forget(&grid[1]);
    forget(&grid[2]);
    recovers = 1;
    step("recover");
    MPI_Comm_rank(grid[0], &before);
    OK(FAMPI_World_recover(&grid[0]));
    MPI_Comm_rank(grid[0], &rank);
    CHECK(rank == before);
    step("recovered");
  }
  passed("whole");
  forget(&grid[1]);
  forget(&grid[2]);
  OK(FAMPI_World_free(&grid[0]));
  MPI_Finalize();
  return 0;
}
