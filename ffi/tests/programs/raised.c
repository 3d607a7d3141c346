/* Errors that the program raises in messages and collectives, and codes that MPI's own calls know. */
#include "check.h"

enum { MESSAGES = 3, CODE = 4711 };

static int sent[MESSAGES] = {1, 2, 3}, got[MESSAGES];

static void post(MPI_Comm comm, MPI_Request *requests)
{
  int k, me, all;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &all);
  for (k = 0; k < MESSAGES; k++) {
    MPI_Irecv(&got[k], 1, MPI_INT, (me + all - 1) % all, k, comm, &requests[k]);
    MPI_Issend(&sent[k], 1, MPI_INT, (me + 1) % all, k, comm, &requests[MESSAGES + k]);
  }
}

/* The report of a block has this rank and its code, and nothing else. */
static void told(MPI_Request block, MPI_Comm comm, int who)
{
  int codes[1] = {CODE}, deaths[2] = {FAMPI_ERR_PROC_FAILED, MPI_ERR_PROC_FAILED};
  int first = 0, count, at, code;
  MPI_Group group, whole;
  FAMPI_Report *report;
  OK(FAMPI_Get_failed_group(block, 1, codes, comm, &group));
  MPI_Group_size(group, &count);
  CHECK(count == 1);
  MPI_Comm_group(comm, &whole);
  MPI_Group_translate_ranks(group, 1, &first, whole, &at);
  CHECK(at == who);
  MPI_Group_free(&group);
  MPI_Group_free(&whole);
  OK(FAMPI_Get_failed_group(block, 2, deaths, comm, &group));
  MPI_Group_size(group, &count);
  CHECK(count == 0);
  MPI_Group_free(&group);
  OK(FAMPI_Report_get(block, &report));
  CHECK(FAMPI_Report_count(report) == 1);
  OK(FAMPI_Report_fault(report, 0, &at, &code));
  CHECK(at == who && code == CODE);
  FAMPI_Report_free(report);
}

/* Which message of which rank it was is known where it was, and rank and code everywhere. */
static void in_a_message(MPI_Comm comm, int who, int which, int waits)
{
  MPI_Request block, originals[2 * MESSAGES], list[2 * MESSAGES];
  int codes[1] = {CODE}, k, me, count, index = -1;
  MPI_Comm_rank(comm, &me);
  OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
  post(comm, originals);
  memcpy(list, originals, sizeof list);
  if (me == who) {
    if (waits) OK(FAMPI_Wait_local(&originals[which], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
    EXPECT(FAMPI_ERR_ARG, FAMPI_Request_raise_error(originals[which], MPI_ERR_PROC_FAILED));
    OK(FAMPI_Request_raise_error(originals[which], CODE));
    if (waits)
      EXPECT(CODE, FAMPI_Wait_local(&list[which], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  }
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 2 * MESSAGES, list));
  OK(FAMPI_Get_failed_requests(block, 1, codes, 1, &index, &count));
  CHECK(count == (me == who) && index == (me == who ? which : -1));
  told(block, comm, who);
  for (k = 0; k < MESSAGES; k++) CHECK(got[k] == k + 1);
  if (me == who) {
    EXPECT(FAMPI_ERR_STATE, FAMPI_Request_raise_error(originals[which], CODE));
    EXPECT(CODE, FAMPI_Wait_local(&originals[which], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  }
  for (k = 0; k < 2 * MESSAGES; k++) OK(MPI_Request_free(&originals[k]));
  OK(MPI_Request_free(&block));
}

enum { COLLECTIVES = 3 };

/* The same of a collective of fampi's own; the others, and this rank, have what it brings. */
static void in_a_collective(MPI_Comm comm, int level, int who, int which, int when)
{
  MPI_Request block, list[COLLECTIVES], copy;
  int codes[1] = {CODE}, k, me, all, count, index = -1, one = 1, sum = 0, word = 5, long_sum[100];
  int ones[100];
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &all);
  for (k = 0; k < 100; k++) ones[k] = 1;
  OK(FAMPI_TryBlock_start(comm, level, &block));
  OK(FAMPI_Iallreduce(ones, long_sum, 100, MPI_INT, MPI_SUM, comm, &list[0]));
  OK(FAMPI_Ibcast(&word, 1, MPI_INT, 0, comm, &list[1]));
  OK(FAMPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &list[2]));
  copy = list[which];
  if (when == 1) OK(FAMPI_Wait_local(&list[which], MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  if (me == who) {
    EXPECT(FAMPI_ERR_ARG, FAMPI_Request_raise_error(copy, MPI_ERR_PROC_FAILED));
    EXPECT(FAMPI_ERR_ARG, FAMPI_Request_raise_error(copy, FAMPI_ERR_INTERRUPTED));
    EXPECT(FAMPI_ERR_ARG, FAMPI_Request_raise_error(copy, MPI_ERR_OTHER));
    OK(FAMPI_Request_raise_error(copy, CODE));
    if (when == 1)
      EXPECT(CODE, FAMPI_Wait_local(&copy, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  }
  /* What is not in the list of its block is one of its collectives all the same. */
  count = when == 2 ? which : COLLECTIVES;
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, count, list));
  OK(FAMPI_Get_failed_requests(block, 1, codes, 1, &index, &count));
  if (when != 2) CHECK(count == (me == who) && index == (me == who ? which : -1));
  told(block, comm, who);
  CHECK(long_sum[7] == all && word == 5);
  if (level == FAMPI_TRYBLOCK_GLOBAL) CHECK(sum == all);
  if (me == who) {
    EXPECT(FAMPI_ERR_STATE, FAMPI_Request_raise_error(copy, CODE));
    EXPECT(CODE, FAMPI_Wait_local(&copy, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
  }
  for (k = 0; k < COLLECTIVES; k++) OK(MPI_Request_free(&list[k]));
  OK(MPI_Request_free(&block));
}

static void good(MPI_Comm comm)
{
  MPI_Request block, list[2 * MESSAGES];
  OK(FAMPI_TryBlock_start(comm, FAMPI_TRYBLOCK_GLOBAL, &block));
  post(comm, list);
  EXPECT(FAMPI_SUCCESS, commit(&block, 2 * MESSAGES, list));
  OK(MPI_Waitall(2 * MESSAGES, list, MPI_STATUSES_IGNORE));
  OK(MPI_Request_free(&block));
}

static void knows(int code, int expected, const char *part)
{
  char text[MPI_MAX_ERROR_STRING];
  int length = -1, class = -1;
  OK(MPI_Error_string(code, text, &length));
  CHECK(length == (int)strlen(text) && strstr(text, part) != NULL);
  OK(MPI_Error_class(code, &class));
  CHECK(class == expected);
}

static void words_for_codes(void)
{
  int code, class, added;
  char text[MPI_MAX_ERROR_STRING];
  knows(FAMPI_SUCCESS, MPI_SUCCESS, "");
  knows(FAMPI_ERR_TIMEOUT, FAMPI_ERR_TIMEOUT, "timeout");
  knows(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, "faulty");
  knows(FAMPI_ERR_PROC_FAILED_SOFT, MPI_ERR_PROC_FAILED, "failed");
  knows(FAMPI_ERR_PROC_FAILED, MPI_ERR_PROC_FAILED, "failed");
  knows(MPI_ERR_TRUNCATE, MPI_ERR_TRUNCATE, "truncated");
  for (code = FAMPI_ERR_PROC_FAILED; code <= FAMPI_ERR_RCODES_ANY; code++)
    knows(code, code <= FAMPI_ERR_PROC_FAILED_HARD ? MPI_ERR_PROC_FAILED : code, "");
  /* Those of the program itself are MPI's as ever, and may be raised. */
  OK(MPI_Add_error_class(&class));
  OK(MPI_Add_error_code(class, &added));
  OK(MPI_Add_error_string(added, "the pump is dry"));
  knows(added, class, "the pump is dry");
  OK(MPI_Error_string(MPI_ERR_COMM, text, &code));
}

int main(int argc, char **argv)
{
  MPI_Comm world = MPI_COMM_WORLD;
  MPI_Request block, making;
  int k, added, class, codes[1], count;
  MPI_Group group;
  begin(&argc, &argv);
  words_for_codes();
  if (argc > 1) {
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
    if (rank == 1) die();
    EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
    OK(MPI_Request_free(&block));
    OK(FAMPI_Comm_ishrink(MPI_COMM_WORLD, &world, &making));
    OK(FAMPI_Wait_local(&making, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER));
    OK(MPI_Request_free(&making));
  }
  for (k = 0; k < 2 * MESSAGES; k++) {
    in_a_message(world, k % 3, k, 0);
    good(world);
    in_a_message(world, (k + 1) % 3, k, k < MESSAGES);
  }
  good(world);
  for (k = 0; k < 3 * COLLECTIVES; k++) {
    in_a_collective(world, FAMPI_TRYBLOCK_GLOBAL, k % 3, k % COLLECTIVES, k / COLLECTIVES);
    good(world);
  }
  OK(MPI_Add_error_class(&class));
  OK(MPI_Add_error_code(class, &added));
  codes[0] = added;
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  if (rank == 0) OK(FAMPI_Request_raise_error(block, added));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
  OK(FAMPI_Get_failed_group(block, 1, codes, world, &group));
  MPI_Group_size(group, &count);
  CHECK(count == 1);
  MPI_Group_free(&group);
  OK(MPI_Request_free(&block));
  passed("passed");
  MPI_Finalize();
  return 0;
}
