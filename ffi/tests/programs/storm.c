/*
 * Ranks die all the time, and so do new processes while they start; whoever is left rebuilds the
 * world and goes on. `storm SECONDS BEGIN`: how long, from which reading of the machine's clock.
 * Whether it is over is agreed upon in a block, in which each rank says what its clock shows.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>

/* Steps of a block on a calm machine take less than a millisecond. */
static void rest(void)
{
  const struct timespec moment = {0, 1000000};
  nanosleep(&moment, NULL);
}

static int seconds_since(long begin)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int)(now.tv_sec - begin);
}

int main(int argc, char **argv)
{
  const int lasts = atoi(argv[1]);
  const long begin_second = atol(argv[2]);
  MPI_Comm world;
  MPI_Request block, request;
  /* The step, the worlds so far, and whether it is over. */
  int known[3] = {0, 0, 0}, agreed[3], is_new, code, k;
  MPI_Init(&argc, &argv);
  code = FAMPI_World_init(FAMPI_RECOVERY_REBUILD, argv, &world, &is_new);
  while (code == FAMPI_SUCCESS && !known[2]) {
    known[2] = seconds_since(begin_second) >= lasts;
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
    FAMPI_Iallreduce(known, agreed, 3, MPI_INT, MPI_MAX, world, &request);
    code = commit(&block, 1, &request);
    OK(FAMPI_Request_free(&request));
    OK(FAMPI_Request_free(&block));
    if (code == FAMPI_SUCCESS) {
      for (k = 0; k < 3; k++) known[k] = agreed[k];
      known[0]++;
      rest();
    } else {
      known[1]++;
      known[2] = 0;
      code = FAMPI_World_recover(&world);
    }
  }
  if (code == FAMPI_SUCCESS) {
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    printf("rank %d of %d: weathered %d deaths in %d steps\n", rank, size, known[1], known[0]);
    OK(FAMPI_World_free(&world));
  } else {
    printf("no world any more: %s\n", FAMPI_Error_string(code));
  }
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
