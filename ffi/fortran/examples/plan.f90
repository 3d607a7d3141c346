! Who dies when: KILL_PLAN="5:2 9:0" kills in step 5 the process that had rank 2 at the launch, and
! in step 9 the one that had rank 0. Replacements live.
module plan
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi_f08
  implicit none
  private
  public :: die_if_planned

  interface
    function c_raise(signal) bind(C, name="raise")
      import
      integer(c_int), value :: signal
      integer(c_int) :: c_raise
    end function
  end interface

contains

  ! Dies as a crashing process would, if that is planned.
  subroutine die_if_planned(step, is_replacement)
    integer, intent(in) :: step
    logical, intent(in) :: is_replacement
    integer, parameter :: SIGKILL = 9
    character(len=200) :: text
    character(len=24) :: entry
    integer :: rank, ignored
    if (is_replacement) return
    call get_environment_variable("KILL_PLAN", text)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    write (entry, "(i0, ':', i0)") step, rank
    if (index(" " // text, " " // trim(entry) // " ") == 0) return
    write (error_unit, "(a, i0, a)") "rank ", rank, " kills itself, on purpose: the others go on"
    ignored = c_raise(SIGKILL)
  end subroutine
end module
