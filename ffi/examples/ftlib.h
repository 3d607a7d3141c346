/*
 * A small library on top of fampi: algorithm 1 of the paper, to be copied and changed.
 *
 * `ftlib_initialize` gives the world, to launched processes and to those that replace others;
 * `ftlib_recover` gives the next one after a faulty block. After it all have to agree on data.
 */
#ifndef FTLIB_H
#define FTLIB_H

#include <fampi_names.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ftlib_recovery {
  /* Survivors keep their ranks, replacements take the failed ones. */
  FTLIB_REBUILD,
  /* Survivors move together, replacements follow behind them. */
  FTLIB_MERGE,
  /* Nobody is replaced. */
  FTLIB_SHRINK,
  /* Spares of the launch take the failed ranks (`spares.h`). */
  FTLIB_SPARES
};

/* The way of this name: rebuild, merge, shrink, spares. Without a name it is rebuild. */
enum ftlib_recovery ftlib_named(const char *word);

/* The world, and whether this process replaces another. The program goes on with this world. */
MPI_Comm ftlib_initialize(enum ftlib_recovery recovery, char **argv, int *is_replacement);

/* The world after a faulty block on `world`, which is freed. The same world where nobody died. */
MPI_Comm ftlib_recover(MPI_Request block, MPI_Comm world);

/* Frees the world, before MPI_Finalize, and dismisses the spares. */
void ftlib_finalize(MPI_Comm *world);

/* Dies as a crashing process would, if `FTLIB_KILL` names this cycle and the rank that this
 * process had at the launch: "5:2 9:0". A replacement does not. */
void ftlib_inject(int cycle);

#ifdef __cplusplus
}
#endif

#endif
