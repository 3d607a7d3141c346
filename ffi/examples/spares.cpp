// Ranks and spares are in one communicator, the pool, and each knows who holds which rank:
//
//   spares   a block of the pool, finished at once ──────────── decided ─ mend, or leave
//   ranks    blocks of the world …  a death ─ the same block ─────┘
//
//   mend     shrink the pool ─ who takes which place: the same on all ─ split ─ commit
//                          ─ the new world into use ─ commit
//
// A death in any step of it is one more round, for all that live.

#include "spares.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int attempts = 5;
constexpr int parked = -1;
// Codes of faults, of this file's own.
constexpr int dismissal = 1001, not_made = 1002;

MPI_Comm pool = MPI_COMM_NULL;
// The rank that each process of the pool holds.
std::vector<int> places;

int rank_in(MPI_Comm comm)
{
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int start(MPI_Request *block)
{
  return FAMPI_TryBlock_start(pool, FAMPI_TRYBLOCK_GLOBAL, block);
}

// Waits, without a core for it where nothing is urgent.
int wait_for(MPI_Request *request, bool is_parked)
{
  if (!is_parked) return FAMPI_Wait_local(request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  int code;
  while ((code = FAMPI_Wait_local(request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_POLL)) ==
         FAMPI_ERR_TIMEOUT)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return code;
}

// The verdict on a block in which this process did its part, or not.
int agree(MPI_Request *block, bool done, bool is_parked = false)
{
  if (!done) {
    FAMPI_Request_raise_error(*block, not_made);
    // Others may wait for this process in the same call of MPI.
    FAMPI_TryBlock_interrupt(*block);
  }
  const int code = FAMPI_TryBlock_finish(*block, 0, nullptr, FAMPI_TIMEOUT_NEVER);
  return code != FAMPI_SUCCESS ? code : wait_for(block, is_parked);
}

// The pool without the dead, and their places empty.
int shrink(std::vector<int> *vacant)
{
  MPI_Comm living = MPI_COMM_NULL;
  MPI_Request request;
  int code = FAMPI_Comm_ishrink(pool, &living, &request);
  if (code != FAMPI_SUCCESS) return code;
  code = wait_for(&request, false);
  FAMPI_Request_free(&request);
  if (code != FAMPI_SUCCESS) return code;
  MPI_Group before, after;
  MPI_Comm_group(pool, &before);
  MPI_Comm_group(living, &after);
  std::vector<int> held;
  for (int k = 0; k < static_cast<int>(places.size()); k++) {
    int now;
    MPI_Group_translate_ranks(before, 1, &k, after, &now);
    if (now != MPI_UNDEFINED) held.push_back(places[k]);
    else if (places[k] != parked) vacant->push_back(places[k]);
  }
  MPI_Group_free(&before);
  MPI_Group_free(&after);
  MPI_Comm_free(&pool);
  places = held;
  pool = living;
  return FAMPI_SUCCESS;
}

// Spares take empty places, both in their order. False when places are left.
bool fill(std::vector<int> vacant)
{
  std::sort(vacant.begin(), vacant.end());
  auto next = vacant.begin();
  for (int &place : places)
    if (place == parked && next != vacant.end()) place = *next++;
  return next == vacant.end();
}

int split(MPI_Comm *world)
{
  const int place = places[rank_in(pool)];
  return MPI_Comm_split(pool, place == parked ? MPI_UNDEFINED : 0, place, world);
}

// One step that all processes of the pool take; the verdict on it, the same on all.
template <class Step>
int together(Step step)
{
  MPI_Request block;
  int code = start(&block);
  if (code != FAMPI_SUCCESS) return code;
  code = agree(&block, step());
  FAMPI_Request_free(&block);
  return code;
}

// A world of those that hold ranks.
int make(MPI_Comm *world)
{
  *world = MPI_COMM_NULL;
  int code = together([=] { return split(world) == MPI_SUCCESS; });
  if (code == FAMPI_SUCCESS)
    code = together([=] {
      return *world == MPI_COMM_NULL || FAMPI_Init(*world) == FAMPI_SUCCESS;
    });
  if (code != FAMPI_SUCCESS && *world != MPI_COMM_NULL) MPI_Comm_free(world);
  return code;
}

int mend(MPI_Comm *world)
{
  for (int attempt = 0; attempt < attempts; attempt++) {
    std::vector<int> vacant;
    const int code = shrink(&vacant);
    if (code != FAMPI_SUCCESS) return code;
    if (!fill(vacant)) break;
    if (make(world) == FAMPI_SUCCESS) return FAMPI_SUCCESS;
  }
  return FAMPI_ERR_CREATION;
}

bool is_dismissed(MPI_Request block)
{
  int codes[] = {dismissal}, size = 0;
  MPI_Group by;
  if (FAMPI_Get_failed_group(block, 1, codes, pool, &by) != FAMPI_SUCCESS) return true;
  MPI_Group_size(by, &size);
  MPI_Group_free(&by);
  return size > 0;
}

// Waits in a block of the pool for the death of a rank; false when the world has ended.
bool is_needed()
{
  MPI_Request block;
  if (start(&block) != FAMPI_SUCCESS) return false;
  const int code = agree(&block, true, true);
  const bool needed = code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS && !is_dismissed(block);
  FAMPI_Request_free(&block);
  return needed;
}

// A spare, until it holds a rank, or leaves.
void park(MPI_Comm *world)
{
  while (is_needed() && mend(world) == FAMPI_SUCCESS)
    if (*world != MPI_COMM_NULL) return;
  MPI_Comm_free(&pool);
  MPI_Finalize();
  std::exit(0);
}

}  // namespace

int spares_begin(MPI_Comm *world, int *is_replacement)
{
  const char *wanted = std::getenv("FAMPI_SPARES");
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int spares = std::max(0, wanted == nullptr ? 0 : std::atoi(wanted));
  if (spares >= size) return FAMPI_ERR_ARG;
  for (int k = 0; k < size; k++) places.push_back(k < size - spares ? k : parked);
  int code = MPI_Comm_dup(MPI_COMM_WORLD, &pool);
  if (code == MPI_SUCCESS) code = FAMPI_Init(pool);
  if (code == FAMPI_SUCCESS) code = make(world);
  *is_replacement = *world == MPI_COMM_NULL;
  if (code == FAMPI_SUCCESS && *is_replacement) park(world);
  return code;
}

int spares_mend(MPI_Comm *world)
{
  // The block that wakes the spares: somebody died, so it is faulty.
  const int code = together([] { return true; });
  return code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS ? mend(world) : FAMPI_ERR_STATE;
}

int spares_end(void)
{
  MPI_Request block;
  const int code = start(&block);
  if (code != FAMPI_SUCCESS) return code;
  FAMPI_Request_raise_error(block, dismissal);
  agree(&block, true);
  FAMPI_Request_free(&block);
  return MPI_Comm_free(&pool);
}
