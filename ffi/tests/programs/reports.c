/*
 * A rank dies while the others are in blocks, and recovery finds it first: the blocks that were
 * open then report the death all the same. `reports WHERE`
 */
#include "check.h"

/* A block that was finished is faulty, and its report names exactly this rank as dead. */
static void names(MPI_Request *block, MPI_Comm comm, int victim)
{
  int codes[1] = {MPI_ERR_PROC_FAILED}, count, old = -1, zero = 0;
  MPI_Group group, all;
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, FAMPI_Wait_local(block, MPI_STATUS_IGNORE, seconds(20)));
  OK(FAMPI_Get_failed_group(*block, 1, codes, comm, &group));
  MPI_Group_size(group, &count);
  CHECK(count == 1);
  MPI_Comm_group(comm, &all);
  MPI_Group_translate_ranks(group, 1, &zero, all, &old);
  CHECK(old == victim);
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  OK(FAMPI_Request_free(block));
}

static MPI_Comm shrunken(MPI_Comm comm)
{
  MPI_Comm smaller = MPI_COMM_NULL;
  MPI_Request request;
  int before, after;
  MPI_Comm_size(comm, &before);
  OK(FAMPI_Comm_ishrink(comm, &smaller, &request));
  OK(FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, seconds(20)));
  OK(MPI_Request_free(&request));
  MPI_Comm_size(smaller, &after);
  CHECK(after == before - 1);
  return smaller;
}

int main(int argc, char **argv)
{
  const int victim = 1;
  const char *where = argc > 1 ? argv[1] : "block";
  const int nested = strcmp(where, "nested") == 0, beside = strcmp(where, "beside") == 0;
  MPI_Comm world, other, smaller;
  MPI_Request outer = MPI_REQUEST_NULL, inner = MPI_REQUEST_NULL, last;
  MPI_Group known;
  int count;
  begin(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  OK(FAMPI_Init(world));
  OK(FAMPI_Init(other));

  if (strcmp(where, "after") != 0) OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &outer));
  if (nested) OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &inner));
  if (beside) OK(FAMPI_TryBlock_start(other, FAMPI_TRYBLOCK_GLOBAL, &inner));
  if (rank == victim) die();
  smaller = shrunken(world);
  /* Where no block is open the next one tells of it. */
  if (outer == MPI_REQUEST_NULL) OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &outer));
  if (nested || beside) OK(FAMPI_TryBlock_finish(inner, 0, NULL, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_TryBlock_finish(outer, 0, NULL, FAMPI_TIMEOUT_NEVER));
  names(&outer, world, victim);
  if (nested || beside) names(&inner, nested ? world : other, victim);

  OK(FAMPI_Comm_known_failed(world, &known));
  MPI_Group_size(known, &count);
  CHECK(count == 1);
  MPI_Group_free(&known);
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &last));
  OK(commit(&last, 0, NULL));
  OK(FAMPI_Request_free(&last));
  OK(FAMPI_TryBlock_start(smaller, FAMPI_TRYBLOCK_GLOBAL, &last));
  OK(commit(&last, 0, NULL));
  OK(FAMPI_Request_free(&last));
  passed("survived");
  MPI_Comm_free(&smaller);
  MPI_Comm_free(&other);
  MPI_Comm_free(&world);
  MPI_Finalize();
  return 0;
}
