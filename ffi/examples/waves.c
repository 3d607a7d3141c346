/*
 * A wave on a ring that loses ranks and goes on with the same digits: protected states.
 *
 * Each step is a block with the exchange of borders, and with a copy of the state to the partner,
 * half of the ranks away; or, as `waves HOW 4 2`, with its chunks to a group of 4 ranks of which 2
 * may be lost. After a death the world is rebuilt, by spares of the launch or by new processes, and
 * every rank gets the state of the last commit. When more ranks died than that survives, all begin
 * again.
 * `KILL_PLAN="10:2 -1:0"` kills rank 2 in step 10, and rank 0 when it restores its state.
 */
#include <stdio.h>

#include "options.h"

enum { POINTS = 8, STEPS = 20 };

struct state {
  int step;
  double now[POINTS], before[POINTS];
};

static struct state own;
static MPI_Comm world;
static int is_replacement;
/* The ranks of a group, and how many of them may be lost; 0 for partners. */
static int group, losses;

static void begin(int rank)
{
  int k;
  own.step = 0;
  for (k = 0; k < POINTS; k++) own.now[k] = own.before[k] = 1.0 / (1 + rank * POINTS + k);
}

/* How many ranks the report of a block names with this code; the same on all of them. */
static int reported(MPI_Request block, int code)
{
  MPI_Group group;
  int count = 0;
  if (FAMPI_Get_failed_group(block, 1, &code, world, &group) != FAMPI_SUCCESS) return 0;
  MPI_Group_size(group, &count);
  MPI_Group_free(&group);
  return count;
}

/* Ends a block; a new world after deaths. 0 when it was committed, otherwise why there is no state
 * to go back to, or that the block is to be done again. */
static int decide(MPI_Request block, int count, MPI_Request *requests)
{
  int code, k;
  FAMPI_TryBlock_finish(block, count, requests, FAMPI_TIMEOUT_NEVER);
  code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  for (k = 0; k < count; k++) FAMPI_Request_free(&requests[k]);
  if (code != FAMPI_SUCCESS) {
    if (reported(block, FAMPI_ERR_TOO_MANY_LOST)) code = FAMPI_ERR_TOO_MANY_LOST;
    if (reported(block, FAMPI_ERR_STATE_LOST)) code = FAMPI_ERR_STATE_LOST;
    if (reported(block, FAMPI_ERR_NOTHING_PROTECTED)) code = FAMPI_ERR_NOTHING_PROTECTED;
    recover(&world);
  }
  FAMPI_Request_free(&block);
  return code;
}

/* Everybody has the state of the last commit, or that of the beginning. False: once more. */
static int restore(int rank)
{
  MPI_Comm old = world;
  struct state last;
  MPI_Request block;
  int code, count;
  FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block);
  die_if_planned(-1, is_replacement);
  FAMPI_Restore(block, 0, &last, sizeof last, MPI_BYTE, &count);
  code = decide(block, 0, NULL);
  if (code == FAMPI_SUCCESS) {
    own = last;
    return 1;
  }
  if (world != old || code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS) return 0;
  printf("rank %d begins again: %s\n", rank, FAMPI_Error_string(code));
  begin(rank);
  return 1;
}

/* One step; false when it was not committed. */
static int step(int rank, int size)
{
  int left = (rank + size - 1) % size, right = (rank + 1) % size, k;
  double border[2];
  struct state next = own;
  MPI_Request block, requests[4];
  FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block);
  for (k = 0; k < 4; k++) requests[k] = MPI_REQUEST_NULL;
  MPI_Irecv(&border[0], 1, MPI_DOUBLE, left, 1, world, &requests[0]);
  MPI_Irecv(&border[1], 1, MPI_DOUBLE, right, 2, world, &requests[1]);
  MPI_Isend(&own.now[0], 1, MPI_DOUBLE, left, 2, world, &requests[2]);
  MPI_Isend(&own.now[POINTS - 1], 1, MPI_DOUBLE, right, 1, world, &requests[3]);
  die_if_planned(own.step, is_replacement);
  if (FAMPI_Waitall_local(4, requests, MPI_STATUSES_IGNORE, FAMPI_TIMEOUT_NEVER) == 0) {
    for (k = 0; k < POINTS; k++) {
      double l = k > 0 ? own.now[k - 1] : border[0];
      double r = k < POINTS - 1 ? own.now[k + 1] : border[1];
      next.now[k] = 2 * own.now[k] - own.before[k] + 0.25 * (l - 2 * own.now[k] + r);
      next.before[k] = own.now[k];
    }
    next.step++;
    if (group > 0) FAMPI_Set_redundancy(block, FAMPI_REDUNDANCY_GROUP, group, losses);
    FAMPI_Protect(block, 0, &next, sizeof next, MPI_BYTE);
  }
  if (decide(block, 4, requests) != FAMPI_SUCCESS) return 0;
  own = next;
  return 1;
}

int main(int argc, char **argv)
{
  int rank, size, has_state, k;
  MPI_Init(&argc, &argv);
  if (argc > 3) {
    group = atoi(argv[2]);
    losses = atoi(argv[3]);
  }
  world = enter_world(argv, &is_replacement);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  begin(rank);
  has_state = !is_replacement;
  while (!has_state || own.step < STEPS) {
    has_state = has_state ? step(rank, size) : restore(rank);
  }
  printf("rank %d:", rank);
  for (k = 0; k < POINTS; k++) printf(" %a", own.now[k]);
  printf("\n");
  FAMPI_World_free(&world);
  MPI_Finalize();
  return 0;
}
