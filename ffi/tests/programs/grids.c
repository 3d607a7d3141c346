/*
 * A grid of ROWS x COLUMNS ranks that loses one or two of them, and one or two more at a step of
 * its recovery: world, rows and columns are whole again, each rank in its place.
 *
 * `grids ROWS COLUMNS`, in a folder of its own. GRIDS_DEAD names the ranks that die in a good
 * block, GRIDS_STEP the step of the recovery at which those of GRIDS_MORE die, GRIDS_HOW how.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <fcntl.h>
#include <unistd.h>

enum { NOT_MADE = 1001, ROUNDS = 3 };

static int rows, columns, is_new, recovers;
static MPI_Comm world, row = MPI_COMM_NULL, column = MPI_COMM_NULL;

static int is_named(const char *variable, int number)
{
  const char *text = getenv(variable);
  char *next;
  long found;
  for (; text != NULL && *text != '\0'; text = next) {
    found = strtol(text, &next, 10);
    if (next == text) return 0;
    if (found == number) return 1;
  }
  return 0;
}

static void end_here(void)
{
  const char *how = getenv("GRIDS_HOW");
  fflush(stdout);
  if (how != NULL && strcmp(how, "exit") == 0) _exit(3);
  raise(how != NULL && strcmp(how, "segv") == 0 ? SIGSEGV : SIGKILL);
}

/* Each of the ranks that are to die at this step does so once. */
static void step(const char *name)
{
  const char *planned = getenv("GRIDS_STEP");
  char mark[32];
  int me, file;
  if (!recovers || planned == NULL || strcmp(planned, name) != 0) return;
  MPI_Comm_rank(world, &me);
  if (!is_named("GRIDS_MORE", me)) return;
  snprintf(mark, sizeof mark, "dead-%d", me);
  file = open(mark, O_CREAT | O_EXCL, 0600);
  if (file >= 0) end_here();
}

static void forget(MPI_Comm *comm)
{
  if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
}

/* Rows and columns of the world, on all of its ranks or on none. */
static int derive(void)
{
  MPI_Request block;
  int me, code;
  MPI_Comm_rank(world, &me);
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  step("split");
  code = MPI_Comm_split(world, me / columns, me, &row);
  if (code != 0) row = MPI_COMM_NULL;
  step("between");
  if (code == 0) {
    code = MPI_Comm_split(world, me % columns, me, &column);
    if (code != 0) column = MPI_COMM_NULL;
  }
  step("use");
  if (code == 0) code = FAMPI_Init(row);
  if (code == 0) code = FAMPI_Init(column);
  if (code != 0) {
    OK(FAMPI_Request_raise_error(block, NOT_MADE));
    OK(FAMPI_TryBlock_interrupt(block));
  }
  code = commit(&block, 0, NULL);
  OK(FAMPI_Request_free(&block));
  return code;
}

/* A block on a communicator, as a request of another one: the sum of a number. */
static MPI_Request sum(MPI_Comm comm, int *mine, int *all, MPI_Request *request)
{
  MPI_Request block;
  OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
  *request = MPI_REQUEST_NULL;
  MPI_Iallreduce(mine, all, 1, MPI_INT, MPI_SUM, comm, request);
  OK(FAMPI_TryBlock_finish(block, 1, request, FAMPI_TIMEOUT_NEVER));
  return block;
}

/* A block in which all three are used; how many rounds there were before, if it is committed. */
static int use_all(int *rounds)
{
  static int mine[2], sums[2], all[2], me;
  MPI_Request block, requests[3], inner[2];
  int code, k, expected[2] = {0, 0};
  MPI_Comm_rank(world, &me);
  mine[0] = *rounds;
  mine[1] = 1;
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  requests[0] = sum(row, &me, &sums[0], &inner[0]);
  step("block");
  requests[1] = sum(column, &me, &sums[1], &inner[1]);
  requests[2] = MPI_REQUEST_NULL;
  MPI_Iallreduce(mine, all, 2, MPI_INT, MPI_MAX, world, &requests[2]);
  code = commit(&block, 3, requests);
  for (k = 0; k < 3; k++) OK(FAMPI_Request_free(&requests[k]));
  for (k = 0; k < 2; k++) OK(FAMPI_Request_free(&inner[k]));
  OK(FAMPI_Request_free(&block));
  if (code != FAMPI_SUCCESS) return code;
  for (k = 0; k < columns; k++) expected[0] += me / columns * columns + k;
  for (k = 0; k < rows; k++) expected[1] += k * columns + me % columns;
  CHECK(sums[0] == expected[0] && sums[1] == expected[1]);
  *rounds = all[0] + 1;
  return code;
}

static void check_places(void)
{
  int me, at, many;
  MPI_Comm_rank(world, &me);
  MPI_Comm_size(world, &many);
  CHECK(many == rows * columns);
  MPI_Comm_rank(row, &at);
  MPI_Comm_size(row, &many);
  CHECK(at == me % columns && many == columns);
  MPI_Comm_rank(column, &at);
  MPI_Comm_size(column, &many);
  CHECK(at == me / columns && many == rows);
}

int main(int argc, char **argv)
{
  int rounds = 0, code, before;
  MPI_Init(&argc, &argv);
  rows = atoi(argv[1]);
  columns = atoi(argv[2]);
  OK(FAMPI_World_init(FAMPI_RECOVERY_REBUILD, argv, &world, &is_new));
  MPI_Comm_rank(world, &rank);
  recovers = is_new;
  if (is_new) step("new");
  while (rounds < ROUNDS) {
    code = row == MPI_COMM_NULL || column == MPI_COMM_NULL ? derive() : FAMPI_SUCCESS;
    if (code == FAMPI_SUCCESS) {
      check_places();
      code = use_all(&rounds);
    }
    if (code == FAMPI_SUCCESS) {
      if (rounds == 1 && !is_new && is_named("GRIDS_DEAD", rank)) end_here();
      continue;
    }
    forget(&row);
    forget(&column);
    recovers = 1;
    step("recover");
    MPI_Comm_rank(world, &before);
    OK(FAMPI_World_recover(&world));
    MPI_Comm_rank(world, &rank);
    CHECK(rank == before);
    step("recovered");
  }
  passed("whole");
  forget(&row);
  forget(&column);
  OK(FAMPI_World_free(&world));
  MPI_Finalize();
  return 0;
}
