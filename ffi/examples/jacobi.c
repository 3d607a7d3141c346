/*
 * Jacobi's method for the heat on a plate that loses ranks and ends with the same digits: what
 * `fortran/examples/jacobi.f90` does, with its bits.
 *
 * Each rank has some rows. A step is one block: rows are exchanged with both neighbours, the
 * greatest change of all ranks is found with the commit, and the new state is kept for the case of
 * a death. `KILL_PLAN="10:2 -1:0"` kills rank 2 in step 10, and rank 0 when it restores its state.
 *
 * With `fampi run --checkpoint FOLDER` states are saved in files, too: where a rank dies with the
 * one that keeps its state, all go back to these, and `fampi restart FOLDER` goes on from them when
 * the whole job has ended.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "options.h"

enum { COLUMNS = 30, ROWS = 6, MOST_STEPS = 300 };

struct plate {
  int step;
  double change;
  /* With a row of each neighbour above and below, and the cold at both sides. */
  double heat[ROWS + 2][COLUMNS + 2];
};

static struct plate own, next;
static MPI_Comm world;
static int rank, size, is_replacement;

/* The plate is hot at its top, and cold everywhere else. */
static void begin(void)
{
  int column;
  memset(&own, 0, sizeof own);
  own.change = 1;
  for (column = 1; column <= COLUMNS && rank == 0; column++) own.heat[0][column] = 1;
}

/* The mean of the four neighbours, everywhere; the greatest change. */
static double relax(void)
{
  struct plate old = next;
  double change = 0;
  int row, column;
  for (row = 1; row <= ROWS; row++)
    for (column = 1; column <= COLUMNS; column++) {
      double mean = 0.25 * (old.heat[row][column - 1] + old.heat[row][column + 1] +
                            old.heat[row - 1][column] + old.heat[row + 1][column]);
      change = fmax(change, fabs(mean - old.heat[row][column]));
      next.heat[row][column] = mean;
    }
  next.step++;
  return change;
}

/* Ends a block with the greatest change. After another code than FAMPI_SUCCESS, which is the same
 * on all ranks, all have to restore. */
static int decide(MPI_Request block, int count, MPI_Request *requests, double *change)
{
  int code, k;
  FAMPI_TryBlock_finish_allreduce(block, count, requests, FAMPI_TIMEOUT_NEVER, change, change, 1,
                                  MPI_DOUBLE, MPI_MAX);
  code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  for (k = 0; k < count; k++) FAMPI_Request_free(&requests[k]);
  if (code != FAMPI_SUCCESS) {
    recover(&world);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
  }
  FAMPI_Request_free(&block);
  return code;
}

/* One step; the code with which it ended. */
static int advance(void)
{
  /* It is written when the block is decided. */
  static double change;
  int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  int below = rank < size - 1 ? rank + 1 : MPI_PROC_NULL, is_saved;
  MPI_Request block, requests[4];
  next = own;
  FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block);
  FAMPI_Checkpoint(block, own.step, &is_saved);
  FAMPI_Irecv(&next.heat[0][1], COLUMNS, MPI_DOUBLE, above, 1, world, &requests[0]);
  FAMPI_Irecv(&next.heat[ROWS + 1][1], COLUMNS, MPI_DOUBLE, below, 2, world, &requests[1]);
  FAMPI_Isend(&own.heat[1][1], COLUMNS, MPI_DOUBLE, above, 2, world, &requests[2]);
  FAMPI_Isend(&own.heat[ROWS][1], COLUMNS, MPI_DOUBLE, below, 1, world, &requests[3]);
  die_if_planned(own.step, is_replacement);
  change = 0;
  if (FAMPI_Waitall_local(4, requests, MPI_STATUSES_IGNORE, FAMPI_TIMEOUT_NEVER) == 0) {
    change = relax();
    FAMPI_Protect(block, 0, &next, sizeof next, MPI_BYTE);
  }
  if (decide(block, 4, requests, &change) != FAMPI_SUCCESS) return FAMPI_ERR_TRYBLOCK_FOUND_ERRORS;
  own = next;
  own.change = change;
  return FAMPI_SUCCESS;
}

/* All have the state of the last commit, or of a checkpoint, or all begin. FAMPI_SUCCESS, or what
 * ends the program; FAMPI_ERR_TRYBLOCK_FOUND_ERRORS: once more. */
static int restore(void)
{
  static double nothing;
  MPI_Request block;
  int64_t step;
  int code, from = FAMPI_STATES_NOWHERE, ranks, count = sizeof next;
  FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block);
  if (own.step > 0) die_if_planned(-1, is_replacement);
  code = FAMPI_Restart(block, 0, &from, &step, &ranks);
  if (code == FAMPI_SUCCESS && from != FAMPI_STATES_NOWHERE)
    code = FAMPI_Restore(block, 0, &next, sizeof next, MPI_BYTE, &count);
  if (code == FAMPI_SUCCESS && count != (int)sizeof next) code = FAMPI_ERR_COUNT;
  if (decide(block, 0, NULL, &nothing) != FAMPI_SUCCESS) return FAMPI_ERR_TRYBLOCK_FOUND_ERRORS;
  /* All ranks have the same code, as the block is committed. */
  if (code == FAMPI_ERR_CHECKPOINTS_EXIST || code == FAMPI_ERR_NO_CHECKPOINT ||
      code == FAMPI_ERR_COUNT)
    return code;
  if (rank == 0 && from == FAMPI_STATES_IN_FILES)
    fprintf(stderr, "all go on from the checkpoint of step %lld\n", (long long)step);
  if (code == FAMPI_SUCCESS && from != FAMPI_STATES_NOWHERE)
    own = next;
  else
    begin();
  return FAMPI_SUCCESS;
}

static unsigned long long bits(double number)
{
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

int main(int argc, char **argv)
{
  int code = FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, row, column;
  double heat = 0;
  MPI_Init(&argc, &argv);
  world = enter_world(argv, &is_replacement);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  while (code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS ||
         (code == FAMPI_SUCCESS && own.step < MOST_STEPS && own.change > 1e-4))
    code = code == FAMPI_SUCCESS ? advance() : restore();
  for (row = 1; row <= ROWS; row++)
    for (column = 1; column <= COLUMNS; column++)
      heat += own.heat[row][column] * (column + 31 * row);
  if (code == FAMPI_SUCCESS)
    printf("rank %d: %d steps, change %016llX, heat %016llX\n", rank, own.step, bits(own.change),
           bits(heat));
  FAMPI_World_free(&world);
  MPI_Finalize();
  return code == FAMPI_SUCCESS ? 0 : 1;
}
