/* Some ranks fall silent at one moment, and MPI's own heartbeat finds out.
 *
 *   silence FILE MILLISECONDS LIMIT RANK…
 *
 * After so many milliseconds these ranks stop as a whole, which closes no connection. All others
 * wait for a message of each of them, and print for each what MPI says of it, `RANK,SILENT,MS`:
 * the milliseconds since the first of them stopped, `inf` where MPI says nothing within the limit
 * in milliseconds, and `-1,RANK,N` for N ranks that MPI calls dead and that live. When all have
 * done so the first that lives ends those that are stopped. All processes are on one machine, whose clock they share.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

static void stop(const char *file, int me, double at)
{
    int some;
    /* Waiting inside MPI keeps its heartbeat going. */
    while (now() < at) {
        MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &some, MPI_STATUS_IGNORE);
        usleep(100);
    }
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", file, me);
    FILE *out = fopen(name, "w");
    if (out) {
        fprintf(out, "%.4f %d\n", now(), getpid());
        fclose(out);
    }
    raise(SIGSTOP);
}

/* When the first of them stopped. At the end they are killed: nobody else would end them. */
static double silent_since(const char *file, int count, char **silent, int end)
{
    double first = 0;
    for (int at = 0; at < count; at++) {
        char name[4096];
        double moment = 0;
        int pid = 0;
        snprintf(name, sizeof name, "%s.%s", file, silent[at]);
        FILE *in = fopen(name, "r");
        if (!in)
            continue;
        if (fscanf(in, "%lf %d", &moment, &pid) == 2) {
            if (first == 0 || moment < first)
                first = moment;
            if (end)
                kill(pid, SIGKILL);
        }
        fclose(in);
    }
    return first;
}

static int is_silent(int rank, int count, char **silent)
{
    for (int at = 0; at < count; at++)
        if (atoi(silent[at]) == rank)
            return 1;
    return 0;
}

/* Waits, inside MPI, until all who live have printed what they know, or until this moment. */
static void wait_for_all(const char *file, int me, int count, char **silent, double limit)
{
    char name[4096];
    int size, some, missing = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(name, sizeof name, "%s.told.%d", file, me);
    FILE *out = fopen(name, "w");
    if (out)
        fclose(out);
    while (missing && now() < limit) {
        missing = 0;
        for (int rank = 0; rank < size; rank++) {
            snprintf(name, sizeof name, "%s.told.%d", file, rank);
            missing |= !is_silent(rank, count, silent) && access(name, F_OK) != 0;
        }
        MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &some, MPI_STATUS_IGNORE);
        usleep(1000);
    }
}

/* The least rank that goes on. */
static int first_living(int count, char **silent)
{
    int first = 0;
    while (is_silent(first, count, silent))
        first++;
    return first;
}

int main(int argc, char **argv)
{
    int me;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int count = argc - 4;
    if (count < 1 || count > MOST)
        MPI_Abort(MPI_COMM_WORLD, 2);
    char **silent = argv + 4;
    MPI_Barrier(MPI_COMM_WORLD);
    double at = now() + atof(argv[2]), limit = at + atof(argv[3]), told[MOST] = {0};
    if (is_silent(me, count, silent))
        stop(argv[1], me, at);
    char bytes[MOST];
    MPI_Request requests[MOST];
    for (int it = 0; it < count; it++)
        MPI_Irecv(bytes + it, 1, MPI_BYTE, atoi(silent[it]), 0, MPI_COMM_WORLD, requests + it);
    for (int left = count; left > 0 && now() < limit; usleep(100))
        for (int it = 0; it < count; it++) {
            int ended = 0;
            if (told[it] == 0 && MPI_Test(requests + it, &ended, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
                told[it] = now();
                left--;
            }
        }
    /* By now those who were to stop have, and the others know all that they will. */
    double since = silent_since(argv[1], count, silent, 0);
    for (int it = 0; it < count && since > 0; it++)
        if (told[it] == 0)
            printf("%d,%s,inf\n", me, silent[it]);
        else
            printf("%d,%s,%.4f\n", me, silent[it], told[it] - since);
    MPI_Group failed;
    int dead = 0;
    MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed);
    MPI_Group_size(failed, &dead);
    if (dead > count)
        printf("-1,%d,%d\n", me, dead - count);
    fflush(stdout);
    wait_for_all(argv[1], me, count, silent, limit);
    if (me == first_living(count, silent))
        silent_since(argv[1], count, silent, 1);
    _exit(0);
}
