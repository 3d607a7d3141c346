! What only a program in Fortran can get wrong: handles, places in lists, buffers, lists of
! arguments. On four ranks, of which one dies; or, as `calls unasked`, an error that nobody asks for.
program calls
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use fampi
  use plan
  implicit none
  type(MPI_Comm) :: world
  integer :: rank, size
  logical :: is_replacement
  character(len=20) :: word

  call MPI_Init()
  call get_command_argument(1, word)
  call FAMPI_World_init(FAMPI_RECOVERY_SHRINK, world, is_replacement)
  call MPI_Comm_rank(world, rank)
  call MPI_Comm_size(world, size)
  call check(size == 4 .and. .not. is_replacement, "a world of four")
  if (word == "unasked") then
    call FAMPI_Set_redundancy(MPI_REQUEST_NULL, FAMPI_REDUNDANCY_OWN, 0, 0)
    print "(a)", "an error went by"
  end if
  call texts()
  call timeouts()
  call one_good_block()
  call buffers()
  call one_faulty_block()
  call group()
  call FAMPI_World_free(world)
  call check(world%MPI_VAL == MPI_COMM_NULL%MPI_VAL, "no world any more")
  call MPI_Finalize()
  print "(a, i0, a)", "rank ", rank, ": done"

contains

  subroutine check(is_true, what)
    logical, intent(in) :: is_true
    character(len=*), intent(in) :: what
    if (is_true) return
    print "(a, i0, 2a)", "rank ", rank, ": not so: ", what
    error stop 1
  end subroutine

  subroutine texts()
    character(len=:), allocatable :: text
    logical :: flag
    integer :: major, minor, patch, code
    call FAMPI_Get_version(major, minor, patch)
    call check(major >= 0 .and. minor >= 0 .and. patch >= 0, "a version")
    call FAMPI_Has_feature("fused", flag)
    call check(flag, "a feature")
    call FAMPI_Has_feature("flying", flag)
    call check(.not. flag, "no feature")
    call FAMPI_Doctor(text)
    call check(len(text) > 20, "what the doctor says")
    text = FAMPI_Error_string(FAMPI_ERR_TIMEOUT)
    call check(index(text, "time") > 0, text)
    call FAMPI_Set_redundancy(MPI_REQUEST_NULL, FAMPI_REDUNDANCY_OWN, 0, 0, code)
    call check(code == FAMPI_ERR_REQUEST, "an error that is asked for")
  end subroutine

  subroutine timeouts()
    integer(FAMPI_TIMEOUT_KIND) :: timeout
    real(c_double) :: seconds
    call FAMPI_Timeout_set_seconds(timeout, 2.5d0)
    call check(timeout == 2500000000_FAMPI_TIMEOUT_KIND, "nanoseconds")
    call FAMPI_Timeout_get_seconds(timeout, seconds)
    call check(abs(seconds - 2.5d0) < 1d-9, "seconds")
  end subroutine

  ! Statuses, places, a sum in place, and what becomes of handles.
  subroutine one_good_block()
    type(MPI_Request) :: block, requests(3), many(2), list(5)
    type(MPI_Status) :: status, statuses(2)
    integer, asynchronous :: got(2), sent, numbers(2), place
    integer :: code, places(2), out, others(2), at
    call FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, block)
    others = [modulo(rank - 1, size), modulo(rank + 1, size)]
    sent = 100 + rank
    call FAMPI_Irecv(got(1), 1, MPI_INTEGER, others(1), 7, world, requests(1))
    call FAMPI_Isend(sent, 1, MPI_INTEGER, others(2), 7, world, requests(2))
    numbers = [rank, 1]
    call FAMPI_Iallreduce(FAMPI_IN_PLACE, numbers, 2, MPI_INTEGER, MPI_SUM, world, requests(3))
    call FAMPI_Wait_local(requests(1), status, FAMPI_TIMEOUT_NEVER, code)
    call check(code == FAMPI_SUCCESS .and. got(1) == 100 + others(1), "a message")
    call check(status%MPI_SOURCE == others(1) .and. status%MPI_TAG == 7, "its status")
    call FAMPI_Wait_local(requests(3), timeout=FAMPI_TIMEOUT_NEVER)
    call check(all(numbers == [6, 4]), "sums in place")
    ! The first of two that is there is the second in the list.
    call FAMPI_Irecv(got(1), 1, MPI_INTEGER, others(1), 8, world, many(1))
    call FAMPI_Isend(sent, 1, MPI_INTEGER, others(2), 9, world, many(2))
    call FAMPI_Waitany_local(2, many, place, status, FAMPI_TIMEOUT_NEVER)
    call check(place == 2, "the place of a request")
    call FAMPI_Request_free(many(2))
    call FAMPI_Irecv(got(2), 1, MPI_INTEGER, others(1), 9, world, many(2))
    call FAMPI_Waitsome_local(2, many, out, places, statuses, FAMPI_TIMEOUT_NEVER)
    ! A neighbour that is ahead has served the first one, too.
    call check(any(places(:out) == 2), "some places")
    do at = 1, out
      call check(statuses(at)%MPI_TAG == 7 + places(at), "the status of each")
    end do
    call check(got(2) == 100 + others(1), "the message behind it")
    call FAMPI_Request_free(many(2))
    call FAMPI_Isend(sent, 1, MPI_INTEGER, others(2), 8, world, many(2))
    list = [requests, many]
    call FAMPI_TryBlock_finish(block, 5, list, FAMPI_TIMEOUT_NEVER)
    call FAMPI_Wait_local(block, timeout=FAMPI_TIMEOUT_NEVER, ierror=code)
    call check(code == FAMPI_SUCCESS, "a commit")
    do at = 1, 3
      call FAMPI_Request_free(requests(at))
      call check(requests(at)%MPI_VAL == MPI_REQUEST_NULL%MPI_VAL, "a request less")
    end do
    call FAMPI_Waitall_local(2, many, statuses, FAMPI_TIMEOUT_NEVER)
    call check(statuses(1)%MPI_TAG == 8, "a status in a list")
    call FAMPI_Request_free(many(1))
    call FAMPI_Request_free(many(2))
    call FAMPI_Request_free(block)
  end subroutine

  ! A part with gaps is refused before anything has happened.
  subroutine buffers()
    type(MPI_Request) :: request
    double precision, asynchronous :: grid(4, 4)
    integer :: code
    request = MPI_REQUEST_NULL
    call FAMPI_Isend(grid(2, :), 4, MPI_DOUBLE_PRECISION, 0, 1, world, request, code)
    call check(code == FAMPI_ERR_ARG, "a row has gaps")
    call check(request%MPI_VAL == MPI_REQUEST_NULL%MPI_VAL, "no request")
  end subroutine

  ! The second request of a list, and rank 2, have failed.
  subroutine one_faulty_block()
    type(MPI_Request) :: block, requests(2)
    type(FAMPI_Report) :: report
    type(MPI_Group) :: failed
    integer, asynchronous :: got, sent
    integer :: code, places(4), count, cause, value, dead, dead_code
    logical :: flag
    call FAMPI_TryBlock_start(world, FAMPI_TRYBLOCK_GLOBAL, block)
    call die_if_planned(0, is_replacement)
    sent = rank
    call FAMPI_Isend(sent, 1, MPI_INTEGER, rank, 1, world, requests(1))
    call FAMPI_Irecv(got, 1, MPI_INTEGER, 2, 2, world, requests(2))
    call FAMPI_TryBlock_finish(block, 2, requests, FAMPI_TIMEOUT_NEVER)
    call FAMPI_Wait_local(block, timeout=FAMPI_TIMEOUT_NEVER, ierror=code)
    call check(code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS, "a faulty block")
    call FAMPI_Get_failed_requests(block, 1, [FAMPI_ERR_RCODES_ANY], 4, places, count)
    call check(count >= 1 .and. any(places(:count) == 2), "the place of a failed request")
    call FAMPI_Get_failure_cause(block, 2, cause, value)
    ! Without an observer it is unknown where nobody saw the end.
    call check(cause == FAMPI_CAUSE_UNKNOWN .or. cause == FAMPI_CAUSE_KILLED .and. value == 9, &
      "a cause")
    call FAMPI_Report_get(block, report)
    call check(FAMPI_Report_count(report) >= 1, "a report")
    call FAMPI_Report_fault(report, 1, dead, dead_code)
    call check(dead == 2 .and. dead_code == FAMPI_ERR_PROC_FAILED_SOFT, "its first fault")
    call FAMPI_Report_fault(report, FAMPI_Report_count(report) + 1, dead, dead_code, code)
    call check(code /= FAMPI_SUCCESS, "no fault behind the last")
    call FAMPI_Report_free(report)
    call FAMPI_Comm_known_failed(world, failed)
    call MPI_Group_size(failed, count)
    call check(count == 1, "one has failed")
    call MPI_Group_free(failed)
    call FAMPI_Request_free(requests(1))
    flag = .false.
    call FAMPI_Test(requests(2), flag, ierror=code)
    call check(flag .and. code /= FAMPI_SUCCESS, "a failed request is over")
    call check(requests(2)%MPI_VAL == MPI_REQUEST_NULL%MPI_VAL, "and freed")
    call FAMPI_World_recover(world)
    call MPI_Comm_size(world, size)
    call check(size == 3, "three are left")
    call FAMPI_Request_free(block)
  end subroutine

  subroutine group()
    type(FAMPI_Membership) :: members
    integer :: news, owner, epoch
    logical :: flag
    call FAMPI_Membership_start(world, FAMPI_SLOW_RETURN, members)
    call FAMPI_Membership_news(members, news)
    call FAMPI_Membership_renew(members, world)
    call FAMPI_Membership_has(members, 0, flag)
    call check(flag, "a member")
    call FAMPI_Membership_owner(members, 3, owner)
    call check(owner == 2, "the owner of a part")
    call FAMPI_Membership_epoch(members, epoch)
    call FAMPI_Membership_free(members)
  end subroutine
end program
