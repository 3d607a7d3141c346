/*
 * Time steps whose length all ranks agree on: the minimum rides on the commit of the step.
 *
 * Each rank allows steps of another length. With the commit of a step comes the length of the
 * next, without a message of its own. Rank 2, which allows the shortest, dies on the way.
 */
#include <fampi.h>
#include <signal.h>
#include <stdio.h>

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
  const double allowed[] = {0.05, 0.04, 0.01, 0.1};
  MPI_Comm world;
  int origin, code;
  double time = 0, step = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_rank(world, &origin);
  while (time + step < 1) {
    double next = allowed[origin % 4] * (1 + time);
    MPI_Request block;
    code = FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block);
    if (code != FAMPI_SUCCESS) {
      fprintf(stderr, "no block: %s\n", FAMPI_Error_string(code));
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (origin == 2 && time > 0.3) {
      fprintf(stderr, "once %d kills itself, on purpose: the others go on\n", origin);
      raise(SIGKILL);
    }
    /* The messages of the step would be started here, and given to finish. */
    FAMPI_TryBlock_finish_allreduce(block, 0, NULL, FAMPI_TIMEOUT_NEVER, MPI_IN_PLACE, &next, 1,
                                    MPI_DOUBLE, MPI_MIN);
    code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
    MPI_Request_free(&block);
    if (code == FAMPI_SUCCESS) {
      time += step;
      step = next;
    } else {
      printf("once %d: at %.4f: %s\n", origin, time, FAMPI_Error_string(code));
      shrink(&world);
    }
  }
  printf("once %d: done at %.12f, the last step allowed is %.12f\n", origin, time, step);
  MPI_Comm_free(&world);
  MPI_Finalize();
  return 0;
}
