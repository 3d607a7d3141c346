/* A rank leaves by _exit(3); the others are told, and say after how long and of whom. */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    int rank, class = 0, code, byte = 0;
    double left = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        left = now();
        MPI_Send(&left, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
        _exit(3);
    }
    if (rank == 0)
        MPI_Recv(&left, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    code = MPI_Recv(&byte, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Error_class(code, &class);
    if (rank == 0)
        printf("class %d after %.1f ms\n", class, (now() - left) * 1e3);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
