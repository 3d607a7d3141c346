/*
 * The answer of an agreement of MPI is lost with a process that dies. All ranks but rank 2 are in
 * the agreement before a shrink. Rank 2, the parent of rank 3 in it, comes late, and meanwhile MPI
 * takes what rank 3 says, and, when rank 3 has died, what rank 4 says once more. Rank 2 has not
 * heard of the death: it does not look for deaths, and the launcher is stopped. So it sends the
 * answer to rank 3 alone.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <mpi-ext.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int is_late;

/* Stops the launcher, which tells MPI of deaths, for longer than the agreement takes. */
static void stop_launcher(void)
{
  const struct timespec length = {1, 200000000};
  const pid_t launcher = getppid();
  kill(launcher, SIGSTOP);
  if (fork() == 0) {
    nanosleep(&length, NULL);
    kill(launcher, SIGCONT);
    _exit(0);
  }
}

/* MPI's function of this name, which rank 2 calls late, once. */
int MPIX_Comm_iagree(MPI_Comm comm, int *flag, MPI_Request *request)
{
  const double begun = MPI_Wtime();
  int any;
  if (is_late) stop_launcher();
  while (is_late && MPI_Wtime() < begun + 0.6)
    PMPI_Iprobe(0, 0, MPI_COMM_SELF, &any, MPI_STATUS_IGNORE);
  is_late = 0;
  return PMPIX_Comm_iagree(comm, flag, request);
}

int main(int argc, char **argv)
{
  const struct itimerval after = {{0, 0}, {0, 250000}};
  MPI_Comm comm;
  /* Rank 2 hears of deaths from MPI alone. */
  if (strcmp(getenv("OMPI_COMM_WORLD_RANK"), "2") == 0) setenv("FAMPI_NODE_WATCHER", "off", 1);
  begin(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  lose_one(comm);
  is_late = rank == 2;
  if (rank == 3) setitimer(ITIMER_REAL, &after, NULL);
  shrink_to(comm, 3);
  CHECK(!is_late);
  MPI_Comm_free(&comm);
  passed("passed");
  MPI_Finalize();
  return 0;
}
