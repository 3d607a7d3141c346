/*
 * The papers' interface, type by type: each name takes its place in a pointer to a function of the
 * type that appendix A of the paper gives, so that code which was written for it compiles.
 */
#include <fampi_names.h>

int (*papers_start)(MPI_Comm comm, int flag, MPI_Request *tb_request) = MPI_TryBlock_start;
int (*papers_finish)(MPI_Request tb_request, int count, MPI_Request array_of_requests[],
                    MPI_Timeout timeout) = MPI_TryBlock_finish;
int (*papers_set_seconds)(MPI_Timeout *timeout, double seconds) = MPI_Timeout_set_seconds;
int (*papers_get_seconds)(MPI_Timeout timeout, double *seconds) = MPI_Timeout_get_seconds;
int (*papers_raise_error)(MPI_Request request, int error_code) = MPI_Request_raise_error;
int (*papers_wait)(MPI_Request *request, MPI_Status *status, MPI_Timeout timeout) =
    MPI_Wait_local;
int (*papers_waitall)(int count, MPI_Request *request, MPI_Status *status, MPI_Timeout timeout) =
    MPI_Waitall_local;
int (*papers_waitany)(int count, MPI_Request *request, int *index, MPI_Status *status,
                     MPI_Timeout timeout) = MPI_Waitany_local;
int (*papers_waitsome)(int incount, MPI_Request requests[], int *outcount, int indices[],
                      MPI_Status statuses[], MPI_Timeout timeout) = MPI_Waitsome_local;
int (*papers_failed_requests)(MPI_Request tb_request, int error_codes_count,
                             int array_of_error_codes[], int max_requests_count,
                             int array_of_indices[], int *count) = MPI_Get_failed_requests;
int (*papers_failed_communicators)(MPI_Request tb_request, int error_codes_count,
                                  int array_of_error_codes[], int max_communicators_count,
                                  MPI_Comm array_of_communicators[], int *count) =
    MPI_Get_failed_communicators;
int (*papers_failed_group)(MPI_Request tb_request, int error_codes_count,
                          int array_of_error_codes[], MPI_Comm comm, MPI_Group *fgroup) =
    MPI_Get_failed_group;
int (*papers_ishrink)(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request) =
    MPI_Comm_ishrink;
int (*papers_irebuild)(MPI_Comm comm, int root, MPI_Comm aux_intercomm, int N_ranks, int ranks[],
                      int is_local, MPI_Comm *newcomm, MPI_Request *request) = MPI_Comm_irebuild;
int (*papers_irebuild_join)(MPI_Comm aux_intercomm, MPI_Comm *newcomm, MPI_Request *request) =
    MPI_Comm_irebuild_join;

/* As the authors' own programs spell it. */
int (*papers_their_start)(MPI_Comm, int, MPI_Request *) = MPI_Tryblock_start;
int (*papers_finish_local)(MPI_Request, int, MPI_Request *, MPI_Timeout) =
    MPI_Tryblock_finish_local;

int main(void)
{
  const int constants[] = {
      MPI_TRYBLOCK_LOCAL,    MPI_TRYBLOCK_GLOBAL,           MPI_TRYBLOCK_WITH_COLLECTIVE,
      MPI_ERR_TIMEOUT,       MPI_ERR_TRYBLOCK_FOUND_ERRORS, MPI_ERR_TRYBLOCK_FAILED,
      MPI_ERR_TRANSIENT,     MPI_ERR_PERMANENT,             MPI_ERR_RCODES_ANY,
      MPI_ERR_PROC_FAILED,
  };
  MPI_Request block = MPI_REQUEST_NULL;
  if (constants[0] == constants[1] || MPI_TIMEOUT_ZERO != FAMPI_TIMEOUT_NEVER) return 1;
  /* Without MPI nothing is a block, and nothing crashes. */
  return MPI_Tryblock_finish(block, 0, &block) == MPI_SUCCESS;
}
