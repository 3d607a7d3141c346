/*
 * The blocking calls of MPI that libfampi_watch.so stands in front of: those that wait for other
 * ranks. One line for each, with the signature of the MPI standard.
 */

/* Messages. */
WATCHED(MPI_Send, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f), (a, b, c, d,
        e, f))
WATCHED(MPI_Ssend, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f), (a, b, c, d,
        e, f))
WATCHED(MPI_Rsend, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f), (a, b, c, d,
        e, f))
WATCHED(MPI_Recv, (void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Status *g), (a,
        b, c, d, e, f, g))
WATCHED(MPI_Mrecv, (void *a, int b, MPI_Datatype c, MPI_Message *d, MPI_Status *e), (a, b, c, d,
        e))
WATCHED(MPI_Sendrecv, (const void *a, int b, MPI_Datatype c, int d, int e, void *f, int g,
        MPI_Datatype h, int i, int j, MPI_Comm k, MPI_Status *l), (a, b, c, d, e, f, g, h, i, j,
        k, l))
WATCHED(MPI_Sendrecv_replace, (void *a, int b, MPI_Datatype c, int d, int e, int f, int g,
        MPI_Comm h, MPI_Status *i), (a, b, c, d, e, f, g, h, i))
WATCHED(MPI_Probe, (int a, int b, MPI_Comm c, MPI_Status *d), (a, b, c, d))
WATCHED(MPI_Mprobe, (int a, int b, MPI_Comm c, MPI_Message *d, MPI_Status *e), (a, b, c, d, e))

/* Waits. */
WATCHED(MPI_Wait, (MPI_Request *a, MPI_Status *b), (a, b))
WATCHED(MPI_Waitall, (int a, MPI_Request b[], MPI_Status *c), (a, b, c))
WATCHED(MPI_Waitany, (int a, MPI_Request b[], int *c, MPI_Status *d), (a, b, c, d))
WATCHED(MPI_Waitsome, (int a, MPI_Request b[], int *c, int d[], MPI_Status e[]), (a, b, c, d, e))

/* Collectives. */
WATCHED(MPI_Barrier, (MPI_Comm a), (a))
WATCHED(MPI_Bcast, (void *a, int b, MPI_Datatype c, int d, MPI_Comm e), (a, b, c, d, e))
WATCHED(MPI_Gather, (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype f, int g,
        MPI_Comm h), (a, b, c, d, e, f, g, h))
WATCHED(MPI_Gatherv, (const void *a, int b, MPI_Datatype c, void *d, const int e[], const int f[],
        MPI_Datatype g, int h, MPI_Comm i), (a, b, c, d, e, f, g, h, i))
WATCHED(MPI_Scatter, (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype f, int g,
        MPI_Comm h), (a, b, c, d, e, f, g, h))
WATCHED(MPI_Scatterv, (const void *a, const int b[], const int c[], MPI_Datatype d, void *e, int
        f, MPI_Datatype g, int h, MPI_Comm i), (a, b, c, d, e, f, g, h, i))
WATCHED(MPI_Allgather, (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype f,
        MPI_Comm g), (a, b, c, d, e, f, g))
WATCHED(MPI_Allgatherv, (const void *a, int b, MPI_Datatype c, void *d, const int e[], const int
        f[], MPI_Datatype g, MPI_Comm h), (a, b, c, d, e, f, g, h))
WATCHED(MPI_Alltoall, (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype f,
        MPI_Comm g), (a, b, c, d, e, f, g))
WATCHED(MPI_Alltoallv, (const void *a, const int b[], const int c[], MPI_Datatype d, void *e,
        const int f[], const int g[], MPI_Datatype h, MPI_Comm i), (a, b, c, d, e, f, g, h, i))
WATCHED(MPI_Alltoallw, (const void *a, const int b[], const int c[], const MPI_Datatype d[], void
        *e, const int f[], const int g[], const MPI_Datatype h[], MPI_Comm i), (a, b, c, d, e, f,
        g, h, i))
WATCHED(MPI_Reduce, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, int f, MPI_Comm g),
        (a, b, c, d, e, f, g))
WATCHED(MPI_Allreduce, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f), (a,
        b, c, d, e, f))
WATCHED(MPI_Reduce_scatter, (const void *a, void *b, const int c[], MPI_Datatype d, MPI_Op e,
        MPI_Comm f), (a, b, c, d, e, f))
WATCHED(MPI_Reduce_scatter_block, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e,
        MPI_Comm f), (a, b, c, d, e, f))
WATCHED(MPI_Scan, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f), (a, b, c,
        d, e, f))
WATCHED(MPI_Exscan, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f), (a, b,
        c, d, e, f))
WATCHED(MPI_Neighbor_allgather, (const void *a, int b, MPI_Datatype c, void *d, int e,
        MPI_Datatype f, MPI_Comm g), (a, b, c, d, e, f, g))
WATCHED(MPI_Neighbor_allgatherv, (const void *a, int b, MPI_Datatype c, void *d, const int e[],
        const int f[], MPI_Datatype g, MPI_Comm h), (a, b, c, d, e, f, g, h))
WATCHED(MPI_Neighbor_alltoall, (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype
        f, MPI_Comm g), (a, b, c, d, e, f, g))
WATCHED(MPI_Neighbor_alltoallv, (const void *a, const int b[], const int c[], MPI_Datatype d, void
        *e, const int f[], const int g[], MPI_Datatype h, MPI_Comm i), (a, b, c, d, e, f, g, h,
        i))

/* Communicators. */
WATCHED(MPI_Comm_dup, (MPI_Comm a, MPI_Comm *b), (a, b))
WATCHED(MPI_Comm_split, (MPI_Comm a, int b, int c, MPI_Comm *d), (a, b, c, d))
WATCHED(MPI_Comm_split_type, (MPI_Comm a, int b, int c, MPI_Info d, MPI_Comm *e), (a, b, c, d, e))
WATCHED(MPI_Comm_create, (MPI_Comm a, MPI_Group b, MPI_Comm *c), (a, b, c))
WATCHED(MPI_Comm_create_group, (MPI_Comm a, MPI_Group b, int c, MPI_Comm *d), (a, b, c, d))
WATCHED(MPI_Comm_disconnect, (MPI_Comm *a), (a))
WATCHED(MPI_Cart_create, (MPI_Comm a, int b, const int c[], const int d[], int e, MPI_Comm *f),
        (a, b, c, d, e, f))
WATCHED(MPI_Cart_sub, (MPI_Comm a, const int b[], MPI_Comm *c), (a, b, c))
WATCHED(MPI_Graph_create, (MPI_Comm a, int b, const int c[], const int d[], int e, MPI_Comm *f),
        (a, b, c, d, e, f))
WATCHED(MPI_Dist_graph_create, (MPI_Comm a, int b, const int c[], const int d[], const int e[],
        const int f[], MPI_Info g, int h, MPI_Comm *i), (a, b, c, d, e, f, g, h, i))
WATCHED(MPI_Dist_graph_create_adjacent, (MPI_Comm a, int b, const int c[], const int d[], int e,
        const int f[], const int g[], MPI_Info h, int i, MPI_Comm *j), (a, b, c, d, e, f, g, h, i,
        j))
WATCHED(MPI_Intercomm_create, (MPI_Comm a, int b, MPI_Comm c, int d, int e, MPI_Comm *f), (a, b,
        c, d, e, f))
WATCHED(MPI_Intercomm_merge, (MPI_Comm a, int b, MPI_Comm *c), (a, b, c))
WATCHED(MPI_Comm_spawn, (const char *a, char *b[], int c, MPI_Info d, int e, MPI_Comm f, MPI_Comm
        *g, int h[]), (a, b, c, d, e, f, g, h))
WATCHED(MPI_Comm_spawn_multiple, (int a, char *b[], char **c[], const int d[], const MPI_Info e[],
        int f, MPI_Comm g, MPI_Comm *h, int i[]), (a, b, c, d, e, f, g, h, i))
WATCHED(MPI_Comm_accept, (const char *a, MPI_Info b, int c, MPI_Comm d, MPI_Comm *e), (a, b, c, d,
        e))
WATCHED(MPI_Comm_connect, (const char *a, MPI_Info b, int c, MPI_Comm d, MPI_Comm *e), (a, b, c,
        d, e))

/* Windows. */
WATCHED(MPI_Win_create, (void *a, MPI_Aint b, int c, MPI_Info d, MPI_Comm e, MPI_Win *f), (a, b,
        c, d, e, f))
WATCHED(MPI_Win_allocate, (MPI_Aint a, int b, MPI_Info c, MPI_Comm d, void *e, MPI_Win *f), (a, b,
        c, d, e, f))
WATCHED(MPI_Win_free, (MPI_Win *a), (a))
WATCHED(MPI_Win_fence, (int a, MPI_Win b), (a, b))
WATCHED(MPI_Win_wait, (MPI_Win a), (a))
WATCHED(MPI_Win_lock, (int a, int b, int c, MPI_Win d), (a, b, c, d))
WATCHED(MPI_Win_unlock, (int a, MPI_Win b), (a, b))
WATCHED(MPI_Win_flush, (int a, MPI_Win b), (a, b))

/* Files. */
WATCHED(MPI_File_open, (MPI_Comm a, const char *b, int c, MPI_Info d, MPI_File *e), (a, b, c, d,
        e))
WATCHED(MPI_File_close, (MPI_File *a), (a))
WATCHED(MPI_File_read_all, (MPI_File a, void *b, int c, MPI_Datatype d, MPI_Status *e), (a, b, c,
        d, e))
WATCHED(MPI_File_write_all, (MPI_File a, const void *b, int c, MPI_Datatype d, MPI_Status *e), (a,
        b, c, d, e))
WATCHED(MPI_File_read_at_all, (MPI_File a, MPI_Offset b, void *c, int d, MPI_Datatype e,
        MPI_Status *f), (a, b, c, d, e, f))
WATCHED(MPI_File_write_at_all, (MPI_File a, MPI_Offset b, const void *c, int d, MPI_Datatype e,
        MPI_Status *f), (a, b, c, d, e, f))
