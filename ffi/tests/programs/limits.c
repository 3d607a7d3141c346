/*
 * Waits with a limit while the rank that they need is stopped: how far they go beyond it, beside how
 * far a sleep of the same length does. `limits blocks|unused|shrink|rebuild|join`
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>
#include <unistd.h>

/* Milliseconds: how long a wait is, how long a rank is stopped, how much longer a wait may take. */
static const double limit = 40, pause_of = 900, slack = 10;
/* How much longer each took, and how many there were. */
enum { MOST = 400 };
static double sleeps[MOST], waits[MOST];
static int slept, late;

/* Stops this process for a while, from outside. */
static void stop(void)
{
  const struct timespec length = {0, (long)(pause_of * 1e6)};
  if (fork() == 0) {
    nanosleep(&length, NULL);
    kill(getppid(), SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
}

/* A sleep, for comparison. */
static void control(void)
{
  struct timespec length = {0, (long)(limit * 1e6)};
  double began = MPI_Wtime(), took;
  nanosleep(&length, NULL);
  took = (MPI_Wtime() - began) * 1000 - limit;
  if (slept < MOST) sleeps[slept++] = took;
}

static int one_wait(int way, MPI_Request *request)
{
  MPI_Status status;
  int at = 0, count = 0, places[1];
  FAMPI_Timeout timeout = seconds(limit / 1000);
  switch (way % 4) {
    case 0: return FAMPI_Wait_local(request, &status, timeout);
    case 1: return FAMPI_Waitall_local(1, request, &status, timeout);
    case 2: return FAMPI_Waitany_local(1, request, &at, &status, timeout);
    default: return FAMPI_Waitsome_local(1, request, &count, places, &status, timeout);
  }
}

/* Waits in all ways until the request is over; how it ended. The last timeout may come while the
 * stopped rank is back. */
static int wait_in_pieces(MPI_Request *request)
{
  int code, times = 0;
  double began;
  do {
    control();
    began = MPI_Wtime();
    code = one_wait(times++, request);
    if (late < MOST) waits[late++] = (MPI_Wtime() - began) * 1000 - limit;
  } while (code == FAMPI_ERR_TIMEOUT);
  late -= times > 1 ? 2 : 1;
  return code;
}

static int compare(const void *one, const void *other)
{
  double first = *(const double *)one, second = *(const double *)other;
  return (first > second) - (first < second);
}

/* On a machine that is busy, where sleeps are late, too, the waits in the middle count. */
static int kept(void)
{
  double sleep_of, wait_of;
  qsort(sleeps, (size_t)slept, sizeof *sleeps, compare);
  qsort(waits, (size_t)late, sizeof *waits, compare);
  sleep_of = sleeps[sleeps[slept - 1] > slack / 2 ? slept / 2 : slept - 1];
  wait_of = waits[sleeps[slept - 1] > slack / 2 ? late / 2 : late - 1];
  return wait_of <= slack + sleep_of;
}

static void tell(void)
{
  const char *word;
  CHECK(late >= 5);
  word = kept() ? "kept" : "late";
  printf("rank %d: %s: at most %.1f ms beyond the limit, sleeps %.1f ms, in the middle %.1f, %.1f\n",
         rank, word, waits[late - 1], sleeps[slept - 1], waits[late / 2], sleeps[slept / 2]);
  fflush(stdout);
}

/* A commit and an agreement after a fault, for which one rank is late. */
static void blocks(MPI_Comm comm)
{
  MPI_Request block;
  for (int faulty = 0; faulty < 2; faulty++) {
    OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
    if (rank == 0 && faulty) OK(FAMPI_Request_raise_error(block, FAMPI_ERR_PERMANENT));
    if (rank == 3) stop();
    OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
    if (rank == 3) commit(&block, 0, NULL);
    else EXPECT(faulty ? FAMPI_ERR_TRYBLOCK_FOUND_ERRORS : FAMPI_SUCCESS, wait_in_pieces(&block));
    OK(FAMPI_Request_free(&block));
  }
}

/* A shrink of what was not in use when a rank died, for which one is late. */
static void shrink_unused(MPI_Comm comm)
{
  MPI_Request request;
  MPI_Comm living = MPI_COMM_NULL;
  int many;
  if (rank == 3) stop();
  OK(FAMPI_Comm_ishrink(comm, &living, &request));
  if (rank != 3) OK(wait_in_pieces(&request));
  else OK(FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Request_free(&request));
  MPI_Comm_size(living, &many);
  CHECK(many == size - 2);
  MPI_Comm_free(&living);
}

int main(int argc, char **argv)
{
  int aside, me = -1, all = 0, ranks[1] = {0};
  const char *what;
  MPI_Comm old = MPI_COMM_NULL, unused = MPI_COMM_NULL, living = MPI_COMM_SELF, bridge, link, world = MPI_COMM_NULL;
  MPI_Request request;
  begin(&argc, &argv);
  what = argv[1];
  aside = size - 1;
  MPI_Comm_split(MPI_COMM_WORLD, rank == aside ? MPI_UNDEFINED : 0, rank, &old);
  if (rank != aside) {
    MPI_Comm_dup(old, &unused);
    lose_one(old);
    if (strcmp(what, "unused") == 0) shrink_unused(unused);
    if (strcmp(what, "blocks") == 0) blocks(old);
    if (strcmp(what, "shrink") == 0 && rank == 3) stop();
    OK(FAMPI_Comm_ishrink(old, &living, &request));
    if (strcmp(what, "shrink") == 0 && rank != 3) OK(wait_in_pieces(&request));
    else OK(FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
    OK(FAMPI_Request_free(&request));
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPIX_Comm_shrink(MPI_COMM_WORLD, &bridge);
  OK(MPI_Intercomm_create(living, 0, bridge, rank == aside ? 0 : aside - 1, 7, &link));
  if (strcmp(what, "rebuild") == 0 && rank == aside) stop();
  if (strcmp(what, "join") == 0 && rank != aside) stop();
  if (rank == aside) OK(FAMPI_Comm_irebuild_join(link, &world, &request));
  else OK(FAMPI_Comm_irebuild(old, 0, link, 1, ranks, 0, &world, &request));
  if (strcmp(what, rank == aside ? "join" : "rebuild") == 0) OK(wait_in_pieces(&request));
  else OK(FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Request_free(&request));
  MPI_Comm_rank(world, &me);
  MPI_Comm_size(world, &all);
  CHECK(all == size - 1 && me == (rank == aside ? 1 : rank));
  if (late > 0) tell();
  passed("passed");
  MPI_Finalize();
  return 0;
}
