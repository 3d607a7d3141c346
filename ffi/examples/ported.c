/*
 * A program with all that PORTING.md speaks of: a set-up with collectives, messages deep inside of
 * a step, states that come back, and a result that is there whoever dies.
 *
 * Each rank has a part of a line, of a length of its own. Values spread to the neighbours; in the
 * end rank 0 prints a sum with all digits.
 * `KILL_PLAN="10:2"` kills rank 2 in step 10; -2 is the set-up, -1 where states come back, 1000
 * between the last sum and its output, 2000 after the last block.
 */
#include "options.h"

enum { MOST_POINTS = 5, STEPS = 20, MOST_REQUESTS = 16 };

struct state {
  int step;
  double values[MOST_POINTS];
};

static MPI_Comm world;
static int rank, size, is_replacement;
/* What the set-up gives: known to all, and of this rank. */
static double rate;
static int points, offset;
static struct state own;
static int has_set_up, has_state;

/* The requests of the block, from wherever in the program; they outlive the functions that post. */
static MPI_Request block, posted[MOST_REQUESTS];
static int count;

static MPI_Request *next_request(void) { return &posted[count++]; }

static int wait_for(MPI_Request *request)
{
  return FAMPI_Wait_local(request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
}

static void start(void)
{
  count = 0;
  FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block);
}

/* Ends the block; its code, the same on all ranks. After a death all begin with the set-up. */
static int end(void)
{
  MPI_Comm old = world;
  int code, lost[] = {FAMPI_ERR_NOTHING_PROTECTED, FAMPI_ERR_STATE_LOST}, members = 0;
  MPI_Group group;
  FAMPI_TryBlock_finish(block, count, posted, FAMPI_TIMEOUT_NEVER);
  code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  while (count > 0) FAMPI_Request_free(&posted[--count]);
  if (code != FAMPI_SUCCESS) {
    FAMPI_Get_failed_group(block, 2, lost, world, &group);
    MPI_Group_size(group, &members);
    MPI_Group_free(&group);
    recover(&world);
  }
  FAMPI_Request_free(&block);
  if (world != old) has_set_up = has_state = 0;
  return world == old && members > 0 ? FAMPI_ERR_NOTHING_PROTECTED : code;
}

/* A block of its own: also on ranks that have done it before, as the others need them for it. */
static void set_up(void)
{
  static double given;
  static int mine, before;
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  start();
  given = rank == 0 ? 0.125 : 0;
  mine = MOST_POINTS - rank % 2;
  before = 0;
  die_if_planned(-2, is_replacement);
  MPI_Ibcast(&given, 1, MPI_DOUBLE, 0, world, next_request());
  MPI_Iexscan(&mine, &before, 1, MPI_INT, MPI_SUM, world, next_request());
  if (end() != FAMPI_SUCCESS) return;
  rate = given;
  points = mine;
  offset = rank == 0 ? 0 : before;
  has_set_up = 1;
}

static void begin(void)
{
  int k;
  own.step = 0;
  for (k = 0; k < points; k++) own.values[k] = 1.0 / (1 + offset + k);
  has_state = 1;
}

/* All ranks have the state of the last commit again; without any they begin. */
static void restore(void)
{
  static struct state last;
  int length, code;
  start();
  die_if_planned(-1, is_replacement);
  FAMPI_Restore(block, 0, &last, sizeof last, MPI_BYTE, &length);
  code = end();
  if (code == FAMPI_ERR_NOTHING_PROTECTED) begin();
  if (code != FAMPI_SUCCESS) return;
  own = last;
  has_state = 1;
}

/* An edge goes one way round the ring, and one comes: MPI_Send and MPI_Recv before. */
static int pass(double *edge, double *ghost, int to, int from)
{
  MPI_Request *received = next_request();
  MPI_Irecv(ghost, 1, MPI_DOUBLE, from, from, world, received);
  MPI_Isend(edge, 1, MPI_DOUBLE, to, rank, world, next_request());
  return wait_for(received);
}

/* The deep part of a step; a code other than 0 means that the block is doomed. */
static int spread(struct state *state)
{
  static double edges[2], ghosts[2];
  double before[MOST_POINTS];
  int k, code, left = (rank + size - 1) % size, right = (rank + 1) % size;
  memcpy(before, state->values, sizeof before);
  edges[0] = before[0];
  edges[1] = before[points - 1];
  code = pass(&edges[0], &ghosts[1], left, right);
  if (code != FAMPI_SUCCESS) return code;
  die_if_planned(state->step, is_replacement);
  code = pass(&edges[1], &ghosts[0], right, left);
  if (code != FAMPI_SUCCESS) return code;
  for (k = 0; k < points; k++) {
    double l = k > 0 ? before[k - 1] : ghosts[0], r = k < points - 1 ? before[k + 1] : ghosts[1];
    state->values[k] += rate * (l - 2 * before[k] + r);
  }
  state->step++;
  return FAMPI_SUCCESS;
}

/* A step counts when it is committed. */
static void step(void)
{
  struct state next = own;
  start();
  if (spread(&next) == FAMPI_SUCCESS) FAMPI_Protect(block, 0, &next, sizeof next, MPI_BYTE);
  if (end() == FAMPI_SUCCESS) own = next;
}

/* The output comes before the last block, which finds out whether somebody could not write it. */
static int result(void)
{
  static double mine, sum;
  int k;
  start();
  for (k = 0, mine = 0; k < points; k++) mine += own.values[k] * (1 + offset + k);
  MPI_Ireduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, world, next_request());
  if (end() != FAMPI_SUCCESS) return 0;
  die_if_planned(1000, is_replacement);
  if (rank == 0) printf("%d ranks, %d steps: the sum is %a\n", size, own.step, sum);
  fflush(stdout);
  start();
  return end() == FAMPI_SUCCESS;
}

int main(int argc, char **argv)
{
  int is_over = 0;
  MPI_Init(&argc, &argv);
  world = enter_world(argv, &is_replacement);
  while (!is_over) {
    if (!has_set_up)
      set_up();
    else if (!has_state)
      restore();
    else if (own.step < STEPS)
      step();
    else
      is_over = result();
  }
  die_if_planned(2000, is_replacement);
  FAMPI_World_free(&world);
  MPI_Finalize();
  return 0;
}
