/*
 * Processes die in each call of MPI that the recovery of a world makes: a survivor, a new process
 * or a spare. The world is complete again after each of them, with the survivors in their places.
 *
 * `worlds survivor|new|spare RECOVERY FIRST STRIDE`, in a folder of its own. In each round rank 1
 * dies, and in its recovery one more process: in call FIRST, in the next round STRIDE calls later.
 */
#include "check.h"


/* The calls so far, and in which of them this process dies. */
static int calls, at;

static const char *planned = "worlds.plan", *taken = "worlds.taken";

#define AROUND(call)            \
  do {                          \
    int code_;                  \
    if (++calls == at) die();   \
    code_ = (call);             \
    if (++calls == at) die();   \
    return code_;               \
  } while (0)

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made) { AROUND(PMPI_Comm_dup(comm, made)); }

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made)
{
  AROUND(PMPI_Comm_split(comm, color, key, made));
}

int MPI_Comm_free(MPI_Comm *comm) { AROUND(PMPI_Comm_free(comm)); }

int MPI_Intercomm_merge(MPI_Comm link, int high, MPI_Comm *made)
{
  AROUND(PMPI_Intercomm_merge(link, high, made));
}

int MPI_Intercomm_create(MPI_Comm local, int leader, MPI_Comm bridge, int remote, int tag,
                         MPI_Comm *made)
{
  AROUND(PMPI_Intercomm_create(local, leader, bridge, remote, tag, made));
}

int MPI_Comm_spawn(const char *command, char **argv, int most, MPI_Info info, int root,
                   MPI_Comm comm, MPI_Comm *made, int *codes)
{
  AROUND(PMPI_Comm_spawn(command, argv, most, info, root, comm, made, codes));
}

int MPI_Comm_accept(const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made)
{
  AROUND(PMPI_Comm_accept(port, info, root, comm, made));
}

int MPI_Group_translate_ranks(MPI_Group from, int count, const int *ranks, MPI_Group to, int *out)
{
  AROUND(PMPI_Group_translate_ranks(from, count, ranks, to, out));
}

int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
  AROUND(PMPI_Iallreduce(from, to, count, type, op, comm, request));
}

int MPI_Allgather(const void *from, int count, MPI_Datatype type, void *to, int to_count,
                  MPI_Datatype to_type, MPI_Comm comm)
{
  AROUND(PMPI_Allgather(from, count, type, to, to_count, to_type, comm));
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
  AROUND(PMPI_Allreduce(from, to, count, type, op, comm));
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
  AROUND(PMPI_Bcast(buffer, count, type, root, comm));
}

#if defined(OPEN_MPI)
int MPIX_Comm_agree(MPI_Comm comm, int *flag) { AROUND(PMPIX_Comm_agree(comm, flag)); }

int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *made) { AROUND(PMPIX_Comm_shrink(comm, made)); }
#endif

static MPI_Comm world;
static int is_new;

/* The greatest numbers of all ranks, in a block that is done again until it is committed. */
static void agree(int *numbers, int count)
{
  static int all[2];
  MPI_Request block, request;
  int code, k;
  do {
    OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
    MPI_Iallreduce(numbers, all, count, MPI_INT, MPI_MAX, world, &request);
    code = commit(&block, 1, &request);
    OK(FAMPI_Request_free(&request));
    OK(FAMPI_Request_free(&block));
    if (code != FAMPI_SUCCESS) OK(FAMPI_World_recover(&world));
  } while (code != FAMPI_SUCCESS);
  for (k = 0; k < count; k++) numbers[k] = all[k];
}

/* The first of the new processes that finds a plan is the one that dies. */
static void plan(int place)
{
  FILE *file = fopen("worlds.next", "w");
  CHECK(file != NULL);
  fprintf(file, "%d", place);
  fclose(file);
  CHECK(rename("worlds.next", planned) == 0);
}

static void take_plan(void)
{
  FILE *file;
  if (rename(planned, taken) != 0) return;
  file = fopen(taken, "r");
  if (file == NULL) return;
  if (fscanf(file, "%d", &at) != 1) at = 0;
  fclose(file);
}

/* One round; how many calls a survivor's recovery has made. */
static int once(const char *who, int place, int keeps_ranks)
{
  int before, after, all, all_after, made;
  MPI_Comm_rank(world, &before);
  MPI_Comm_size(world, &all);
  if (strcmp(who, "new") == 0 && before == 0 && place > 0) plan(place);
  lose_one(world);
  calls = 0;
  if (strcmp(who, "survivor") == 0 && before == all - 1) at = place;
  OK(FAMPI_World_recover(&world));
  made = calls;
  at = 0;
  MPI_Comm_rank(world, &after);
  MPI_Comm_size(world, &all_after);
  CHECK(all_after == all);
  CHECK(!keeps_ranks || before == after);
  return made;
}

int main(int argc, char **argv)
{
  /* In which call somebody dies in this round, and how many calls there are. */
  int progress[2] = {0, 0}, recovery, made, is_spare, is_merge, code;
  const int first = atoi(argv[3]), stride = atoi(argv[4]);
  const char *who = argv[1];
  begin(&argc, &argv);
  is_merge = strcmp(argv[2], "merge") == 0;
  is_spare = strcmp(who, "spare") == 0;
  recovery = is_merge ? FAMPI_RECOVERY_MERGE : FAMPI_RECOVERY_REBUILD;
  if (strcmp(who, "new") == 0) take_plan();
  /* Of the spares the first one dies, in this call. */
  if (is_spare && rank == size - 2 && getenv("WORLDS_CALL")) at = atoi(getenv("WORLDS_CALL"));
  code = FAMPI_World_init(recovery, argv, &world, &is_new);
  at = 0;
  if (code == FAMPI_ERR_CREATION) {
    passed("no world");
    MPI_Finalize();
    return 0;
  }
  OK(code);
  for (agree(progress, 2); progress[1] == 0 || progress[0] < progress[1]; agree(progress, 2)) {
    made = once(who, progress[0], !is_merge);
    /* A first round without a second death tells how many calls there are. */
    if (progress[1] == 0) progress[1] = is_spare ? 1 : made + 6;
    progress[0] += progress[0] == 0 ? first : stride;
  }
  MPI_Comm_rank(world, &rank);
  printf("rank %d: complete after call %d\n", rank, progress[0]);
  OK(FAMPI_World_free(&world));
  CHECK(world == MPI_COMM_NULL);
  MPI_Finalize();
  return 0;
}
