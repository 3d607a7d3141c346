/* A block: each rank sends to its right neighbour, and all ranks agree that it worked. */
#include <fampi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
  int rank, size, code, token = -1;
  MPI_Request requests[2], block;
  FAMPI_Timeout limit;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  FAMPI_Timeout_set_seconds(&limit, 10.0);

  code = FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &block);
  if (code != FAMPI_SUCCESS) {
    fprintf(stderr, "no block: %s\n", FAMPI_Error_string(code));
    return 1;
  }
  MPI_Irecv(&token, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, &requests[1]);
  FAMPI_TryBlock_finish(block, 2, requests, limit);
  code = FAMPI_Wait_local(&block, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  printf("rank %d: %s, got %d\n", rank, FAMPI_Error_string(code), token);

  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  MPI_Request_free(&block);
  MPI_Finalize();
  return code;
}
