/*
 * In the long run a block takes no memory but what MPI takes for its requests.
 *
 * The program's own malloc counts; each shape of a block is compared with as many generalized
 * requests and nothing else.
 */
#include "check.h"

#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static long taken;

void *malloc(size_t size)
{
  taken++;
  return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
  taken++;
  return __libc_calloc(number, size);
}

void *realloc(void *old, size_t size)
{
  taken++;
  return __libc_realloc(old, size);
}

static int query(void *state, MPI_Status *status)
{
  (void)state;
  MPI_Status_set_elements(status, MPI_BYTE, 0);
  MPI_Status_set_cancelled(status, 0);
  return MPI_SUCCESS;
}

static int released(void *state)
{
  (void)state;
  return MPI_SUCCESS;
}

static int cancelled(void *state, int complete)
{
  (void)state;
  (void)complete;
  return MPI_SUCCESS;
}

static int received[2], one = 1;

/* Two messages to and fro. */
static void exchange(MPI_Request *requests)
{
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Irecv(&received[0], 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&received[1], 1, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(&one, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(&one, 1, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[3]);
}

static void bare(int count)
{
  MPI_Request requests[5], messages[4];
  int k;
  if (count > 0) {
    exchange(messages);
    MPI_Waitall(4, messages, MPI_STATUSES_IGNORE);
  }
  for (k = 0; k <= count; k++) {
    MPI_Grequest_start(query, released, cancelled, NULL, &requests[k]);
    MPI_Grequest_complete(requests[k]);
    MPI_Request_free(&requests[k]);
  }
}

static void block(int count)
{
  MPI_Request handle, requests[4];
  int k;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &handle));
  if (count > 0) exchange(requests);
  OK(commit(&handle, count, requests));
  for (k = 0; k < count; k++) MPI_Request_free(&requests[k]);
  if (count > 0) MPI_Request_free(&handle);
  else FAMPI_Request_free(&handle);
}

static long in_rounds(void (*what)(int), int count)
{
  enum { ROUNDS = 2000 };
  long before = 0;
  int k;
  for (k = 0; k < 2 * ROUNDS; k++) {
    if (k == ROUNDS) before = taken;
    what(count);
  }
  return taken - before;
}

int main(int argc, char **argv)
{
  static const int counts[] = {0, 4};
  size_t k;
  begin(&argc, &argv);
  FAMPI_Init(MPI_COMM_WORLD);
  for (k = 0; k < 2; k++) {
    long least = in_rounds(bare, counts[k]), most = in_rounds(block, counts[k]);
    printf("rank %d: %d requests: %ld of MPI, %ld in all\n", rank, counts[k], least, most);
    /* Lists of MPI's may grow now and then. */
    CHECK(least > 0 && most <= least + 100);
  }
  passed("passed");
  MPI_Finalize();
  return 0;
}
