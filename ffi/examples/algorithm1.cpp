// Algorithm 1 of the paper as it is printed there: to read, or to change where FAMPI_World_init,
// FAMPI_World_recover and FAMPI_World_free, which take the same arguments, are not enough.
//
// A death during the recovery is one more round: whatever fails, fails on all survivors alike.

#include <fampi_names.h>

#include <vector>

namespace {

constexpr int attempts = 5;

int way = FAMPI_RECOVERY_REBUILD;
char **arguments = nullptr;

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

int rebuild(MPI_Comm failed, MPI_Comm link, int count, MPI_Comm *world)
{
  std::vector<int> ranks(count);
  for (int k = 0; k < count; k++) ranks[k] = k;
  MPI_Request request;
  const int code =
      MPI_Comm_irebuild(failed, 0, link, count, ranks.data(), 0, world, &request);
  return code == MPI_SUCCESS ? wait_for(&request) : code;
}

// MPI may not come back from this merge when a process dies in it.
int merge(MPI_Comm link, bool is_new, MPI_Comm *world)
{
  const int code = MPI_Intercomm_merge(link, is_new, world);
  return code == MPI_SUCCESS ? FAMPI_Init(*world) : code;
}

// One attempt; the same result on all survivors.
int replace(MPI_Comm failed, MPI_Comm shrunken, MPI_Comm *world)
{
  MPI_Comm link = MPI_COMM_NULL;
  const int count = size_of(failed) - size_of(shrunken);
  const int code = FAMPI_Comm_spawn(arguments[0], arguments + 1, count, MPI_INFO_NULL, shrunken,
                                    &link);
  if (code != MPI_SUCCESS) return code;
  return way == FAMPI_RECOVERY_REBUILD ? rebuild(failed, link, count, world)
                                       : merge(link, false, world);
}

}  // namespace

// INITIALIZE_MPI
extern "C" int algorithm1_init(int recovery, char **argv, MPI_Comm *world, int *is_replacement)
{
  way = recovery;
  arguments = argv;
  MPI_Comm parent;
  const int code = FAMPI_Comm_get_parent(&parent);
  if (code != MPI_SUCCESS) return code;
  *is_replacement = parent != MPI_COMM_NULL;
  if (!*is_replacement) {
    MPI_Comm_dup(MPI_COMM_WORLD, world);
    return FAMPI_Init(*world);
  }
  if (way != FAMPI_RECOVERY_REBUILD) return merge(parent, true, world);
  MPI_Request request;
  const int started = MPI_Comm_irebuild_join(parent, world, &request);
  return started == MPI_SUCCESS ? wait_for(&request) : started;
}

// RECOVER_MPI
extern "C" int algorithm1_recover(MPI_Comm *world)
{
  MPI_Group dead;
  int count = 0, code = FAMPI_Comm_known_failed(*world, &dead);
  if (code != MPI_SUCCESS) return code;
  MPI_Group_size(dead, &count);
  MPI_Group_free(&dead);
  if (count == 0) return MPI_SUCCESS;
  for (int attempt = 0; attempt < attempts; attempt++) {
    MPI_Comm shrunken = MPI_COMM_NULL, next = MPI_COMM_NULL;
    MPI_Request request;
    code = MPI_Comm_ishrink(*world, &shrunken, &request);
    if (code == MPI_SUCCESS) code = wait_for(&request);
    if (code != MPI_SUCCESS) return code;
    if (way == FAMPI_RECOVERY_SHRINK) {
      next = shrunken;
    } else {
      code = replace(*world, shrunken, &next);
      MPI_Comm_free(&shrunken);
    }
    if (code == MPI_SUCCESS) {
      MPI_Comm_free(world);
      *world = next;
      return code;
    }
  }
  return code;
}

extern "C" int algorithm1_free(MPI_Comm *world) { return MPI_Comm_free(world); }
