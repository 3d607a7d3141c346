/*
 * Algorithm 2 of the paper: a conjugate gradient solver that loses ranks and gets the same digits.
 *
 * The system is -u'' = f on a line, one piece of it for each rank. Each iteration is one block,
 * with the exchange of borders, both sums, and a copy of the state to the next rank. The copy
 * counts with the block's commit, and brings a replacement to where the others are.
 * `cg rebuild|merge`; `KILL_PLAN="5:2 9:0"` kills rank 2 in cycle 5 and rank 0 in cycle 9.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fampi_names.h>

#include "options.h"

enum { POINTS = 40, MOST_PIECES = 64, MOST_CYCLES = 2000 };

/* All that a piece needs to go on. */
struct state {
  int piece, cycle;
  double rho;
  double x[POINTS], r[POINTS], p[POINTS];
};

/* Committed states: our own, and that of the rank before us. */
static struct state own, kept;
/* Which rank has which piece. */
static int rank_of[MOST_PIECES];
static MPI_Comm world;
static int rank, size, is_replacement;

/* A sum in the order of the pieces, so that it has the same bits wherever they are. */
static int sum(double part, double *result, MPI_Request *request, double *parts)
{
  int code = MPI_Iallgather(&part, 1, MPI_DOUBLE, parts, 1, MPI_DOUBLE, world, request);
  int k;
  if (code == MPI_SUCCESS) code = MPI_Wait_local(request, MPI_STATUS_IGNORE, MPI_TIMEOUT_ZERO);
  for (k = 0, *result = 0; k < size; k++) *result += parts[rank_of[k]];
  return code;
}

/* One step from `s`, with all its requests; a code other than 0 means that there is none. */
static int iterate(struct state *s, struct state *ward, MPI_Request *requests)
{
  /* A request that was cut short may still be under way when this function has returned. */
  static double parts[2][MOST_PIECES], left, right;
  double q[POINTS], part, pq, rho;
  int k, code, before = s->piece > 0, behind = s->piece < size - 1;
  left = right = 0;
  for (k = 0; k < 8; k++) requests[k] = MPI_REQUEST_NULL;
  if (before) {
    int neighbour = rank_of[s->piece - 1];
    MPI_Irecv(&left, 1, MPI_DOUBLE, neighbour, 1, world, &requests[0]);
    MPI_Isend(&s->p[0], 1, MPI_DOUBLE, neighbour, 2, world, &requests[1]);
  }
  if (behind) {
    int neighbour = rank_of[s->piece + 1];
    MPI_Irecv(&right, 1, MPI_DOUBLE, neighbour, 2, world, &requests[2]);
    MPI_Isend(&s->p[POINTS - 1], 1, MPI_DOUBLE, neighbour, 1, world, &requests[3]);
  }
  code = MPI_Waitall_local(4, requests, MPI_STATUSES_IGNORE, MPI_TIMEOUT_ZERO);
  if (code != MPI_SUCCESS) return code;
  for (k = 0, part = 0; k < POINTS; k++) {
    double l = k > 0 ? s->p[k - 1] : left, r = k < POINTS - 1 ? s->p[k + 1] : right;
    q[k] = 2 * s->p[k] - l - r;
    part += s->p[k] * q[k];
  }
  code = sum(part, &pq, &requests[4], parts[0]);
  if (code != MPI_SUCCESS) return code;
  for (k = 0, part = 0; k < POINTS; k++) {
    s->x[k] += s->rho / pq * s->p[k];
    s->r[k] -= s->rho / pq * q[k];
    part += s->r[k] * s->r[k];
  }
  die_if_planned(s->cycle, is_replacement);
  code = sum(part, &rho, &requests[5], parts[1]);
  if (code != MPI_SUCCESS) return code;
  for (k = 0; k < POINTS; k++) s->p[k] = s->r[k] + rho / s->rho * s->p[k];
  s->rho = rho;
  s->cycle++;
  MPI_Irecv(ward, (int)sizeof *ward, MPI_BYTE, rank_of[(s->piece + size - 1) % size], 3, world,
            &requests[6]);
  MPI_Isend(s, (int)sizeof *s, MPI_BYTE, rank_of[(s->piece + 1) % size], 3, world, &requests[7]);
  return MPI_SUCCESS;
}

/* Ends a block with these requests and gives the verdict; a faulty one makes a new world. */
static int decide(MPI_Request block, int count, MPI_Request *requests)
{
  MPI_Timeout limit;
  int code, k;
  MPI_Timeout_set_seconds(&limit, 2.0);
  do {
    MPI_Tryblock_finish(block, count, requests);
    code = MPI_Waitall_local(1, &block, MPI_STATUSES_IGNORE, limit);
  } while (code == MPI_ERR_TIMEOUT);
  for (k = 0; k < count; k++) MPI_Request_free(&requests[k]);
  if (code == MPI_ERR_TRYBLOCK_FOUND_ERRORS) {
    recover(&world);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
  }
  MPI_Request_free(&block);
  return code;
}

static double force(int point) { return 1 / (1.5 + point % 7); }

static void start_anew(void)
{
  int k;
  own.cycle = 0;
  own.rho = 0;
  for (k = 0; k < POINTS * size; k++) own.rho += force(k) * force(k);
  for (k = 0; k < POINTS; k++) {
    own.x[k] = 0;
    own.r[k] = own.p[k] = force(own.piece * POINTS + k);
  }
  kept.piece = -1;
}

/* What a rank has: its piece, how far it is, the piece that it keeps a copy of, how far. */
struct offer {
  int piece, cycle, kept, kept_cycle;
};

/* Gives pieces to those who have none, from the copies; 0 when all have to start anew. */
static int assign(const struct offer *offers, int *keeper)
{
  int k, lost, newcomer, cycle = 0, complete = 1;
  for (k = 0; k < size; k++) rank_of[k] = keeper[k] = -1;
  for (k = 0; k < size; k++) {
    if (offers[k].piece >= 0) rank_of[offers[k].piece] = k;
    if (offers[k].piece >= 0 && offers[k].cycle > cycle) cycle = offers[k].cycle;
  }
  for (lost = newcomer = 0; lost < size; lost++) {
    if (rank_of[lost] >= 0) continue;
    while (offers[newcomer].piece >= 0) newcomer++;
    rank_of[lost] = newcomer++;
    for (k = 0; k < size; k++)
      if (offers[k].kept == lost && offers[k].kept_cycle == cycle) keeper[lost] = k;
    complete = complete && keeper[lost] >= 0;
  }
  return complete && cycle > 0;
}

/* After a recovery: everybody has a piece again, as of the last commit. Not 0: once more. */
static int restore(void)
{
  static struct offer offers[MOST_PIECES];
  struct offer mine = {own.piece, own.cycle, kept.piece, kept.cycle};
  struct state received = own;
  MPI_Request block, requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int keeper[MOST_PIECES], code, k, goes_on = 0;
  MPI_TryBlock_start(world, MPI_TRYBLOCK_GLOBAL, &block);
  MPI_Iallgather(&mine, 4, MPI_INT, offers, 4, MPI_INT, world, &requests[0]);
  code = MPI_Wait_local(&requests[0], MPI_STATUS_IGNORE, MPI_TIMEOUT_ZERO);
  if (code == MPI_SUCCESS) {
    goes_on = assign(offers, keeper);
    for (k = 0; k < size && rank_of[k] != rank; k++) continue;
    received.piece = k;
    if (goes_on && keeper[k] >= 0)
      MPI_Irecv(&received, (int)sizeof own, MPI_BYTE, keeper[k], 4, world, &requests[1]);
    if (goes_on && kept.piece >= 0 && keeper[kept.piece] == rank)
      MPI_Isend(&kept, (int)sizeof kept, MPI_BYTE, rank_of[kept.piece], 4, world, &requests[2]);
  }
  code = decide(block, 3, requests);
  if (code != MPI_SUCCESS) return code;
  own = received;
  if (!goes_on) start_anew();
  return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
  int k, must_restore;
  double digits;
  MPI_Init(&argc, &argv);
  world = enter_world(argv, &is_replacement);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  own.piece = is_replacement ? -1 : rank;
  kept.piece = -1;
  for (k = 0; k < size; k++) rank_of[k] = k;
  if (!is_replacement) start_anew();
  must_restore = is_replacement;
  while (must_restore || (own.cycle < MOST_CYCLES && sqrt(own.rho) > 1e-9)) {
    struct state next = own, ward;
    MPI_Request block, requests[8];
    if (must_restore) {
      must_restore = restore() != MPI_SUCCESS;
      continue;
    }
    MPI_TryBlock_start(world, MPI_TRYBLOCK_GLOBAL, &block);
    iterate(&next, &ward, requests);
    must_restore = decide(block, 8, requests) != MPI_SUCCESS;
    if (!must_restore) own = next, kept = ward;
  }
  for (k = 0, digits = 0; k < POINTS; k++) digits += own.x[k] * (k + 1) * (own.piece + 1);
  printf("piece %d: %d cycles, residual %a, digits %a\n", own.piece, own.cycle, own.rho, digits);
  FAMPI_World_free(&world);
  MPI_Finalize();
  return 0;
}
