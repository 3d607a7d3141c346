! The loop of MiniFE, conjugate gradients on a box of bricks, in blocks: it loses ranks and ends
! with the same digits.
!
! Each rank has some planes of the box. An iteration is one block: planes are exchanged with both
! neighbours, one dot product is waited for inside of it, the other one rides on the commit, and
! what the next iteration needs is kept for the case of a death.
module solver
  use mpi_f08
  use fampi
  use plan
  implicit none

  integer, parameter :: width = 10, planes = 5, most_iterations = 200
  double precision, parameter :: small = 1d-10

  type :: vectors
    integer :: iteration
    ! The square of the residual, which all ranks have.
    double precision :: square
    double precision, dimension(width, width, planes) :: x, r, p
  end type

  integer, parameter :: bytes = storage_size(vectors(0, 0, 0, 0, 0)) / 8, plane = width * width
  type(vectors), asynchronous, save :: own, next
  ! With a plane of each neighbour; zero around the box.
  double precision, asynchronous, save :: around(width, width, 0:planes + 1)
  double precision, asynchronous, save :: part, product
  type(MPI_Comm) :: world
  integer :: rank, size
  logical :: is_replacement, has_state

contains

  ! All entries of the right side are 1, and the first guess is 0.
  subroutine begin()
    own%iteration = 0
    own%x = 0
    own%r = 1
    own%p = 1
    own%square = dble(plane) * planes * size
  end subroutine

  ! What the operator makes of the vector in `around`: 26 of a point less its 26 neighbours.
  function operator_of() result(y)
    double precision :: y(width, width, planes)
    integer :: i, j, k, a, b, c
    do k = 1, planes
      do j = 1, width
        do i = 1, width
          y(i, j, k) = 27 * around(i, j, k)
          do c = k - 1, k + 1
            do b = max(j - 1, 1), min(j + 1, width)
              do a = max(i - 1, 1), min(i + 1, width)
                y(i, j, k) = y(i, j, k) - around(a, b, c)
              end do
            end do
          end do
        end do
      end do
    end do
  end function

  ! In an order that the compiler does not choose.
  function dot(one, other) result(total)
    double precision, intent(in), dimension(width, width, planes) :: one, other
    double precision :: total
    integer :: i, j, k
    total = 0
    do k = 1, planes
      do j = 1, width
        do i = 1, width
          total = total + one(i, j, k) * other(i, j, k)
        end do
      end do
    end do
  end function

  ! Puts a vector between the planes of both neighbours; a code of a fault ends all of the block.
  subroutine surround(vector, requests, code)
    double precision, intent(in) :: vector(width, width, planes)
    type(MPI_Request), intent(out) :: requests(4)
    integer, intent(out) :: code
    integer :: below, above
    below = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    above = merge(rank + 1, MPI_PROC_NULL, rank < size - 1)
    around = 0
    around(:, :, 1:planes) = vector
    call FAMPI_Irecv(around(:, :, 0), plane, MPI_DOUBLE_PRECISION, below, 1, world, requests(1))
    call FAMPI_Irecv(around(:, :, planes + 1), plane, MPI_DOUBLE_PRECISION, above, 2, world, &
      requests(2))
    call FAMPI_Isend(around(:, :, 1), plane, MPI_DOUBLE_PRECISION, below, 2, world, requests(3))
    call FAMPI_Isend(around(:, :, planes), plane, MPI_DOUBLE_PRECISION, above, 1, world, &
      requests(4))
    call FAMPI_Waitall_local(4, requests, timeout=FAMPI_TIMEOUT_NEVER, ierror=code)
  end subroutine

  ! The sum over all ranks of `part`, in `product`.
  subroutine add_up(request, code)
    type(MPI_Request), intent(out) :: request
    integer, intent(out) :: code
    call FAMPI_Iallreduce(part, product, 1, MPI_DOUBLE_PRECISION, MPI_SUM, world, request)
    call FAMPI_Wait_local(request, timeout=FAMPI_TIMEOUT_NEVER, ierror=code)
  end subroutine

  ! One iteration, if it is committed; else there is a new world, in which all have to restore.
  subroutine iterate()
    type(MPI_Request) :: block, requests(5)
    double precision :: image(width, width, planes)
    integer :: code
    next = own
    requests = MPI_REQUEST_NULL
    call FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, block)
    call surround(own%p, requests(:4), code)
    part = 0
    if (code == FAMPI_SUCCESS) then
      image = operator_of()
      part = dot(own%p, image)
      call die_if_planned(own%iteration, is_replacement)
      call add_up(requests(5), code)
    end if
    part = 0
    if (code == FAMPI_SUCCESS) then
      next%x = own%x + own%square / product * own%p
      next%r = own%r - own%square / product * image
      part = dot(next%r, next%r)
      next%iteration = own%iteration + 1
      ! The square of its residual comes with the commit: who restores it finds it anew.
      call FAMPI_Protect(block, 0, next, bytes, MPI_BYTE, code)
    end if
    call decide(block, requests, code)
    if (code == FAMPI_SUCCESS) call turn()
  end subroutine

  ! The direction of the next iteration, from the state that was committed and its square.
  subroutine turn()
    next%p = next%r + part / next%square * next%p
    next%square = part
    own = next
  end subroutine

  ! All have the state of the last commit, or all begin again; or once more.
  subroutine restore()
    type(MPI_Request) :: block, none(0)
    integer :: code, count
    call FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, block)
    call die_if_planned(-1, is_replacement)
    ! What it returns may differ from rank to rank: the report does not.
    call FAMPI_Restore(block, 0, next, bytes, MPI_BYTE, count, code)
    part = 0
    if (code == FAMPI_SUCCESS) part = dot(next%r, next%r)
    call decide(block, none, code)
    if (code == FAMPI_SUCCESS) call turn()
    if (code == FAMPI_ERR_STATE_LOST) call begin()
    has_state = code == FAMPI_SUCCESS .or. code == FAMPI_ERR_STATE_LOST
  end subroutine

  ! The square of what is left of the right side, computed from the solution alone.
  function left_over() result(square)
    type(MPI_Request) :: block, requests(4)
    double precision :: square, left(width, width, planes)
    integer :: code
    call FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, block)
    call surround(own%x, requests, code)
    left = 1 - operator_of()
    part = dot(left, left)
    call decide(block, requests, code)
    square = part
  end function

  ! Ends a block, with the sum of `part` over all ranks. FAMPI_ERR_STATE_LOST: there is no state to
  ! go back to. After any other code but FAMPI_SUCCESS all have to restore.
  subroutine decide(block, requests, code)
    type(MPI_Request), intent(inout) :: block, requests(:)
    integer, intent(out) :: code
    integer :: at, dead, lost
    call FAMPI_TryBlock_finish_allreduce(block, ubound(requests, 1), requests, &
      FAMPI_TIMEOUT_NEVER, FAMPI_IN_PLACE, part, 1, MPI_DOUBLE_PRECISION, MPI_SUM)
    call FAMPI_Wait_local(block, timeout=FAMPI_TIMEOUT_NEVER, ierror=code)
    do at = 1, ubound(requests, 1)
      if (requests(at)%MPI_VAL /= MPI_REQUEST_NULL%MPI_VAL) &
        call FAMPI_Request_free(requests(at))
    end do
    if (code /= FAMPI_SUCCESS) then
      dead = reported(block, [FAMPI_ERR_PROC_FAILED])
      lost = reported(block, [FAMPI_ERR_STATE_LOST, FAMPI_ERR_NOTHING_PROTECTED])
      if (dead == 0 .and. lost > 0) code = FAMPI_ERR_STATE_LOST
      call FAMPI_World_recover(world)
      call MPI_Comm_rank(world, rank)
      call MPI_Comm_size(world, size)
      has_state = .false.
    end if
    call FAMPI_Request_free(block)
  end subroutine

  ! How many ranks the report of a block names with these codes; the same on all of them.
  integer function reported(block, codes)
    type(MPI_Request), intent(in) :: block
    integer, intent(in) :: codes(:)
    type(MPI_Group) :: group
    call FAMPI_Get_failed_group(block, ubound(codes, 1), codes, world, group)
    call MPI_Group_size(group, reported)
    call MPI_Group_free(group)
  end function
end module

program cg
  use mpi_f08
  use fampi
  use solver
  implicit none
  double precision :: left

  call MPI_Init()
  call FAMPI_World_init(FAMPI_RECOVERY_REBUILD, world, is_replacement)
  call MPI_Comm_rank(world, rank)
  call MPI_Comm_size(world, size)
  call begin()
  has_state = .not. is_replacement
  do
    do while (.not. has_state .or. (own%iteration < most_iterations .and. own%square > small))
      if (has_state) then
        call iterate()
      else
        call restore()
      end if
    end do
    left = left_over()
    if (has_state) exit
  end do
  print "(a, i0, a, i0, a, z16.16, a, z16.16, a, es8.1)", "rank ", rank, ": ", own%iteration, &
    " iterations, square ", own%square, ", solution ", dot(own%x, own%x), ", left ", left
  call FAMPI_World_free(world)
  call MPI_Finalize()
end program
