/* A plain program of MPI, which knows nothing of fampi and has no ULFM: when the file that it is
   given names ranks that are lost, the others go on without them, start as many anew, and end.
   A second word is the rank that kills itself, or `abort`. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int lost[16], losses;

static int is_lost(int rank) {
    for (int i = 0; i < losses; i++)
        if (lost[i] == rank)
            return 1;
    return 0;
}

static void read_lost(const char *file) {
    FILE *named;
    while (!(named = fopen(file, "r")))
        usleep(2000);
    while (losses < 16 && fscanf(named, "%d", &lost[losses]) == 1)
        losses++;
    fclose(named);
}

static int sum_of_ones(MPI_Comm comm) {
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    return sum;
}

/* A message from each living rank to the next one. */
static void pass_on(int rank, int size) {
    int next = rank, before = rank, sent = rank, got = -1;
    do
        next = (next + 1) % size;
    while (is_lost(next));
    do
        before = (before + size - 1) % size;
    while (is_lost(before));
    MPI_Sendrecv(&sent, 1, MPI_INT, next, 7, &got, 1, MPI_INT, before, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (got != before)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

int main(int argc, char **argv) {
    int rank, size, word, cancelled;
    MPI_Comm parent, living, link, whole;
    MPI_Group all, left;
    MPI_Request pending;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Intercomm_merge(parent, 1, &whole);
        sum_of_ones(whole);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    sum_of_ones(MPI_COMM_WORLD);
    if (rank == size - 1)
        printf("ready\n");
    fflush(stdout);
    if (argc > 2 && rank == 0 && strcmp(argv[2], "abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (argc > 2 && rank == atoi(argv[2]))
        raise(9);
    read_lost(argv[1]);
    pass_on(rank, size);
    MPI_Irecv(&word, 1, MPI_INT, lost[0], 8, MPI_COMM_WORLD, &pending);
    MPI_Cancel(&pending);
    MPI_Wait(&pending, &status);
    MPI_Test_cancelled(&status, &cancelled);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, losses, lost, &left);
    MPI_Comm_create_group(MPI_COMM_WORLD, left, 9, &living);
    int before = sum_of_ones(living);
    MPI_Comm_spawn(argv[0], argv + 1, losses, MPI_INFO_NULL, 0, living, &link,
                   MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(link, 0, &whole);
    int after = sum_of_ones(whole);
    printf("%d of %d live, cancelled %d, and are %d again\n", before, size, cancelled, after);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
