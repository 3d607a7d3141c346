/*
 * A grid of ROWS x COLUMNS ranks whose world, rows and columns are rebuilt over one link, as the
 * paper says: one or two ranks die in a good block, and one or two more at a step of the recovery.
 * `links ROWS COLUMNS`
 */
#define _POSIX_C_SOURCE 200809L
#include "grid.h"

enum { ATTEMPTS = 6, MOST = 16 };

static const char *made_step[KINDS] = {"world", "row", "column"};

static int wait_for(MPI_Request *request)
{
  int code = FAMPI_Wait_local(request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  OK(FAMPI_Request_free(request));
  return code;
}

/* The ranks of a communicator that a shrunken world does not have. */
static int dead_of(MPI_Comm comm, MPI_Comm living, int *dead)
{
  MPI_Group from, to;
  int all, k, count = 0, ranks[MOST], found[MOST];
  MPI_Comm_size(comm, &all);
  for (k = 0; k < all; k++) ranks[k] = k;
  MPI_Comm_group(comm, &from);
  MPI_Comm_group(living, &to);
  MPI_Group_translate_ranks(from, all, ranks, to, found);
  for (k = 0; k < all; k++)
    if (found[k] == MPI_UNDEFINED) dead[count++] = k;
  MPI_Group_free(&from);
  MPI_Group_free(&to);
  return count;
}

/* Whether all ranks of a new world have all that they are to have, and the greatest of a number. */
static int all_have(MPI_Comm world, int is_made, int *number)
{
  static int mine, all;
  MPI_Request block, request;
  int code;
  mine = *number;
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (!is_made) {
    OK(FAMPI_Request_raise_error(block, NOT_MADE));
    OK(FAMPI_TryBlock_interrupt(block));
  }
  MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MAX, world, &request);
  code = commit(&block, 1, &request);
  OK(FAMPI_Request_free(&request));
  OK(FAMPI_Request_free(&block));
  *number = all;
  return code;
}

/* Whether all of some row or column are dead, so that nobody can rebuild it. */
static int has_lost_all(int count, const int *dead)
{
  int k, of_row[MOST] = {0}, of_column[MOST] = {0}, found = 0;
  for (k = 0; k < count; k++) {
    found |= ++of_row[dead[k] / columns] == columns;
    found |= ++of_column[dead[k] % columns] == rows;
  }
  return found;
}

/* Makes row and column of a new world anew. */
static int split(MPI_Comm world, MPI_Comm *made)
{
  int code = MPI_Comm_split(world, rank / columns, rank, &made[1]);
  if (code != 0) made[1] = MPI_COMM_NULL;
  if (code == 0) code = MPI_Comm_split(world, rank % columns, rank, &made[2]);
  if (code != 0) made[2] = MPI_COMM_NULL;
  if (code == 0) code = FAMPI_Init(made[1]);
  if (code == 0) code = FAMPI_Init(made[2]);
  return code;
}

/* What this survivor has of a kind, rebuilt over a link. */
static int rebuild_one(int kind, MPI_Comm living, MPI_Comm link, MPI_Comm *made)
{
  MPI_Request request;
  int k, j, code, dead[MOST], lost[MOST], ranks[MOST];
  int count = dead_of(grid[0], living, dead), missing = dead_of(grid[kind], living, lost);
  for (k = 0; k < missing; k++)
    for (j = 0; j < count; j++)
      if (dead[j] == in_world(kind, lost[k])) ranks[k] = j;
  OK(FAMPI_Comm_irebuild(grid[kind], 0, link, missing, ranks, 0, made, &request));
  code = wait_for(&request);
  CHECK(code == 0 || code == FAMPI_ERR_CREATION);
  step(made_step[kind]);
  return code;
}

/* One attempt, the same on all survivors. */
static int rebuild(char **argv)
{
  MPI_Comm living = MPI_COMM_NULL, link = MPI_COMM_NULL, made[KINDS];
  MPI_Request request;
  int kind, count, code, failed, anew, nothing = 0, dead[MOST];
  OK(FAMPI_Comm_ishrink(grid[0], &living, &request));
  OK(wait_for(&request));
  count = dead_of(grid[0], living, dead);
  step("shrunk");
  code = FAMPI_Comm_spawn(argv[0], argv + 1, count, MPI_INFO_NULL, living, &link);
  CHECK(code == 0 || code == FAMPI_ERR_CREATION);
  step("spawned");
  for (kind = 0; kind < KINDS; kind++) made[kind] = MPI_COMM_NULL;
  if (code == 0) code = rebuild_one(0, living, link, &made[0]);
  anew = has_lost_all(count, dead);
  if (code == 0) code = all_have(made[0], 1, &anew);
  if (code == 0) {
    failed = anew ? split(made[0], made) : rebuild_one(1, living, link, &made[1]);
    if (!anew && rebuild_one(2, living, link, &made[2]) != 0) failed = 1;
    code = all_have(made[0], failed == 0, &nothing);
  }
  step("checked");
  forget(&link);
  forget(&living);
  for (kind = 0; kind < KINDS; kind++) {
    if (code == 0) forget(&grid[kind]);
    if (code == 0) grid[kind] = made[kind];
    else forget(&made[kind]);
  }
  return code;
}

/* The part of a new process, which leaves if it is not needed. */
static void join(MPI_Comm link)
{
  MPI_Request request;
  int kind, code, anew = 0, nothing = 0;
  OK(FAMPI_Comm_irebuild_join(link, &grid[0], &request));
  if (wait_for(&request) != 0) die();
  MPI_Comm_rank(grid[0], &rank);
  step("new");
  if (all_have(grid[0], 1, &anew) != 0) die();
  code = anew ? split(grid[0], grid) : 0;
  for (kind = 1; kind < KINDS && code == 0 && !anew; kind++) {
    OK(FAMPI_Comm_irebuild_join(link, &grid[kind], &request));
    code = wait_for(&request);
    if (kind == 1) step("new in its row");
  }
  if (all_have(grid[0], code == 0, &nothing) != 0) die();
  forget(&link);
}

int main(int argc, char **argv)
{
  MPI_Comm parent;
  int rounds = 0, code, attempt, kind;
  begin(&argc, &argv);
  rows = atoi(argv[1]);
  columns = atoi(argv[2]);
  code = FAMPI_Comm_get_parent(&parent);
  if (code == FAMPI_ERR_CREATION) die();
  OK(code);
  recovers = parent != MPI_COMM_NULL;
  if (recovers) {
    join(parent);
  } else {
    MPI_Comm_dup(MPI_COMM_WORLD, &grid[0]);
    MPI_Comm_split(grid[0], rank / columns, rank, &grid[1]);
    MPI_Comm_split(grid[0], rank % columns, rank, &grid[2]);
    for (kind = 0; kind < KINDS; kind++) OK(FAMPI_Init(grid[kind]));
  }
  while (rounds < ROUNDS) {
    check_places();
    code = use_all(&rounds);
    if (code == FAMPI_SUCCESS) {
      if (rounds == 1 && !recovers && is_named("GRIDS_DEAD", rank)) end_here();
      continue;
    }
    recovers = 1;
    for (attempt = 0; attempt < ATTEMPTS && code != 0; attempt++) code = rebuild(argv);
    OK(code);
  }
  passed("whole");
  for (kind = KINDS - 1; kind >= 0; kind--) forget(&grid[kind]);
  MPI_Finalize();
  return 0;
}
