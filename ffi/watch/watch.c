/*
 * libfampi_watch.so: names the blocking calls of MPI that a program makes inside of an open block.
 *
 * A rank that waits inside of a block with a call of MPI's own is not woken when the block is
 * doomed by a death elsewhere: it may hang. Loaded before the program, this library stands in front
 * of MPI's blocking calls and of those that start and finish blocks. With FAMPI_WATCH set in the
 * environment it reports on standard error, the first time at each place of the program or, with
 * FAMPI_WATCH=all, each time:
 *
 *   fampi-watch: rank 0: MPI_Barrier at ./halo(step+0x5c) inside block 3 of MPI_COMM_WORLD,
 *   started 0.002 s before at ./halo(step+0x1f)
 *
 *   mpirun ... env LD_PRELOAD=DIR/lib/libfampi_watch.so FAMPI_WATCH=1 ./halo
 *
 * `gdb -batch -ex 'info line *(step+0x5c)' halo` turns a place into a line, or `addr2line -e halo
 * 0x1234` one without a name, (+0x1234). What libfampi and MPI call themselves is not reported.
 * The program must have fampi as a shared library: what is inside of it cannot be stood in front
 * of, and a line at the end says that no block was seen. One thread, as everywhere in fampi.
 *
 * The only library of fampi that defines names of MPI's, by MPI's own way to do so (PMPI).
 */
#define _GNU_SOURCE
#include "fampi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPEN = 64, MOST_PLACES = 256 };

/* An open block. */
struct block {
  MPI_Request request;
  MPI_Comm comm;
  long number;
  double began;
  void *place;
};

static struct block open_blocks[MOST_OPEN];
static int open_count;
static long seen, reported;
static enum { NOT_ASKED, OFF, ONCE, ALL } mode;

static int is_asked(void)
{
  if (mode == NOT_ASKED) {
    const char *wanted = getenv("FAMPI_WATCH");
    int off = wanted == NULL || *wanted == '\0' || strcmp(wanted, "0") == 0;
    mode = off ? OFF : strcmp(wanted, "all") == 0 ? ALL : ONCE;
  }
  return mode != OFF;
}

/* The function of this name behind ours. */
static void *behind(const char *name)
{
  void *function = dlsym(RTLD_NEXT, name);
  if (function == NULL) {
    fprintf(stderr, "fampi-watch: there is no %s: link the program with libfampi.so\n", name);
    abort();
  }
  return function;
}

static const char *file_of(const Dl_info *info)
{
  const char *slash = info->dli_fname == NULL ? NULL : strrchr(info->dli_fname, '/');
  return slash != NULL ? slash + 1 : info->dli_fname != NULL ? info->dli_fname : "?";
}

/* True for what the program or a library of its own calls. */
static int is_theirs(void *place)
{
  Dl_info info;
  if (dladdr(place, &info) == 0) return 1;
  return strncmp(file_of(&info), "libfampi", 8) != 0 && strncmp(file_of(&info), "libmpi", 6) != 0;
}

static void name_place(char *text, size_t size, void *place)
{
  Dl_info info;
  if (dladdr(place, &info) == 0)
    snprintf(text, size, "%p", place);
  else if (info.dli_sname != NULL)
    snprintf(text, size, "%s(%s+0x%lx)", file_of(&info), info.dli_sname,
             (unsigned long)((char *)place - (char *)info.dli_saddr));
  else
    snprintf(text, size, "%s(+0x%lx)", file_of(&info),
             (unsigned long)((char *)place - (char *)info.dli_fbase));
}

/* The first time that something is called from here; later ones are forgotten. */
static int is_new(const char *call, void *place)
{
  static struct {
    const char *call;
    void *place;
  } places[MOST_PLACES];
  static int count;
  int k;
  for (k = 0; k < count; k++)
    if (places[k].place == place && places[k].call == call) return 0;
  if (count < MOST_PLACES) {
    places[count].call = call;
    places[count++].place = place;
  }
  return count < MOST_PLACES;
}

/* A blocking call comes, from this place. */
static void report(const char *call, void *place)
{
  const struct block *block = &open_blocks[open_count - 1];
  char here[256], start[256], name[MPI_MAX_OBJECT_NAME] = "";
  int rank = -1, length = 0;
  if (!is_theirs(place)) return;
  reported++;
  if (mode == ONCE && !is_new(call, place)) return;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_get_name(block->comm, name, &length);
  name_place(here, sizeof here, place);
  name_place(start, sizeof start, block->place);
  fprintf(stderr,
          "fampi-watch: rank %d: %s at %s inside block %ld of %s, started %.3f s before at %s\n",
          rank, call, here, block->number, length > 0 ? name : "an unnamed communicator",
          PMPI_Wtime() - block->began, start);
}

static void note_end(MPI_Request request)
{
  int k;
  for (k = open_count - 1; k >= 0; k--)
    if (open_blocks[k].request == request) {
      open_count--;
      memmove(&open_blocks[k], &open_blocks[k + 1],
              (size_t)(open_count - k) * sizeof(struct block));
      return;
    }
}

static void note_start(MPI_Request request, MPI_Comm comm, void *place)
{
  struct block *block;
  note_end(request);
  seen++;
  if (open_count == MOST_OPEN) return;
  block = &open_blocks[open_count++];
  block->request = request;
  block->comm = comm;
  block->number = seen;
  block->began = PMPI_Wtime();
  block->place = place;
}

int FAMPI_TryBlock_start(MPI_Comm comm, int flag, MPI_Request *tb_request)
{
  static int (*real)(MPI_Comm, int, MPI_Request *);
  int code;
  if (real == NULL) *(void **)&real = behind("FAMPI_TryBlock_start");
  code = real(comm, flag, tb_request);
  if (code == FAMPI_SUCCESS && is_asked())
    note_start(*tb_request, comm, __builtin_return_address(0));
  return code;
}

int FAMPI_TryBlock_finish(MPI_Request tb_request, int count, MPI_Request *array_of_requests,
                          FAMPI_Timeout timeout)
{
  static int (*real)(MPI_Request, int, MPI_Request *, FAMPI_Timeout);
  int code;
  if (real == NULL) *(void **)&real = behind("FAMPI_TryBlock_finish");
  code = real(tb_request, count, array_of_requests, timeout);
  if (code == FAMPI_SUCCESS) note_end(tb_request);
  return code;
}

int FAMPI_TryBlock_finish_allreduce(MPI_Request tb_request, int count,
                                    MPI_Request *array_of_requests, FAMPI_Timeout timeout,
                                    const void *sendbuf, void *recvbuf, int numbers,
                                    MPI_Datatype datatype, MPI_Op op)
{
  static int (*real)(MPI_Request, int, MPI_Request *, FAMPI_Timeout, const void *, void *, int,
                     MPI_Datatype, MPI_Op);
  int code;
  if (real == NULL) *(void **)&real = behind("FAMPI_TryBlock_finish_allreduce");
  code = real(tb_request, count, array_of_requests, timeout, sendbuf, recvbuf, numbers, datatype,
              op);
  if (code == FAMPI_SUCCESS) note_end(tb_request);
  return code;
}

int FAMPI_Request_free(MPI_Request *request)
{
  static int (*real)(MPI_Request *);
  if (real == NULL) *(void **)&real = behind("FAMPI_Request_free");
  if (request != NULL) note_end(*request);
  return real(request);
}

/* fampi's own waits without a timeout, which pass other requests on to MPI's. */
int FAMPI_Wait(MPI_Request *request, MPI_Status *status)
{
  static int (*real)(MPI_Request *, MPI_Status *);
  if (real == NULL) *(void **)&real = behind("FAMPI_Wait");
  if (open_count > 0) report("MPI_Wait (FAMPI_Wait)", __builtin_return_address(0));
  return real(request, status);
}

int FAMPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
  static int (*real)(int, MPI_Request *, MPI_Status *);
  if (real == NULL) *(void **)&real = behind("FAMPI_Waitall");
  if (open_count > 0) report("MPI_Waitall (FAMPI_Waitall)", __builtin_return_address(0));
  return real(count, requests, statuses);
}

int MPI_Finalize(void)
{
  int rank = -1;
  if (is_asked()) {
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (seen == 0)
      fprintf(stderr,
              "fampi-watch: rank %d: no block was seen: link the program with libfampi.so\n", rank);
    else if (reported > 0 || rank == 0)
      fprintf(stderr, "fampi-watch: rank %d: %ld blocking calls inside of %ld blocks\n", rank,
              reported, seen);
  }
  return PMPI_Finalize();
}

#define WATCHED(name, parameters, arguments)                          \
  int name parameters                                                 \
  {                                                                   \
    if (open_count > 0) report(#name, __builtin_return_address(0));   \
    return P##name arguments;                                         \
  }

#include "calls.h"
