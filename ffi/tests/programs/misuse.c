/*
 * What each function returns when it is misused; it never crashes and writes nothing.
 *
 * One line per misuse: the code, the call. `FAILS` also looks at the results.
 */
#include "check.h"

#define UNTOUCHED 4711

static int number, other;
static MPI_Request made;
static MPI_Comm comm;
static MPI_Group group;

/* The call returns the code, and none of the results was written. */
#define FAILS(code, call)                                            \
  do {                                                               \
    number = other = UNTOUCHED;                                      \
    made = MPI_REQUEST_NULL;                                         \
    comm = MPI_COMM_NULL;                                            \
    group = MPI_GROUP_NULL;                                          \
    EXPECT(code, call);                                              \
    CHECK(number == UNTOUCHED && other == UNTOUCHED);                \
    CHECK(made == MPI_REQUEST_NULL && comm == MPI_COMM_NULL);        \
    CHECK(group == MPI_GROUP_NULL);                                  \
  } while (0)

static void before_the_first_block(void)
{
  int codes[1] = {FAMPI_ERR_RCODES_ANY};
  MPI_Request null = MPI_REQUEST_NULL;
  FAILS(FAMPI_ERR_REQUEST, FAMPI_TryBlock_finish(null, 0, NULL, FAMPI_TIMEOUT_NEVER));
  FAILS(FAMPI_ERR_REQUEST, FAMPI_Request_raise_error(null, 1005));
  FAILS(FAMPI_ERR_REQUEST, FAMPI_TryBlock_interrupt(null));
  FAILS(FAMPI_ERR_REQUEST, FAMPI_Get_failed_requests(null, 1, codes, 0, NULL, &number));
  FAILS(FAMPI_ERR_REQUEST, FAMPI_Get_failed_group(null, 1, codes, MPI_COMM_WORLD, &group));
  FAILS(FAMPI_ERR_COMM, FAMPI_Comm_known_failed(MPI_COMM_WORLD, &group));
  OK(FAMPI_Wait_local(&null, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Waitall_local(0, NULL, MPI_STATUSES_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Request_free(&null));
}

static void starts(void)
{
  MPI_Comm link, parts, spawning, none;
  MPI_Request second;
  int code, blocks = 0, most, way;
  MPI_Comm_dup(MPI_COMM_WORLD, &spawning);
  FAILS(FAMPI_ERR_COMM, FAMPI_Init(MPI_COMM_NULL));
  FAILS(FAMPI_ERR_COMM, FAMPI_TryBlock_start(MPI_COMM_NULL, FAMPI_TRYBLOCK_LOCAL, &made));
  FAILS(FAMPI_ERR_ARG, FAMPI_TryBlock_start(MPI_COMM_WORLD, 17, &made));
  FAILS(FAMPI_ERR_ARG, FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_LOCAL, NULL));
  MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &parts);
  MPI_Intercomm_create(parts, 0, MPI_COMM_WORLD, 1 - rank, 5, &link);
  FAILS(FAMPI_ERR_COMM, FAMPI_TryBlock_start(link, FAMPI_TRYBLOCK_LOCAL, &made));
  FAILS(FAMPI_ERR_ARG, FAMPI_Comm_irebuild_join(link, NULL, &made));
  FAILS(FAMPI_ERR_ARG, FAMPI_Comm_irebuild_join(link, &comm, NULL));
  FAILS(FAMPI_ERR_COMM, FAMPI_Comm_irebuild_join(parts, &comm, &made));
  FAILS(FAMPI_ERR_COMM, FAMPI_Comm_irebuild_join(MPI_COMM_NULL, &comm, &made));
  FAILS(FAMPI_ERR_ARG, FAMPI_Comm_irebuild(MPI_COMM_WORLD, 9, link, 0, NULL, 0, &comm, &made));
  FAILS(FAMPI_ERR_COMM, FAMPI_Comm_irebuild(MPI_COMM_WORLD, 0, parts, 0, NULL, 0, &comm, &made));
  FAILS(FAMPI_ERR_ARG, FAMPI_Comm_get_parent(NULL));
  FAILS(FAMPI_ERR_ARG, FAMPI_Comm_spawn("a", NULL, 1, MPI_INFO_NULL, MPI_COMM_WORLD, NULL));
  FAILS(FAMPI_ERR_COMM, FAMPI_Comm_spawn("a", NULL, 1, MPI_INFO_NULL, MPI_COMM_NULL, &comm));
  /* What rank 0 gives is that of all. */
  EXPECT(MPI_ERR_ARG, FAMPI_Comm_spawn(rank == 0 ? NULL : "a", NULL, 1, MPI_INFO_NULL, spawning,
                                       &comm));
  /* Who is wrong at one rank does not keep the others waiting. */
  for (way = 0; way < 6; way++) {
    if (rank != (way < 4 ? 0 : 1)) {
      /* What the array is, is asked at the root alone. */
      OK(FAMPI_Comm_irebuild(MPI_COMM_WORLD, 0, link, rank, NULL, 0, &comm, &made));
      if (way == 0) {
        EXPECT(FAMPI_ERR_PENDING, FAMPI_Comm_irebuild_join(link, &none, &second));
        EXPECT(FAMPI_ERR_PENDING, FAMPI_Request_free(&made));
      }
      EXPECT(FAMPI_ERR_CREATION, FAMPI_Wait_local(&made, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
      MPI_Request_free(&made);
      continue;
    }
    FAILS(way == 1 ? FAMPI_ERR_COUNT : FAMPI_ERR_ARG,
          FAMPI_Comm_irebuild(MPI_COMM_WORLD, 0, link, way == 1 ? -1 : way == 0 || way == 2,
                              way == 0 ? &rank : NULL, way == 3 ? 2 : 0,
                              way == 4 ? NULL : &comm, way == 5 ? NULL : &made));
  }
  do {
    OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &made));
    OK(FAMPI_TryBlock_finish(made, 0, NULL, FAMPI_TIMEOUT_NEVER));
    code = FAMPI_Wait_local(&made, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
    MPI_Request_free(&made);
    blocks++;
  } while (code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS);
  OK(code);
  /* Nor is a rank in another step than the others afterwards. */
  MPI_Allreduce(&blocks, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  CHECK(blocks == most);
  MPI_Comm_free(&link);
  MPI_Comm_free(&parts);
  MPI_Comm_free(&spawning);
}

static void finishes(void)
{
  MPI_Request block, copy, inner, list[2];
  int i;
  enum { MANY = 3000 };
  static MPI_Request many[MANY];
  static int got[MANY], sent[MANY];
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  FAILS(FAMPI_ERR_COUNT, FAMPI_TryBlock_finish(block, -1, NULL, FAMPI_TIMEOUT_NEVER));
  FAILS(FAMPI_ERR_ARG, FAMPI_TryBlock_finish(block, 1, NULL, FAMPI_TIMEOUT_NEVER));
  FAILS(FAMPI_ERR_ARG, FAMPI_TryBlock_finish(block, 0, NULL, -5));
  list[0] = block;
  FAILS(FAMPI_ERR_REQUEST, FAMPI_TryBlock_finish(block, 1, list, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_TryBlock_start(MPI_COMM_SELF, FAMPI_TRYBLOCK_LOCAL, &inner));
  list[0] = MPI_REQUEST_NULL;
  list[1] = inner;
  FAILS(FAMPI_ERR_STATE, FAMPI_TryBlock_finish(block, 2, list, FAMPI_TIMEOUT_NEVER));
  FAILS(FAMPI_ERR_STATE, FAMPI_Wait_local(&inner, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  FAILS(FAMPI_ERR_STATE, FAMPI_Waitall_local(2, list, MPI_STATUSES_IGNORE, 1));
  FAILS(FAMPI_ERR_STATE, FAMPI_Wait(&inner, MPI_STATUS_IGNORE));
  FAILS(FAMPI_ERR_STATE, FAMPI_Waitall(2, list, MPI_STATUSES_IGNORE));
  FAILS(FAMPI_ERR_ARG, FAMPI_Test(&inner, NULL, MPI_STATUS_IGNORE));
  FAILS(FAMPI_ERR_ARG, FAMPI_Request_get_status(inner, NULL, MPI_STATUS_IGNORE));
  /* As with MPI's own: not complete. */
  OK(FAMPI_Test(&inner, &number, MPI_STATUS_IGNORE));
  OK(FAMPI_Request_get_status(inner, &other, MPI_STATUS_IGNORE));
  CHECK(number == 0 && other == 0);
  OK(FAMPI_Request_free(&inner));
  /* One request twice, of MPI's own and then of ours: it is as it was, and the block is open. */
  MPI_Irecv(&got[0], 1, MPI_INT, 1 - rank, MANY, MPI_COMM_WORLD, &list[0]);
  list[1] = copy = list[0];
  for (i = 0; i < 2; i++) {
    FAILS(FAMPI_ERR_REQUEST, FAMPI_TryBlock_finish(block, 2, list, FAMPI_TIMEOUT_NEVER));
    FAILS(FAMPI_ERR_REQUEST,
          FAMPI_Waitall_local(2, list, MPI_STATUSES_IGNORE, FAMPI_TIMEOUT_POLL));
    CHECK(list[0] == copy && list[1] == copy);
    EXPECT(FAMPI_ERR_TIMEOUT,
           FAMPI_Wait_local(&copy, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_POLL));
    list[0] = list[1] = copy;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Send(&rank, 1, MPI_INT, 1 - rank, MANY, MPI_COMM_WORLD);
  OK(FAMPI_Wait_local(&copy, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  CHECK(got[0] == 1 - rank);
  OK(MPI_Request_free(&copy));
  /* An inner block twice: it can be given once after that. */
  OK(FAMPI_TryBlock_start(MPI_COMM_SELF, FAMPI_TRYBLOCK_LOCAL, &inner));
  OK(FAMPI_TryBlock_finish(inner, 0, NULL, FAMPI_TIMEOUT_NEVER));
  list[0] = list[1] = inner;
  FAILS(FAMPI_ERR_REQUEST, FAMPI_TryBlock_finish(block, 2, list, FAMPI_TIMEOUT_NEVER));
  CHECK(list[0] == inner && list[1] == inner);
  OK(FAMPI_Wait_local(&inner, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Request_free(&inner));
  /* What is over at once is one request for MPI, and several for its program. */
  OK(FAMPI_TryBlock_start(MPI_COMM_SELF, FAMPI_TRYBLOCK_LOCAL, &inner));
  for (i = 0; i < 2; i++) MPI_Isend(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &list[i]);
  OK(commit(&inner, 2, list));
  for (i = 0; i < 2; i++) OK(MPI_Request_free(&list[i]));
  OK(FAMPI_Request_free(&inner));
  /* A huge list. */
  for (i = 0; i < MANY / 2; i++) {
    sent[i] = i;
    MPI_Irecv(&got[i], 1, MPI_INT, 1 - rank, i, MPI_COMM_WORLD, &many[i]);
  }
  for (i = 0; i < MANY / 2; i++)
    MPI_Isend(&sent[i], 1, MPI_INT, 1 - rank, i, MPI_COMM_WORLD, &many[MANY / 2 + i]);
  EXPECT(FAMPI_SUCCESS, commit(&block, MANY, many));
  for (i = 0; i < MANY / 2; i++) CHECK(got[i] == i);
  /* Requests of another block: they are over, and so for this one, too. */
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &inner));
  EXPECT(FAMPI_SUCCESS, commit(&inner, 2, many));
  OK(FAMPI_Request_free(&inner));
  for (i = 0; i < MANY; i++) OK(MPI_Request_free(&many[i]));
  FAILS(FAMPI_ERR_STATE, FAMPI_Request_raise_error(block, 1005));
  FAILS(FAMPI_ERR_STATE, FAMPI_TryBlock_interrupt(block));
  OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
  copy = block;
  OK(FAMPI_Request_free(&block));
  CHECK(block == MPI_REQUEST_NULL);
  OK(FAMPI_Request_free(&block));
  /* A freed handle is no block. */
  FAILS(FAMPI_ERR_REQUEST, FAMPI_TryBlock_finish(copy, 0, NULL, FAMPI_TIMEOUT_NEVER));
  FAILS(FAMPI_ERR_REQUEST, FAMPI_Request_raise_error(copy, 1005));
  FAILS(FAMPI_ERR_ARG, FAMPI_Request_free(NULL));
}

static void reductions_on_the_commit(void)
{
  MPI_Request block, null = MPI_REQUEST_NULL;
  MPI_Datatype pair;
  static int numbers[9];
  const FAMPI_Timeout never = FAMPI_TIMEOUT_NEVER;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
#define REDUCE(block, count, list, timeout, from, to, many, type, op)                         \
  FAMPI_TryBlock_finish_allreduce(block, count, list, timeout, from, to, many, type, op)
  FAILS(FAMPI_ERR_REQUEST,
        REDUCE(null, 0, NULL, never, &number, &other, 1, MPI_INT, MPI_SUM));
  OK(FAMPI_TryBlock_start(MPI_COMM_SELF, FAMPI_TRYBLOCK_LOCAL, &block));
  FAILS(FAMPI_ERR_REQUEST,
        REDUCE(block, 0, NULL, never, &number, &other, 1, MPI_INT, MPI_SUM));
  OK(FAMPI_Request_free(&block));
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  FAILS(FAMPI_ERR_COUNT, REDUCE(block, -1, NULL, never, &number, &other, 1, MPI_INT, MPI_SUM));
  FAILS(FAMPI_ERR_ARG, REDUCE(block, 1, NULL, never, &number, &other, 1, MPI_INT, MPI_SUM));
  FAILS(FAMPI_ERR_ARG, REDUCE(block, 0, NULL, -5, &number, &other, 1, MPI_INT, MPI_SUM));
  FAILS(FAMPI_ERR_REQUEST, REDUCE(block, 1, &block, never, &number, &other, 1, MPI_INT, MPI_SUM));
  FAILS(FAMPI_ERR_COUNT, REDUCE(block, 0, NULL, never, &number, &other, 0, MPI_INT, MPI_SUM));
  FAILS(FAMPI_ERR_COUNT, REDUCE(block, 0, NULL, never, &number, &other, -1, MPI_INT, MPI_SUM));
  FAILS(FAMPI_ERR_COUNT, REDUCE(block, 0, NULL, never, numbers, numbers, 9, MPI_INT, MPI_SUM));
  FAILS(FAMPI_ERR_ARG, REDUCE(block, 0, NULL, never, NULL, &other, 1, MPI_INT, MPI_SUM));
  FAILS(FAMPI_ERR_ARG, REDUCE(block, 0, NULL, never, &number, NULL, 1, MPI_INT, MPI_SUM));
  FAILS(FAMPI_ERR_ARG, REDUCE(block, 0, NULL, never, MPI_IN_PLACE, NULL, 1, MPI_INT, MPI_SUM));
  FAILS(FAMPI_ERR_ARG, REDUCE(block, 0, NULL, never, &number, &other, 1, pair, MPI_SUM));
  FAILS(FAMPI_ERR_ARG, REDUCE(block, 0, NULL, never, &number, &other, 1, MPI_CHAR, MPI_SUM));
  FAILS(FAMPI_ERR_ARG,
        REDUCE(block, 0, NULL, never, &number, &other, 1, MPI_DATATYPE_NULL, MPI_SUM));
  FAILS(FAMPI_ERR_ARG, REDUCE(block, 0, NULL, never, &number, &other, 1, MPI_INT, MPI_BXOR));
  FAILS(FAMPI_ERR_ARG, REDUCE(block, 0, NULL, never, &number, &other, 1, MPI_INT, MPI_OP_NULL));
  FAILS(FAMPI_ERR_ARG, REDUCE(block, 0, NULL, never, &number, &other, 1, MPI_FLOAT, MPI_BAND));
  FAILS(FAMPI_ERR_ARG, REDUCE(block, 0, NULL, never, &number, &other, 1, MPI_FLOAT, MPI_LAND));
  /* After all that it is still open. */
  EXPECT(FAMPI_SUCCESS, commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  MPI_Type_free(&pair);
}

/* What a block is ended with the second time is ignored, whatever it is. */
static void ends_again(void)
{
  MPI_Request block;
  int code;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_TryBlock_finish(block, 1, NULL, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_TryBlock_finish(block, -1, NULL, FAMPI_TIMEOUT_NEVER));
  OK(REDUCE(block, 0, NULL, FAMPI_TIMEOUT_POLL, NULL, NULL, 0, MPI_DATATYPE_NULL, MPI_OP_NULL));
  code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  EXPECT(FAMPI_SUCCESS, code);
  OK(FAMPI_Request_free(&block));
}

/* A collective belongs to the block in which it was started, complete or not. */
static void collectives_of_other_blocks(void)
{
  MPI_Request first, second, sum;
  int one = 1, all = 0;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &first));
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &second));
  OK(FAMPI_Iallreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &sum));
  FAILS(FAMPI_ERR_STATE, FAMPI_TryBlock_finish(first, 1, &sum, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Wait_local(&sum, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  FAILS(FAMPI_ERR_STATE, FAMPI_TryBlock_finish(first, 1, &sum, FAMPI_TIMEOUT_NEVER));
  EXPECT(FAMPI_SUCCESS, commit(&second, 1, &sum));
  /* When that block is over it is a request that is complete. */
  EXPECT(FAMPI_SUCCESS, commit(&first, 1, &sum));
  OK(FAMPI_Request_free(&sum));
  OK(FAMPI_Request_free(&second));
  OK(FAMPI_Request_free(&first));
}

static void partner_copies(void)
{
  MPI_Request block, later, null = MPI_REQUEST_NULL;
  MPI_Datatype gaps;
  double state = 1;
  MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  FAILS(FAMPI_ERR_REQUEST, FAMPI_Protect(null, 0, &state, 1, MPI_DOUBLE));
  FAILS(FAMPI_ERR_REQUEST, FAMPI_Restore(null, 0, &other, 1, MPI_INT, &number));
  FAILS(FAMPI_ERR_REQUEST, FAMPI_Inherit(null, 0, &other, 1, MPI_INT, &number, &other));
  OK(FAMPI_TryBlock_start(MPI_COMM_SELF, FAMPI_TRYBLOCK_LOCAL, &block));
  FAILS(FAMPI_ERR_REQUEST, FAMPI_Protect(block, 0, &state, 1, MPI_DOUBLE));
  FAILS(FAMPI_ERR_REQUEST, FAMPI_Restore(block, 0, &other, 1, MPI_INT, &number));
  OK(FAMPI_Request_free(&block));
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  FAILS(FAMPI_ERR_ARG, FAMPI_Protect(block, -1, &state, 1, MPI_DOUBLE));
  FAILS(FAMPI_ERR_ARG, FAMPI_Protect(block, 64, &state, 1, MPI_DOUBLE));
  FAILS(FAMPI_ERR_ARG, FAMPI_Protect(block, 0, NULL, 1, MPI_DOUBLE));
  FAILS(FAMPI_ERR_COUNT, FAMPI_Protect(block, 0, &state, -1, MPI_DOUBLE));
  FAILS(FAMPI_ERR_ARG, FAMPI_Protect(block, 0, &state, 1, MPI_DATATYPE_NULL));
  FAILS(FAMPI_ERR_ARG, FAMPI_Protect(block, 0, &state, 1, gaps));
  FAILS(FAMPI_ERR_ARG, FAMPI_Restore(block, 64, &other, 1, MPI_INT, &number));
  FAILS(FAMPI_ERR_ARG, FAMPI_Restore(block, 0, NULL, 1, MPI_INT, &number));
  FAILS(FAMPI_ERR_ARG, FAMPI_Restore(block, 0, &other, 1, MPI_INT, NULL));
  FAILS(FAMPI_ERR_ARG, FAMPI_Restore(block, 0, &other, 1, gaps, &number));
  FAILS(FAMPI_ERR_COUNT, FAMPI_Restore(block, 0, &other, -1, MPI_INT, &number));
  FAILS(FAMPI_ERR_ARG, FAMPI_Inherit(block, 0, NULL, 0, MPI_INT, &number, NULL));
  FAILS(FAMPI_ERR_ARG, FAMPI_Inherit(block, 0, NULL, 0, MPI_INT, NULL, &other));
  /* While an earlier block is not finished. */
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &later));
  FAILS(FAMPI_ERR_STATE, FAMPI_Protect(later, 0, &state, 1, MPI_DOUBLE));
  FAILS(FAMPI_ERR_STATE, FAMPI_Restore(later, 0, &other, 1, MPI_INT, &number));
  EXPECT(FAMPI_SUCCESS, commit(&block, 0, NULL));
  FAILS(FAMPI_ERR_STATE, FAMPI_Protect(block, 0, &state, 1, MPI_DOUBLE));
  FAILS(FAMPI_ERR_STATE, FAMPI_Restore(block, 0, &other, 1, MPI_INT, &number));
  FAILS(FAMPI_ERR_STATE, FAMPI_Inherit(block, 0, NULL, 0, MPI_INT, &number, &other));
  OK(FAMPI_Protect(later, 0, &state, 1, MPI_DOUBLE));
  EXPECT(FAMPI_SUCCESS, commit(&later, 0, NULL));
  OK(FAMPI_Request_free(&later));
  OK(FAMPI_Request_free(&block));
  /* Protected as 8 bytes, asked for in threes. */
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  MPI_Type_free(&gaps);
  MPI_Type_contiguous(3, MPI_BYTE, &gaps);
  MPI_Type_commit(&gaps);
  FAILS(FAMPI_ERR_ARG, FAMPI_Restore(block, 0, &other, 1, gaps, &number));
  EXPECT(FAMPI_SUCCESS, commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  MPI_Type_free(&gaps);
}

static void raises_and_queries(void)
{
  MPI_Request block, request = MPI_REQUEST_NULL;
  int codes[1] = {FAMPI_ERR_RCODES_ANY}, value = 1, got;
  FAMPI_Report *report = NULL;
  MPI_Comm unused;
  MPI_Comm_dup(MPI_COMM_SELF, &unused);
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  FAILS(FAMPI_ERR_ARG, FAMPI_Request_raise_error(block, 0));
  FAILS(FAMPI_ERR_ARG, FAMPI_Request_raise_error(block, FAMPI_ERR_PROC_FAILED));
  /* A class of MPI's own, by which this rank would look dead. */
  FAILS(FAMPI_ERR_ARG, FAMPI_Request_raise_error(block, MPI_ERR_PROC_FAILED));
  FAILS(FAMPI_ERR_ARG, FAMPI_Request_raise_error(block, MPI_ERR_REVOKED));
  FAILS(FAMPI_ERR_ARG, FAMPI_Request_raise_error(block, MPI_ERR_OTHER));
  MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
  FAILS(FAMPI_ERR_REQUEST, FAMPI_Request_raise_error(request, 1005));
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  FAILS(FAMPI_ERR_STATE, FAMPI_Get_failed_requests(block, 1, codes, 0, NULL, &number));
  FAILS(FAMPI_ERR_STATE, FAMPI_Get_failed_communicators(block, 1, codes, 0, NULL, &number));
  FAILS(FAMPI_ERR_STATE, FAMPI_Get_failed_group(block, 1, codes, MPI_COMM_WORLD, &group));
  FAILS(FAMPI_ERR_STATE, FAMPI_Report_get(block, &report));
  OK(FAMPI_Request_raise_error(block, FAMPI_ERR_TRANSIENT));
  MPI_Irecv(&got, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, &request);
  MPI_Send(&value, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD);
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 1, &request));
  /* A request that is no block. */
  FAILS(FAMPI_ERR_REQUEST, FAMPI_TryBlock_finish(request, 0, NULL, FAMPI_TIMEOUT_NEVER));
  FAILS(FAMPI_ERR_STATE, FAMPI_Request_raise_error(request, 1005));
  FAILS(FAMPI_ERR_REQUEST, FAMPI_Get_failed_requests(request, 1, codes, 0, NULL, &number));
  FAILS(FAMPI_ERR_COUNT, FAMPI_Get_failed_requests(block, -1, codes, 0, NULL, &number));
  FAILS(FAMPI_ERR_COUNT, FAMPI_Get_failed_requests(block, 1, codes, -1, NULL, &number));
  FAILS(FAMPI_ERR_ARG, FAMPI_Get_failed_requests(block, 1, NULL, 0, NULL, &number));
  FAILS(FAMPI_ERR_ARG, FAMPI_Get_failed_requests(block, 1, codes, 3, NULL, &number));
  FAILS(FAMPI_ERR_ARG, FAMPI_Get_failed_requests(block, 1, codes, 0, NULL, NULL));
  FAILS(FAMPI_ERR_ARG, FAMPI_Get_failed_communicators(block, 1, codes, 1, NULL, &number));
  FAILS(FAMPI_ERR_ARG, FAMPI_Get_failed_communicators(block, 1, codes, 0, NULL, NULL));
  /* Not in use, but of the processes of the block. */
  OK(FAMPI_Get_failed_group(block, 1, codes, unused, &group));
  MPI_Group_free(&group);
  FAILS(FAMPI_ERR_COMM, FAMPI_Get_failed_group(block, 1, codes, MPI_COMM_NULL, &group));
  FAILS(FAMPI_ERR_ARG, FAMPI_Get_failed_group(block, 1, codes, MPI_COMM_WORLD, NULL));
  FAILS(FAMPI_ERR_ARG, FAMPI_Report_get(block, NULL));
  FAILS(FAMPI_ERR_ARG, FAMPI_Report_fault(NULL, 0, &number, &other));
  FAILS(FAMPI_ERR_ARG, FAMPI_Comm_known_failed(MPI_COMM_WORLD, NULL));
  MPI_Comm_free(&unused);
  CHECK(FAMPI_Report_count(NULL) == 0 && report == NULL);
  FAMPI_Report_free(NULL);
  OK(FAMPI_Request_free(&request));
  OK(FAMPI_Request_free(&block));
}

static void waits_and_timeouts(void)
{
  MPI_Request nulls[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  double value = UNTOUCHED;
  FAMPI_Timeout timeout = UNTOUCHED;
  volatile double zero = 0.0;
  FAILS(FAMPI_ERR_ARG, FAMPI_Wait_local(NULL, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  FAILS(FAMPI_ERR_ARG, FAMPI_Wait_local(nulls, MPI_STATUS_IGNORE, -7));
  FAILS(FAMPI_ERR_COUNT, FAMPI_Waitall_local(-1, nulls, MPI_STATUSES_IGNORE, 1));
  FAILS(FAMPI_ERR_ARG, FAMPI_Waitall_local(2, NULL, MPI_STATUSES_IGNORE, 1));
  FAILS(FAMPI_ERR_ARG, FAMPI_Waitany_local(2, nulls, NULL, MPI_STATUS_IGNORE, 1));
  FAILS(FAMPI_ERR_COUNT, FAMPI_Waitany_local(-2, nulls, &number, MPI_STATUS_IGNORE, 1));
  OK(FAMPI_Waitany_local(2, nulls, &number, MPI_STATUS_IGNORE, 1));
  CHECK(number == MPI_UNDEFINED);
  FAILS(FAMPI_ERR_ARG, FAMPI_Waitsome_local(2, nulls, NULL, &other, MPI_STATUSES_IGNORE, 1));
  FAILS(FAMPI_ERR_ARG, FAMPI_Waitsome_local(2, nulls, &number, NULL, MPI_STATUSES_IGNORE, 1));
  FAILS(FAMPI_ERR_COUNT, FAMPI_Waitsome_local(-2, nulls, &number, &other, NULL, 1));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Timeout_set_seconds(NULL, 1.0));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Timeout_set_seconds(&timeout, -1.0));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Timeout_set_seconds(&timeout, zero / zero));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Timeout_get_seconds(FAMPI_TIMEOUT_NEVER, NULL));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Timeout_get_seconds(-9, &value));
  CHECK(timeout == UNTOUCHED && value == UNTOUCHED);
  OK(FAMPI_Timeout_set_seconds(&timeout, 1.0 / zero));
  CHECK(timeout == FAMPI_TIMEOUT_NEVER);
  OK(FAMPI_Timeout_set_seconds(&timeout, 1e-12));
  CHECK(timeout != FAMPI_TIMEOUT_POLL);
  OK(FAMPI_Timeout_set_seconds(&timeout, 0));
  CHECK(timeout == FAMPI_TIMEOUT_POLL);
  OK(FAMPI_Timeout_set_seconds(&timeout, 2.5));
  OK(FAMPI_Timeout_get_seconds(timeout, &value));
  CHECK(value == 2.5);
}

static void recoveries_and_the_rest(void)
{
  MPI_Request request, block;
  MPI_Comm same;
  char text[64];
  int major, minor, patch, flag, length;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  FAILS(FAMPI_ERR_COMM, FAMPI_Comm_ishrink(MPI_COMM_NULL, &comm, &made));
  FAILS(FAMPI_ERR_ARG, FAMPI_Comm_ishrink(MPI_COMM_WORLD, NULL, &made));
  FAILS(FAMPI_ERR_ARG, FAMPI_Comm_ishrink(MPI_COMM_WORLD, &comm, NULL));
  OK(FAMPI_Comm_ishrink(MPI_COMM_WORLD, &same, &request));
  FAILS(FAMPI_ERR_PENDING, FAMPI_Comm_ishrink(MPI_COMM_WORLD, &comm, &made));
  OK(FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  EXPECT(FAMPI_SUCCESS, commit(&block, 1, &request));
  OK(FAMPI_Request_free(&block));
  OK(FAMPI_Request_free(&request));
  MPI_Comm_free(&same);
  EXPECT(FAMPI_ERR_ARG, FAMPI_Get_version(NULL, &minor, &patch));
  OK(FAMPI_Get_version(&major, &minor, &patch));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Has_feature(NULL, &flag));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Has_feature("shrink", NULL));
  OK(FAMPI_Has_feature("shrink", &flag));
  CHECK(flag == 1);
  OK(FAMPI_Has_feature("teleport", &flag));
  CHECK(flag == 0);
  EXPECT(FAMPI_ERR_ARG, FAMPI_Doctor(NULL, 5, &length));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Doctor(text, 5, NULL));
  EXPECT(FAMPI_ERR_COUNT, FAMPI_Doctor(text, -5, &length));
  OK(FAMPI_Doctor(text, (int)sizeof text, &length));
  CHECK(length > (int)sizeof text && strlen(text) == sizeof text - 1);
  CHECK(strstr(FAMPI_Error_string(FAMPI_ERR_TIMEOUT), "timeout") != NULL);
  CHECK(FAMPI_Error_string(-1) != NULL && FAMPI_Error_string(262144077) != NULL);
}

int main(int argc, char **argv)
{
  begin(&argc, &argv);
  before_the_first_block();
  starts();
  finishes();
  reductions_on_the_commit();
  ends_again();
  collectives_of_other_blocks();
  partner_copies();
  raises_and_queries();
  waits_and_timeouts();
  recoveries_and_the_rest();
  passed("passed");
  MPI_Finalize();
  return 0;
}
