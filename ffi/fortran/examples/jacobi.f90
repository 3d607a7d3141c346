! Jacobi's method for the heat on a plate that loses ranks and ends with the same digits.
!
! Each rank has some rows. A step is one block: rows are exchanged with both neighbours, the greatest
! change of all ranks is found with the commit, and the new state is kept for the case of a death
! (FAMPI_Protect). After one the world is rebuilt, by spares of the launch or by new processes, and
! every rank gets the state of the last commit.
!
! With `fampi run --checkpoint FOLDER` states are saved in files, too: where a rank dies with the one
! that keeps its state, all go back to these, and `fampi restart FOLDER` goes on from them when the
! whole job has ended.
module steps
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  use mpi_f08
  use fampi
  use plan
  implicit none

  integer, parameter :: columns = 30, rows = 6, most_steps = 300
  double precision, parameter :: small = 1d-4

  type :: plate
    integer :: step
    double precision :: change
    ! With a row of each neighbour above and below, and the cold at both sides.
    double precision :: heat(0:columns + 1, 0:rows + 1)
  end type

  integer, parameter :: bytes = storage_size(plate(0, 0, 0)) / 8
  type(plate), asynchronous, save :: own, next
  double precision, asynchronous, save :: change
  type(MPI_Comm) :: world
  integer :: rank, size
  logical :: is_replacement
  ! That of the last block; FAMPI_ERR_TRYBLOCK_FOUND_ERRORS as long as all have to restore.
  integer :: code = FAMPI_ERR_TRYBLOCK_FOUND_ERRORS

contains

  ! The plate is hot at its top, and cold everywhere else.
  subroutine begin()
    own%step = 0
    own%change = 1
    own%heat = 0
    if (rank == 0) own%heat(1:columns, 0) = 1
  end subroutine

  ! In an order that the compiler does not choose.
  function sum_of(heat) result(total)
    double precision, intent(in) :: heat(:, :)
    double precision :: total
    integer :: column, row
    total = 0
    do row = 1, ubound(heat, 2)
      do column = 1, ubound(heat, 1)
        total = total + heat(column, row) * (column + 31 * row)
      end do
    end do
  end function

  ! One step, if it is committed; else there is a new world, in which all have to restore.
  subroutine advance()
    type(MPI_Request) :: block, requests(4)
    integer :: above, below, here
    logical :: is_saved
    above = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    below = merge(rank + 1, MPI_PROC_NULL, rank < size - 1)
    next = own
    call FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, block)
    call FAMPI_Checkpoint(block, int(own%step, int64), is_saved, here)
    call FAMPI_Irecv(next%heat(1:, 0), columns, MPI_DOUBLE_PRECISION, above, 1, world, requests(1))
    call FAMPI_Irecv(next%heat(1:, rows + 1), columns, MPI_DOUBLE_PRECISION, below, 2, world, &
      requests(2))
    call FAMPI_Isend(own%heat(1:, 1), columns, MPI_DOUBLE_PRECISION, above, 2, world, requests(3))
    call FAMPI_Isend(own%heat(1:, rows), columns, MPI_DOUBLE_PRECISION, below, 1, world, &
      requests(4))
    call die_if_planned(own%step, is_replacement)
    call FAMPI_Waitall_local(4, requests, timeout=FAMPI_TIMEOUT_NEVER, ierror=here)
    change = 0
    ! A code of its own may come from the block, which then tells all; go on to its end.
    if (here == FAMPI_SUCCESS) then
      call relax()
      call FAMPI_Protect(block, 0, next, bytes, MPI_BYTE, here)
    end if
    call decide(block, requests)
    if (code /= FAMPI_SUCCESS) return
    own = next
    own%change = change
  end subroutine

  ! The mean of the four neighbours, everywhere.
  subroutine relax()
    double precision :: new(columns, rows)
    integer :: column, row
    do row = 1, rows
      do column = 1, columns
        new(column, row) = 0.25d0 * (next%heat(column - 1, row) + next%heat(column + 1, row) &
          + next%heat(column, row - 1) + next%heat(column, row + 1))
        change = max(change, abs(new(column, row) - next%heat(column, row)))
      end do
    end do
    next%heat(1:columns, 1:rows) = new
    next%step = next%step + 1
  end subroutine

  ! Ends a block with the greatest change. After another code than FAMPI_SUCCESS, which is the same
  ! on all ranks, all have to restore.
  subroutine decide(block, requests)
    type(MPI_Request), intent(inout) :: block, requests(:)
    integer :: at
    call FAMPI_TryBlock_finish_allreduce(block, ubound(requests, 1), requests, &
      FAMPI_TIMEOUT_NEVER, change, change, 1, MPI_DOUBLE_PRECISION, MPI_MAX)
    call FAMPI_Wait_local(block, timeout=FAMPI_TIMEOUT_NEVER, ierror=code)
    do at = 1, ubound(requests, 1)
      call FAMPI_Request_free(requests(at))
    end do
    if (code /= FAMPI_SUCCESS) then
      call FAMPI_World_recover(world)
      call MPI_Comm_rank(world, rank)
      call MPI_Comm_size(world, size)
    end if
    call FAMPI_Request_free(block)
  end subroutine

  ! All have the state of the last commit, or of a checkpoint, or all begin; or once more.
  subroutine restore()
    type(MPI_Request) :: block, none(0)
    integer :: here, from, ranks, count
    integer(int64) :: step
    from = FAMPI_STATES_NOWHERE
    call FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, block)
    if (own%step > 0) call die_if_planned(-1, is_replacement)
    call FAMPI_Restart(block, 0, from, step, ranks, here)
    if (here == FAMPI_SUCCESS .and. from /= FAMPI_STATES_NOWHERE) then
      call FAMPI_Restore(block, 0, next, bytes, MPI_BYTE, count, here)
      if (here == FAMPI_SUCCESS .and. count /= bytes) here = FAMPI_ERR_COUNT
    end if
    change = 0
    call decide(block, none)
    if (code /= FAMPI_SUCCESS) return
    if (rank == 0 .and. from == FAMPI_STATES_IN_FILES) &
      write (error_unit, "(a, i0)") "all go on from the checkpoint of step ", step
    ! All ranks have the same code, as the block is committed.
    if (here == FAMPI_ERR_CHECKPOINTS_EXIST .or. here == FAMPI_ERR_NO_CHECKPOINT &
      .or. here == FAMPI_ERR_COUNT) then
      code = here
    else if (here == FAMPI_SUCCESS .and. from /= FAMPI_STATES_NOWHERE) then
      own = next
    else
      call begin()
    end if
  end subroutine
end module

program jacobi
  use mpi_f08
  use fampi
  use steps
  implicit none

  call MPI_Init()
  call FAMPI_World_init(FAMPI_RECOVERY_REBUILD, world, is_replacement)
  call MPI_Comm_rank(world, rank)
  call MPI_Comm_size(world, size)
  own%step = 0
  do while (code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS &
      .or. (code == FAMPI_SUCCESS .and. own%step < most_steps .and. own%change > small))
    if (code == FAMPI_SUCCESS) then
      call advance()
    else
      call restore()
    end if
  end do
  if (code == FAMPI_SUCCESS) print "(a, i0, a, i0, a, z16.16, a, z16.16)", "rank ", rank, ": ", own%step, " steps, change ", &
    own%change, ", heat ", sum_of(own%heat(1:columns, 1:rows))
  call FAMPI_World_free(world)
  call MPI_Finalize()
  if (code /= FAMPI_SUCCESS) stop 1
end program
