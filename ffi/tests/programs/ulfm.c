/*
 * What programs do that were written for ULFM, by its names alone: in the shape of its public tests
 * and tutorials. `ulfm WHAT`
 */
#define _DEFAULT_SOURCE
#include <fampi_ulfm.h>
#include <unistd.h>

#include "check.h"

static int class_of(int code)
{
  int class;
  MPI_Error_class(code, &class);
  return class;
}

static int group_size(MPI_Group group)
{
  int number;
  MPI_Group_size(group, &number);
  MPI_Group_free(&group);
  return number;
}

static int failed(MPI_Comm comm)
{
  MPI_Group group;
  CHECK(MPIX_Comm_get_failed(comm, &group) == MPI_SUCCESS);
  return group_size(group);
}

static int acked(MPI_Comm comm)
{
  MPI_Group group;
  CHECK(MPIX_Comm_failure_get_acked(comm, &group) == MPI_SUCCESS);
  return group_size(group);
}

static void last_dies(void)
{
  if (rank == size - 1) raise(SIGKILL);
}

/* An agreement is an error on all until all have acknowledged; its flag is right all the same. */
static void agree(void)
{
  int flag = ~(1 << rank), rc, n, all = (1 << (size - 1)) - 1;
  CHECK(MPIX_Comm_agree(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && flag == ~((1 << size) - 1));
  last_dies();
  flag = ~(1 << rank);
  rc = MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
  CHECK(class_of(rc) == MPIX_ERR_PROC_FAILED && (~flag & all) == all);
  CHECK(failed(MPI_COMM_WORLD) == 1 && acked(MPI_COMM_WORLD) == 0);
  CHECK(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 0, &n) == MPI_SUCCESS && n == 0);
  if (rank == 0) MPIX_Comm_ack_failed(MPI_COMM_WORLD, size, &n);
  flag = 7;
  rc = MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
  CHECK(class_of(rc) == MPIX_ERR_PROC_FAILED && flag == 7);
  MPIX_Comm_failure_ack(MPI_COMM_WORLD);
  CHECK(acked(MPI_COMM_WORLD) == 1);
  flag = rank ? 7 : 5;
  CHECK(MPIX_Comm_agree(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && flag == 5);
}

/* A request like any other, that overlaps with messages. */
static void iagree(void)
{
  int flags[2] = {3, 1}, rc = 0, i, got = -1, done = 0;
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Request requests[2];
  MPI_Status statuses[2];
  for (i = 0; i < 2; i++) MPIX_Comm_iagree(MPI_COMM_WORLD, &flags[i], &requests[i]);
  MPI_Sendrecv(&rank, 1, MPI_INT, right, 0, &got, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &statuses[0]);
  CHECK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
  CHECK(got == left && flags[0] == 3 && flags[1] == 1 && requests[0] == MPI_REQUEST_NULL);
  last_dies();
  flags[0] = rank ? 3 : 2;
  MPIX_Comm_iagree(MPI_COMM_WORLD, &flags[0], &requests[0]);
  while (!done) rc = MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
  CHECK(class_of(rc) == MPIX_ERR_PROC_FAILED && flags[0] == 2);
}

/* One receives from the dead, the others wait for one another: a revocation frees them. */
static void revocation(void)
{
  int rc, flag = 0, got;
  MPI_Comm dup;
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  last_dies();
  if (rank == 0) {
    rc = MPI_Recv(&got, 1, MPI_INT, size - 1, 0, dup, MPI_STATUS_IGNORE);
    CHECK(class_of(rc) == MPIX_ERR_PROC_FAILED);
    CHECK(MPIX_Comm_revoke(dup) == MPI_SUCCESS);
  } else {
    rc = MPI_Recv(&got, 1, MPI_INT, rank - 1, 9, dup, MPI_STATUS_IGNORE);
    CHECK(class_of(rc) == MPIX_ERR_REVOKED);
  }
  CHECK(MPIX_Comm_is_revoked(dup, &flag) == MPI_SUCCESS && flag);
  CHECK(MPIX_Comm_is_revoked(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && !flag);
  MPIX_Comm_failure_ack(dup);
  flag = 1;
  rc = MPIX_Comm_agree(dup, &flag);
  CHECK(flag == 1 && (rc == MPI_SUCCESS || class_of(rc) == MPIX_ERR_PROC_FAILED));
  MPI_Comm_free(&dup);
}

/* Who dies next waits for all others: a collective may fail where a process has died behind it. */
static void before_death(MPI_Comm world, int victim)
{
  int me, ranks, other, word = 0;
  MPI_Comm_rank(world, &me);
  MPI_Comm_size(world, &ranks);
  if (me != victim) CHECK(MPI_Send(&word, 1, MPI_INT, victim, 8, world) == MPI_SUCCESS);
  for (other = 0; me == victim && other < ranks; other++)
    if (other != me) MPI_Recv(&word, 1, MPI_INT, other, 8, world, MPI_STATUS_IGNORE);
}

/* Revoke, shrink, and go on, until one is left. */
static void shrink(void)
{
  MPI_Comm world, next;
  int rc, me, ranks, sum, flag;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  for (ranks = size; ranks > 1; ranks--) {
    MPI_Comm_rank(world, &me);
    before_death(world, ranks - 1);
    if (me == ranks - 1) raise(SIGKILL);
    rc = MPI_Barrier(world);
    flag = rc == MPI_SUCCESS;
    if (!flag) MPIX_Comm_revoke(world);
    MPIX_Comm_agree(world, &flag);
    CHECK(!flag);
    CHECK(MPIX_Comm_shrink(world, &next) == MPI_SUCCESS);
    MPI_Comm_free(&world);
    world = next;
    MPI_Comm_size(world, &flag);
    CHECK(flag == ranks - 1);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    rc = MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, world);
    CHECK(rc == MPI_SUCCESS && sum == ranks - 1);
  }
  MPI_Comm_free(&world);
}

/* A receive from any source is pending until the death is acknowledged. */
static void any(void)
{
  int rc, got = -1, n;
  if (rank == 0) {
    rc = MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(class_of(rc) == MPIX_ERR_PROC_FAILED || class_of(rc) == MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(failed(MPI_COMM_WORLD) == 1);
    CHECK(MPIX_Comm_ack_failed(MPI_COMM_WORLD, size, &n) == MPI_SUCCESS && n == 1);
    MPI_Send(&n, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
    rc = MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(rc == MPI_SUCCESS && got == 1);
  } else if (rank == 1) {
    MPI_Recv(&n, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
  }
  last_dies();
}

static int errors;

static void count_errors(MPI_Comm *comm, int *code, ...)
{
  int flag;
  CHECK(class_of(*code) == MPIX_ERR_PROC_FAILED || class_of(*code) == MPIX_ERR_REVOKED);
  errors++;
  MPIX_Comm_failure_ack(*comm);
  MPIX_Comm_is_revoked(*comm, &flag);
}

static int keeps(MPI_Comm comm, MPI_Errhandler handler)
{
  int same;
  MPI_Errhandler kept;
  MPI_Comm_get_errhandler(comm, &kept);
  same = kept == handler;
  MPI_Errhandler_free(&kept);
  return same;
}

/* Errors of these calls, too, go to the handler of the program, which calls them again. */
static void handler(void)
{
  int flag = 1, rc, got;
  MPI_Comm dup, list[2];
  MPI_Errhandler own;
  MPI_Comm_create_errhandler(count_errors, &own);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  rc = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &list[rc++]);
  CHECK(rc == 1 && keeps(MPI_COMM_WORLD, own) && keeps(dup, own) && keeps(list[0], own));
  last_dies();
  rc = MPIX_Comm_agree(dup, &flag);
  CHECK(class_of(rc) == MPIX_ERR_PROC_FAILED && errors == 1);
  CHECK(MPIX_Comm_agree(dup, &flag) == MPI_SUCCESS && errors == 1);
  rc = MPI_Recv(&got, 1, MPI_INT, size - 1, 0, dup, MPI_STATUS_IGNORE);
  CHECK(class_of(rc) == MPIX_ERR_PROC_FAILED && errors == 2 && keeps(dup, own));
  CHECK(MPIX_Comm_revoke(dup) == MPI_SUCCESS && keeps(dup, own));
  rc = MPI_Recv(&got, 1, MPI_INT, size - 1, 0, dup, MPI_STATUS_IGNORE);
  CHECK(class_of(rc) == MPIX_ERR_REVOKED && errors == 3);
  CHECK(MPIX_Comm_revoke(MPI_COMM_NULL) == FAMPI_ERR_COMM);
  CHECK(MPIX_Comm_is_revoked(MPI_COMM_NULL, &flag) == FAMPI_ERR_COMM);
  MPI_Comm_free(&dup);
}

/* MPI has made a communicator on all but one, which goes on: the others do not wait for it. */
static void half(void)
{
  int flag, rc = 0, n;
  double began;
  MPI_Comm made;
  (MPI_Comm_dup)(MPI_COMM_WORLD, &made);
  last_dies();
  began = MPI_Wtime();
  flag = rank > 0;
  if (flag) {
    rc = fampi_ulfm_made(MPI_SUCCESS, MPI_COMM_WORLD, &made);
    CHECK(class_of(rc) == MPIX_ERR_PROC_FAILED && made == MPI_COMM_NULL);
    CHECK(MPI_Wtime() - began < 20);
  }
  flag = rc == MPI_SUCCESS && rank > 0;
  rc = MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
  CHECK(class_of(rc) == MPIX_ERR_PROC_FAILED && !flag);
  MPIX_Comm_ack_failed(MPI_COMM_WORLD, size, &n);
  flag = 1;
  CHECK(MPIX_Comm_agree(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && flag);
}

/* One that was never in use loses a rank, and another one in the middle of its shrink. */
static void unused(void)
{
  MPI_Comm made, next;
  int n = 0, i;
  (MPI_Comm_dup)(MPI_COMM_WORLD, &made);
  last_dies();
  if (rank == size - 2) {
    signal(SIGALRM, SIG_DFL);
    ualarm(1000 * (1 + rand() % 20), 0);
  }
  CHECK(MPIX_Comm_shrink(made, &next) == MPI_SUCCESS);
  for (i = 0; i < 100; i++) {
    n = 1;
    if (MPIX_Comm_agree(next, &n) == MPI_SUCCESS && rank == size - 2) pause();
    MPIX_Comm_failure_ack(next);
  }
}

/* A revocation ends messages of fampi's own that are in no block, too. */
static void loose(void)
{
  int got, rc, flag = 1;
  MPI_Request request;
  if (rank == 0) {
    usleep(100000);
    MPIX_Comm_revoke(MPI_COMM_WORLD);
  } else {
    FAMPI_Irecv(&got, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &request);
    rc = FAMPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(rc != MPI_SUCCESS);
  }
  CHECK(MPIX_Comm_agree(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && flag);
  if (rank == size - 1) raise(SIGKILL);
}

/* Neighbours keep each other's state; a round counts if all say so; survivors share the rest. */
static void buddies(void)
{
  MPI_Comm world, next;
  int rc, me, ranks, round = 0, mine = 100 + rank, kept = -1, total, flag, left, right;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  while (round < 20) {
    MPI_Comm_rank(world, &me);
    MPI_Comm_size(world, &ranks);
    left = (me + ranks - 1) % ranks, right = (me + 1) % ranks;
    if (round == 7 && rank == size - 1) raise(SIGSEGV);
    if (round == 13 && rank == size - 2) _exit(1);
    rc = MPI_Sendrecv(&mine, 1, MPI_INT, right, 0, &kept, 1, MPI_INT, left, 0, world,
                      MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS) rc = MPI_Allreduce(&mine, &total, 1, MPI_INT, MPI_SUM, world);
    flag = rc == MPI_SUCCESS;
    if (!flag) MPIX_Comm_revoke(world);
    rc = MPIX_Comm_agree(world, &flag);
    if (flag && rc == MPI_SUCCESS) {
      round++;
      continue;
    }
    MPIX_Comm_revoke(world);
    CHECK(MPIX_Comm_shrink(world, &next) == MPI_SUCCESS);
    MPI_Comm_free(&world);
    world = next;
  }
  CHECK(ranks == size - 2 && total == 100 * ranks + ranks * (ranks - 1) / 2);
  MPI_Comm_free(&world);
}

/* Blocks and agreements on one communicator, in one order. */
static void beside(void)
{
  int flag, i, rc, one = 1, sum;
  MPI_Request block, request, agreement;
  for (i = 0; i < 100; i++) {
    FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block);
    FAMPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    flag = i;
    MPIX_Comm_iagree(MPI_COMM_WORLD, &flag, &agreement);
    FAMPI_TryBlock_finish(block, 1, &request, FAMPI_TIMEOUT_NEVER);
    CHECK(MPI_Wait(&agreement, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag == i);
    CHECK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER) == 0 && sum == size);
    MPI_Request_free(&request);
    MPI_Request_free(&block);
  }
  last_dies();
  flag = 1;
  rc = MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
  CHECK(class_of(rc) == MPIX_ERR_PROC_FAILED && flag == 1);
  for (i = 0; i < 10; i++) {
    /* The first one reports the death. */
    FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block);
    FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER);
    rc = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
    CHECK((rc == 0) == (i > 0));
    MPI_Request_free(&block);
    MPIX_Comm_failure_ack(MPI_COMM_WORLD);
    CHECK(MPIX_Comm_agree(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && flag == 1);
  }
}

static volatile sig_atomic_t how;

static void end(int signal)
{
  (void)signal;
  if (how == 0) raise(SIGKILL);
  if (how == 1) raise(SIGSEGV);
  _exit(1);
}

/* Half of the ranks end at random moments of agreements, revocations and shrinks. */
static void storm(int seed)
{
  MPI_Comm world, next;
  int round, flag, rc, i, n, bits, all;
  srand((unsigned)(seed * 64 + rank));
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Barrier(world);
  if (rank % 2 == 1) {
    /* Launchers of MPI end a job of which several processes return a number. */
    how = rank == 1 ? 2 : rand() % 2;
    signal(SIGALRM, end);
    ualarm(1 + rand() % 30000, 0);
  }
  for (round = 0; round < 400; round++) {
    for (i = 0; i < 4; i++) {
      flag = bits = ~(1 << (round % 31));
      rc = MPIX_Comm_agree(world, &flag);
      CHECK(flag == bits && (rc == MPI_SUCCESS || class_of(rc) == MPIX_ERR_PROC_FAILED));
      all = rc != MPI_SUCCESS;
      if (all) break;
    }
    if (round % 40 == 39 && rank == 0) MPIX_Comm_revoke(world);
    if (round % 40 == 39) all = 1;
    if (!all) continue;
    if (round % 2) MPIX_Comm_ack_failed(world, size, &n);
    rc = MPIX_Comm_shrink(world, &next);
    CHECK(rc == MPI_SUCCESS);
    MPI_Comm_free(&world);
    world = next;
  }
  MPI_Comm_free(&world);
}

int main(int argc, char **argv)
{
  static const struct {
    const char *name;
    void (*run)(void);
  } all[] = {{"agree", agree}, {"iagree", iagree},   {"revoke", revocation},   {"shrink", shrink},
             {"any", any},     {"handler", handler}, {"buddies", buddies}, {"beside", beside},
             {"half", half},   {"unused", unused},   {"loose", loose}};
  const char *what = argc > 1 ? argv[1] : "agree";
  size_t i;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (i = 0; i < sizeof all / sizeof *all; i++) {
    if (strcmp(what, all[i].name) == 0) all[i].run();
  }
  if (strcmp(what, "storm") == 0) storm(argc > 2 ? atoi(argv[2]) : 1);
  printf("rank %d: %s passed\n", rank, what);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
