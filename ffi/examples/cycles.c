/*
 * Algorithm 3 of the paper: cycles in one global block each, with local blocks inside of it.
 *
 * The block of a cycle begins with the end of the one before, holds four exchanges with the
 * neighbours, each in a local block that is one more request of the outer one, and ends after the
 * reduction of the next time step. A cycle that failed is done again on a rebuilt world; the sum
 * of all cells is conserved, and shows at the end whether any exchange counted twice.
 * `cycles rebuild|merge|shrink`; `KILL_PLAN="3:1"` kills rank 1 in cycle 3.
 */
#include <stdio.h>

#include <fampi_names.h>

#include "options.h"

enum { CYCLES = 20, EXCHANGES = 4, REQUESTS = 3 + EXCHANGES };

static MPI_Comm world;
static int rank, size, is_replacement;
/* The state as of the last committed cycle. */
static struct state {
  int cycle;
  double cells[EXCHANGES];
} committed;

/* Sends a tenth of each cell to the right, one local block for each of them. */
static void solve(struct state *state, MPI_Request *inner)
{
  /* A request that was cut short may still be under way when this function has returned. */
  static double given[EXCHANGES], taken[EXCHANGES];
  MPI_Timeout limit;
  int k, code;
  MPI_Timeout_set_seconds(&limit, 1.0);
  for (k = 0; k < EXCHANGES; k++) {
    MPI_Request requests[2];
    given[k] = state->cells[k] / 10;
    taken[k] = 0;
    MPI_Tryblock_start(world, MPI_TRYBLOCK_LOCAL, &inner[k]);
    MPI_Irecv(&taken[k], 1, MPI_DOUBLE, (rank + size - 1) % size, k, world, &requests[0]);
    MPI_Isend(&given[k], 1, MPI_DOUBLE, (rank + 1) % size, k, world, &requests[1]);
    MPI_Tryblock_finish(inner[k], 2, requests);
    do {
      code = MPI_Wait_local(&inner[k], MPI_STATUS_IGNORE, limit);
    } while (code == MPI_ERR_TIMEOUT);
    state->cells[k] += taken[k] - given[k];
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    if (code != MPI_SUCCESS) return;
    if (k == 1) die_if_planned(state->cycle, is_replacement);
  }
}

/* After a recovery all go on from the same cycle; replacements get cells from their left. */
static int agree_on_state(void)
{
  MPI_Request block, requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int least, code, k;
  struct state state = committed;
  MPI_TryBlock_start(world, MPI_TRYBLOCK_GLOBAL, &block);
  MPI_Iallreduce(&committed.cycle, &least, 1, MPI_INT, MPI_MIN, world, &requests[0]);
  code = MPI_Wait_local(&requests[0], MPI_STATUS_IGNORE, MPI_TIMEOUT_ZERO);
  MPI_Tryblock_finish(block, 3, requests);
  do {
    code = MPI_Wait_local(&block, MPI_STATUS_IGNORE, MPI_TIMEOUT_ZERO);
  } while (code == MPI_ERR_TIMEOUT);
  for (k = 0; k < 3; k++) MPI_Request_free(&requests[k]);
  if (code == MPI_ERR_TRYBLOCK_FOUND_ERRORS) recover(&world);
  MPI_Request_free(&block);
  if (code != MPI_SUCCESS) return 0;
  /* This program keeps no copies: it starts anew where somebody was replaced. */
  if (least < 0)
    for (state.cycle = k = 0; k < EXCHANGES; k++) state.cells[k] = 1 + rank;
  committed = state;
  return 1;
}

/* One cycle on a copy of the state, which counts with the commit. */
static int cycle(void)
{
  struct state next = committed;
  MPI_Request block, requests[REQUESTS];
  double step = 1.0 / (1 + rank), least_step;
  int code, k;
  MPI_Timeout limit;
  MPI_Timeout_set_seconds(&limit, 1.0);
  for (k = 0; k < REQUESTS; k++) requests[k] = MPI_REQUEST_NULL;
  MPI_TryBlock_start(world, MPI_TRYBLOCK_GLOBAL, &block);
  solve(&next, requests);
  MPI_Iallreduce(&step, &least_step, 1, MPI_DOUBLE, MPI_MIN, world, &requests[EXCHANGES]);
  do {
    MPI_TryBlock_finish(block, EXCHANGES + 1, requests, limit);
    code = MPI_Waitall_local(1, &block, MPI_STATUSES_IGNORE, limit);
  } while (code == MPI_ERR_TIMEOUT);
  for (k = 0; k < REQUESTS; k++) MPI_Request_free(&requests[k]);
  if (code == MPI_SUCCESS) {
    next.cycle++;
    committed = next;
  } else {
    recover(&world);
  }
  MPI_Request_free(&block);
  return code == MPI_SUCCESS;
}

int main(int argc, char **argv)
{
  int in_step, k;
  double sum = 0, all = 0;
  MPI_Init(&argc, &argv);
  world = enter_world(argv, &is_replacement);
  committed.cycle = -1;
  in_step = 0;
  while (committed.cycle < CYCLES) {
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    in_step = in_step ? cycle() : agree_on_state();
  }
  for (k = 0; k < EXCHANGES; k++) sum += committed.cells[k];
  MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, world);
  if (rank == 0) printf("%d ranks, %d cycles: the sum is %.9f\n", size, committed.cycle, all);
  FAMPI_World_free(&world);
  MPI_Finalize();
  return 0;
}
