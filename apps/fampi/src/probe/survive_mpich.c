/* Loses a process of MPICH on purpose and says what the others could still do. Four ranks, of which
 * rank 2 dies; MPI tells nobody of it. The word says how:
 *
 *   signal     dies by SIGKILL; then talk, cancel, group, spawn
 *   exit       dies by leaving with status 1; only whether the others can still talk
 *
 * Prints lines `begin STAGE` and `done STAGE RESULT`, so that a hang can be told from a failure.
 */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { VICTIM = 2, RANKS = 4 };

static int rank;

static void begin(const char *stage)
{
    if (rank == 0) {
        printf("begin %s\n", stage);
        fflush(stdout);
    }
}

static void done(const char *stage, int works, double seconds)
{
    if (rank == 0 && works)
        printf("done %s %.2f\n", stage, seconds * 1e3);
    else if (rank == 0)
        printf("done %s no\n", stage);
    fflush(stdout);
}

/* The process is gone, as far as the system of this node knows. */
static int death(pid_t process, double limit_seconds)
{
    double begun = MPI_Wtime();
    begin("detection");
    while (kill(process, 0) == 0 && MPI_Wtime() - begun < limit_seconds)
        usleep(200);
    int works = kill(process, 0) != 0 && errno == ESRCH;
    done("detection", works, MPI_Wtime() - begun);
    return works;
}

/* A message from each living rank to the next one. */
static int talk(void)
{
    static const int next[RANKS] = {1, 3, 0, 0}, before[RANKS] = {3, 0, 0, 1};
    int got = -1;
    double begun = MPI_Wtime();
    begin("talk");
    MPI_Sendrecv(&rank, 1, MPI_INT, next[rank], 7, &got, 1, MPI_INT, before[rank], 7,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    done("talk", got == before[rank], MPI_Wtime() - begun);
    return got == before[rank];
}

/* A receive from the dead ends when it is cancelled. */
static void cancel(void)
{
    int word, cancelled = 0;
    MPI_Request pending;
    MPI_Status status;
    double begun = MPI_Wtime();
    begin("cancel");
    MPI_Irecv(&word, 1, MPI_INT, VICTIM, 8, MPI_COMM_WORLD, &pending);
    MPI_Cancel(&pending);
    MPI_Wait(&pending, &status);
    MPI_Test_cancelled(&status, &cancelled);
    done("cancel", cancelled, MPI_Wtime() - begun);
}

static int ranks_of(MPI_Comm comm)
{
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    return sum;
}

static MPI_Comm group(void)
{
    int victim = VICTIM;
    MPI_Group all, living;
    MPI_Comm made;
    double begun = MPI_Wtime();
    begin("group");
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, 1, &victim, &living);
    MPI_Comm_create_group(MPI_COMM_WORLD, living, 9, &made);
    double seconds = MPI_Wtime() - begun;
    done("group", ranks_of(made) == RANKS - 1, seconds);
    return made;
}

static void spawn(char *program, MPI_Comm living)
{
    MPI_Comm link, whole;
    double begun = MPI_Wtime();
    begin("spawn");
    MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, living, &link,
                   MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(link, 0, &whole);
    done("spawn", ranks_of(whole) == RANKS, MPI_Wtime() - begun);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, whole;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Intercomm_merge(parent, 1, &whole);
        ranks_of(whole);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int own = (int)getpid(), processes[RANKS];
    begin("start");
    double begun = MPI_Wtime();
    MPI_Allgather(&own, 1, MPI_INT, processes, 1, MPI_INT, MPI_COMM_WORLD);
    done("start", 1, MPI_Wtime() - begun);
    int by_signal = argc > 1 && strcmp(argv[1], "signal") == 0;
    if (rank == VICTIM && by_signal)
        raise(SIGKILL);
    if (rank == VICTIM)
        _exit(1);
    if (death(processes[VICTIM], 3.0) && talk() && by_signal) {
        cancel();
        spawn(argv[0], group());
    }
    begin("finalize");
    MPI_Finalize();
    done("finalize", 1, 0);
    return 0;
}
