/*
 * fampi for C++: a block as an object that owns its request and its list.
 *
 *     fampi::Block block(world);
 *     MPI_Irecv(..., block.next());
 *     MPI_Isend(..., block.next());
 *     if (block.commit() == fampi::Verdict::Faulty) recover(block.report());
 *
 * A block whose scope ends before it was finished, by a return or an exception, makes the block
 * faulty on all ranks. Misuse throws fampi::Error.
 */
#ifndef FAMPI_HPP
#define FAMPI_HPP

#include <deque>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "fampi.h"

namespace fampi {

/* A call did not do what it was asked for. */
class Error : public std::runtime_error {
 public:
  explicit Error(int code) : std::runtime_error(FAMPI_Error_string(code)), code_(code) {}
  int code() const noexcept { return code_; }

 private:
  int code_;
};

inline void check(int code)
{
  if (code != FAMPI_SUCCESS) throw Error(code);
}

/* How a wait ended. */
enum class Verdict { Committed, Faulty, TimedOut };

/* A number of seconds as a timeout; infinity is no limit. */
inline FAMPI_Timeout seconds(double number)
{
  FAMPI_Timeout timeout;
  check(FAMPI_Timeout_set_seconds(&timeout, number));
  return timeout;
}

/* MPI's handle for a type of numbers, for those that can ride on a commit. */
inline MPI_Datatype datatype(const int *) { return MPI_INT; }
inline MPI_Datatype datatype(const long *) { return MPI_LONG; }
inline MPI_Datatype datatype(const long long *) { return MPI_LONG_LONG; }
inline MPI_Datatype datatype(const unsigned *) { return MPI_UNSIGNED; }
inline MPI_Datatype datatype(const unsigned long *) { return MPI_UNSIGNED_LONG; }
inline MPI_Datatype datatype(const float *) { return MPI_FLOAT; }
inline MPI_Datatype datatype(const double *) { return MPI_DOUBLE; }

/* A fault of a report: whom it concerns, and why. */
struct Fault {
  int rank;
  int code;
};

/* A type of MPI for the memory of an element. */
template <class T>
struct Bytes {
  MPI_Datatype datatype;
  Bytes() { MPI_Type_contiguous(static_cast<int>(sizeof(T)), MPI_BYTE, &datatype); }
  Bytes(const Bytes &) = delete;
  Bytes &operator=(const Bytes &) = delete;
  ~Bytes() { MPI_Type_free(&datatype); }
};

/* A block from its start to the end of its scope. */
class Block {
 public:
  explicit Block(MPI_Comm comm, int level = FAMPI_TRYBLOCK_GLOBAL)
  {
    check(FAMPI_TryBlock_start(comm, level, &request_));
  }
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  ~Block()
  {
    if (!finished_) give_back();
    for (MPI_Request &request : list_) FAMPI_Request_free(&request);
    FAMPI_Request_free(&request_);
  }

  /* A place for the next request of the list, for a call of MPI to fill. It stays where it is. */
  MPI_Request *next()
  {
    list_.push_back(MPI_REQUEST_NULL);
    return &list_.back();
  }

  /* Raises a fault of the application. */
  void raise_error(int code) { check(FAMPI_Request_raise_error(request_, code)); }

  /* Says where states are kept that are protected from now on: FAMPI_REDUNDANCY_PARTNER and so on. */
  void set_redundancy(int redundancy, int ranks = 0, int losses = 0)
  {
    check(FAMPI_Set_redundancy(request_, redundancy, ranks, losses));
  }

  /* Protects a state; what others keep of it is valid with the block's commit. */
  template <class T>
  void protect(int slot, const T *state, int count)
  {
    static_assert(std::is_trivially_copyable<T>::value, "a state is plain memory");
    const Bytes<T> bytes;
    check(FAMPI_Protect(request_, slot, state, count, bytes.datatype));
  }

  /* Brings a state back as of the last commit. What it throws may be another error on other ranks:
   * catch it in the block, finish that, and branch on its report. */
  template <class T>
  std::vector<T> restore(int slot)
  {
    static_assert(std::is_trivially_copyable<T>::value, "a state is plain memory");
    const Bytes<T> bytes;
    int count = 0;
    check(FAMPI_Restore(request_, slot, nullptr, 0, bytes.datatype, &count));
    std::vector<T> state(static_cast<std::size_t>(count));
    check(FAMPI_Restore(request_, slot, state.data(), count, bytes.datatype, &count));
    return state;
  }

  /* Ends the block; repeated, it moves the deadline of what is pending. */
  void finish(FAMPI_Timeout timeout = FAMPI_TIMEOUT_NEVER)
  {
    end([&](int count, MPI_Request *list) {
      return FAMPI_TryBlock_finish(request_, count, list, timeout);
    });
  }

  /* Ends the block with a reduction of one to eight numbers over all ranks, which rides on the
   * commit. `numbers` become the result when the block is committed, and live until then. */
  template <class T>
  void finish_allreduce(T *numbers, int how_many, MPI_Op op,
                        FAMPI_Timeout timeout = FAMPI_TIMEOUT_NEVER)
  {
    end([&](int count, MPI_Request *list) {
      return FAMPI_TryBlock_finish_allreduce(request_, count, list, timeout, numbers, numbers,
                                             how_many, datatype(numbers), op);
    });
  }

  /* Waits for the verdict. */
  Verdict wait(FAMPI_Timeout timeout = FAMPI_TIMEOUT_NEVER)
  {
    const int code = FAMPI_Wait_local(&request_, MPI_STATUS_IGNORE, timeout);
    if (code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS) return Verdict::Faulty;
    if (code == FAMPI_ERR_TIMEOUT) return Verdict::TimedOut;
    check(code);
    return Verdict::Committed;
  }

  /* Both, without limits. */
  Verdict commit()
  {
    finish();
    return wait();
  }

  /* All faults of a decided block, the same on all living ranks. */
  std::vector<Fault> report() const
  {
    FAMPI_Report *report = nullptr;
    check(FAMPI_Report_get(request_, &report));
    std::vector<Fault> faults(FAMPI_Report_count(report));
    for (std::size_t k = 0; k < faults.size(); k++)
      FAMPI_Report_fault(report, static_cast<int>(k), &faults[k].rank, &faults[k].code);
    FAMPI_Report_free(report);
    return faults;
  }

  /* For calls that this class does not have. */
  MPI_Request request() const noexcept { return request_; }

 private:
  /* Gives the list to a finish, and takes back what became of it. */
  template <class Finish>
  void end(Finish finish)
  {
    std::vector<MPI_Request> list(list_.begin(), list_.end());
    const int code = finish(static_cast<int>(list.size()), list.data());
    list_.assign(list.begin(), list.end());
    check(code);
    finished_ = true;
  }

  /* Buffers may go with the scope: receives are cancelled, sends get a second. */
  void give_back() noexcept
  {
    for (MPI_Request &request : list_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, 1000000000);
    }
  }

  MPI_Request request_ = MPI_REQUEST_NULL;
  std::deque<MPI_Request> list_;
  bool finished_ = false;
};

/* A communicator of the survivors; the old one stays. */
inline MPI_Comm shrink(MPI_Comm comm)
{
  MPI_Comm smaller = MPI_COMM_NULL;
  MPI_Request request;
  check(FAMPI_Comm_ishrink(comm, &smaller, &request));
  const int code = FAMPI_Wait_local(&request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  FAMPI_Request_free(&request);
  check(code);
  return smaller;
}

}  // namespace fampi

#endif
