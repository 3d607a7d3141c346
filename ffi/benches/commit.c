/*
 * What a commit costs in C, in the shape of the papers' benchmark: start, finish without
 * requests, wait, free, against MPI_Allreduce and MPI_Iallreduce + MPI_Wait of two integers.
 *
 * Batches of the three alternate. Rank 0 prints medians over the batches, in microseconds,
 * in the rows of `cargo fampi bench commit`; `cargo fampi bench library` puts both side by side.
 */
#include <fampi.h>
#include <stdio.h>
#include <stdlib.h>

/* The tests do fewer. */
#ifndef BATCHES
#define BATCHES 60
#endif

enum { ROUNDS = 1000, WARM_UP = 5 };

static int given[2] = {3, 5}, taken[2];

static void allreduce(void)
{
  MPI_Allreduce(given, taken, 2, MPI_INT, MPI_BAND, MPI_COMM_WORLD);
}

static void iallreduce(void)
{
  MPI_Request request;
  MPI_Iallreduce(given, taken, 2, MPI_INT, MPI_BAND, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void commit(void)
{
  static const FAMPI_Timeout second = 1000000000;
  MPI_Request block;
  int code;
  FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block);
  FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER);
  do {
    code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, second);
  } while (code == FAMPI_ERR_TIMEOUT);
  if (code != FAMPI_SUCCESS) {
    fprintf(stderr, "not committed: %s\n", FAMPI_Error_string(code));
    exit(1);
  }
  FAMPI_Request_free(&block);
}

static int ascending(const void *one, const void *other)
{
  double difference = *(const double *)one - *(const double *)other;
  return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv)
{
  static void (*const operations[3])(void) = {allreduce, iallreduce, commit};
  static const char *const names[3] = {"allreduce", "iallreduce", "commit"};
  static double took[3][BATCHES];
  int rank, size, batch, which, round;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  FAMPI_Init(MPI_COMM_WORLD);
  for (batch = -WARM_UP; batch < BATCHES; batch++) {
    for (which = 0; which < 3; which++) {
      double began;
      MPI_Barrier(MPI_COMM_WORLD);
      began = MPI_Wtime();
      for (round = 0; round < ROUNDS; round++) operations[which]();
      if (batch >= 0) took[which][batch] = (MPI_Wtime() - began) / ROUNDS * 1e6;
    }
  }
  for (which = 0; which < 3; which++)
    qsort(took[which], BATCHES, sizeof(double), ascending);
  if (rank == 0) {
    printf("ranks,operation,median_us,ratio_to_iallreduce\n");
    for (which = 0; which < 3; which++)
      printf("%d,%s,%.4f,%.3f\n", size, names[which], took[which][BATCHES / 2],
             took[which][BATCHES / 2] / took[1][BATCHES / 2]);
  }
  MPI_Finalize();
  return 0;
}
