/* Blocks without failures: requests of all kinds, nesting, timeouts, raised errors, waits. */
#include "check.h"

static void requests_of_all_kinds(void)
{
  int right = (rank + 1) % size, left = (rank + size - 1) % size, i, round;
  int sent = rank, got = -1, sum = 0, one = 1, again = -1, window_value = 0, code;
  int *memory;
  MPI_Request block, requests[6], persistent;
  MPI_Status status;
  MPI_Win window;
  MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  *memory = 100 + rank;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  MPI_Recv_init(&again, 1, MPI_INT, left, 2, MPI_COMM_WORLD, &persistent);

  for (round = 0; round < 3; round++) {
    got = again = -1;
    OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
    MPI_Irecv(&got, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&sent, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[2]);
    MPI_Start(&persistent);
    requests[3] = persistent;
    MPI_Send(&sent, 1, MPI_INT, right, 2, MPI_COMM_WORLD);
    requests[4] = MPI_REQUEST_NULL;
    MPI_Rget(&window_value, 1, MPI_INT, right, 0, 1, MPI_INT, window, &requests[5]);
    code = commit(&block, 6, requests);
    EXPECT(FAMPI_SUCCESS, code);
    CHECK(got == left && sum == size && again == left && window_value == 100 + right);
    CHECK(requests[4] == MPI_REQUEST_NULL);
    /* The status stays until the request is freed. */
    OK(FAMPI_Wait_local(&requests[0], &status, FAMPI_TIMEOUT_POLL));
    CHECK(status.MPI_SOURCE == left && status.MPI_TAG == 1);
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    CHECK(requests[1] == MPI_REQUEST_NULL);
    /* The copy of the persistent one is that request itself. */
    CHECK(requests[3] == persistent);
    OK(FAMPI_Wait_local(&requests[3], &status, FAMPI_TIMEOUT_POLL));
    CHECK(status.MPI_SOURCE == left && status.MPI_TAG == 2);
    for (i = 0; i < 6; i++)
      if (i != 3 && requests[i] != MPI_REQUEST_NULL) MPI_Request_free(&requests[i]);
    MPI_Request_free(&block);
  }
  MPI_Request_free(&persistent);
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
}

static void waits_inside(void)
{
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  int sent[3] = {1, 2, 3}, got[3] = {0, 0, 0}, i, index, count, indices[3], seen = 0;
  MPI_Request block, sends[3], receives[3], list[6], kept;
  MPI_Status status, statuses[3];
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  for (i = 0; i < 3; i++)
    MPI_Irecv(&got[i], 1, MPI_INT, left, 10 + i, MPI_COMM_WORLD, &receives[i]);
  EXPECT(FAMPI_ERR_TIMEOUT, FAMPI_Wait_local(&receives[0], &status, FAMPI_TIMEOUT_POLL));
  MPI_Barrier(MPI_COMM_WORLD);
  for (i = 0; i < 3; i++)
    MPI_Isend(&sent[i], 1, MPI_INT, right, 10 + i, MPI_COMM_WORLD, &sends[i]);
  OK(FAMPI_Wait_local(&receives[0], &status, seconds(5)));
  CHECK(status.MPI_TAG == 10 && got[0] == 1);
  kept = receives[0];
  OK(FAMPI_Waitany_local(3, receives, &index, &status, FAMPI_TIMEOUT_NEVER));
  CHECK(index == 0);
  list[0] = receives[1];
  list[1] = receives[2];
  while (seen < 2) {
    OK(FAMPI_Waitsome_local(2, list, &count, indices, statuses, FAMPI_TIMEOUT_NEVER));
    CHECK(count >= 1 && count <= 2);
    for (i = 0; i < count; i++) {
      CHECK(statuses[i].MPI_TAG == 11 + indices[i]);
      receives[1 + indices[i]] = list[indices[i]];
      list[indices[i]] = MPI_REQUEST_NULL;
      seen++;
    }
  }
  OK(FAMPI_Waitsome_local(2, list, &count, indices, statuses, FAMPI_TIMEOUT_NEVER));
  CHECK(count == MPI_UNDEFINED);
  OK(FAMPI_Waitall_local(3, sends, MPI_STATUSES_IGNORE, FAMPI_TIMEOUT_NEVER));
  memcpy(list, receives, sizeof receives);
  memcpy(list + 3, sends, sizeof sends);
  CHECK(list[0] == kept);
  EXPECT(FAMPI_SUCCESS, commit(&block, 6, list));
  CHECK(got[1] == 2 && got[2] == 3);
  for (i = 0; i < 6; i++) MPI_Request_free(&list[i]);
  MPI_Request_free(&block);
}

static void nested(void)
{
  MPI_Comm half;
  MPI_Request outer, inner[2];
  MPI_Comm failed[2];
  int count, code, round;
  int any[1] = {FAMPI_ERR_RCODES_ANY};
  int inner_code[1] = {FAMPI_ERR_INNER};
  MPI_Group group;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  for (round = 0; round < 2; round++) {
    OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &outer));
    OK(FAMPI_TryBlock_start(half, FAMPI_TRYBLOCK_GLOBAL, &inner[0]));
    OK(FAMPI_TryBlock_start(half, FAMPI_TRYBLOCK_LOCAL, &inner[1]));
    if (round == 1 && rank == 1) OK(FAMPI_Request_raise_error(inner[0], 1007));
    OK(FAMPI_TryBlock_finish(inner[0], 0, NULL, FAMPI_TIMEOUT_NEVER));
    OK(FAMPI_TryBlock_finish(inner[1], 0, NULL, FAMPI_TIMEOUT_NEVER));
    code = commit(&outer, 2, inner);
    EXPECT(round == 1 ? FAMPI_ERR_TRYBLOCK_FOUND_ERRORS : FAMPI_SUCCESS, code);
    OK(FAMPI_Wait_local(&inner[1], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_POLL));
    if (round == 1) {
      /* The inner block is still there to be asked. */
      code = FAMPI_Wait_local(&inner[0], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_POLL);
      EXPECT(rank % 2 ? FAMPI_ERR_TRYBLOCK_FOUND_ERRORS : FAMPI_SUCCESS, code);
      OK(FAMPI_Get_failed_requests(outer, 1, any, 0, NULL, &count));
      CHECK(count == rank % 2);
      OK(FAMPI_Get_failed_communicators(outer, 1, any, 2, failed, &count));
      if (rank % 2) {
        CHECK(count == 1 && failed[0] == half);
        /* Who handed the fault on is a rank of either communicator. */
        OK(FAMPI_Get_failed_group(outer, 1, inner_code, half, &group));
        MPI_Group_size(group, &count);
        CHECK(count == size / 2);
        MPI_Group_free(&group);
        OK(FAMPI_Get_failed_group(outer, 1, inner_code, MPI_COMM_WORLD, &group));
        MPI_Group_size(group, &count);
        CHECK(count == size / 2);
        MPI_Group_rank(group, &count);
        CHECK(count == rank / 2);
        MPI_Group_free(&group);
      }
    }
    MPI_Request_free(&inner[0]);
    MPI_Request_free(&inner[1]);
    MPI_Request_free(&outer);
  }
  MPI_Comm_free(&half);
}

static void timeouts_and_repeated_finish(void)
{
  int got = 0, sent = 5, count, index, right = (rank + 1) % size;
  int codes[1] = {FAMPI_ERR_TIMEOUT};
  MPI_Request block, request, send;
  /* The timeout of the wait says nothing; finish again, wait again. */
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &request);
  OK(FAMPI_TryBlock_finish(block, 1, &request, FAMPI_TIMEOUT_NEVER));
  EXPECT(FAMPI_ERR_TIMEOUT, FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, seconds(0.01)));
  OK(FAMPI_TryBlock_finish(block, 1, &request, seconds(20)));
  EXPECT(FAMPI_ERR_TIMEOUT, FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_POLL));
  EXPECT(FAMPI_ERR_STATE, FAMPI_Get_failed_requests(block, 1, codes, 1, &index, &count));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Isend(&sent, 1, MPI_INT, right, 3, MPI_COMM_WORLD, &send);
  OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  CHECK(got == 5);
  MPI_Wait(&send, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  MPI_Request_free(&block);

  /* Of two equal timeouts that of the wait comes first: the request is no fault. */
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  request = MPI_REQUEST_NULL;
  if (rank == 0) MPI_Irecv(&got, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, &request);
  OK(FAMPI_TryBlock_finish(block, 1, &request, seconds(0.02)));
  if (rank == 0) {
    EXPECT(FAMPI_ERR_TIMEOUT, FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, seconds(0.02)));
    OK(FAMPI_TryBlock_finish(block, 1, &request, seconds(20)));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) MPI_Send(&sent, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
  OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  if (rank == 0) MPI_Request_free(&request);
  MPI_Request_free(&block);

  /* The timeout of finish is a fault, on all ranks. */
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  request = MPI_REQUEST_NULL;
  if (rank == 0) MPI_Irecv(&got, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, &request);
  OK(FAMPI_TryBlock_finish(block, 1, &request, seconds(0.05)));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS,
         FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Get_failed_requests(block, 1, codes, 1, &index, &count));
  CHECK(count == (rank == 0));
  if (rank == 0) CHECK(index == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  /* A receive that was late has been cancelled, and says so; its message finds another one. */
  if (rank == 1) MPI_Send(&sent, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
  if (rank == 0) {
    got = 0;
    EXPECT(FAMPI_ERR_INTERRUPTED, FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
    CHECK(got == 0);
    MPI_Request_free(&request);
    MPI_Recv(&got, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == 5);
  }
  MPI_Request_free(&block);
}

static void raised_errors(void)
{
  int i, code, count, found, who;
  int codes[2] = {99, 1234};
  MPI_Request block;
  MPI_Group group;
  FAMPI_Report *report;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (rank == size - 1) OK(FAMPI_Request_raise_error(block, 1234));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
  OK(FAMPI_Get_failed_group(block, 2, codes, MPI_COMM_WORLD, &group));
  MPI_Group_size(group, &count);
  CHECK(count == 1);
  MPI_Group_free(&group);
  OK(FAMPI_Get_failed_group(block, 1, codes, MPI_COMM_WORLD, &group));
  MPI_Group_size(group, &count);
  CHECK(count == 0);
  MPI_Group_free(&group);
  OK(FAMPI_Report_get(block, &report));
  MPI_Request_free(&block);
  found = 0;
  for (i = 0; i < FAMPI_Report_count(report); i++) {
    OK(FAMPI_Report_fault(report, i, &who, &code));
    found += who == size - 1 && code == 1234;
  }
  CHECK(found == 1);
  EXPECT(FAMPI_ERR_ARG, FAMPI_Report_fault(report, i, &who, &code));
  FAMPI_Report_free(report);
  FAMPI_Report_free(NULL);
}

/* Everybody's numbers ride on the commit. */
#define REDUCED(type, datatype, op, given, expected)                                         \
  do {                                                                                       \
    type mine_[2] = {(type)(given), (type)(rank)}, all_[2] = {0, 0};                         \
    OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));                 \
    OK(FAMPI_TryBlock_finish_allreduce(block, 0, NULL, FAMPI_TIMEOUT_NEVER, mine_, all_, 2,  \
                                       datatype, op));                                       \
    OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));                    \
    CHECK(all_[0] == (type)(expected));                                                      \
    MPI_Request_free(&block);                                                                \
  } while (0)

static void reductions_on_the_commit(void)
{
  MPI_Request block, request;
  double eight[8], untouched = 4711;
  int i, count, sent = rank, got = -1, product, mismatched[1] = {FAMPI_ERR_MISMATCHED};
  long mine = 1;
  MPI_Group group;
  for (i = 1, product = 1; i <= size; i++) product *= i;
  REDUCED(int, MPI_INT, MPI_SUM, rank - 5, size * (size - 1) / 2 - 5 * size);
  REDUCED(long, MPI_LONG, MPI_PROD, rank + 1, product);
  REDUCED(short, MPI_SHORT, MPI_MIN, -rank, 1 - size);
  REDUCED(long long, MPI_LONG_LONG, MPI_MAX, rank - size, -1);
  REDUCED(signed char, MPI_SIGNED_CHAR, MPI_MIN, rank - 9, -9);
  REDUCED(unsigned char, MPI_UNSIGNED_CHAR, MPI_BOR, 1 << rank, (1 << size) - 1);
  REDUCED(unsigned short, MPI_UNSIGNED_SHORT, MPI_BAND, 7 - (rank == 1), 6);
  REDUCED(unsigned, MPI_UNSIGNED, MPI_LAND, 1 << rank, 1);
  REDUCED(unsigned long, MPI_UNSIGNED_LONG, MPI_LOR, rank == 1 ? 6 : 0, 1);
  REDUCED(int32_t, MPI_INT32_T, MPI_LAND, rank - 1, 0);
  REDUCED(uint64_t, MPI_UINT64_T, MPI_MAX, rank, size - 1);
  REDUCED(float, MPI_FLOAT, MPI_SUM, 0.5, 0.5 * size);
  REDUCED(double, MPI_DOUBLE, MPI_MIN, 1.0 / (1 + rank), 1.0 / size);

  /* With requests, in place, as many numbers as there may be; repeated, nothing changes. */
  for (i = 0; i < 8; i++) eight[i] = rank + i;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  MPI_Irecv(&got, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD, &request);
  OK(FAMPI_TryBlock_finish_allreduce(block, 1, &request, FAMPI_TIMEOUT_NEVER, eight, eight, 8,
                                     MPI_DOUBLE, MPI_MAX));
  OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_TryBlock_finish_allreduce(block, 0, NULL, FAMPI_TIMEOUT_NEVER, &untouched, &untouched,
                                     1, MPI_DOUBLE, MPI_SUM));
  MPI_Send(&sent, 1, MPI_INT, (rank + size - 1) % size, 5, MPI_COMM_WORLD);
  OK(MPI_Wait(&block, MPI_STATUS_IGNORE));
  for (i = 0; i < 8; i++) CHECK(eight[i] == size - 1 + i);
  CHECK(got == (rank + 1) % size && untouched == 4711);
  MPI_Request_free(&request);

  /* Faulty blocks have no result: a fault was raised, or not all bring the same. */
  for (i = 0; i < 3; i++) {
    OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
    if (i == 0 && rank == 1) OK(FAMPI_Request_raise_error(block, 1007));
    if (i == 1 && rank == 1)
      OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
    else if (i == 2 && rank == 1)
      OK(FAMPI_TryBlock_finish_allreduce(block, 0, NULL, FAMPI_TIMEOUT_NEVER, &mine, &mine, 1,
                                         MPI_LONG, MPI_SUM));
    else
      OK(FAMPI_TryBlock_finish_allreduce(block, 0, NULL, FAMPI_TIMEOUT_NEVER, MPI_IN_PLACE,
                                         &untouched, 1, MPI_DOUBLE, MPI_SUM));
    EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS,
           FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
    CHECK(untouched == 4711 && mine == 1);
    OK(FAMPI_Get_failed_group(block, 1, mismatched, MPI_COMM_WORLD, &group));
    MPI_Group_size(group, &count);
    CHECK((count > 0) == (i > 0));
    MPI_Group_free(&group);
    MPI_Request_free(&block);
  }
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(commit(&block, 0, NULL));
  MPI_Request_free(&block);
}

/* States come back where they were protected, and as they were when their block committed. */
static void partner_copies(void)
{
  MPI_Comm world, fresh;
  MPI_Request block;
  double state[3] = {rank, 0.5, -1}, got[3] = {0, 0, 0};
  int other = 10 + rank, count = -1, round, i;
  /* A state of many pages, few of which change. */
  static double large[20000], got_large[20000];
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  for (round = 0; round < 4; round++) {
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
    state[1] = round;
    OK(FAMPI_Protect(block, 0, state, 3, MPI_DOUBLE));
    OK(FAMPI_Protect(block, 63, &other, rank == 0 ? 0 : 1, MPI_INT));
    large[0] = large[5000 * round + 77] = 1 + round;
    OK(FAMPI_Protect(block, 7, large, 20000, MPI_DOUBLE));
    state[2] = 99;
    /* A faulty block leaves the state before. */
    if (round == 2) OK(FAMPI_Request_raise_error(block, 1007));
    EXPECT(round == 2 ? FAMPI_ERR_TRYBLOCK_FOUND_ERRORS : FAMPI_SUCCESS, commit(&block, 0, NULL));
    MPI_Request_free(&block);
    state[2] = -1;
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
    OK(FAMPI_Restore(block, 0, NULL, 0, MPI_DOUBLE, &count));
    CHECK(count == 3);
    got[2] = 5;
    OK(FAMPI_Restore(block, 0, got, 2, MPI_DOUBLE, &count));
    CHECK(count == 3 && got[0] == rank && got[1] == (round == 2 ? 1 : round) && got[2] == 5);
    OK(FAMPI_Restore(block, 0, got, 3, MPI_DOUBLE, &count));
    CHECK(got[2] == -1);
    if (round == 2) {
      large[0] = 2;
      large[10077] = 0;
    }
    OK(FAMPI_Restore(block, 7, got_large, 20000, MPI_DOUBLE, &count));
    CHECK(count == 20000);
    for (i = 0; i < count; i++) CHECK(got_large[i] == large[i]);
    OK(FAMPI_Restore(block, 63, NULL, 0, MPI_INT, &count));
    CHECK(count == (rank != 0));
    OK(commit(&block, 0, NULL));
    MPI_Request_free(&block);
  }
  /* Nothing was protected under this number, on any rank. */
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  EXPECT(FAMPI_ERR_NOTHING_PROTECTED, FAMPI_Restore(block, 5, NULL, 0, MPI_INT, &count));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
  MPI_Request_free(&block);
  /* Another length is refused, and ends the block for all. */
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (rank == 1)
    EXPECT(FAMPI_ERR_COUNT, FAMPI_Protect(block, 0, state, 2, MPI_DOUBLE));
  else
    FAMPI_Protect(block, 0, state, 3, MPI_DOUBLE);
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
  MPI_Request_free(&block);
  /* A communicator with the same ranks takes them over, as after a rebuild; once. */
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  got[2] = 0;
  OK(FAMPI_TryBlock_start(fresh, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_Restore(block, 0, got, 3, MPI_DOUBLE, &count));
  CHECK(count == 3 && got[0] == rank && got[1] == 3 && got[2] == -1);
  OK(commit(&block, 0, NULL));
  MPI_Request_free(&block);
  /* What is protected there counts from its first commit on. */
  for (round = 10; round < 13; round++) {
    state[1] = round;
    OK(FAMPI_TryBlock_start(fresh, FAMPI_TRYBLOCK_GLOBAL, &block));
    OK(FAMPI_Protect(block, 0, state, 3, MPI_DOUBLE));
    OK(commit(&block, 0, NULL));
    MPI_Request_free(&block);
    OK(FAMPI_TryBlock_start(fresh, FAMPI_TRYBLOCK_GLOBAL, &block));
    OK(FAMPI_Restore(block, 0, got, 3, MPI_DOUBLE, &count));
    CHECK(count == 3 && got[1] == round);
    OK(commit(&block, 0, NULL));
    MPI_Request_free(&block);
  }
  MPI_Comm_free(&world);
  MPI_Comm_free(&fresh);
}

/* MPI's own calls work on blocks: they go on inside of them. */
static void waits_of_mpi(void)
{
  MPI_Request block;
  MPI_Status status;
  int flag = 0;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
  OK(MPI_Wait(&block, &status));
  CHECK(block == MPI_REQUEST_NULL);
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
  while (!flag) OK(MPI_Test(&block, &flag, &status));
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Wait(&block, &status));
  CHECK(block == MPI_REQUEST_NULL);
  /* A request may be freed before its block is decided. */
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Request_free(&block));
}

/* Requests are used again in whatever order they were freed, and never by two at once. */
static void freed_in_any_order(void)
{
  enum { BLOCKS = 6, ROUNDS = 60 };
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  int sent = rank, got, round, i, k;
  MPI_Request blocks[BLOCKS], messages[2];
  for (round = 0; round < ROUNDS; round++) {
    for (i = 0; i < BLOCKS; i++) {
      OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &blocks[i]));
      for (k = 0; k < i; k++) CHECK(blocks[k] != blocks[i]);
    }
    got = -1;
    MPI_Irecv(&got, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &messages[0]);
    MPI_Isend(&sent, 1, MPI_INT, right, 3, MPI_COMM_WORLD, &messages[1]);
    for (i = 0; i < BLOCKS; i++) {
      k = (5 * i + round) % BLOCKS;
      OK(FAMPI_TryBlock_finish(blocks[k], k == 2 ? 2 : 0, k == 2 ? messages : NULL,
                               FAMPI_TIMEOUT_NEVER));
    }
    for (i = 0; i < BLOCKS; i++) {
      k = (i + round) % BLOCKS;
      /* Nobody waits for one of them. */
      if (k != 4) OK(FAMPI_Wait_local(&blocks[k], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
      if (k % 3 == round % 3) MPI_Request_free(&blocks[k]);
      else OK(FAMPI_Request_free(&blocks[k]));
      CHECK(blocks[k] == MPI_REQUEST_NULL);
    }
    CHECK(got == left);
    for (k = 0; k < 2; k++) OK(FAMPI_Request_free(&messages[(k + round) % 2]));
  }
}

int main(int argc, char **argv)
{
  int i;
  begin(&argc, &argv);
  requests_of_all_kinds();
  waits_inside();
  nested();
  timeouts_and_repeated_finish();
  raised_errors();
  reductions_on_the_commit();
  partner_copies();
  freed_in_any_order();
  for (i = 0; i < 100; i++) waits_of_mpi();
  passed("passed");
  MPI_Finalize();
  return 0;
}
