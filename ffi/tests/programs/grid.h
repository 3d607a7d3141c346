/*
 * What the programs of grids share: who dies when, and the sums by which a grid is used.
 *
 * Arguments: ROWS COLUMNS, in a folder of its own. GRIDS_DEAD names the ranks that die in a good
 * block, GRIDS_STEP the step of the recovery at which those of GRIDS_MORE die, GRIDS_HOW how.
 */
#ifndef GRID_H
#define GRID_H

#include "check.h"

#include <fcntl.h>
#include <unistd.h>

enum { NOT_MADE = 1001, ROUNDS = 3, KINDS = 3 };

static int rows, columns, recovers;
/* The world, the row and the column of this process. */
static MPI_Comm grid[KINDS] = {MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL};

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

/* Each of the ranks that are to die at this step of a recovery does so once. */
static void step(const char *name)
{
  const char *planned = getenv("GRIDS_STEP");
  char mark[32];
  int file;
  if (!recovers || planned == NULL || strcmp(planned, name) != 0) return;
  if (!is_named("GRIDS_MORE", rank)) return;
  snprintf(mark, sizeof mark, "dead-%d", rank);
  file = open(mark, O_CREAT | O_EXCL, 0600);
  if (file >= 0) end_here();
}

static void forget(MPI_Comm *comm)
{
  if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
}

/* The rank of the world that a rank of a row or a column is. */
static int in_world(int kind, int at)
{
  if (kind == 0) return at;
  return kind == 1 ? rank / columns * columns + at : at * columns + rank % columns;
}

static void check_places(void)
{
  int me, at, many, kind, all[KINDS];
  all[0] = rows * columns;
  all[1] = columns;
  all[2] = rows;
  MPI_Comm_rank(grid[0], &me);
  for (kind = 0; kind < KINDS; kind++) {
    MPI_Comm_rank(grid[kind], &at);
    MPI_Comm_size(grid[kind], &many);
    CHECK(in_world(kind, at) == me && me == rank && many == all[kind]);
  }
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
  static int mine, sums[2], all, me;
  MPI_Request block, requests[3], inner[2];
  int code, k, expected[2] = {0, 0};
  me = rank;
  mine = *rounds;
  OK(FAMPI_TryBlock_start(grid[0], FAMPI_TRYBLOCK_GLOBAL, &block));
  requests[0] = sum(grid[1], &me, &sums[0], &inner[0]);
  step("block");
  requests[1] = sum(grid[2], &me, &sums[1], &inner[1]);
  requests[2] = MPI_REQUEST_NULL;
  MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MAX, grid[0], &requests[2]);
  code = commit(&block, 3, requests);
  for (k = 0; k < 3; k++) OK(FAMPI_Request_free(&requests[k]));
  for (k = 0; k < 2; k++) OK(FAMPI_Request_free(&inner[k]));
  OK(FAMPI_Request_free(&block));
  if (code != FAMPI_SUCCESS) return code;
  for (k = 0; k < columns; k++) expected[0] += in_world(1, k);
  for (k = 0; k < rows; k++) expected[1] += in_world(2, k);
  CHECK(sums[0] == expected[0] && sums[1] == expected[1]);
  *rounds = all + 1;
  return code;
}

#endif
