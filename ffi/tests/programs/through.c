/*
 * Collectives of fampi's own on a communicator that loses rank after rank: `through WHAT`
 *
 * deaths   each block of all of them is right over the living, after deaths at any place
 * soft     so it is after blocks in which a rank raises, leaves, or is late
 * kinds    types with gaps, pairs of numbers, and operations of the program
 * plain    outside of blocks, and where fampi is not in use, these are MPI's own
 */
#define FAMPI_NAMES_COLLECTIVES
#include "check.h"
#include "fampi_names.h"

enum { MOST = 16, PARTS = 3 };

static MPI_Comm world;
static int dead[MOST];

static MPI_Request start(void)
{
  MPI_Request block;
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  return block;
}

static int end(MPI_Request block, int count, MPI_Request *list, double limit)
{
  OK(FAMPI_TryBlock_finish(block, count, list, limit < 0 ? FAMPI_TIMEOUT_NEVER : seconds(limit)));
  return FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, seconds(20));
}

static int living(void)
{
  int count = 0;
  for (int i = 0; i < size; i++) count += !dead[i];
  return count;
}

/* The k-th living rank. */
static int nth(int k)
{
  for (int i = 0; i < size; i++)
    if (!dead[i] && k-- == 0) return i;
  return -1;
}

/* What rank `from` has for rank `to`. */
static int part(int from, int to, int k)
{
  return from * 10000 + to * 100 + k + 7;
}

enum { OPERATIONS = 14 };

static struct buffers {
  int sum[PARTS], max, scan, before, cast[PARTS];
  int gathered[MOST * PARTS], given[MOST * PARTS], got[PARTS], all[MOST * PARTS];
  int sent[MOST * PARTS], swapped[MOST * PARTS];
  int uneven[MOST * MOST], counts[MOST], places[MOST], own[MOST];
  int out[MOST * PARTS], in[MOST * MOST], out_counts[MOST], in_counts[MOST], out_at[MOST], in_at[MOST];
  int in_place[MOST];
} b;

/* Starts all operations; the first `many` of them. */
static void post(MPI_Request *list, int many, int root)
{
  const int me = rank;
  static const int one[PARTS] = {1, 2, 3};
  memset(&b, 0xff, sizeof b);
  for (int i = 0, at = 0; i < size; i++) {
    b.counts[i] = i % 3, b.places[i] = at, at += b.counts[i] + 1;
    b.out_counts[i] = (me + i) % 3, b.out_at[i] = i * PARTS;
    b.in_counts[i] = (me + i) % 3, b.in_at[i] = i * PARTS;
    b.own[i] = part(me, 0, i);
    b.in_place[i] = i == me ? me : -5;
    for (int k = 0; k < PARTS; k++) {
      b.given[i * PARTS + k] = part(me, i, k);
      b.sent[i * PARTS + k] = part(me, i, k);
      b.out[i * PARTS + k] = part(me, i, k);
    }
  }
  for (int k = 0; k < PARTS; k++) b.cast[k] = me == root ? 40 + k : -1;
  b.max = me;
  for (int i = 0; i < many; i++) {
    MPI_Request *r = &list[i];
    switch (i) {
    case 0: OK(MPI_Iallreduce(one, b.sum, PARTS, MPI_INT, MPI_SUM, world, r)); break;
    case 1: OK(MPI_Ibarrier(world, r)); break;
    case 2: OK(MPI_Ibcast(b.cast, PARTS, MPI_INT, root, world, r)); break;
    case 3:
      if (me == root) OK(MPI_Ireduce(MPI_IN_PLACE, &b.max, 1, MPI_INT, MPI_MAX, root, world, r));
      else OK(MPI_Ireduce(&b.max, NULL, 1, MPI_INT, MPI_MAX, root, world, r));
      break;
    case 4: OK(MPI_Iscan(&b.own[0], &b.scan, 1, MPI_INT, MPI_SUM, world, r)); break;
    case 5: OK(MPI_Iexscan(&b.own[0], &b.before, 1, MPI_INT, MPI_SUM, world, r)); break;
    case 6:
      OK(MPI_Igather(&b.given[0], PARTS, MPI_INT, b.gathered, PARTS, MPI_INT, root, world, r));
      break;
    case 7:
      OK(MPI_Iscatter(b.given, PARTS, MPI_INT, b.got, PARTS, MPI_INT, root, world, r));
      break;
    case 8:
      OK(MPI_Iallgather(&b.given[0], PARTS, MPI_INT, b.all, PARTS, MPI_INT, world, r));
      break;
    case 9: OK(MPI_Ialltoall(b.sent, PARTS, MPI_INT, b.swapped, PARTS, MPI_INT, world, r)); break;
    case 10:
      OK(MPI_Iallgatherv(b.own, b.counts[me], MPI_INT, b.uneven, b.counts, b.places, MPI_INT, world,
                         r));
      break;
    case 11:
      OK(MPI_Ialltoallv(b.out, b.out_counts, b.out_at, MPI_INT, b.in, b.in_counts, b.in_at, MPI_INT,
                        world, r));
      break;
    case 12:
      OK(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b.in_place, 1, MPI_INT, world, r));
      break;
    case 13: OK(MPI_Ibarrier(world, r)); break;
    }
  }
}

/* All results are those of the living; what is the dead's is as it was. */
static void check(int root)
{
  const int me = rank, n = living();
  int scan = 0;
  for (int k = 0; k < PARTS; k++) {
    CHECK(b.sum[k] == n * (k + 1));
    CHECK(b.cast[k] == 40 + k);
    CHECK(b.got[k] == part(root, me, k));
  }
  if (me == root) CHECK(b.max == nth(n - 1));
  for (int i = 0; i < me; i++) scan += dead[i] ? 0 : part(i, 0, 0);
  CHECK(b.before == (me == nth(0) ? -1 : scan));
  CHECK(b.scan == scan + part(me, 0, 0));
  for (int i = 0; i < size; i++) {
    for (int k = 0; k < PARTS; k++) {
      int at = i * PARTS + k;
      CHECK(b.all[at] == (dead[i] ? -1 : part(i, 0, k)));
      CHECK(b.gathered[at] == (me != root || dead[i] ? -1 : part(i, 0, k)));
      CHECK(b.swapped[at] == (dead[i] ? -1 : part(i, me, k)));
      CHECK(b.in[at] == (dead[i] || k >= b.in_counts[i] ? -1 : part(i, me, k)));
    }
    for (int k = 0; k < b.counts[i]; k++)
      CHECK(b.uneven[b.places[i] + k] == (dead[i] ? -1 : part(i, 0, k)));
    CHECK(b.uneven[b.places[i] + b.counts[i]] == -1);
    CHECK(b.in_place[i] == (dead[i] ? -5 : i));
  }
}

static void release(int count, MPI_Request *list)
{
  for (int i = 0; i < count; i++) {
    MPI_Request copy = list[i];
    if (copy == MPI_REQUEST_NULL) continue;
    if (i % 2) FAMPI_Wait_local(&copy, MPI_STATUS_IGNORE, seconds(5));
    OK(FAMPI_Request_free(&list[i]));
  }
}

/* A block of all that commits. */
static void good(int round)
{
  MPI_Request list[OPERATIONS], block = start();
  int root = nth(round % living());
  post(list, OPERATIONS, root);
  if (round % 2) OK(FAMPI_Wait_local(&list[round % OPERATIONS], MPI_STATUS_IGNORE, seconds(20)));
  if (round % 3 == 1) {
    MPI_Request wait = list[0];
    OK(MPI_Wait(&wait, MPI_STATUS_IGNORE));
    list[0] = MPI_REQUEST_NULL;
  }
  EXPECT(FAMPI_SUCCESS, end(block, OPERATIONS, list, -1));
  check(root);
  release(OPERATIONS, list);
  OK(FAMPI_Request_free(&block));
}

/* Who has left a block does not know when the others have its verdict. */
static void settle(void)
{
  int code;
  do {
    MPI_Request block = start();
    code = end(block, 0, NULL, -1);
    OK(FAMPI_Request_free(&block));
  } while (code != FAMPI_SUCCESS);
}

/* A block in which a living rank raises, leaves or is too late. */
static void soft(int round)
{
  MPI_Request list[OPERATIONS], block = start();
  const int bad = nth(round % living()) == rank, lacks = bad && round % 3 != 0;
  const int many = lacks ? 5 : OPERATIONS;
  post(list, many, nth((round + 1) % living()));
  if (bad && round % 3 == 1) {
    OK(FAMPI_Request_free(&block));
    release(many, list);
    settle();
    return;
  }
  if (bad) OK(FAMPI_Request_raise_error(block, 1234));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, end(block, many, list, round % 3 == 2 ? 0.05 : -1));
  release(many, list);
  OK(FAMPI_Request_free(&block));
  if (round % 3 == 1) settle();
}

/* A block in which a rank dies. */
static void deadly(int round)
{
  MPI_Request list[OPERATIONS], block = start();
  const int victim = nth((round * 5 + 2) % living());
  MPI_Request met[MOST];
  int n = 0, got, failed, code = FAMPI_ERR_PROC_FAILED, places[OPERATIONS], many = 0;
  for (int i = 0; i < size; i++) {
    if (dead[i] || i == victim) continue;
    if (rank == victim) {
      OK(FAMPI_Irecv(&got, 1, MPI_INT, i, 3, world, &met[n]));
      OK(FAMPI_Wait_local(&met[n++], MPI_STATUS_IGNORE, seconds(20)));
    } else if (rank == i) {
      OK(FAMPI_Isend(&victim, 1, MPI_INT, victim, 3, world, &met[n++]));
    }
  }
  if (rank == victim) many = round * 7 % (OPERATIONS - 1), post(list, many, nth(0)), die();
  post(list, OPERATIONS, nth(0) == victim ? nth(1) : nth(0));
  failed = FAMPI_Wait_local(&list[OPERATIONS - 1], MPI_STATUS_IGNORE, seconds(20));
  CHECK(failed != FAMPI_SUCCESS && failed != FAMPI_ERR_TIMEOUT);
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, end(block, OPERATIONS, list, -1));
  CHECK(reports(block, FAMPI_ERR_PROC_FAILED_SOFT));
  OK(FAMPI_Get_failed_requests(block, 1, &code, OPERATIONS, places, &failed));
  CHECK(failed > 0 && places[failed - 1] == OPERATIONS - 1);
  release(OPERATIONS, list);
  release(n, met);
  OK(FAMPI_Request_free(&block));
  dead[victim] = 1;
}

/* An operation whose root is dead fails. */
static void rootless(void)
{
  MPI_Request request, block = start();
  int root = 0, value = 1;
  while (!dead[root]) root++;
  OK(MPI_Ibcast(&value, 1, MPI_INT, root, world, &request));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, end(block, 1, &request, -1));
  EXPECT(FAMPI_ERR_PROC_FAILED_SOFT, FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, seconds(5)));
  OK(FAMPI_Request_free(&request));
  OK(FAMPI_Request_free(&block));
}

static void deaths(int with_soft)
{
  for (int round = 0;; round++) {
    good(round);
    if (with_soft) {
      soft(round), soft(round + 1);
      for (int more = 0; more < 3; more++) good(round + more);
    }
    if (living() == 1) break;
    if (round) rootless();
    deadly(round);
  }
}

static void compose(void *in, void *inout, int *count, MPI_Datatype *type)
{
  const int *left = in;
  int *right = inout;
  (void)type;
  for (int i = 0; i < 2 * *count; i += 2) {
    /* x -> a x + b, the left one first */
    int a = left[i] * right[i], c = left[i + 1] * right[i] + right[i + 1];
    right[i] = a, right[i + 1] = c;
  }
}

static void spoil(void *in, void *inout, int *count, MPI_Datatype *type)
{
  (void)in, (void)type;
  for (int i = 0; i < *count; i++) ((int *)inout)[i] = -1000;
}

/* The type does not have the operation. */
static void unfit(MPI_Datatype type, MPI_Op op)
{
  MPI_Request request;
  double from[2] = {0, 0}, to[2];
  int class = 0, code = MPI_Iallreduce(from, to, 1, type, op, world, &request);
  OK(MPI_Error_class(code, &class));
  EXPECT(MPI_ERR_OP, class);
}

/* Types with gaps, pairs, and an operation for which the order of ranks matters. */
static void kinds(void)
{
  struct { double value; int where; } mine, least;
  MPI_Datatype column, two;
  MPI_Op op;
  MPI_Request list[4], block;
  int matrix[4][4], line[4], f[2] = {2, rank}, all[2], expected[2] = {1, 0};
  OK(MPI_Type_vector(4, 1, 4, MPI_INT, &column));
  OK(MPI_Type_commit(&column));
  OK(MPI_Type_contiguous(2, MPI_INT, &two));
  OK(MPI_Type_commit(&two));
  OK(MPI_Op_create(compose, 0, &op));
  deadly(1);
  for (int i = 0; i < 4; i++) {
    line[i] = 50 + i;
    for (int k = 0; k < 4; k++) matrix[i][k] = 10 * i + k;
  }
  mine.value = (rank * 3 + 1) % 5, mine.where = rank;
  block = start();
  /* A row of the root becomes a column of the others. */
  if (rank == nth(0)) OK(MPI_Ibcast(line, 4, MPI_INT, nth(0), world, &list[0]));
  else OK(MPI_Ibcast(&matrix[0][1], 1, column, nth(0), world, &list[0]));
  OK(MPI_Iallreduce(&mine, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, world, &list[1]));
  OK(MPI_Iallreduce(f, all, 1, two, op, world, &list[2]));
  EXPECT(FAMPI_ERR_ARG, MPI_Iallreduce(matrix, matrix, 1, column, op, world, &list[3]));
  EXPECT(FAMPI_ERR_ARG, MPI_Iallreduce(NULL, all, 1, MPI_INT, MPI_SUM, world, &list[3]));
  EXPECT(FAMPI_ERR_ARG, MPI_Iallreduce(f, NULL, 1, MPI_INT, MPI_SUM, world, &list[3]));
  EXPECT(FAMPI_ERR_ARG, MPI_Ibcast(NULL, 1, MPI_INT, nth(0), world, &list[3]));
  unfit(MPI_DOUBLE, MPI_MAXLOC);
  unfit(MPI_DOUBLE, MPI_BAND);
  unfit(two, MPI_SUM);
  unfit(MPI_INT, MPI_OP_NULL);
  /* As MPI has it, what is pending needs none of these any more. Others may get their places. */
  OK(MPI_Op_free(&op));
  OK(MPI_Type_free(&column));
  OK(MPI_Type_free(&two));
  CHECK(op == MPI_OP_NULL && column == MPI_DATATYPE_NULL && two == MPI_DATATYPE_NULL);
  OK(MPI_Op_create(spoil, 0, &op));
  OK(MPI_Type_vector(2, 2, 8, MPI_INT, &column));
  OK(MPI_Type_commit(&column));
  OK(MPI_Type_contiguous(4, MPI_INT, &two));
  OK(MPI_Type_commit(&two));
  EXPECT(FAMPI_SUCCESS, end(block, 3, list, -1));
  for (int i = 0; i < 4 && rank != nth(0); i++)
    for (int k = 0; k < 4; k++) CHECK(matrix[i][k] == (k == 1 ? 50 + i : 10 * i + k));
  for (int i = 0, best = -1; i < size; i++) {
    if (dead[i]) continue;
    if (best < 0 || (i * 3 + 1) % 5 < (best * 3 + 1) % 5) best = i;
    expected[0] = expected[0] * 2, expected[1] = expected[1] * 2 + i;
    if (i == nth(living() - 1)) CHECK(least.where == best && least.value == (best * 3 + 1) % 5);
  }
  CHECK(all[0] == expected[0] && all[1] == expected[1]);
  release(3, list);
  OK(FAMPI_Request_free(&block));
  OK(MPI_Op_free(&op));
  OK(MPI_Type_free(&column));
  OK(MPI_Type_free(&two));
}

static void plain(void)
{
  MPI_Request list[OPERATIONS];
  post(list, OPERATIONS, 0);
  OK(MPI_Waitall(OPERATIONS, list, MPI_STATUSES_IGNORE));
  check(0);
  world = MPI_COMM_WORLD;
  post(list, OPERATIONS, 0);
  OK(MPI_Waitall(OPERATIONS, list, MPI_STATUSES_IGNORE));
  check(0);
}

int main(int argc, char **argv)
{
  const char *what = argc > 1 ? argv[1] : "";
  begin(&argc, &argv);
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &world));
  OK(FAMPI_Init(world));
  if (!strcmp(what, "deaths")) deaths(0);
  else if (!strcmp(what, "soft")) deaths(1);
  else if (!strcmp(what, "kinds")) kinds();
  else if (!strcmp(what, "plain")) plain();
  else return 2;
  passed("passed");
  MPI_Finalize();
  return 0;
}
