/*
 * What the examples are told from outside: how to recover, and who dies when.
 *
 * `KILL_PLAN="5:2 9:0"` kills in cycle 5 the process that had rank 2 at the launch, and in cycle 9
 * the one that had rank 0. Replacements live.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <fampi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The recovery of this name: rebuild, merge, shrink. Without a name it is rebuild. */
static inline int recovery_named(const char *word)
{
  if (word == NULL || strcmp(word, "rebuild") == 0) return FAMPI_RECOVERY_REBUILD;
  if (strcmp(word, "merge") == 0) return FAMPI_RECOVERY_MERGE;
  if (strcmp(word, "shrink") == 0) return FAMPI_RECOVERY_SHRINK;
  fprintf(stderr, "write rebuild, merge or shrink instead of %s\n", word);
  exit(2);
}

/* Enters the world; says so and ends the process where there is none. */
static inline MPI_Comm enter_world(char **argv, int *is_replacement)
{
  MPI_Comm world;
  int code = FAMPI_World_init(recovery_named(argv[1]), argv, &world, is_replacement);
  if (code == FAMPI_SUCCESS) return world;
  fprintf(stderr, "no world: %s\n", FAMPI_Error_string(code));
  exit(1);
}

/* The next world after a faulty block, the same where nobody died; ends the process if there is
 * none. */
static inline void recover(MPI_Comm *world)
{
  int code = FAMPI_World_recover(world);
  if (code == FAMPI_SUCCESS) return;
  fprintf(stderr, "no recovery: %s\n", FAMPI_Error_string(code));
  exit(1);
}

/* Dies as a crashing process would, if that is planned. */
static inline void die_if_planned(int cycle, int is_replacement)
{
  const char *plan = getenv("KILL_PLAN");
  int rank, planned_cycle, planned_rank, length;
  if (plan == NULL || is_replacement) return;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (; sscanf(plan, "%d:%d%n", &planned_cycle, &planned_rank, &length) == 2; plan += length)
    if (planned_cycle == cycle && planned_rank == rank) {
      fprintf(stderr, "rank %d kills itself, on purpose: the others go on\n", rank);
      raise(SIGKILL);
    }
}

#endif
