/* Calls before MPI_Init, after MPI_Finalize, and of another thread: a code, and nothing happens. */
#include "check.h"

#include <pthread.h>

static MPI_Request made;

static void *call(void *code)
{
  *(int *)code = FAMPI_TryBlock_start(MPI_COMM_SELF, FAMPI_TRYBLOCK_LOCAL, &made);
  return NULL;
}

static void nothing_works(void)
{
  MPI_Request null = MPI_REQUEST_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  int major, minor, patch, is_new = -5;
  made = MPI_REQUEST_NULL;
  EXPECT(FAMPI_ERR_UNSUPPORTED, FAMPI_Init(MPI_COMM_WORLD));
  EXPECT(FAMPI_ERR_UNSUPPORTED,
         FAMPI_TryBlock_start(MPI_COMM_WORLD, FAMPI_TRYBLOCK_GLOBAL, &made));
  EXPECT(FAMPI_ERR_UNSUPPORTED, FAMPI_Comm_ishrink(MPI_COMM_WORLD, &comm, &made));
  EXPECT(FAMPI_ERR_UNSUPPORTED, FAMPI_World_init(FAMPI_RECOVERY_REBUILD, NULL, &comm, &is_new));
  CHECK(made == MPI_REQUEST_NULL && comm == MPI_COMM_NULL && is_new == -5);
  OK(FAMPI_Get_version(&major, &minor, &patch));
  OK(FAMPI_Request_free(&null));
  CHECK(strstr(FAMPI_Error_string(FAMPI_ERR_UNSUPPORTED), "launch") != NULL);
}

int main(int argc, char **argv)
{
  pthread_t thread;
  int code = 0;
  nothing_works();
  begin(&argc, &argv);
  OK(FAMPI_Init(MPI_COMM_SELF));
  made = MPI_REQUEST_NULL;
  CHECK(pthread_create(&thread, NULL, call, &code) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(code == FAMPI_ERR_THREAD && made == MPI_REQUEST_NULL);
  /* The thread that called first goes on. */
  OK(FAMPI_TryBlock_start(MPI_COMM_SELF, FAMPI_TRYBLOCK_LOCAL, &made));
  OK(commit(&made, 0, NULL));
  OK(FAMPI_Request_free(&made));
  MPI_Finalize();
  nothing_works();
  passed("passed");
  return 0;
}
