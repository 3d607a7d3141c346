/*
 * A ring of cells in patient blocks without a collective, through deaths at random moments.
 *
 * Each step is a block: short and long messages of fampi's own to both neighbours, from a known
 * source or from any, and a copy of the state to the partner. RANDOM_SEED says who dies, when and
 * how: by SIGKILL, SIGSEGV, `_exit`, SIGSTOP and later SIGKILL; or is stopped and goes on.
 * RANDOM_KILLS says how many. All lines at the end are as without a death, to the last digit.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { CELLS = 3000, STEPS = 400 };

struct state {
  int step;
  double cells[CELLS];
};

/* What a message that was cut short may still use outlives the block. */
static struct state own, next, last;
static double border[2], whole[2][CELLS];
static MPI_Comm world;
static int is_new, way;

static unsigned long draw(unsigned long *seed)
{
  *seed = *seed * 6364136223846793005UL + 1442695040888963407UL;
  return *seed >> 33;
}

static void pause_for(int milliseconds)
{
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

/* Another process that looks whether this one was stopped: ends it, or lets it go on. */
static void keep_watch(int signal_then)
{
  const pid_t watched = getpid();
  char name[32], state = '?';
  FILE *file;
  if (fork() != 0) return;
  snprintf(name, sizeof name, "/proc/%d/stat", (int)watched);
  while (getppid() == watched) {
    pause_for(20);
    file = fopen(name, "r");
    if (file == NULL) break;
    if (fscanf(file, "%*d %*s %c", &state) != 1) state = '?';
    fclose(file);
    if (state != 'T') continue;
    pause_for(300);
    kill(watched, signal_then);
    break;
  }
  _exit(0);
}

static void fall(int number)
{
  static const int signals[] = {SIGKILL, SIGSEGV, 0, SIGSTOP, SIGSTOP};
  static const char said[] = "falls\n";
  (void)number;
  if (write(STDERR_FILENO, said, sizeof said - 1) < 0) _exit(9);
  if (signals[way] == 0) _exit(9);
  raise(signals[way]);
}

/* Draws for this rank whether it dies, how and when. */
static void draw_end(unsigned long seed, int kills)
{
  struct itimerval soon = {{0, 0}, {0, 0}};
  int k, victim;
  for (k = 0; k < kills; k++) {
    victim = (int)(draw(&seed) % (unsigned long)size);
    way = (int)(draw(&seed) % 5);
    soon.it_value.tv_usec = 500 + (long)(draw(&seed) % 90000);
    if (victim != rank) continue;
    signal(SIGALRM, fall);
    setitimer(ITIMER_REAL, &soon, NULL);
    return;
  }
}

static void begin_anew(void)
{
  own.step = 0;
  for (int k = 0; k < CELLS; k++) own.cells[k] = 1.0 / (1 + rank * CELLS + k);
}

/* Ends a block; a new world after deaths. */
static int decide(MPI_Request block, int count, MPI_Request *requests)
{
  int code;
  OK(FAMPI_TryBlock_finish(block, count, requests, FAMPI_TIMEOUT_NEVER));
  code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  for (int k = 0; k < count; k++) OK(FAMPI_Request_free(&requests[k]));
  if (code != FAMPI_SUCCESS) {
    if (reports(block, FAMPI_ERR_STATE_LOST)) code = FAMPI_ERR_STATE_LOST;
    if (reports(block, FAMPI_ERR_NOTHING_PROTECTED)) code = FAMPI_ERR_NOTHING_PROTECTED;
    OK(FAMPI_World_recover(&world));
  }
  OK(FAMPI_Request_free(&block));
  return code;
}

/* Everybody has the state of the last commit, or that of the beginning. False: once more. */
static int restore(void)
{
  MPI_Comm old = world;
  MPI_Request block;
  int code, count;
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  FAMPI_Restore(block, 0, &last, sizeof last, MPI_BYTE, &count);
  code = decide(block, 0, NULL);
  if (code == FAMPI_SUCCESS) {
    own = last;
    return 1;
  }
  if (world != old || code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS) return 0;
  begin_anew();
  return 1;
}

static void compute(void)
{
  for (int k = 0; k < CELLS; k++) {
    double left = k > 0 ? own.cells[k - 1] : border[0];
    double right = k < CELLS - 1 ? own.cells[k + 1] : border[1];
    next.cells[k] = 0.5 * own.cells[k] + 0.2 * left + 0.2 * right + 0.1 * whole[k % 2][k];
  }
  next.step = own.step + 1;
}

/* One step; false when it was not committed. */
static int step(void)
{
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  /* Tags tell the two neighbours apart, and so the source need not. */
  const int any = own.step % 3 == 2;
  MPI_Request block, list[8];
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_Irecv(&border[0], 1, MPI_DOUBLE, any ? MPI_ANY_SOURCE : left, 1, world, &list[0]));
  OK(FAMPI_Irecv(&border[1], 1, MPI_DOUBLE, any ? MPI_ANY_SOURCE : right, 2, world, &list[1]));
  OK(FAMPI_Irecv(whole[0], CELLS, MPI_DOUBLE, left, 3, world, &list[2]));
  OK(FAMPI_Irecv(whole[1], CELLS, MPI_DOUBLE, right, 4, world, &list[3]));
  OK(FAMPI_Isend(&own.cells[CELLS - 1], 1, MPI_DOUBLE, right, 1, world, &list[4]));
  OK(FAMPI_Isend(&own.cells[0], 1, MPI_DOUBLE, left, 2, world, &list[5]));
  OK(FAMPI_Isend(own.cells, CELLS, MPI_DOUBLE, right, 3, world, &list[6]));
  OK(FAMPI_Isend(own.cells, CELLS, MPI_DOUBLE, left, 4, world, &list[7]));
  if (FAMPI_Waitall_local(8, list, MPI_STATUSES_IGNORE, FAMPI_TIMEOUT_NEVER) == FAMPI_SUCCESS) {
    compute();
    FAMPI_Protect(block, 0, &next, sizeof next, MPI_BYTE);
  }
  if (decide(block, 8, list) != FAMPI_SUCCESS) return 0;
  own = next;
  return 1;
}

int main(int argc, char **argv)
{
  const char *seed = getenv("RANDOM_SEED"), *kills = getenv("RANDOM_KILLS");
  int has_state;
  unsigned long checksum = 0, bits;
  keep_watch(seed != NULL && atoi(seed) % 2 ? SIGKILL : SIGCONT);
  MPI_Init(&argc, &argv);
  OK(FAMPI_World_init(FAMPI_RECOVERY_REBUILD, argv, &world, &is_new));
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  begin_anew();
  if (!is_new && kills != NULL) draw_end(strtoul(seed, NULL, 10) * 977 + 5, atoi(kills));
  has_state = !is_new;
  while (!has_state || own.step < STEPS) has_state = has_state ? step() : restore();
  signal(SIGALRM, SIG_IGN);
  for (int k = 0; k < CELLS; k++) {
    memcpy(&bits, &own.cells[k], sizeof bits);
    checksum = checksum * 31 + bits;
  }
  printf("rank %d: %d steps, %a, all %lx\n", rank, own.step, own.cells[rank], checksum);
  fflush(stdout);
  OK(FAMPI_World_free(&world));
  MPI_Finalize();
  return 0;
}
