/*
 * Warm spares: the last processes of the launch hold no rank and use no core until a rank dies.
 *
 * `cargo fampi run -n 4 --spares 2 -- ./program` starts six processes and says how many of them
 * are spares in FAMPI_SPARES. One of them takes the place of a dead rank within milliseconds, as
 * nothing has to be started. All calls are made by all living ranks; each gives a code.
 */
#ifndef SPARES_H
#define SPARES_H

#include <fampi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The world without the spares. On a spare it returns when there is a rank for it, with
 * `is_replacement` 1; one that nobody needed ends, in order, when the world does. */
int spares_begin(MPI_Comm *world, int *is_replacement);

/* A world like the one before, which the caller frees, with spares in the places of the dead.
 * FAMPI_ERR_CREATION on all ranks when there are too few. */
int spares_mend(MPI_Comm *world);

/* Dismisses the spares. */
int spares_end(void);

#ifdef __cplusplus
}
#endif

#endif
