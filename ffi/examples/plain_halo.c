/* The program that `halo.c` was: plain MPI, with blocking calls. It does not survive a death. */
#include <mpi.h>
#include <stdio.h>

enum { STEPS = 100 };

int main(int argc, char **argv)
{
  int rank, size, step;
  double value;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  value = rank;
  for (step = 0; step < STEPS; step++) {
    double left, right;
    MPI_Sendrecv(&value, 1, MPI_DOUBLE, (rank + 1) % size, 0, &left, 1, MPI_DOUBLE,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&value, 1, MPI_DOUBLE, (rank + size - 1) % size, 1, &right, 1, MPI_DOUBLE,
                 (rank + 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    value = (left + value + right) / 3;
  }
  printf("rank %d of %d: done, %.12f\n", rank, size, value);
  MPI_Finalize();
  return 0;
}
