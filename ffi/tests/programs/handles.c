/*
 * Copies of request handles: whoever has one may wait for it, test it, ask for its status and free
 * it, with MPI's own calls and with ours, in any order, before the verdict and after it.
 *
 * Each round of a test has a block with the requests of one kind, of which three lists have the
 * handles: the originals, copies of before finish, and copies of after it.
 */
#include "check.h"

enum { MESSAGES = 8, WAYS = 14 };

static int sent[MESSAGES], got[MESSAGES];

/* Frees, waits for or looks at a handle in one of many ways. 1 when the handle was given back. */
static int use(int way, MPI_Request *request, int complete)
{
  MPI_Status status;
  int flag = -1, index = -1, count = -1, indices[1];
  switch (way % WAYS) {
  case 0: OK(MPI_Wait(request, &status)); break;
  case 1:
    while (flag != 1) OK(MPI_Test(request, &flag, &status));
    break;
  case 2: OK(MPI_Request_free(request)); break;
  case 3:
    OK(MPI_Request_get_status(*request, &flag, &status));
    CHECK(flag == 1 || !complete);
    return 0;
  case 4: OK(MPI_Waitall(1, request, &status)); break;
  case 5: OK(MPI_Waitany(1, request, &index, &status)); CHECK(index == 0); break;
  case 6: OK(MPI_Waitsome(1, request, &count, indices, &status)); CHECK(count == 1); break;
  case 7:
    while (flag != 1) OK(MPI_Testall(1, request, &flag, MPI_STATUSES_IGNORE));
    break;
  case 8:
    while (flag != 1) OK(MPI_Testany(1, request, &index, &flag, MPI_STATUS_IGNORE));
    break;
  case 9:
    while (count < 1) OK(MPI_Testsome(1, request, &count, indices, MPI_STATUSES_IGNORE));
    break;
  case 10: OK(FAMPI_Wait_local(request, &status, FAMPI_TIMEOUT_NEVER)); return 0;
  case 11: OK(FAMPI_Wait(request, &status)); break;
  case 12:
    while (flag != 1) OK(FAMPI_Test(request, &flag, &status));
    break;
  default: OK(FAMPI_Request_free(request)); break;
  }
  CHECK(*request == MPI_REQUEST_NULL);
  return 1;
}

static void post(MPI_Request *requests)
{
  int k, right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (k = 0; k < MESSAGES / 2; k++) {
    sent[k] = 100 * rank + k;
    got[k] = -1;
    MPI_Irecv(&got[k], 1, MPI_INT, left, k, MPI_COMM_WORLD, &requests[k]);
    /* One that is over when its start returns, and one that waits for its receive. */
    (k % 2 ? MPI_Issend : MPI_Isend)(&sent[k], 1, MPI_INT, right, k, MPI_COMM_WORLD,
                                     &requests[MESSAGES / 2 + k]);
  }
}

static void check_messages(void)
{
  int k, left = (rank + size - 1) % size;
  for (k = 0; k < MESSAGES / 2; k++) CHECK(got[k] == 100 * left + k);
}

/* All that MPI gives out meanwhile is none of what the program still has. */
static void is_no_old_one(MPI_Request fresh, int count, const MPI_Request *old, MPI_Request empty)
{
  int k;
  for (k = 0; k < count; k++)
    CHECK(fresh == empty || old[k] == MPI_REQUEST_NULL || fresh != old[k]);
}

/* Requests that start and end while copies of older ones are kept. */
static void go_on_meanwhile(int count, const MPI_Request *kept)
{
  MPI_Request empty, mine[2];
  int value = rank, received = -1;
  MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_SELF, &empty);
  MPI_Irecv(&received, 1, MPI_INT, 0, 77, MPI_COMM_SELF, &mine[0]);
  MPI_Issend(&value, 1, MPI_INT, 0, 77, MPI_COMM_SELF, &mine[1]);
  is_no_old_one(mine[0], count, kept, empty);
  is_no_old_one(mine[1], count, kept, empty);
  OK(MPI_Waitall(2, mine, MPI_STATUSES_IGNORE));
  CHECK(received == rank);
  MPI_Ibarrier(MPI_COMM_SELF, &mine[0]);
  is_no_old_one(mine[0], count, kept, empty);
  OK(MPI_Wait(&mine[0], MPI_STATUS_IGNORE));
  OK(MPI_Wait(&empty, MPI_STATUS_IGNORE));
}

/* The list goes to finish, the originals are used afterwards; the list is never used again. */
static void originals_after_finish(int way, int decided)
{
  MPI_Request block, originals[MESSAGES], list[MESSAGES];
  int k;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  post(originals);
  memcpy(list, originals, sizeof list);
  OK(FAMPI_TryBlock_finish(block, MESSAGES, list, FAMPI_TIMEOUT_NEVER));
  CHECK(memcmp(list, originals, sizeof list) == 0);
  if (decided) OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  go_on_meanwhile(MESSAGES, originals);
  for (k = 0; k < MESSAGES; k++)
    if (!use(way + k, &originals[k], decided)) OK(MPI_Request_free(&originals[k]));
  go_on_meanwhile(MESSAGES, list);
  if (!decided) OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  check_messages();
  go_on_meanwhile(MESSAGES, list);
  MPI_Request_free(&block);
}

/* Each of three copies is used, and given back, before the block is freed. */
static void three_copies(int way)
{
  MPI_Request block, copies[3][MESSAGES];
  int k, c;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  post(copies[0]);
  memcpy(copies[1], copies[0], sizeof copies[0]);
  OK(FAMPI_TryBlock_finish(block, MESSAGES, copies[1], FAMPI_TIMEOUT_NEVER));
  memcpy(copies[2], copies[1], sizeof copies[0]);
  if (way % 2) OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  for (c = 0; c < 3; c++)
    for (k = 0; k < MESSAGES; k++) {
      MPI_Request *request = &copies[(c + way) % 3][(k * 3 + way) % MESSAGES];
      if (!use(way + c + 5 * k, request, way % 2) && c == 2) OK(MPI_Request_free(request));
    }
  if (way % 2 == 0) OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  check_messages();
  MPI_Request_free(&block);
}

/* The block is freed first, undecided or decided; its requests are the program's still. */
static void the_block_goes_first(int way, int decided)
{
  MPI_Request block, list[MESSAGES];
  MPI_Status status;
  int k, count, left = (rank + size - 1) % size;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  post(list);
  OK(FAMPI_TryBlock_finish(block, MESSAGES, list, FAMPI_TIMEOUT_NEVER));
  if (decided) OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Request_free(&block));
  go_on_meanwhile(MESSAGES, list);
  OK(MPI_Wait(&list[1], &status));
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(status.MPI_SOURCE == left && status.MPI_TAG == 1 && count == 1 && got[1] == 100 * left + 1);
  for (k = 0; k < MESSAGES; k++)
    if (list[k] != MPI_REQUEST_NULL && (way + k) % WAYS != 2 && (way + k) % WAYS != 13 &&
        !use(way + k, &list[k], 0))
      OK(MPI_Wait(&list[k], &status));
  for (k = 0; k < MESSAGES; k++)
    if (list[k] != MPI_REQUEST_NULL) OK(MPI_Wait(&list[k], MPI_STATUS_IGNORE));
  check_messages();
}

/* Mixed lists in one call of MPI: requests of a block, the block, and some of the program's own. */
static void one_call_for_all(int way)
{
  MPI_Request block, list[MESSAGES + 2];
  int k, own = -1;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  post(list);
  MPI_Irecv(&own, 1, MPI_INT, (rank + 1) % size, 50, MPI_COMM_WORLD, &list[MESSAGES]);
  MPI_Send(&rank, 1, MPI_INT, (rank + size - 1) % size, 50, MPI_COMM_WORLD);
  OK(FAMPI_TryBlock_finish(block, MESSAGES, list, FAMPI_TIMEOUT_NEVER));
  list[MESSAGES + 1] = block;
  if (way % 2) OK(MPI_Waitall(MESSAGES + 2, list, MPI_STATUSES_IGNORE));
  else OK(FAMPI_Waitall(MESSAGES + 2, list, MPI_STATUSES_IGNORE));
  for (k = 0; k < MESSAGES + 2; k++) CHECK(list[k] == MPI_REQUEST_NULL);
  check_messages();
  CHECK(own == (rank + 1) % size);
}

/* Collectives, and requests that fampi waited for before they came to a list. */
static void collectives_and_early_waits(int way)
{
  MPI_Request block, originals[4], list[4];
  int one = 1, sum = 0, all[64], k;
  CHECK(size <= 64);
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &originals[0]);
  MPI_Ibarrier(MPI_COMM_WORLD, &originals[1]);
  MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &originals[2]);
  MPI_Irecv(&one, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &originals[3]);
  memcpy(list, originals, sizeof list);
  OK(FAMPI_Wait_local(&originals[0], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  CHECK(sum == size && originals[0] == list[0]);
  OK(FAMPI_TryBlock_finish(block, 4, list, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  for (k = 0; k < size; k++) CHECK(all[k] == k);
  for (k = 0; k < 4; k++)
    if (!use(way + k, &originals[k], 1)) OK(MPI_Request_free(&originals[k]));
  MPI_Request_free(&block);
}

/* Persistent requests are the program's own before, between and after. */
static void persistent(int way)
{
  MPI_Request block, receive, send, list[2];
  MPI_Status status;
  int value = -1, mine = 0, round, flag = 0;
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Recv_init(&value, 1, MPI_INT, left, 60, MPI_COMM_WORLD, &receive);
  MPI_Ssend_init(&mine, 1, MPI_INT, right, 60, MPI_COMM_WORLD, &send);
  for (round = 0; round < 6; round++) {
    mine = 10 * rank + round;
    OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
    MPI_Start(&receive);
    MPI_Start(&send);
    list[0] = receive;
    list[1] = send;
    if (round % 3 == 2) OK(FAMPI_Wait_local(&list[0], &status, FAMPI_TIMEOUT_NEVER));
    OK(FAMPI_TryBlock_finish(block, 2, list, FAMPI_TIMEOUT_NEVER));
    CHECK(list[0] == receive && list[1] == send);
    OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
    CHECK(value == 10 * left + round);
    OK(FAMPI_Wait_local(&receive, &status, FAMPI_TIMEOUT_POLL));
    CHECK(receive == list[0]);
    if (round % 2) {
      OK(MPI_Wait(&receive, &status));
      while (!flag) OK(MPI_Test(&send, &flag, &status));
      flag = 0;
      OK(FAMPI_Wait(&list[1], &status));
      CHECK(receive == list[0] && send == list[1]);
    }
    /* Started again while the block still has it. */
    if (round == 3) {
      mine = 10 * rank + 100;
      MPI_Start(&receive);
      MPI_Start(&send);
      OK(FAMPI_Wait_local(&receive, &status, FAMPI_TIMEOUT_NEVER));
      CHECK(value == 10 * left + 100 && status.MPI_SOURCE == left && status.MPI_TAG == 60);
      OK(MPI_Wait(&send, &status));
    }
    OK(FAMPI_Request_free(&block));
  }
  OK((way % 2 ? MPI_Request_free : FAMPI_Request_free)(&receive));
  OK(MPI_Request_free(&send));
  CHECK(receive == MPI_REQUEST_NULL && send == MPI_REQUEST_NULL);
}

/* Requests of inner blocks and of a shrink, by copies. */
static void blocks_and_shrinks(int way)
{
  MPI_Request outer, inner, list[1], copy, making, copies[2];
  MPI_Comm same;
  MPI_Status status;
  int flag = 0, number;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &outer));
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &inner));
  copy = inner;
  OK(FAMPI_TryBlock_finish(copy, 0, NULL, FAMPI_TIMEOUT_NEVER));
  list[0] = copy;
  OK(FAMPI_TryBlock_finish(outer, 1, list, FAMPI_TIMEOUT_NEVER));
  CHECK(list[0] == inner);
  OK(FAMPI_Wait_local(&outer, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Wait_local(&list[0], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Request_get_status(copy, &flag, &status));
  CHECK(flag == 1);
  if (!use(way, &inner, 0)) OK(MPI_Request_free(&inner));
  copies[0] = outer;
  if (!use(way + 1, &copies[0], 0)) OK(MPI_Request_free(&copies[0]));
  OK(FAMPI_Comm_ishrink(MPI_COMM_WORLD, &same, &making));
  copies[0] = copies[1] = making;
  OK(FAMPI_Wait_local(&copies[0], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Wait_local(&copies[1], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_POLL));
  OK(FAMPI_TryBlock_start(same, FAMPI_TRYBLOCK_GLOBAL, &outer));
  EXPECT(FAMPI_SUCCESS, commit(&outer, 1, copies));
  MPI_Request_free(&outer);
  if (!use(way, &making, 0)) OK(MPI_Request_free(&making));
  MPI_Comm_size(same, &number);
  CHECK(number == size);
  MPI_Comm_free(&same);
}

static long pages(void)
{
  long all = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &resident) == 2);
  fclose(file);
  return resident;
}

/* However the program gives its handles back, nothing of 10,000 blocks is left. */
static void many_blocks(void)
{
  enum { BLOCKS = 10000, BEFORE = 1000 };
  MPI_Request block, originals[MESSAGES], list[MESSAGES];
  int k, round, free_early;
  long first = 0;
  for (round = 0; round < BLOCKS + BEFORE; round++) {
    if (round == BEFORE) first = pages();
    OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
    post(originals);
    memcpy(list, originals, sizeof list);
    OK(FAMPI_TryBlock_finish(block, MESSAGES, list, FAMPI_TIMEOUT_NEVER));
    free_early = round % 3;
    if (free_early == 1) OK(FAMPI_Wait(&block, MPI_STATUS_IGNORE));
    if (free_early == 2)
      for (k = 0; k < MESSAGES; k++) OK(MPI_Request_free(&list[k]));
    if (free_early != 1) OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
    if (free_early != 2)
      for (k = 0; k < MESSAGES; k++)
        if (!use(round + k, &originals[k], 1)) OK(MPI_Request_free(&originals[k]));
    if (free_early != 1) OK(FAMPI_Request_free(&block));
  }
  printf("rank %d: %ld pages, %ld before\n", rank, pages(), first);
  CHECK(pages() - first < 128);
}

int main(int argc, char **argv)
{
  int way;
  begin(&argc, &argv);
  if (argc > 1) {
    many_blocks();
    passed("passed");
    MPI_Finalize();
    return 0;
  }
  for (way = 0; way < 3 * WAYS; way++) {
    originals_after_finish(way, 1);
    originals_after_finish(way, 0);
    three_copies(way);
    the_block_goes_first(way, way % 2);
    one_call_for_all(way);
    collectives_and_early_waits(way);
    persistent(way);
    blocks_and_shrinks(way);
  }
  passed("passed");
  MPI_Finalize();
  return 0;
}
