/*
 * Copies of the handles of a block that a rank has died in: each can still be waited for, tested,
 * asked and freed, with MPI's own calls and with ours, and MPI gives none of them out again.
 */
#include "check.h"

enum { WAYS = 8, MESSAGES = 6 * WAYS };

static int sent[MESSAGES], got[MESSAGES];

/* Half of the messages have the dead as their peer, some any rank, some nobody who answers. */
static void post(MPI_Request *requests, int dead)
{
  int k, other = (rank + 1) % size == dead ? (rank + 2) % size : (rank + 1) % size;
  for (k = 0; k < MESSAGES; k++) {
    MPI_Request *request = &requests[k];
    switch (k / WAYS) {
    case 0: MPI_Irecv(&got[k], 1, MPI_INT, dead, k, MPI_COMM_WORLD, request); break;
    case 1: MPI_Issend(&sent[k], 1, MPI_INT, dead, k, MPI_COMM_WORLD, request); break;
    case 2: MPI_Irecv(&got[k], 1, MPI_INT, MPI_ANY_SOURCE, k, MPI_COMM_WORLD, request); break;
    case 3: MPI_Irecv(&got[k], 1, MPI_INT, other, k, MPI_COMM_WORLD, request); break;
    case 4: MPI_Issend(&sent[k], 1, MPI_INT, other, k, MPI_COMM_WORLD, request); break;
    default: MPI_Isend(&sent[k], 1, MPI_INT, other, 1000 + k, MPI_COMM_WORLD, request); break;
    }
  }
}

/* Uses a handle in one of several ways; whatever the code, the handle is given back. */
static void use(int way, MPI_Request *request)
{
  MPI_Status status;
  int flag = 0, code = 0;
  switch (way % WAYS) {
  case 0: code = MPI_Wait(request, &status); break;
  case 1:
    while (!flag && code == 0) code = MPI_Test(request, &flag, &status);
    break;
  case 2: OK(MPI_Request_free(request)); break;
  case 3: code = MPI_Waitall(1, request, &status); break;
  case 4: code = FAMPI_Wait(request, &status); break;
  case 5: OK(FAMPI_Request_free(request)); break;
  case 6:
    code = FAMPI_Wait_local(request, &status, FAMPI_TIMEOUT_NEVER);
    OK(MPI_Request_free(request));
    break;
  default:
    OK(MPI_Request_get_status(*request, &flag, &status));
    OK(FAMPI_Request_get_status(*request, &flag, &status));
    OK(MPI_Request_free(request));
    break;
  }
  CHECK(*request == MPI_REQUEST_NULL && code >= 0);
}

static void go_on(MPI_Comm world, int count, const MPI_Request *kept)
{
  MPI_Request block, list[2];
  int k, value = -1, me, all;
  MPI_Comm_rank(world, &me);
  MPI_Comm_size(world, &all);
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  MPI_Irecv(&value, 1, MPI_INT, (me + all - 1) % all, 5, world, &list[0]);
  MPI_Issend(&me, 1, MPI_INT, (me + 1) % all, 5, world, &list[1]);
  for (k = 0; k < count; k++)
    CHECK(kept[k] == MPI_REQUEST_NULL || (list[0] != kept[k] && list[1] != kept[k]));
  EXPECT(FAMPI_SUCCESS, commit(&block, 2, list));
  CHECK(value == (me + all - 1) % all);
  OK(MPI_Request_free(&block));
  OK(MPI_Wait(&list[0], MPI_STATUS_IGNORE));
  OK(MPI_Request_free(&list[1]));
}

int main(int argc, char **argv)
{
  static MPI_Request originals[MESSAGES], list[MESSAGES], sum, copies[2];
  MPI_Request block, making;
  MPI_Comm world;
  int k, one = 1, all = 0, dead = 2, early, kill;
  begin(&argc, &argv);
  early = argc > 1 && strcmp(argv[1], "early") == 0;
  kill = argc > 1 && strcmp(argv[1], "none") != 0;
  OK(FAMPI_Init(MPI_COMM_WORLD));
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (rank == dead && kill) die();
  if (rank != dead) post(originals, dead);
  MPI_Iallreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &sum);
  memcpy(list, originals, sizeof list);
  if (rank == dead) {
    OK(FAMPI_TryBlock_interrupt(block));
    for (k = 0; k < MESSAGES; k++) originals[k] = list[k] = MPI_REQUEST_NULL;
  }
  OK(FAMPI_TryBlock_finish(block, MESSAGES, list, FAMPI_TIMEOUT_NEVER));
  CHECK(memcmp(list, originals, sizeof list) == 0);
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS,
         FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  /* The copies first, or the recovery. */
  for (k = 0; early && k < MESSAGES; k++)
    if (originals[k] != MPI_REQUEST_NULL) use(k, &originals[k]);
  OK(FAMPI_Comm_ishrink(MPI_COMM_WORLD, &world, &making));
  copies[0] = copies[1] = making;
  OK(FAMPI_Wait_local(&copies[0], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  go_on(world, MESSAGES, list);
  for (k = 0; !early && k < MESSAGES; k++)
    if (originals[k] != MPI_REQUEST_NULL) use(k, &originals[k]);
  /* Those of the list are as good as the originals, until the block is freed. */
  for (k = 0; k < MESSAGES; k++)
    if (list[k] != MPI_REQUEST_NULL) use(k + 1, &list[k]);
#ifdef MPICH
  /* It ends no collective that the dead have a part in. */
  if (!kill)
#endif
    FAMPI_Wait(&sum, MPI_STATUS_IGNORE);
  OK(MPI_Request_free(&block));
  OK(MPI_Wait(&copies[1], MPI_STATUS_IGNORE));
  for (k = 0; k < 20; k++) go_on(world, 0, NULL);
  MPI_Comm_free(&world);
  passed("passed");
  MPI_Finalize();
  return 0;
}
