// Algorithm 1 of the paper: initialise and recover, by rebuild, by merge, by shrink alone, or with
// spares of the launch.
//
// A death during the recovery is one more round: whatever fails, fails on all survivors alike.

#include "ftlib.h"
#include "spares.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int attempts = 5;

ftlib_recovery mode = FTLIB_REBUILD;
char **arguments = nullptr;
bool spawned = false;

[[noreturn]] void give_up(const char *what, int code)
{
  std::fprintf(stderr, "ftlib: %s: %s\n", what, FAMPI_Error_string(code));
  std::exit(1);
}

// Waits as long as it takes, in portions, as the papers' programs do.
int wait_for(MPI_Request *request)
{
  MPI_Timeout limit;
  MPI_Timeout_set_seconds(&limit, 1.0);
  int code;
  do {
    code = MPI_Wait_local(request, MPI_STATUS_IGNORE, limit);
  } while (code == MPI_ERR_TIMEOUT);
  MPI_Request_free(request);
  return code;
}

int size_of(MPI_Comm comm)
{
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

// The program again, with its arguments.
int spawn(MPI_Comm over, int count, MPI_Comm *link)
{
  return FAMPI_Comm_spawn(arguments[0], arguments + 1, count, MPI_INFO_NULL, over, link);
}

int rebuild(MPI_Comm failed, MPI_Comm link, int count, MPI_Comm *world)
{
  std::vector<int> ranks(count);
  for (int k = 0; k < count; k++) ranks[k] = k;
  MPI_Request request;
  const int code =
      MPI_Comm_irebuild(failed, 0, link, count, ranks.data(), 0, world, &request);
  return code == MPI_SUCCESS ? wait_for(&request) : code;
}

// One attempt; the same result on all survivors.
int replace(MPI_Comm failed, MPI_Comm shrunken, MPI_Comm *world)
{
  MPI_Comm link = MPI_COMM_NULL;
  const int count = size_of(failed) - size_of(shrunken);
  int code = spawn(shrunken, count, &link);
  if (code != MPI_SUCCESS) return code;
  if (mode == FTLIB_REBUILD) return rebuild(failed, link, count, world);
  code = MPI_Intercomm_merge(link, 0, world);
  return code == MPI_SUCCESS ? FAMPI_Init(*world) : code;
}

}  // namespace

ftlib_recovery ftlib_named(const char *word)
{
  const std::string name = word == nullptr ? "rebuild" : word;
  if (name == "rebuild") return FTLIB_REBUILD;
  if (name == "merge") return FTLIB_MERGE;
  if (name == "shrink") return FTLIB_SHRINK;
  if (name == "spares") return FTLIB_SPARES;
  std::fprintf(stderr, "ftlib: write rebuild, merge, shrink or spares instead of %s\n", word);
  std::exit(2);
}

MPI_Comm ftlib_initialize(ftlib_recovery recovery, char **argv, int *is_replacement)
{
  mode = recovery;
  arguments = argv;
  MPI_Comm parent, world = MPI_COMM_NULL;
  int code = FAMPI_Comm_get_parent(&parent);
  if (code != MPI_SUCCESS) give_up("no link", code);
  spawned = parent != MPI_COMM_NULL;
  *is_replacement = spawned;
  if (mode == FTLIB_SPARES) {
    code = spares_begin(&world, is_replacement);
    spawned = *is_replacement;
  } else if (!spawned) {
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    code = FAMPI_Init(world);
  } else if (mode == FTLIB_REBUILD) {
    MPI_Request request;
    code = MPI_Comm_irebuild_join(parent, &world, &request);
    if (code == MPI_SUCCESS) code = wait_for(&request);
  } else {
    code = MPI_Intercomm_merge(parent, 1, &world);
    if (code == MPI_SUCCESS) code = FAMPI_Init(world);
  }
  if (code != MPI_SUCCESS) give_up("no world", code);
  return world;
}

MPI_Comm ftlib_recover(MPI_Request block, MPI_Comm world)
{
  int codes[] = {MPI_ERR_PROC_FAILED};
  int count = 0;
  MPI_Comm failed = MPI_COMM_NULL;
  MPI_Get_failed_communicators(block, 1, codes, 1, &failed, &count);
  if (count == 0) return world;
  int code = MPI_SUCCESS;
  if (mode == FTLIB_SPARES) {
    MPI_Comm next = MPI_COMM_NULL;
    code = spares_mend(&next);
    if (code != MPI_SUCCESS) give_up("no spare", code);
    MPI_Comm_free(&failed);
    return next;
  }
  for (int attempt = 0; attempt < attempts; attempt++) {
    MPI_Comm shrunken = MPI_COMM_NULL, next = MPI_COMM_NULL;
    MPI_Request request;
    code = MPI_Comm_ishrink(failed, &shrunken, &request);
    if (code == MPI_SUCCESS) code = wait_for(&request);
    if (code != MPI_SUCCESS) break;
    if (mode == FTLIB_SHRINK) {
      next = shrunken;
    } else {
      code = replace(failed, shrunken, &next);
      MPI_Comm_free(&shrunken);
    }
    if (code == MPI_SUCCESS) {
      MPI_Comm_free(&failed);
      return next;
    }
  }
  give_up("no recovery", code);
}

void ftlib_finalize(MPI_Comm *world)
{
  MPI_Comm_free(world);
  if (mode == FTLIB_SPARES) spares_end();
}

void ftlib_inject(int cycle)
{
  const char *plan = std::getenv("FTLIB_KILL");
  // A cycle that is done again is not the one that was meant.
  static std::set<int> seen;
  if (plan == nullptr || spawned || !seen.insert(cycle).second) return;
  // The rank of the launch: a survivor of a shrink has another one, and maybe that of a victim.
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string now = std::to_string(cycle) + ":" + std::to_string(rank);
  std::istringstream entries(plan);
  for (std::string entry; entries >> entry;) {
    if (entry == now) std::raise(SIGKILL);
  }
}
