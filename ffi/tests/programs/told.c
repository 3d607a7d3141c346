/*
 * Who is told of what: ranks in an inner block and others, once and again. `told death|raise|used`
 *
 * Rank 5 of 6 dies in a block of the upper half, or raises a code there; then rank 1 dies in a
 * block of all. Or rank 5 dies in a block of all, which has the upper half in use by an inner block
 * that was committed before, or by a request of MPI's own, or not at all.
 */
#include "check.h"

static MPI_Comm world, half;

/* The ranks with these codes on a communicator, as bits. */
static int group(MPI_Request block, int code, MPI_Comm comm)
{
  MPI_Group failed, all;
  int count, ranks[16], old[16], bits = 0;
  OK(FAMPI_Get_failed_group(block, 1, &code, comm, &failed));
  MPI_Group_size(failed, &count);
  for (int i = 0; i < count; i++) ranks[i] = i;
  MPI_Comm_group(comm, &all);
  MPI_Group_translate_ranks(failed, count, ranks, all, old);
  for (int i = 0; i < count; i++) bits |= 1 << old[i];
  MPI_Group_free(&failed);
  MPI_Group_free(&all);
  return bits;
}

/* Whether a block has a new fault with this code on a communicator. */
static int names(MPI_Request block, int code, MPI_Comm comm)
{
  MPI_Comm found[4];
  int count, is_there = 0;
  OK(FAMPI_Get_failed_communicators(block, 1, &code, 4, found, &count));
  CHECK(count <= 3);
  for (int i = 0; i < count; i++) is_there |= found[i] == comm;
  return is_there;
}

static int dead_of(MPI_Comm comm)
{
  MPI_Group dead;
  int count;
  OK(FAMPI_Comm_known_failed(comm, &dead));
  MPI_Group_size(dead, &count);
  MPI_Group_free(&dead);
  return count;
}

static int end(MPI_Request *block, int count, MPI_Request *list)
{
  OK(FAMPI_TryBlock_finish(*block, count, list, FAMPI_TIMEOUT_NEVER));
  return FAMPI_Wait_local(block, MPI_STATUS_IGNORE, seconds(20));
}

/* A death outside of all blocks of the half counts for it where it is in use. */
static void used(int is_member)
{
  const int died = FAMPI_ERR_PROC_FAILED, bad = 5;
  MPI_Comm strange, mixed, living;
  MPI_Request outer, list[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, making;
  int value = 0, living_size = 0, one = 1, sum = 0;
  /* Communicators that are not in use, of the same and of other processes. */
  MPI_Comm_dup(half, &strange);
  MPI_Comm_split(world, rank % 2, rank, &mixed);
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &outer));
  OK(FAMPI_TryBlock_start(half, FAMPI_TRYBLOCK_GLOBAL, &list[0]));
  OK(end(&list[0], 0, NULL));
  /* Of the living, which could end. */
  if (rank % 2) MPI_Irecv(&value, 1, MPI_INT, rank / 2, 3, mixed, &list[1]);
  if (rank == bad) die();
  if (rank % 2) MPI_Send(&value, 1, MPI_INT, rank / 2, 3, mixed);
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, end(&outer, 2, list));
  CHECK(names(outer, died, world));
  CHECK(names(outer, died, half) == is_member);
  CHECK(!names(outer, died, strange));
  CHECK(names(outer, died, mixed) == rank % 2);
  CHECK(group(outer, died, world) == 1 << bad);
  CHECK(group(outer, died, half) == (is_member ? 1 << 2 : 0));
  CHECK(group(outer, died, strange) == (is_member ? 1 << 2 : 0));
  CHECK(group(outer, died, mixed) == (rank % 2 ? 1 << 2 : 0));
  CHECK(dead_of(world) == 1 && dead_of(half) == is_member && dead_of(strange) == is_member);
  CHECK(dead_of(mixed) == rank % 2);
  if (rank % 2) OK(MPI_Request_free(&list[1]));
  OK(FAMPI_Request_free(&list[0]));
  OK(FAMPI_Request_free(&outer));
  /* What is first used now can be shrunk, and used. */
  if (rank % 2 == 0) return;
  OK(FAMPI_Comm_ishrink(mixed, &living, &making));
  OK(FAMPI_Wait(&making, MPI_STATUS_IGNORE));
  MPI_Comm_size(living, &living_size);
  CHECK(living_size == 2);
  OK(FAMPI_TryBlock_start(living, FAMPI_TRYBLOCK_GLOBAL, &outer));
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, living, &list[0]);
  OK(end(&outer, 1, list));
  CHECK(sum == 2 && dead_of(living) == 0);
  OK(FAMPI_Wait(&list[0], MPI_STATUS_IGNORE));
  OK(FAMPI_Request_free(&outer));
  MPI_Comm_free(&living);
}

int main(int argc, char **argv)
{
  const int dies = argc > 1 && strcmp(argv[1], "death") == 0;
  const int died = FAMPI_ERR_PROC_FAILED, bad = 5, raised = 4711;
  MPI_Request outer, inner;
  int is_member, round;
  begin(&argc, &argv);
  CHECK(size == 6);
  is_member = rank >= 3;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_split(world, is_member, rank, &half);
  OK(FAMPI_Init(world));
  OK(FAMPI_Init(half));
  if (argc > 1 && strcmp(argv[1], "used") == 0) {
    used(is_member);
    passed("told");
    MPI_Finalize();
    return 0;
  }

  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &outer));
  OK(FAMPI_TryBlock_start(half, FAMPI_TRYBLOCK_GLOBAL, &inner));
  if (rank == bad && dies) die();
  if (rank == bad) OK(FAMPI_Request_raise_error(inner, raised));
  OK(FAMPI_TryBlock_finish(inner, 0, NULL, FAMPI_TIMEOUT_NEVER));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, end(&outer, 1, &inner));
  /* The fault of the inner block, and its cause, on each rank of the outer one. */
  CHECK(reports(outer, FAMPI_ERR_INNER));
  CHECK(reports(outer, dies ? FAMPI_ERR_PROC_FAILED_SOFT : raised));
  CHECK(group(outer, FAMPI_ERR_INNER, world) >= 1 << 3);
  CHECK(group(outer, died, world) == (dies ? 1 << bad : 0));
  CHECK(dead_of(world) == dies && dead_of(half) == (dies && is_member));
  CHECK(names(outer, FAMPI_ERR_INNER, half) == is_member);
  CHECK(names(outer, dies ? died : raised, half) == is_member);
  CHECK(group(outer, dies ? died : raised, half) == (is_member ? 1 << 2 : 0));
  OK(FAMPI_Request_free(&inner));
  OK(FAMPI_Request_free(&outer));

  /* A second death before any recovery: who sizes a recovery by the group gets both. */
  if (rank == 1) die();
  for (round = 0; round < 3; round++) {
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &outer));
    const int code = end(&outer, 0, NULL);
    if (code == FAMPI_SUCCESS) break;
    CHECK(group(outer, died, world) & 1 << 1);
    if (dead_of(world) == 1 + dies) {
      CHECK(group(outer, died, world) == (dies ? 1 << 1 | 1 << bad : 1 << 1));
      CHECK(names(outer, died, world));
    }
    OK(FAMPI_Request_free(&outer));
  }
  CHECK(round > 0 && round < 3);
  CHECK(dead_of(world) == 1 + dies);
  OK(FAMPI_Request_free(&outer));

  /* A later fault is no new death, and the group is what a recovery still has to replace. */
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &outer));
  if (rank == 2) OK(FAMPI_Request_raise_error(outer, raised));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, end(&outer, 0, NULL));
  CHECK(!names(outer, died, world) && names(outer, raised, world));
  CHECK(group(outer, raised, world) == 1 << 2);
  CHECK(group(outer, died, world) == (dies ? 1 << 1 | 1 << bad : 1 << 1));
  OK(FAMPI_Request_free(&outer));
  passed("told");
  MPI_Finalize();
  return 0;
}
