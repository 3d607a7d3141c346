/*
 * A vector over all ranks that is saved in files, by a program that says where itself.
 *
 * `checkpoints misuse FOLDER` makes mistakes; `checkpoints own` begins by itself when a state is
 * lost, and `checkpoints anew FOLDER EVERY STAGE` when it is told to, and saves then; `checkpoints FILES FOLDER
 * STEPS FLAGS` goes from the last checkpoint, of any number of ranks, to this many steps, with files
 * of this kind.
 */
#include "check.h"

enum { ELEMENTS = 24, SLOT = 5 };

static int first, last;
static int64_t mine[ELEMENTS];

static void share(int at, int of)
{
  first = ELEMENTS * at / of;
  last = ELEMENTS * (at + 1) / of;
}

/* This rank's part of what was saved by so many ranks. */
static void take(int ranks)
{
  int64_t theirs[ELEMENTS];
  int from, element, count;
  for (from = 0; from < ranks; from++) {
    share(from, ranks);
    int begins = first, ends = last;
    share(rank, size);
    /* Only what is needed is read; how much there is can be asked without room. */
    if (ends <= first || begins >= last) continue;
    OK(FAMPI_Saved(from, SLOT, NULL, 0, MPI_INT64_T, &count));
    CHECK(count == ends - begins);
    OK(FAMPI_Saved(from, SLOT, theirs, ELEMENTS, MPI_INT64_T, &count));
    CHECK(count == ends - begins);
    for (element = first; element < last; element++)
      if (element >= begins && element < ends) mine[element - first] = theirs[element - begins];
  }
  EXPECT(FAMPI_ERR_ARG, FAMPI_Saved(ranks, SLOT, theirs, ELEMENTS, MPI_INT64_T, &count));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Saved(-1, SLOT, theirs, ELEMENTS, MPI_INT64_T, &count));
  EXPECT(FAMPI_ERR_NOTHING_PROTECTED, FAMPI_Saved(0, 0, theirs, 1, MPI_INT64_T, &count));
}

/* Whether the element is what so many steps make of it. */
static int is_right(int element, int64_t steps) { return mine[element - first] == element * steps; }

static void misuse(const char *folder)
{
  MPI_Request block;
  int64_t step, state = 0;
  int from, ranks, flag, count;
  EXPECT(FAMPI_ERR_COUNT, FAMPI_Set_checkpoints(folder, -1, FAMPI_FILES_OF_RANKS, 0));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Set_checkpoints(folder, 1, 3, 0));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Set_checkpoints(folder, 1, FAMPI_FILES_OF_RANKS, 4));
  OK(FAMPI_Set_checkpoints(folder, 1, FAMPI_FILES_OF_RANKS, 0));
  EXPECT(FAMPI_ERR_STATE, FAMPI_Saved(0, SLOT, &state, 1, MPI_INT64_T, &count));
  /* Nothing is saved before all ranks know what there is: one that tries leaves the block. */
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Checkpoint(block, -1, &flag));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Checkpoint(block, 0, NULL));
  if (rank == 0) EXPECT(FAMPI_ERR_STATE, FAMPI_Checkpoint(block, 3, &flag));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
  CHECK(reports(block, FAMPI_ERR_LEFT));
  EXPECT(FAMPI_ERR_STATE, FAMPI_Restart(block, 0, &from, &step, &ranks));
  OK(FAMPI_Request_free(&block));
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_LOCAL, &block));
  EXPECT(FAMPI_ERR_REQUEST, FAMPI_Restart(block, 0, &from, &step, &ranks));
  EXPECT(FAMPI_ERR_REQUEST, FAMPI_Checkpoint(block, 1, &flag));
  OK(commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Restart(block, 0, NULL, &step, &ranks));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Restart(block, 0, &from, NULL, &ranks));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Restart(block, 0, &from, &step, NULL));
  OK(FAMPI_Restart(block, 0, &from, &step, &ranks));
  CHECK(from == FAMPI_STATES_NOWHERE && step == -1 && ranks == size);
  OK(commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  /* Where nothing is protected there is nothing to save; it is said, and the job goes on. */
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  flag = 1;
  OK(FAMPI_Checkpoint(block, 1, &flag));
  CHECK(flag == 0);
  OK(commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  /* Whoever chooses again has to ask again. */
  OK(FAMPI_Set_checkpoints(folder, 1, FAMPI_FILES_OF_RANKS, 0));
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  EXPECT(FAMPI_ERR_STATE, FAMPI_Checkpoint(block, 3, &flag));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  /* What is told in a block that is decided later is not of a folder that was chosen meanwhile. */
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_Restart(block, 0, &from, &step, &ranks));
  OK(FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Set_checkpoints("elsewhere", 1, FAMPI_FILES_OF_RANKS, 0));
  OK(FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  OK(FAMPI_Request_free(&block));
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  EXPECT(FAMPI_ERR_STATE, FAMPI_Checkpoint(block, 3, &flag));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  /* From now on nothing is saved. */
  OK(FAMPI_Set_checkpoints(NULL, 0, FAMPI_FILES_OF_RANKS, 0));
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_Restart(block, 0, &from, &step, &ranks));
  OK(FAMPI_Protect(block, SLOT, &state, 1, MPI_INT64_T));
  OK(commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_Restart(block, 0, &from, &step, &ranks));
  CHECK(from == FAMPI_STATES_IN_MEMORY && step == -1 && ranks == size);
  OK(FAMPI_Checkpoint(block, 9, &flag));
  CHECK(flag == 0);
  OK(commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
}

/* All take what was saved, or begin; the number of steps that lead to that. */
static int64_t restart(void)
{
  MPI_Request block;
  int64_t step = -1, ignored;
  int from = FAMPI_STATES_NOWHERE, ranks, code, count, element, flag;
  OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
  code = FAMPI_Restart(block, 1, &from, &step, &ranks);
  if (code == FAMPI_SUCCESS && from == FAMPI_STATES_IN_FILES && ranks == size)
    OK(FAMPI_Restore(block, SLOT, mine, ELEMENTS, MPI_INT64_T, &count));
  if (code == FAMPI_SUCCESS && from == FAMPI_STATES_IN_FILES && ranks != size) {
    EXPECT(FAMPI_ERR_NOTHING_PROTECTED, FAMPI_Restore(block, SLOT, mine, 1, MPI_INT, &count));
    /* That has made the block faulty: once more, without it. */
    EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
    OK(FAMPI_Request_free(&block));
    OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
    OK(FAMPI_Restart(block, 1, &from, &step, &ranks));
    CHECK(from == FAMPI_STATES_IN_FILES && ranks != size);
    take(ranks);
    OK(FAMPI_Protect(block, SLOT, mine, last - first, MPI_INT64_T));
  }
  flag = 1;
  OK(FAMPI_Checkpoint(block, step < 0 ? 0 : step, &flag));
  CHECK(flag == 0);
  OK(commit(&block, 0, NULL));
  OK(FAMPI_Request_free(&block));
  if (code == FAMPI_SUCCESS && from == FAMPI_STATES_IN_FILES && ranks != size) {
    /* What was taken is in memory now, and nothing else is offered any more. */
    OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
    OK(FAMPI_Restart(block, 1, &from, &ignored, &count));
    CHECK(from == FAMPI_STATES_IN_MEMORY && ignored == -1 && count == size);
    EXPECT(FAMPI_ERR_STATE, FAMPI_Saved(0, SLOT, mine, ELEMENTS, MPI_INT64_T, &count));
    OK(commit(&block, 0, NULL));
    OK(FAMPI_Request_free(&block));
  }
  if (code != FAMPI_SUCCESS) {
    printf("rank %d: %s\n", rank, FAMPI_Error_string(code));
    return -1;
  }
  if (from == FAMPI_STATES_NOWHERE) step = 0;
  for (element = first; element < last; element++) CHECK(is_right(element, step));
  if (rank == 0) printf("from step %lld of %d ranks\n", (long long)step, ranks);
  return step;
}

/* Ranks 1 and 3 keep each other's states, and die at once: all begin. Then rank 0 dies: what was
 * protected since is there. A state of the beginning, which is not protected any more, is in the way
 * of no checkpoint. */
static void begin_again(char **argv)
{
  MPI_Comm world;
  MPI_Request block;
  int64_t step, steps = 0;
  int is_new, is_later, is_last = 0, has_state = 0, from, ranks, count, code, flag;
  const int by_itself = strcmp(argv[1], "own") == 0;
  const int stage = by_itself ? 0 : atoi(argv[4]);
  if (!by_itself) OK(FAMPI_Set_checkpoints(argv[2], atoi(argv[3]), FAMPI_FILES_OF_RANKS, 0));
  OK(FAMPI_World_init(FAMPI_RECOVERY_REBUILD, argv, &world, &is_new));
  is_later = is_new;
  MPI_Comm_rank(world, &rank);
  while (!has_state || steps < 20) {
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
    if (has_state) {
      if (!is_new && steps == 5 && rank % 2 == 1) die();
      if (!is_new && steps == 8 && rank == 0) die();
      step = steps + 1;
      if (!by_itself) FAMPI_Checkpoint(block, steps, &flag);
      FAMPI_Protect(block, SLOT, &step, 1, MPI_INT64_T);
      if (steps == 2 && !is_later) FAMPI_Protect(block, SLOT + 1, &step, 1, MPI_INT64_T);
    } else {
      step = 0;
      code = FAMPI_Restart(block, 0, &from, &step, &ranks);
      /* Rank 0 dies while all take their states from files, in this stage of it. */
      is_last = stage > 0 && !is_new && rank == 0 && code == FAMPI_SUCCESS &&
                from == FAMPI_STATES_IN_FILES;
      if (is_last && stage == 1) die();
      if (code == FAMPI_SUCCESS && from != FAMPI_STATES_NOWHERE)
        code = FAMPI_Restore(block, SLOT, &step, 1, MPI_INT64_T, &count);
      else
        step = 0;
      if (is_last && stage == 2) die();
    }
    if (is_last && stage == 3) {
      FAMPI_TryBlock_finish(block, 0, NULL, FAMPI_TIMEOUT_NEVER);
      die();
    }
    if (commit(&block, 0, NULL) == FAMPI_SUCCESS) {
      if (!has_state && step > 0) printf("rank %d: has %d\n", rank, (int)step);
      has_state = 1;
      steps = step;
    } else {
      has_state = by_itself && reports(block, FAMPI_ERR_STATE_LOST);
      if (has_state) printf("rank %d: begins by itself\n", rank);
      steps = 0;
      is_later = 1;
      OK(FAMPI_World_recover(&world));
    }
    OK(FAMPI_Request_free(&block));
  }
  OK(FAMPI_World_free(&world));
}

int main(int argc, char **argv)
{
  const char *kinds[] = {"rank", "node", "job"};
  int64_t step;
  int files = 0, steps, element, flag, saved = 0;
  begin(&argc, &argv);
  if (strcmp(argv[1], "misuse") == 0) {
    misuse(argv[2]);
    passed("passed");
    MPI_Finalize();
    return 0;
  }
  if (strcmp(argv[1], "own") == 0 || strcmp(argv[1], "anew") == 0) {
    begin_again(argv);
    passed("passed");
    MPI_Finalize();
    return 0;
  }
  while (strcmp(kinds[files], argv[1]) != 0) files++;
  steps = atoi(argv[3]);
  OK(FAMPI_Set_checkpoints(argv[2], 2, FAMPI_FILES_OF_RANKS + files, atoi(argv[4])));
  share(rank, size);
  for (step = restart(); step >= 0 && step < steps; step++) {
    MPI_Request block;
    OK(FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block));
    OK(FAMPI_Checkpoint(block, step, &flag));
    saved += flag;
    for (element = first; element < last; element++) mine[element - first] += element;
    OK(FAMPI_Protect(block, SLOT, mine, last - first, MPI_INT64_T));
    OK(commit(&block, 0, NULL));
    OK(FAMPI_Request_free(&block));
  }
  for (element = first; step >= 0 && element < last; element++) CHECK(is_right(element, step));
  if (step >= 0) printf("rank %d: %d steps, %d saved\n", rank, (int)step, saved);
  MPI_Finalize();
  return 0;
}
