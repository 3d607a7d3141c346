// A block as an object: it is freed with its scope, and left when an exception ends the scope.

#include <fampi.hpp>

#include <csignal>
#include <iostream>
#include <string>

namespace {

// One exchange with the neighbours; an exception in it is a fault for all.
int step(MPI_Comm world, int number, int rank, int size)
{
  int got = -1;
  fampi::Block block(world);
  MPI_Irecv(&got, 1, MPI_INT, (rank + size - 1) % size, 0, world, block.next());
  MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 0, world, block.next());
  if (number == 1 && rank == 1) throw std::runtime_error("bad data");
  if (number == 2 && rank == 0) {
    std::cerr << "rank " + std::to_string(rank) + " kills itself, on purpose: the others go on\n";
    raise(SIGKILL);
  }
  int ranks = 1;
  block.finish_allreduce(&ranks, 1, MPI_SUM);
  if (block.wait() == fampi::Verdict::Committed) return ranks == size ? 0 : FAMPI_ERR_LEFT;
  int dead = 0;
  for (const fampi::Fault &fault : block.report())
    dead += fault.code == FAMPI_ERR_PROC_FAILED_SOFT || fault.code == FAMPI_ERR_PROC_FAILED_HARD;
  return dead > 0 ? FAMPI_ERR_PROC_FAILED : FAMPI_ERR_TRYBLOCK_FOUND_ERRORS;
}

}  // namespace

int main(int argc, char **argv)
{
  MPI_Init(&argc, &argv);
  MPI_Comm world;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  int committed = 0;
  for (int number = 0; number < 5; number++) {
    int rank, size;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    int code = FAMPI_ERR_LEFT;
    try {
      code = step(world, number, rank, size);
    } catch (const std::runtime_error &error) {
      std::cerr << "rank " << rank << ": " << error.what() << std::endl;
    }
    committed += code == 0;
    if (code == FAMPI_ERR_PROC_FAILED) {
      MPI_Comm smaller = fampi::shrink(world);
      MPI_Comm_free(&world);
      world = smaller;
    }
  }
  std::cout << "committed " << committed << " of 5" << std::endl;
  MPI_Comm_free(&world);
  MPI_Finalize();
  return 0;
}
