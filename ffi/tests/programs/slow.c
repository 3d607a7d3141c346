/* Rank 2 is stopped for a while: all agree that it is benched, give its work to another rank, and
   take it back when it is well. Rank 1 may die meanwhile, and may be replaced by a process that
   gets work when it has passed its tests. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <time.h>
#include <unistd.h>

static MPI_Comm world;
static FAMPI_Membership *group;

static int has(int member)
{
  int flag;
  OK(FAMPI_Membership_has(group, member, &flag));
  return flag;
}

/* Whether this rank of the communicator is among those that are benched there. */
static int benched(int one)
{
  MPI_Group slow, all;
  int place;
  OK(FAMPI_Comm_benched(world, &slow));
  MPI_Comm_group(world, &all);
  MPI_Group_translate_ranks(all, 1, &one, slow, &place);
  MPI_Group_free(&slow);
  MPI_Group_free(&all);
  return place != MPI_UNDEFINED;
}

static void pause_ms(long milliseconds)
{
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* One round of work, with its commit, whose word goes to all; the code of the block. */
static int work(int *news)
{
  MPI_Request block;
  int code, owner, works = 0;
  for (int part = 0; part < 4; part++) {
    OK(FAMPI_Membership_owner(group, part, &owner));
    CHECK(has(owner));
    works += owner == rank;
  }
  CHECK((works > 0) == has(rank));
  pause_ms(3);
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_Membership_news(group, news));
  OK(FAMPI_TryBlock_finish_allreduce(block, 0, NULL, FAMPI_TIMEOUT_NEVER, news, news, 1, MPI_INT,
                                     MPI_BOR));
  code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  OK(FAMPI_Request_free(&block));
  return code;
}

/* So many rounds, after each of which the group is renewed if there is news. */
static void rounds(int count)
{
  int news;
  while (count-- > 0) {
    OK(work(&news));
    if (news) OK(FAMPI_Membership_renew(group, world));
  }
}

/* Rounds until a member is in the group, or is not; all ranks see the same epoch then. */
static void until(int member, int wanted)
{
  int tried = 0, epoch, all[2];
  MPI_Request block, request;
  while (has(member) != wanted) {
    CHECK(tried++ < 5000);
    rounds(1);
  }
  OK(FAMPI_Membership_epoch(group, &epoch));
  all[0] = epoch;
  all[1] = -epoch;
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_Iallreduce(MPI_IN_PLACE, all, 2, MPI_INT, MPI_MAX, world, &request));
  OK(commit(&block, 1, &request));
  CHECK(all[0] == epoch && all[1] == -epoch);
  OK(FAMPI_Request_free(&request));
  OK(FAMPI_Request_free(&block));
}

/* Rank 3 stops rank 2 while all others are on their way to the next commit. */
static void stop_rank_2(void)
{
  int own = (int)getpid(), processes[8];
  MPI_Request block, request;
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_Iallgather(&own, 1, MPI_INT, processes, 1, MPI_INT, world, &request));
  OK(commit(&block, 1, &request));
  OK(FAMPI_Request_free(&request));
  OK(FAMPI_Request_free(&block));
  if (rank != 3) return;
  kill(processes[2], SIGSTOP);
  pause_ms(800);
  kill(processes[2], SIGCONT);
}

/* Rank 1 dies in a round, and a new process takes its place, or in a census, and the others go on
   with those who live. What a census that fails has found does not count. */
static void lose_rank_1(int replaced)
{
  int news, before, after;
  if (rank == 1) die();
  OK(FAMPI_Membership_epoch(group, &before));
  EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS,
         replaced ? work(&news) : FAMPI_Membership_renew(group, world));
  OK(FAMPI_Membership_epoch(group, &after));
  CHECK(before == after && !has(2) && benched(2));
  OK(FAMPI_World_recover(&world));
  OK(FAMPI_Membership_renew(group, world));
  CHECK(benched(replaced ? 2 : 1));
  CHECK(benched(1) && !has(1) && !has(2));
}

int main(int argc, char **argv)
{
  int dies, replaced, is_new, parts;
  begin(&argc, &argv);
  dies = argc > 1 && strcmp(argv[1], "calm");
  replaced = argc > 1 && !strcmp(argv[1], "replaced");
  OK(FAMPI_World_init(replaced ? FAMPI_RECOVERY_REBUILD : FAMPI_RECOVERY_SHRINK, NULL, &world,
                      &is_new));
  MPI_Comm_rank(world, &rank);
  EXPECT(FAMPI_ERR_ARG, FAMPI_Membership_start(world, 4, &group));
  EXPECT(FAMPI_ERR_COMM, FAMPI_Membership_start(MPI_COMM_SELF, FAMPI_SLOW_RETURN, &group));
  OK(FAMPI_Membership_start(world, replaced ? FAMPI_SLOW_PROBATION : FAMPI_SLOW_RETURN, &group));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Membership_owner(group, 4, &parts));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Membership_news(NULL, &parts));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Membership_renew(NULL, world));
  EXPECT(FAMPI_ERR_ARG, FAMPI_Membership_start(world, FAMPI_SLOW_RETURN, NULL));
  if (is_new) {
    CHECK(has(2));
    OK(FAMPI_Membership_renew(group, world));
    CHECK(!has(2) && !has(1) && benched(1) && benched(2));
  } else {
    /* What is usual is not known before some tests. */
    rounds(200);
    until(2, 1);
    stop_rank_2();
    until(2, 0);
    CHECK(benched(2));
    if (dies) lose_rank_1(replaced);
  }
  until(2, 1);
  if (replaced) until(1, 1);
  passed("passed");
  FAMPI_Membership_free(&group);
  CHECK(group == NULL);
  OK(FAMPI_World_free(&world));
  MPI_Finalize();
  return 0;
}
