/*
 * A rank ends by `_exit`, of which MPI's launcher says nothing to the others. They learn of it in
 * their blocks, and all of them come out of MPI_Finalize. `ends WHERE`: `self` is in the part of
 * MPI_Finalize that is MPI's own, of which with a second word no rank comes out.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>
#include <unistd.h>

static const char *where;
static int is_held;

/* The last rank ends here, if it is here. */
static void end(const char *place, long wait_ms)
{
  const struct timespec moment = {wait_ms / 1000, wait_ms % 1000 * 1000000};
  if (strcmp(where, place) != 0 || rank != size - 1) return;
  nanosleep(&moment, NULL);
  fflush(stdout);
  _exit(1);
}

/* Called by MPI_Finalize, when the library is done. */
static int hold(MPI_Comm comm, int key, void *value, void *extra)
{
  (void)comm, (void)key, (void)value, (void)extra;
  end("self", 300);
  while (is_held) pause();
  return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
  MPI_Comm world;
  MPI_Request block, request;
  const char *launched = getenv("OMPI_COMM_WORLD_RANK");
  int i, sum, one = 1, code, key;
  where = argv[1];
  is_held = argc > 2;
  /* One of them hears of the death from the others alone. */
  if (is_held && launched && strcmp(launched, "1") == 0) setenv("FAMPI_NODE_WATCHER", "off", 1);
  begin(&argc, &argv);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, hold, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  end("unknown", 0);
  code = FAMPI_Init(world);
  /* Nobody has met the dead rank yet. */
  EXPECT(strcmp(where, "unknown") == 0 ? FAMPI_ERR_CREATION : 0, code);
  end("init", 0);
  for (i = 0; i < 10 && code == 0; i++) {
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
    if (i == 5) end("block", 0);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world, &request);
    if (i == 5) end("late", 20);
    OK(FAMPI_TryBlock_finish(block, 1, &request, FAMPI_TIMEOUT_NEVER));
    if (i == 5) end("finished", 0);
    code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, seconds(20));
    CHECK(code == 0 || code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS);
    OK(FAMPI_Request_free(&request));
    OK(FAMPI_Request_free(&block));
  }
  end("last", 0);
  end("finalize", 300);
  MPI_Finalize();
  printf("rank %d: over\n", rank);
  return 0;
}
