/*
 * What a block with messages costs in C: start, MPI_Irecv and MPI_Isend with both neighbours of a
 * ring, finish with their requests, wait for the verdict, then MPI_Wait or MPI_Request_free for
 * each handle, one by one, and FAMPI_Request_free for the block. Beside it the same messages with
 * MPI_Waitall, MPI_Iallreduce of one integer and MPI_Wait.
 *
 * Batches of both ways alternate. Arguments: how many batches, then the numbers of messages, of
 * which one half comes and one goes. Rank 0 prints for each the medians over the batches, in
 * microseconds; `cargo fampi bench library` puts them beside the same from Rust.
 */
#include <fampi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 65535, BATCH_MESSAGES = 4000, WAYS = 2 };

static int rank, size, memory[MOST];
static MPI_Request requests[MOST];

static void check(int code)
{
  if (code != FAMPI_SUCCESS) {
    fprintf(stderr, "not committed: %s\n", FAMPI_Error_string(code));
    exit(1);
  }
}

static void exchange(int messages)
{
  int neighbours[2] = {(rank + size - 1) % size, (rank + 1) % size}, at;
  for (at = 0; at < messages / 2; at++)
    MPI_Irecv(&memory[at], 1, MPI_INT, neighbours[at % 2], 0, MPI_COMM_WORLD, &requests[at]);
  for (; at < messages; at++)
    MPI_Isend(&memory[at], 1, MPI_INT, neighbours[at % 2], 0, MPI_COMM_WORLD, &requests[at]);
}

static void plain(int messages)
{
  static int given = 1, taken;
  MPI_Request request;
  exchange(messages);
  MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE);
  MPI_Iallreduce(&given, &taken, 1, MPI_INT, MPI_BAND, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void block(int messages)
{
  MPI_Request block;
  int at;
  check(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  exchange(messages);
  check(FAMPI_TryBlock_finish(block, messages, requests, FAMPI_TIMEOUT_NEVER));
  check(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  for (at = 0; at < messages; at++) {
    if (at / 2 % 2 == 0)
      MPI_Wait(&requests[at], MPI_STATUS_IGNORE);
    else
      MPI_Request_free(&requests[at]);
  }
  FAMPI_Request_free(&block);
}

static int ascending(const void *one, const void *other)
{
  double difference = *(const double *)one - *(const double *)other;
  return (difference > 0) - (difference < 0);
}

static void measure(int messages, int batches)
{
  static void (*const ways[WAYS])(int) = {plain, block};
  double *took[WAYS];
  int batch, turn, repeat, repeats = (BATCH_MESSAGES + messages - 1) / messages;
  for (turn = 0; turn < WAYS; turn++) took[turn] = malloc((size_t)batches * sizeof(double));
  for (batch = -batches / 10 - 1; batch < batches; batch++) {
    for (turn = 0; turn < WAYS; turn++) {
      int way = (turn + batch + batches) % WAYS;
      double began;
      MPI_Barrier(MPI_COMM_WORLD);
      began = MPI_Wtime();
      for (repeat = 0; repeat < repeats; repeat++) ways[way](messages);
      if (batch >= 0) took[way][batch] = (MPI_Wtime() - began) / repeats * 1e6;
    }
  }
  for (turn = 0; turn < WAYS; turn++) qsort(took[turn], (size_t)batches, sizeof(double), ascending);
  if (rank == 0) {
    double of_plain = took[0][batches / 2], of_block = took[1][batches / 2];
    printf("%d,%d,%.3f,%.3f,%.3f\n", size, messages, of_plain, of_block, of_block / of_plain);
  }
  for (turn = 0; turn < WAYS; turn++) free(took[turn]);
}

int main(int argc, char **argv)
{
  int at, batches = argc > 1 ? atoi(argv[1]) : 60;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  FAMPI_Init(MPI_COMM_WORLD);
  if (rank == 0) printf("ranks,messages,plain_us,block_us,ratio\n");
  for (at = 2; at < argc; at++) {
    int messages = atoi(argv[at]);
    if (messages < 1 || messages > MOST || batches < 1) {
      fprintf(stderr, "between 1 and %d messages, and at least one batch\n", MOST);
      return 1;
    }
    measure(messages, batches);
  }
  MPI_Finalize();
  return 0;
}
