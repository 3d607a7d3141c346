/* Starts itself as two programs at once, one on two processes and one on one, and adds up with them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
    MPI_Comm parent, between, all;
    MPI_Init(&count, &words);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        char *programs[] = {words[0], words[0]};
        char *one[] = {"10", NULL}, *other[] = {"100", NULL}, **arguments[] = {one, other};
        int processes[] = {2, 1}, codes[3];
        MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
        MPI_Comm_spawn_multiple(2, programs, arguments, processes, infos, 0, MPI_COMM_WORLD, &between,
                                codes);
    } else {
        between = parent;
    }
    MPI_Intercomm_merge(between, parent != MPI_COMM_NULL, &all);
    int *number, is_given, own = count > 1 ? atoi(words[1]) : 1, sum;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &is_given);
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, all);
    printf("%d %d %d\n", own, is_given ? *number : -1, sum);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&between);
    MPI_Finalize();
    return 0;
}
