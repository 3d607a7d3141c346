/*
 * Somebody dies while a replacement is started: the one who starts it, the new process before it
 * has begun, or another survivor. What is left ends by itself, and the next attempt works.
 * `spawns WHO`; a new process gets the number of its attempt as a second word. WHO with a digit
 * behind dies when Open MPI looks for the number of a communicator that many times; WHO with `link`
 * and a digit when two groups have been joined that many times. With `refused` nobody dies, and one
 * rank is refused a communicator that the others get.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { ATTEMPTS = 6 };

static const char *who;

static int is(const char *word) { return strcmp(who, word) == 0; }

/* The number behind this word, if WHO begins with it; 0: there is none. */
static int looks_of(const char *word)
{
  const size_t length = strlen(word);
  return strncmp(who, word, length) == 0 ? atoi(who + length) : 0;
}

typedef int Next(void *, void *, void *, const void *, const void *, bool, int);

/* How many are left until this process dies; 0: it does not. */
static int looks;

/* MPI's own function comes after this one. */
int ompi_comm_nextcid(void *made, void *comm, void *bridge, const void *first, const void *second,
                      bool sends_first, int mode)
{
  const struct timespec moment = {0, 50000000};
  Next *next;
  *(void **)&next = dlsym(RTLD_NEXT, "ompi_comm_nextcid");
  if (looks > 0 && --looks == 0) {
    /* The others are inside of theirs. */
    nanosleep(&moment, NULL);
    raise(SIGKILL);
  }
  return next(made, comm, bridge, first, second, sends_first, mode);
}

/* How often two groups are joined until this process dies; 0: it does not. */
static int links;

static int joined(int code)
{
  const struct timespec moment = {0, 50000000};
  if (links > 0 && --links == 0) {
    /* The others have theirs, and wait for a word about it. */
    nanosleep(&moment, NULL);
    raise(SIGKILL);
  }
  return code;
}

/* MPI's functions of these names. */
int MPI_Intercomm_create(MPI_Comm own, int leader, MPI_Comm bridge, int other, int tag,
                         MPI_Comm *made)
{
  return joined(PMPI_Intercomm_create(own, leader, bridge, other, tag, made));
}

int MPI_Intercomm_merge(MPI_Comm link, int is_behind, MPI_Comm *made)
{
  return joined(PMPI_Intercomm_merge(link, is_behind, made));
}

/* The next duplicate is made everywhere, and this process alone does not get it. */
static bool is_refused;

/* MPI's function of this name. */
int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *made)
{
  const int code = PMPI_Comm_dup_with_info(comm, info, made);
  if (code != MPI_SUCCESS || !is_refused) return code;
  is_refused = false;
  *made = MPI_COMM_NULL;
  return MPI_ERR_OTHER;
}

static void fall(int number)
{
  (void)number;
  raise(SIGKILL);
}

/* This process dies while the new one sleeps. */
static void fall_soon(void)
{
  const struct itimerval soon = {{0, 0}, {0, 300000}};
  signal(SIGALRM, fall);
  setitimer(ITIMER_REAL, &soon, NULL);
}

static int wait_for(MPI_Request *request)
{
  int code = FAMPI_Wait_local(request, MPI_STATUS_IGNORE, seconds(60));
  OK(MPI_Request_free(request));
  return code;
}

/* One attempt to replace the dead of a communicator. */
static int replace(MPI_Comm failed, int attempt, char *program, MPI_Comm *world)
{
  MPI_Comm smaller = MPI_COMM_NULL, link = MPI_COMM_NULL;
  MPI_Request request;
  char number[2] = {(char)('0' + attempt), 0};
  char *words[3] = {(char *)who, number, NULL};
  int ranks[8] = {0, 1, 2, 3, 4, 5, 6, 7}, all, left, code;
  OK(FAMPI_Comm_ishrink(failed, &smaller, &request));
  OK(wait_for(&request));
  MPI_Comm_size(failed, &all);
  MPI_Comm_size(smaller, &left);
  if (attempt == 0 && ((is("root") && rank == 0) || (is("other") && rank == 1))) fall_soon();
  is_refused = attempt == 0 && is("refused") && rank == 1;
  if (attempt == 0 && rank <= 1) {
    looks = looks_of(rank == 0 ? "root" : "other");
    links = looks_of(rank == 0 ? "rootlink" : "otherlink");
  }
  code = FAMPI_Comm_spawn(program, words, all - left, MPI_INFO_NULL, smaller, &link);
  MPI_Comm_free(&smaller);
  CHECK(code == 0 || code == FAMPI_ERR_CREATION);
  if (code != 0) return code;
  code = FAMPI_Comm_irebuild(failed, 0, link, all - left, ranks, 0, world, &request);
  return code == 0 ? wait_for(&request) : code;
}

int main(int argc, char **argv)
{
  const struct timespec moment = {1, 0};
  MPI_Comm world = MPI_COMM_NULL, parent, failed;
  MPI_Request block, request;
  int sum, one = 1, attempt, code = FAMPI_ERR_CREATION;
  who = argv[1];
  if (argc > 2 && argv[2][0] == '0') {
    /* Those who start it wait. */
    nanosleep(&moment, NULL);
    if (is("new")) raise(SIGKILL);
    looks = looks_of("new");
    links = looks_of("newlink");
  }
  begin(&argc, &argv);
  code = FAMPI_Comm_get_parent(&parent);
  if (code == FAMPI_ERR_CREATION) die();
  OK(code);
  code = FAMPI_ERR_CREATION;
  if (parent != MPI_COMM_NULL) {
    code = FAMPI_Comm_irebuild_join(parent, &world, &request);
    if (code == 0) code = wait_for(&request);
    if (code != 0) die();
  } else {
    MPI_Comm_dup(MPI_COMM_WORLD, &failed);
    OK(FAMPI_TryBlock_start(failed, FAMPI_TRYBLOCK_GLOBAL, &block));
    if (rank == size - 1) die();
    EXPECT(FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, commit(&block, 0, NULL));
    MPI_Request_free(&block);
    for (attempt = 0; attempt < ATTEMPTS && code != 0; attempt++) {
      code = replace(failed, attempt, argv[0], &world);
    }
    OK(code);
    MPI_Comm_free(&failed);
  }
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world, &request);
  OK(commit(&block, 1, &request));
  MPI_Request_free(&request);
  MPI_Request_free(&block);
  CHECK(sum == size);
  passed("complete again");
  MPI_Comm_free(&world);
  MPI_Finalize();
  return 0;
}
