/*
 * What an agreement costs: FAMPI_Comm_agree against MPI's own MPIX_Comm_agree, on a communicator
 * whose ranks all live, and on one that has a dead rank beside them, which all have acknowledged:
 * the last of the launch, which dies at the start.
 *
 * Batches of the two alternate. Rank 0 prints medians over the batches, in microseconds, in the
 * rows of `cargo fampi bench agree`.
 */
#include <fampi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* The tests do fewer. */
#ifndef BATCHES
#define BATCHES 60
#endif

enum { ROUNDS = 200, WARM_UP = 5 };

static MPI_Comm comm;

static void ours(void)
{
  int flag = 1;
  if (FAMPI_Comm_agree(comm, &flag) != MPI_SUCCESS || flag != 1) exit(1);
}

static void of_mpi(void)
{
  int flag = 1;
  if (MPIX_Comm_agree(comm, &flag) != MPI_SUCCESS || flag != 1) exit(1);
}

static int ascending(const void *one, const void *other)
{
  double difference = *(const double *)one - *(const double *)other;
  return (difference > 0) - (difference < 0);
}

static void measure(int rank, int living, int dead)
{
  static void (*const operations[2])(void) = {ours, of_mpi};
  static double took[2][BATCHES];
  int batch, which, round;
  for (batch = -WARM_UP; batch < BATCHES; batch++) {
    for (which = 0; which < 2; which++) {
      double began;
      operations[which]();
      began = MPI_Wtime();
      for (round = 0; round < ROUNDS; round++) operations[which]();
      if (batch >= 0) took[which][batch] = (MPI_Wtime() - began) / ROUNDS * 1e6;
    }
  }
  for (which = 0; which < 2; which++) qsort(took[which], BATCHES, sizeof(double), ascending);
  if (rank != 0) return;
  printf("%d,%d,%.4f,%.4f,%.3f\n", living, dead, took[0][BATCHES / 2], took[1][BATCHES / 2],
         took[0][BATCHES / 2] / took[1][BATCHES / 2]);
}

int main(int argc, char **argv)
{
  MPI_Comm part;
  int rank, size, flag = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1, 0, &part);
  FAMPI_Comm_use(MPI_COMM_WORLD);
  FAMPI_Comm_use(part);
  if (rank == size - 1) raise(SIGKILL);
  while (FAMPI_Comm_agree(MPI_COMM_WORLD, &flag) == MPI_SUCCESS) continue;
  FAMPI_Comm_failure_ack(MPI_COMM_WORLD);
  while (MPIX_Comm_agree(MPI_COMM_WORLD, &flag) != MPI_SUCCESS)
    MPIX_Comm_failure_ack(MPI_COMM_WORLD);
  if (rank == 0) printf("ranks,dead,ours_us,mpi_us,ratio\n");
  comm = part;
  measure(rank, size - 1, 0);
  comm = MPI_COMM_WORLD;
  measure(rank, size - 1, 1);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
