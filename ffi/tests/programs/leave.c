/*
 * Rank 1 ends MPI while the others go on: before their next block, or after it has begun.
 * `leave MILLISECONDS`: how much later the others are; negative where rank 1 is later.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>

static void pause_for(long milliseconds)
{
  struct timespec moment;
  moment.tv_sec = milliseconds / 1000;
  moment.tv_nsec = milliseconds % 1000 * 1000000;
  nanosleep(&moment, NULL);
}

int main(int argc, char **argv)
{
  MPI_Request block;
  FAMPI_Report *report;
  long late;
  int i, who = -1, code = 0;
  begin(&argc, &argv);
  late = atol(argv[1]);
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(commit(&block, 0, NULL));
  MPI_Request_free(&block);
  if ((rank == 1) == (late < 0)) pause_for(labs(late));
  for (i = 0; rank != 1 && i < 3; i++) {
    OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
    EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
    OK(FAMPI_Report_get(block, &report));
    CHECK(FAMPI_Report_count(report) == 1);
    OK(FAMPI_Report_fault(report, 0, &who, &code));
    CHECK(who == 1 && code == FAMPI_ERR_FINALIZED);
    FAMPI_Report_free(report);
    MPI_Request_free(&block);
  }
  passed("passed");
  MPI_Finalize();
  return 0;
}
