! The part of MPI's own module that programs of blocks need, for an MPI that was built without
! Fortran, as the one that `cargo fampi setup` installs. It stands on the C functions of Open MPI.
! Where MPI has its `mpi_f08`, leave this file out.
!
! Datatypes and operations are there after MPI_Init. Messages and collectives are those of the
! module fampi.
module mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  private

  type, bind(C), public :: MPI_Comm
    integer(c_int) :: MPI_VAL
  end type
  type, bind(C), public :: MPI_Datatype
    integer(c_int) :: MPI_VAL
  end type
  type, bind(C), public :: MPI_Group
    integer(c_int) :: MPI_VAL
  end type
  type, bind(C), public :: MPI_Info
    integer(c_int) :: MPI_VAL
  end type
  type, bind(C), public :: MPI_Op
    integer(c_int) :: MPI_VAL
  end type
  type, bind(C), public :: MPI_Request
    integer(c_int) :: MPI_VAL
  end type
  ! As it is in C.
  type, bind(C), public :: MPI_Status
    integer(c_int) :: MPI_SOURCE, MPI_TAG, MPI_ERROR
    integer(c_int), private :: cancelled
    integer(c_size_t), private :: bytes
  end type

  ! Numbers that Open MPI gives its first handles.
  type(MPI_Comm), parameter, public :: MPI_COMM_WORLD = MPI_Comm(0), MPI_COMM_SELF = MPI_Comm(1), &
    MPI_COMM_NULL = MPI_Comm(2)
  type(MPI_Request), parameter, public :: MPI_REQUEST_NULL = MPI_Request(0)
  type(MPI_Group), parameter, public :: MPI_GROUP_NULL = MPI_Group(0), MPI_GROUP_EMPTY = MPI_Group(1)
  type(MPI_Info), parameter, public :: MPI_INFO_NULL = MPI_Info(0)
  integer, parameter, public :: MPI_SUCCESS = 0, MPI_ANY_SOURCE = -1, MPI_ANY_TAG = -1, &
    MPI_PROC_NULL = -2, MPI_UNDEFINED = -32766

  type(MPI_Datatype), protected, public :: MPI_BYTE, MPI_CHARACTER, MPI_INTEGER, MPI_INTEGER8, &
    MPI_REAL, MPI_DOUBLE_PRECISION
  type(MPI_Op), protected, public :: MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, &
    MPI_LAND, MPI_LOR

  public :: MPI_Init, MPI_Finalize, MPI_Abort, MPI_Comm_rank, MPI_Comm_size, MPI_Comm_free, &
    MPI_Group_size, MPI_Group_free, MPI_Group_translate_ranks, MPI_Comm_group, MPI_Wtime

  interface
    function c_init(argc, argv) bind(C, name="MPI_Init") result(code)
      import
      type(c_ptr), value :: argc, argv
      integer(c_int) :: code
    end function
    function c_finalize() bind(C, name="MPI_Finalize") result(code)
      import
      integer(c_int) :: code
    end function
    function c_abort(comm, status) bind(C, name="MPI_Abort") result(code)
      import
      type(c_ptr), value :: comm
      integer(c_int), value :: status
      integer(c_int) :: code
    end function
    function c_comm_rank(comm, rank) bind(C, name="MPI_Comm_rank") result(code)
      import
      type(c_ptr), value :: comm
      integer(c_int) :: rank, code
    end function
    function c_comm_size(comm, size) bind(C, name="MPI_Comm_size") result(code)
      import
      type(c_ptr), value :: comm
      integer(c_int) :: size, code
    end function
    function c_comm_group(comm, group) bind(C, name="MPI_Comm_group") result(code)
      import
      type(c_ptr), value :: comm
      type(c_ptr) :: group
      integer(c_int) :: code
    end function
    function c_comm_free(comm) bind(C, name="MPI_Comm_free") result(code)
      import
      type(c_ptr) :: comm
      integer(c_int) :: code
    end function
    function c_group_size(group, size) bind(C, name="MPI_Group_size") result(code)
      import
      type(c_ptr), value :: group
      integer(c_int) :: size, code
    end function
    function c_group_free(group) bind(C, name="MPI_Group_free") result(code)
      import
      type(c_ptr) :: group
      integer(c_int) :: code
    end function
    function c_translate(group1, n, ranks1, group2, ranks2) &
        bind(C, name="MPI_Group_translate_ranks") result(code)
      import
      type(c_ptr), value :: group1, group2
      integer(c_int), value :: n
      integer(c_int), intent(in) :: ranks1(*)
      integer(c_int), intent(out) :: ranks2(*)
      integer(c_int) :: code
    end function
    function MPI_Wtime() bind(C, name="MPI_Wtime")
      import
      real(c_double) :: MPI_Wtime
    end function
    ! What the macros of mpi.h take the address of; a variable here would be another one.
    function dlsym(library, name) bind(C, name="dlsym") result(object)
      import
      type(c_ptr), value :: library
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr) :: object
    end function
    function type_c2f(object) bind(C, name="MPI_Type_c2f") result(number)
      import
      type(c_ptr), value :: object
      integer(c_int) :: number
    end function
    function op_c2f(object) bind(C, name="MPI_Op_c2f") result(number)
      import
      type(c_ptr), value :: object
      integer(c_int) :: number
    end function
    function comm_c2f(object) bind(C, name="MPI_Comm_c2f") result(number)
      import
      type(c_ptr), value :: object
      integer(c_int) :: number
    end function
    function comm_f2c(number) bind(C, name="MPI_Comm_f2c") result(object)
      import
      integer(c_int), value :: number
      type(c_ptr) :: object
    end function
    function group_c2f(object) bind(C, name="MPI_Group_c2f") result(number)
      import
      type(c_ptr), value :: object
      integer(c_int) :: number
    end function
    function group_f2c(number) bind(C, name="MPI_Group_f2c") result(object)
      import
      integer(c_int), value :: number
      type(c_ptr) :: object
    end function
  end interface

contains

  subroutine MPI_Init(ierror)
    integer, optional, intent(out) :: ierror
    integer :: code
    code = c_init(c_null_ptr, c_null_ptr)
    if (code == MPI_SUCCESS) then
      MPI_BYTE = datatype("byte")
      MPI_CHARACTER = datatype("char")
      MPI_INTEGER = datatype("int")
      MPI_INTEGER8 = datatype("int64_t")
      MPI_REAL = datatype("float")
      MPI_DOUBLE_PRECISION = datatype("double")
      MPI_SUM = operation("sum")
      MPI_PROD = operation("prod")
      MPI_MIN = operation("min")
      MPI_MAX = operation("max")
      MPI_BAND = operation("band")
      MPI_BOR = operation("bor")
      MPI_LAND = operation("land")
      MPI_LOR = operation("lor")
    end if
    if (present(ierror)) ierror = code
  end subroutine

  ! A datatype by its name in C, as `double`.
  function datatype(name)
    character(len=*), intent(in) :: name
    type(MPI_Datatype) :: datatype
    datatype%MPI_VAL = type_c2f(dlsym(c_null_ptr, "ompi_mpi_" // name // c_null_char))
  end function

  ! An operation by its name in C, as `sum`.
  function operation(name)
    character(len=*), intent(in) :: name
    type(MPI_Op) :: operation
    operation%MPI_VAL = op_c2f(dlsym(c_null_ptr, "ompi_mpi_op_" // name // c_null_char))
  end function

  subroutine MPI_Finalize(ierror)
    integer, optional, intent(out) :: ierror
    integer :: code
    code = c_finalize()
    if (present(ierror)) ierror = code
  end subroutine

  subroutine MPI_Abort(comm, errorcode, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(in) :: errorcode
    integer, optional, intent(out) :: ierror
    integer :: code
    code = c_abort(comm_f2c(comm%MPI_VAL), errorcode)
    if (present(ierror)) ierror = code
  end subroutine

  subroutine MPI_Comm_rank(comm, rank, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: rank
    integer, optional, intent(out) :: ierror
    integer :: code
    code = c_comm_rank(comm_f2c(comm%MPI_VAL), rank)
    if (present(ierror)) ierror = code
  end subroutine

  subroutine MPI_Comm_size(comm, size, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: size
    integer, optional, intent(out) :: ierror
    integer :: code
    code = c_comm_size(comm_f2c(comm%MPI_VAL), size)
    if (present(ierror)) ierror = code
  end subroutine

  subroutine MPI_Comm_group(comm, group, ierror)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Group), intent(out) :: group
    integer, optional, intent(out) :: ierror
    type(c_ptr) :: object
    integer :: code
    code = c_comm_group(comm_f2c(comm%MPI_VAL), object)
    if (code == MPI_SUCCESS) group%MPI_VAL = group_c2f(object)
    if (present(ierror)) ierror = code
  end subroutine

  subroutine MPI_Comm_free(comm, ierror)
    type(MPI_Comm), intent(inout) :: comm
    integer, optional, intent(out) :: ierror
    type(c_ptr) :: object
    integer :: code
    object = comm_f2c(comm%MPI_VAL)
    code = c_comm_free(object)
    if (code == MPI_SUCCESS) comm%MPI_VAL = comm_c2f(object)
    if (present(ierror)) ierror = code
  end subroutine

  subroutine MPI_Group_size(group, size, ierror)
    type(MPI_Group), intent(in) :: group
    integer, intent(out) :: size
    integer, optional, intent(out) :: ierror
    integer :: code
    code = c_group_size(group_f2c(group%MPI_VAL), size)
    if (present(ierror)) ierror = code
  end subroutine

  subroutine MPI_Group_free(group, ierror)
    type(MPI_Group), intent(inout) :: group
    integer, optional, intent(out) :: ierror
    type(c_ptr) :: object
    integer :: code
    object = group_f2c(group%MPI_VAL)
    code = c_group_free(object)
    if (code == MPI_SUCCESS) group%MPI_VAL = group_c2f(object)
    if (present(ierror)) ierror = code
  end subroutine

  subroutine MPI_Group_translate_ranks(group1, n, ranks1, group2, ranks2, ierror)
    type(MPI_Group), intent(in) :: group1, group2
    integer, intent(in) :: n, ranks1(n)
    integer, intent(out) :: ranks2(n)
    integer, optional, intent(out) :: ierror
    integer :: code
    code = c_translate(group_f2c(group1%MPI_VAL), n, ranks1, group_f2c(group2%MPI_VAL), ranks2)
    if (present(ierror)) ierror = code
  end subroutine
end module
