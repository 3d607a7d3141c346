/*
 * The rows of a world were never in use when a rank dies: their rebuild is an error for those that
 * have lost it, and ends all further ones over the link, so that nobody waits. `idle_parts`
 */
#include "check.h"

static int wait_for(int code, MPI_Request *request)
{
  if (code != 0) return code;
  code = FAMPI_Wait_local(request, MPI_STATUS_IGNORE, FAMPI_TIMEOUT_NEVER);
  MPI_Request_free(request);
  return code;
}

int main(int argc, char **argv)
{
  MPI_Comm world, row, next, other, living, link;
  MPI_Request request, block;
  int code, who = 0, number = 1, sum;
  begin(&argc, &argv);
  OK(FAMPI_Comm_get_parent(&link));
  if (link != MPI_COMM_NULL) {
    OK(wait_for(FAMPI_Comm_irebuild_join(link, &next, &request), &request));
    EXPECT(FAMPI_ERR_CREATION,
           wait_for(FAMPI_Comm_irebuild_join(link, &other, &request), &request));
  } else {
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    OK(FAMPI_Init(world));
    MPI_Comm_split(world, rank / 2, rank, &row);
    do {
      OK(FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, &block));
      if (rank == 3) die();
      code = commit(&block, 0, NULL);
      MPI_Request_free(&block);
    } while (code == 0);
    OK(wait_for(FAMPI_Comm_ishrink(world, &living, &request), &request));
    OK(FAMPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, living, &link));
    OK(wait_for(FAMPI_Comm_irebuild(world, 0, link, 1, &who, 0, &next, &request), &request));
    EXPECT(FAMPI_ERR_CREATION, wait_for(FAMPI_Comm_irebuild(row, 0, link, rank == 2, &who, 0,
                                                            &other, &request), &request));
  }
  OK(FAMPI_TryBlock_start(next, FAMPI_TRYBLOCK_GLOBAL, &block));
  OK(FAMPI_Iallreduce(&number, &sum, 1, MPI_INT, MPI_SUM, next, &request));
  OK(commit(&block, 1, &request));
  CHECK(sum == 4);
  MPI_Request_free(&request);
  MPI_Request_free(&block);
  printf("rank %d: passed\n", rank);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
