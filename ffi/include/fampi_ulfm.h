/*
 * ULFM's names for fampi, so that code written for them compiles unchanged: MPIX_Comm_agree,
 * MPIX_Comm_shrink, MPIX_Comm_revoke and the others run on fampi's own detector and agreement,
 * beside its blocks, and faster. src/docs/ulfm.md has each call, and what a block does instead.
 *
 * Include it after everything that declares functions of MPI, in all sources that make
 * communicators. Those of MPI_Init and those that the program makes are taken into use at once
 * (FAMPI_Comm_use); define FAMPI_ULFM_KEEP_MPI to call that by hand. One that loses a rank before
 * it is in use has MPI's own revoke and shrink only.
 *
 * All names are macros: no symbol here begins with MPI_.
 */
#ifndef FAMPI_ULFM_H
#define FAMPI_ULFM_H

#include "fampi.h"
#if defined(OMPI_HAVE_MPI_EXT)
#include <mpi-ext.h>
#endif

#define MPIX_Comm_revoke FAMPI_Comm_revoke
#define MPIX_Comm_is_revoked FAMPI_Comm_is_revoked
#define MPIX_Comm_get_failed FAMPI_Comm_get_failed
#define MPIX_Comm_ack_failed FAMPI_Comm_ack_failed
#define MPIX_Comm_failure_ack FAMPI_Comm_failure_ack
#define MPIX_Comm_failure_get_acked FAMPI_Comm_failure_get_acked
#define MPIX_Comm_agree FAMPI_Comm_agree
#define MPIX_Comm_iagree FAMPI_Comm_iagree
#define MPIX_Comm_shrink FAMPI_Comm_shrink
#define MPIX_Comm_ishrink FAMPI_Comm_ishrink

#ifndef MPIX_ERR_PROC_FAILED
#define MPIX_ERR_PROC_FAILED MPI_ERR_PROC_FAILED
#endif
#ifndef MPIX_ERR_PROC_FAILED_PENDING
#define MPIX_ERR_PROC_FAILED_PENDING MPI_ERR_PROC_FAILED_PENDING
#endif
#ifndef MPIX_ERR_REVOKED
#define MPIX_ERR_REVOKED MPI_ERR_REVOKED
#endif

#ifndef FAMPI_ULFM_KEEP_MPI
static inline int fampi_ulfm_started(int code)
{
  return code == MPI_SUCCESS ? FAMPI_Comm_use(MPI_COMM_WORLD) : code;
}

/* A communicator that cannot be taken into use was not made, on any rank of it that lives. */
static inline int fampi_ulfm_made(int code, MPI_Comm of, MPI_Comm *made)
{
  if (code != MPI_SUCCESS || (code = FAMPI_Comm_use(*made)) == MPI_SUCCESS) return code;
  MPI_Comm_free(made);
  if (code == MPIX_ERR_PROC_FAILED) MPI_Comm_call_errhandler(of, code);
  return code;
}

static inline int fampi_ulfm_dup(MPI_Comm comm, MPI_Comm *made)
{
  return fampi_ulfm_made(MPI_Comm_dup(comm, made), comm, made);
}

static inline int fampi_ulfm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *made)
{
  return fampi_ulfm_made(MPI_Comm_dup_with_info(comm, info, made), comm, made);
}

static inline int fampi_ulfm_split(MPI_Comm comm, int color, int key, MPI_Comm *made)
{
  return fampi_ulfm_made(MPI_Comm_split(comm, color, key, made), comm, made);
}

static inline int fampi_ulfm_split_type(MPI_Comm comm, int type, int key, MPI_Info info,
                                        MPI_Comm *made)
{
  return fampi_ulfm_made(MPI_Comm_split_type(comm, type, key, info, made), comm, made);
}

static inline int fampi_ulfm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *made)
{
  return fampi_ulfm_made(MPI_Comm_create(comm, group, made), comm, made);
}

static inline int fampi_ulfm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made)
{
  return fampi_ulfm_made(MPI_Comm_create_group(comm, group, tag, made), comm, made);
}

static inline int fampi_ulfm_cart_create(MPI_Comm comm, int dims, const int sizes[],
                                         const int periods[], int reorder, MPI_Comm *made)
{
  return fampi_ulfm_made(MPI_Cart_create(comm, dims, sizes, periods, reorder, made), comm, made);
}

static inline int fampi_ulfm_merge(MPI_Comm link, int behind, MPI_Comm *made)
{
  return fampi_ulfm_made(MPI_Intercomm_merge(link, behind, made), link, made);
}

#define MPI_Init(argc, argv) fampi_ulfm_started(MPI_Init((argc), (argv)))
#define MPI_Init_thread(argc, argv, required, provided) \
  fampi_ulfm_started(MPI_Init_thread((argc), (argv), (required), (provided)))
#define MPI_Comm_dup(comm, made) fampi_ulfm_dup((comm), (made))
#define MPI_Comm_dup_with_info(comm, info, made) fampi_ulfm_dup_with_info((comm), (info), (made))
#define MPI_Comm_split(comm, color, key, made) fampi_ulfm_split((comm), (color), (key), (made))
#define MPI_Comm_split_type(comm, type, key, info, made) \
  fampi_ulfm_split_type((comm), (type), (key), (info), (made))
#define MPI_Comm_create(comm, group, made) fampi_ulfm_create((comm), (group), (made))
#define MPI_Comm_create_group(comm, group, tag, made) \
  fampi_ulfm_create_group((comm), (group), (tag), (made))
#define MPI_Cart_create(comm, dims, sizes, periods, reorder, made) \
  fampi_ulfm_cart_create((comm), (dims), (sizes), (periods), (reorder), (made))
#define MPI_Intercomm_merge(link, behind, made) fampi_ulfm_merge((link), (behind), (made))
#endif

#endif
