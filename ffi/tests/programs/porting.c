/*
 * Sentences of PORTING.md: `porting list|buffers|leave|own|send|after`. In most of them rank 2 dies
 * in a block in which the others are deep inside of a function.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <setjmp.h>
#include <time.h>

enum { MANY = 1 << 20, TAG = 77, OWN_CODE = 4711 };

static const char *what;
static int given[MANY], taken[MANY];
static MPI_Request block, posted[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
static jmp_buf out;

static int is(const char *word) { return strcmp(what, word) == 0; }

static void nap(void)
{
  const struct timespec moment = {0, 50000000};
  nanosleep(&moment, NULL);
}

static int wait_for(MPI_Request *request)
{
  return FAMPI_Wait_local(request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
}

static void start(void) { OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block)); }

static void give_back(int count)
{
  while (count > 0) OK(FAMPI_Request_free(&posted[--count]));
  OK(FAMPI_Request_free(&block));
}

/* A request that failed makes the block faulty if it is in the list, and not otherwise. */
static void a_failure_outside_of_the_list(void)
{
  int is_in_list, one = 0;
  for (is_in_list = 0; is_in_list < 2; is_in_list++) {
    start();
    if (rank == 0) MPI_Isend(given, 100, MPI_INT, 1, TAG, MPI_COMM_WORLD, &posted[0]);
    if (rank == 1) {
      MPI_Irecv(&one, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, &posted[0]);
      EXPECT(MPI_ERR_TRUNCATE, wait_for(&posted[0]));
    }
    EXPECT(is_in_list ? FAMPI_ERR_TRYBLOCK_FOUND_ERRORS : FAMPI_SUCCESS,
           commit(&block, is_in_list, posted));
    give_back(1);
  }
}

/* What a wait has cut short is under way still. After the verdict it comes to its end. */
static void buffers_beyond_the_verdict(void)
{
  static int never;
  int flag, k;
  MPI_Status status;
  start();
  if (rank == 2) {
    nap();
    die();
  }
  MPI_Issend(given, MANY, MPI_INT, (rank + 1) % size, TAG, MPI_COMM_WORLD, &posted[0]);
  MPI_Irecv(taken, MANY, MPI_INT, 2, TAG + 1, MPI_COMM_WORLD, &posted[1]);
  MPI_Irecv(&never, 1, MPI_INT, (rank + size - 1) % size, TAG + 2, MPI_COMM_WORLD, &posted[2]);
  CHECK(wait_for(&posted[2]) != FAMPI_SUCCESS);
  OK(FAMPI_TryBlock_finish(block, 3, posted, FAMPI_TIMEOUT_NEVER));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, wait_for(&block));
  for (k = 0; k < 3; k++)
    for (flag = 0; !flag;) OK(FAMPI_Request_get_status(posted[k], &flag, &status));
  give_back(3);
}

static void deepest(void)
{
  static int never;
  MPI_Irecv(&never, 1, MPI_INT, (rank + 1) % size, TAG, MPI_COMM_WORLD, &posted[0]);
  if (wait_for(&posted[0]) != FAMPI_SUCCESS) longjmp(out, 1);
}

/* Rank 2 dies, or finds an error of its own: the others leave deep code, and finish. */
static void out_of_deep_code(void)
{
  int codes[1] = {OWN_CODE}, count;
  MPI_Group group;
  start();
  if (setjmp(out) == 0) {
    if (rank == 2) {
      nap();
      if (is("leave")) die();
      OK(FAMPI_Request_raise_error(block, OWN_CODE));
      OK(FAMPI_TryBlock_interrupt(block));
      longjmp(out, 1);
    }
    deepest();
  }
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 1, posted));
  OK(FAMPI_Get_failed_group(block, 1, codes, MPI_COMM_WORLD, &group));
  MPI_Group_size(group, &count);
  CHECK(count == is("own"));
  MPI_Group_free(&group);
  give_back(1);
}

/* A wait for a send of which nobody takes the message ends; it may even say that it was sent. */
static void a_send_that_nobody_takes(void)
{
  start();
  if (rank == 2) {
    nap();
    die();
  }
  if (rank == 0) MPI_Isend(given, MANY, MPI_INT, 1, TAG, MPI_COMM_WORLD, &posted[0]);
  else MPI_Irecv(taken, 1, MPI_INT, 2, TAG, MPI_COMM_WORLD, &posted[0]);
  wait_for(&posted[0]);
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 1, posted));
  give_back(1);
}

/* Nobody waits for a rank that dies after the last block. */
static void after_the_last_block(void)
{
  start();
  OK(commit(&block, 0, NULL));
  give_back(0);
  if (rank == 2) die();
}

int main(int argc, char **argv)
{
  begin(&argc, &argv);
  what = argv[1];
  OK(FAMPI_Init(MPI_COMM_WORLD));
  if (is("list")) a_failure_outside_of_the_list();
  else if (is("buffers")) buffers_beyond_the_verdict();
  else if (is("send")) a_send_that_nobody_takes();
  else if (is("after")) after_the_last_block();
  else out_of_deep_code();
  passed("passed");
  MPI_Finalize();
  return 0;
}
