/* Loses a process on purpose and says what the others could still do. Four ranks; rank 2 dies.
 *
 *   probe signal     dies by SIGKILL; then detection, revoke, agreement, shrink, spawn
 *   probe exit       dies by leaving with status 1; only whether that is noticed
 *   probe nothing    nobody dies: for looking at which transports are selected
 *
 * Prints lines `begin STAGE` and `done STAGE RESULT`, so that a hang can be told from a failure.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VICTIM = 2 };

static int rank;

static void begin(const char *stage)
{
    if (rank == 0) {
        printf("begin %s\n", stage);
        fflush(stdout);
    }
}

static void done(const char *stage, const char *result)
{
    if (rank == 0) {
        printf("done %s %s\n", stage, result);
        fflush(stdout);
    }
}

static void done_in_milliseconds(const char *stage, double seconds)
{
    char text[32];
    snprintf(text, sizeof text, "%.2f", seconds * 1e3);
    done(stage, text);
}

static int class_of(int code)
{
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    return class;
}

/* The error class with which a request ends within a time limit, or -1. */
static int end_of(MPI_Request *request, double limit_seconds)
{
    double begun = MPI_Wtime();
    while (MPI_Wtime() - begun < limit_seconds) {
        int ended = 0;
        int code = MPI_Test(request, &ended, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS || ended)
            return class_of(code);
        usleep(50);
    }
    return -1;
}

static void detection(MPI_Comm comm, double limit_seconds)
{
    int value = 0;
    MPI_Request request;
    begin("detection");
    double begun = MPI_Wtime();
    int code = MPI_Irecv(&value, 1, MPI_INT, VICTIM, 7, comm, &request);
    int class = code == MPI_SUCCESS ? end_of(&request, limit_seconds) : class_of(code);
    if (class == MPIX_ERR_PROC_FAILED)
        done_in_milliseconds("detection", MPI_Wtime() - begun);
    else
        done("detection", "no");
}

static void revocation(MPI_Comm comm)
{
    int value = 0;
    MPI_Request request;
    begin("revoke");
    /* From a live rank that never sends. */
    int peer = rank == 0 ? 1 : 0;
    int code = MPI_Irecv(&value, 1, MPI_INT, peer, 8, comm, &request);
    double begun = MPI_Wtime();
    if (rank == 1)
        MPIX_Comm_revoke(comm);
    int class = code == MPI_SUCCESS ? end_of(&request, 5.0) : class_of(code);
    if (class == MPIX_ERR_REVOKED)
        done_in_milliseconds("revoke", MPI_Wtime() - begun);
    else
        done("revoke", "no");
}

static void agreement(MPI_Comm comm)
{
    begin("agreement");
    int flag = ~(1 << rank);
    double begun = MPI_Wtime();
    /* Its code tells of the failure; the value is agreed on all the same. */
    MPIX_Comm_agree(comm, &flag);
    if (flag == ~(1 << 0 | 1 << 1 | 1 << 3))
        done_in_milliseconds("agreement", MPI_Wtime() - begun);
    else
        done("agreement", "no");
}

static MPI_Comm shrink(MPI_Comm comm)
{
    begin("shrink");
    MPI_Comm small = MPI_COMM_NULL;
    double begun = MPI_Wtime();
    int code = MPIX_Comm_shrink(comm, &small);
    double seconds = MPI_Wtime() - begun;
    int one = 1, sum = 0;
    if (code == MPI_SUCCESS)
        code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, small);
    if (code == MPI_SUCCESS && sum == 3)
        done_in_milliseconds("shrink", seconds);
    else
        done("shrink", "no");
    return small;
}

static void spawn(char *program)
{
    static char role[] = "child";
    static char *arguments[] = {role, NULL};
    if (rank != 0)
        return;
    begin("spawn");
    MPI_Comm child = MPI_COMM_NULL;
    int value = 0;
    double begun = MPI_Wtime();
    int code = MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child,
                              MPI_ERRCODES_IGNORE);
    if (code == MPI_SUCCESS)
        code = MPI_Recv(&value, 1, MPI_INT, 0, 9, child, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS && value == 42)
        done_in_milliseconds("spawn", MPI_Wtime() - begun);
    else
        done("spawn", "no");
}

static int be_child(MPI_Comm parent)
{
    int value = 42;
    MPI_Send(&value, 1, MPI_INT, 0, 9, parent);
    MPI_Finalize();
    return 0;
}

int main(int count, char **arguments)
{
    MPI_Comm parent, comm, revocable;
    MPI_Init(&count, &arguments);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return be_child(parent);
    const char *death = count > 1 ? arguments[1] : "nothing";
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    /* Of its own: a revoke must not reach a rank that is still waiting for the notice. */
    MPI_Comm_dup(MPI_COMM_WORLD, &revocable);
    begin("start");
    MPI_Barrier(comm);
    done("start", "yes");
    if (strcmp(death, "exit") == 0) {
        if (rank == VICTIM)
            _exit(1);
        detection(comm, 3.0);
        /* Nobody waits for the rest: without a notice an orderly end may hang. */
        fflush(stdout);
        raise(SIGKILL);
    }
    if (strcmp(death, "signal") == 0) {
        if (rank == VICTIM)
            raise(SIGKILL);
        detection(comm, 5.0);
        revocation(revocable);
        agreement(MPI_COMM_WORLD);
        MPI_Comm small = shrink(MPI_COMM_WORLD);
        spawn(arguments[0]);
        if (small != MPI_COMM_NULL)
            MPI_Barrier(small);
    }
    begin("finalize");
    MPI_Finalize();
    done("finalize", "yes");
    return 0;
}
