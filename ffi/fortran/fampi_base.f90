! What stands between the module fampi and the functions of C: handles of both languages, the end
! of a call, and the calls that take texts.
module fampi_base
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi_f08
  implicit none
  private

  public :: to_c, to_f, address, end_call, to_text
  public :: FAMPI_Error_string, FAMPI_Doctor, FAMPI_World_init

  ! A handle of Open MPI in C: an address.
  integer, parameter, public :: handle = c_intptr_t

  ! In the place of the buffer that is sent: it is the one that is received into.
  integer, target, save, public :: FAMPI_IN_PLACE

  interface to_c
    procedure comm_to_c, datatype_to_c, group_to_c, info_to_c, op_to_c, request_to_c
  end interface
  interface to_f
    procedure comm_to_f, group_to_f, request_to_f
  end interface

  interface
    function comm_f2c(number) bind(C, name="MPI_Comm_f2c")
      import
      integer(c_int), value :: number
      integer(handle) :: comm_f2c
    end function
    function comm_c2f(object) bind(C, name="MPI_Comm_c2f")
      import
      integer(handle), value :: object
      integer(c_int) :: comm_c2f
    end function
    function type_f2c(number) bind(C, name="MPI_Type_f2c")
      import
      integer(c_int), value :: number
      integer(handle) :: type_f2c
    end function
    function group_f2c(number) bind(C, name="MPI_Group_f2c")
      import
      integer(c_int), value :: number
      integer(handle) :: group_f2c
    end function
    function group_c2f(object) bind(C, name="MPI_Group_c2f")
      import
      integer(handle), value :: object
      integer(c_int) :: group_c2f
    end function
    function info_f2c(number) bind(C, name="MPI_Info_f2c")
      import
      integer(c_int), value :: number
      integer(handle) :: info_f2c
    end function
    function op_f2c(number) bind(C, name="MPI_Op_f2c")
      import
      integer(c_int), value :: number
      integer(handle) :: op_f2c
    end function
    function request_f2c(number) bind(C, name="MPI_Request_f2c")
      import
      integer(c_int), value :: number
      integer(handle) :: request_f2c
    end function
    function request_c2f(object) bind(C, name="MPI_Request_c2f")
      import
      integer(handle), value :: object
      integer(c_int) :: request_c2f
    end function
    function c_error_string(code) bind(C, name="FAMPI_Error_string") result(text)
      import
      integer(c_int), value :: code
      type(c_ptr) :: text
    end function
    ! It knows the codes of fampi, too.
    function c_mpi_error_string(code, text, length) bind(C, name="MPI_Error_string") result(failed)
      import
      integer(c_int), value :: code
      character(kind=c_char) :: text(*)
      integer(c_int) :: length, failed
    end function
    subroutine c_exit(status) bind(C, name="exit")
      import
      integer(c_int), value :: status
    end subroutine
    function c_doctor(text, size, length) bind(C, name="FAMPI_Doctor") result(code)
      import
      character(kind=c_char) :: text(*)
      integer(c_int), value :: size
      integer(c_int) :: length, code
    end function
    function c_world_init(recovery, argv, world, is_replacement) bind(C, name="FAMPI_World_init") &
        result(code)
      import
      integer(c_int), value :: recovery
      type(c_ptr), value :: argv
      integer(handle) :: world
      integer(c_int) :: is_replacement, code
    end function
    function c_length(text) bind(C, name="strlen")
      import
      type(c_ptr), value :: text
      integer(c_size_t) :: c_length
    end function
  end interface

contains

  impure elemental function comm_to_c(it) result(object)
    type(MPI_Comm), intent(in) :: it
    integer(handle) :: object
    object = comm_f2c(it%MPI_VAL)
  end function

  impure elemental function datatype_to_c(it) result(object)
    type(MPI_Datatype), intent(in) :: it
    integer(handle) :: object
    object = type_f2c(it%MPI_VAL)
  end function

  impure elemental function group_to_c(it) result(object)
    type(MPI_Group), intent(in) :: it
    integer(handle) :: object
    object = group_f2c(it%MPI_VAL)
  end function

  impure elemental function info_to_c(it) result(object)
    type(MPI_Info), intent(in) :: it
    integer(handle) :: object
    object = info_f2c(it%MPI_VAL)
  end function

  impure elemental function op_to_c(it) result(object)
    type(MPI_Op), intent(in) :: it
    integer(handle) :: object
    object = op_f2c(it%MPI_VAL)
  end function

  impure elemental function request_to_c(it) result(object)
    type(MPI_Request), intent(in) :: it
    integer(handle) :: object
    object = request_f2c(it%MPI_VAL)
  end function

  ! Each takes what kind of handle it is from what it is written to.
  impure elemental subroutine comm_to_f(object, it)
    integer(handle), intent(in) :: object
    type(MPI_Comm), intent(inout) :: it
    it%MPI_VAL = comm_c2f(object)
  end subroutine

  impure elemental subroutine group_to_f(object, it)
    integer(handle), intent(in) :: object
    type(MPI_Group), intent(inout) :: it
    it%MPI_VAL = group_c2f(object)
  end subroutine

  impure elemental subroutine request_to_f(object, it)
    integer(handle), intent(in) :: object
    type(MPI_Request), intent(inout) :: it
    it%MPI_VAL = request_c2f(object)
  end subroutine

  ! Where a buffer begins, or what C has for FAMPI_IN_PLACE.
  function address(buf)
    type(*), dimension(..), target, asynchronous, intent(in) :: buf
    type(c_ptr) :: address
    ! MPI_IN_PLACE of Open MPI.
    integer(c_intptr_t), parameter :: IN_PLACE = 1
    address = c_loc(buf)
    if (c_associated(address, c_loc(FAMPI_IN_PLACE))) address = transfer(IN_PLACE, address)
  end function

  ! The code of a call for who asks for it; a program that does not ends with its sentence.
  subroutine end_call(code, name, ierror)
    integer(c_int), intent(in) :: code
    character(len=*), intent(in) :: name
    integer, optional, intent(out) :: ierror
    ! More than the longest of any MPI.
    character(kind=c_char) :: letters(2048)
    integer(c_int) :: length, ignored
    if (present(ierror)) then
      ierror = code
    else if (code /= MPI_SUCCESS) then
      ignored = c_mpi_error_string(code, letters, length)
      write (error_unit, "(*(a))") name, ": ", letters(:length)
      flush (error_unit)
      call c_exit(1_c_int)
    end if
  end subroutine

  ! A text as C has it.
  pure function to_text(text)
    character(len=*), intent(in) :: text
    character(kind=c_char, len=:), allocatable :: to_text
    to_text = trim(text) // c_null_char
  end function

  ! A sentence about a code.
  function FAMPI_Error_string(code) result(sentence)
    integer, intent(in) :: code
    character(len=:), allocatable :: sentence
    character(kind=c_char), pointer :: letters(:)
    type(c_ptr) :: text
    integer :: at
    text = c_error_string(code)
    call c_f_pointer(text, letters, [c_length(text)])
    allocate (character(len=size(letters)) :: sentence)
    do at = 1, size(letters)
      sentence(at:at) = letters(at)
    end do
  end function

  ! What this MPI and this launch would survive, in sentences.
  subroutine FAMPI_Doctor(text, ierror)
    character(len=:), allocatable, intent(out) :: text
    integer, optional, intent(out) :: ierror
    character(kind=c_char), allocatable :: letters(:)
    integer(c_int) :: code, length
    integer :: at
    allocate (letters(1))
    code = c_doctor(letters, 1, length)
    if (code == MPI_SUCCESS) then
      deallocate (letters)
      allocate (letters(length + 1))
      code = c_doctor(letters, length + 1, length)
    end if
    if (code == MPI_SUCCESS) then
      allocate (character(len=length) :: text)
      do at = 1, length
        text(at:at) = letters(at)
      end do
    end if
    call end_call(code, "FAMPI_Doctor", ierror)
  end subroutine

  ! Enters a world that survives the death of processes. New processes run the command by which
  ! this one was started.
  subroutine FAMPI_World_init(recovery, world, is_replacement, ierror)
    integer, intent(in) :: recovery
    type(MPI_Comm), intent(inout) :: world
    logical, intent(out) :: is_replacement
    integer, optional, intent(out) :: ierror
    character(kind=c_char, len=:), allocatable, target :: words
    type(c_ptr), target :: argv(command_argument_count() + 2)
    integer :: starts(command_argument_count() + 1), number, length
    integer(handle) :: c_world
    integer(c_int) :: code, is_new
    words = ""
    do number = 0, command_argument_count()
      starts(number + 1) = len(words) + 1
      call get_command_argument(number, length=length)
      words = words // word(number, length) // c_null_char
    end do
    argv = c_null_ptr
    do number = 1, size(starts)
      argv(number) = c_loc(words(starts(number):starts(number)))
    end do
    c_world = to_c(MPI_COMM_NULL)
    code = c_world_init(recovery, c_loc(argv), c_world, is_new)
    is_replacement = .false.
    if (code == MPI_SUCCESS) then
      call to_f(c_world, world)
      is_replacement = is_new /= 0
    end if
    call end_call(code, "FAMPI_World_init", ierror)
  end subroutine

  function word(number, length)
    integer, intent(in) :: number, length
    character(len=length) :: word
    call get_command_argument(number, word)
  end function
end module
