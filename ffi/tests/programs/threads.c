/*
 * A program with threads of its own: one makes communicators, the other makes progress in MPI all
 * the time, and so takes steps of the first one's calls.
 */
#include "check.h"

#include <pthread.h>

enum { ROUNDS = 300 };

static volatile int over;

static void *progress(void *unused)
{
  int flag;
  while (!over) MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
  return unused;
}

int main(int argc, char **argv)
{
  pthread_t other;
  int provided, round, sum, one = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  CHECK(FAMPI_Error_string(FAMPI_SUCCESS) != NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(pthread_create(&other, NULL, progress, NULL) == 0);
  for (round = 0; round < ROUNDS; round++) {
    MPI_Comm made;
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &made) == 0);
    CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made) == 0);
    CHECK(sum == size);
    CHECK(MPI_Comm_free(&made) == 0);
  }
  over = 1;
  pthread_join(other, NULL);
  printf("rank %d: passed\n", rank);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
