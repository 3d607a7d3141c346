/*
 * A process is killed while it sends to rank 2 by shared memory, between the two stores that put a
 * message in its queue: nothing that is sent to rank 2 in that way arrives any more. Rank 3 does
 * what the first of them does, and dies.
 */
#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include "check.h"

/* The queue of the process with this number on its node, in the memory that all share. */
static long *queue_of(int number)
{
  char line[512], end[32];
  long *found = NULL;
  FILE *maps = fopen("/proc/self/maps", "r");
  snprintf(end, sizeof end, ".%d\n", number);
  while (fgets(line, sizeof line, maps))
    if (strstr(line, "/sm_segment.") && strlen(line) > strlen(end) &&
        strcmp(line + strlen(line) - strlen(end), end) == 0)
      found = (long *)strtoul(line, NULL, 16);
  fclose(maps);
  return found;
}

int main(int argc, char **argv)
{
  MPI_Comm comm;
  MPI_Request block;
  int number, own;
  begin(&argc, &argv);
  number = own = atoi(getenv("OMPI_COMM_WORLD_LOCAL_RANK"));
  /* All connect. */
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  MPI_Bcast(&number, 1, MPI_INT, 2, comm);
  MPI_Barrier(comm);
  if (rank == 3) {
    long *queue = queue_of(number);
    const struct timespec moment = {0, 1000000};
    int moments = 0;
    CHECK(queue);
    /* Rank 2 may have to take the last message of the barrier. */
    while (__atomic_load_n(&queue[0], __ATOMIC_SEQ_CST) != -2 && moments++ < 5000)
      nanosleep(&moment, NULL);
    CHECK(moments <= 5000);
    /* A message in memory of this process that nothing else uses. */
    __atomic_exchange_n(&queue[1], (long)own << 32 | 0xff0000, __ATOMIC_SEQ_CST);
    die();
  }
  shrink_to(comm, 2);
  MPI_Comm_free(&comm);
  passed("passed");
  MPI_Finalize();
  return 0;
}
