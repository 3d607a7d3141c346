/*
 * A halo exchange that loses a rank: the survivors shrink the world and go on.
 *
 * Each rank smooths a value with those of its neighbours in a ring; rank 2 dies in step 50. A step
 * counts only when it was committed, so all survivors have done the same ones.
 */
#include <fampi.h>
#include <signal.h>
#include <stdio.h>

enum { STEPS = 100 };

/* Makes a world of the survivors; the old one is freed. */
static void shrink(MPI_Comm *world)
{
  MPI_Comm smaller;
  MPI_Request request;
  int code = FAMPI_Comm_ishrink(*world, &smaller, &request);
  if (code == FAMPI_SUCCESS)
    code = FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  if (code != FAMPI_SUCCESS) {
    fprintf(stderr, "no recovery: %s\n", FAMPI_Error_string(code));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Request_free(&request);
  MPI_Comm_free(world);
  *world = smaller;
}

int main(int argc, char **argv)
{
  MPI_Comm world;
  int origin, rank, size, step = 0;
  double value;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_rank(world, &origin);
  value = origin;
  while (step < STEPS) {
    double left, right;
    MPI_Request block, requests[4];
    int code, k;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    code = FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block);
    if (code != FAMPI_SUCCESS) {
      fprintf(stderr, "no block: %s\n", FAMPI_Error_string(code));
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (step == 50 && size > 1 && origin == 2) {
      fprintf(stderr, "rank %d kills itself, on purpose: the others go on\n", rank);
      raise(SIGKILL);
    }
    MPI_Irecv(&left, 1, MPI_DOUBLE, (rank + size - 1) % size, 0, world, &requests[0]);
    MPI_Irecv(&right, 1, MPI_DOUBLE, (rank + 1) % size, 1, world, &requests[1]);
    MPI_Isend(&value, 1, MPI_DOUBLE, (rank + 1) % size, 0, world, &requests[2]);
    MPI_Isend(&value, 1, MPI_DOUBLE, (rank + size - 1) % size, 1, world, &requests[3]);
    FAMPI_TryBlock_finish(block, 4, requests, FAMPI_TIMEOUT_NEVER);
    code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
    for (k = 0; k < 4; k++) MPI_Request_free(&requests[k]);
    MPI_Request_free(&block);
    if (code == FAMPI_SUCCESS) {
      value = (left + value + right) / 3;
      step++;
    } else {
      printf("rank %d: step %d: %s\n", rank, step, FAMPI_Error_string(code));
      shrink(&world);
    }
  }
  printf("rank %d of %d, once %d: done, %.12f\n", rank, size, origin, value);
  MPI_Comm_free(&world);
  MPI_Finalize();
  return 0;
}
