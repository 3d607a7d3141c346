# Memory of Python as MPI sees it.

cdef inline int64_t _timeout(object seconds) except -2:
    """A time limit in seconds as the library wants it; None is no limit."""
    if seconds is None:
        return -1
    cdef double number = seconds
    if number >= 9e9:
        return -1
    if not number >= 0:
        raise ValueError(f"a time limit of {seconds} s: give 0, or more, or None for no limit")
    return <int64_t> (number * 1e9)


cdef MPI_Datatype _of_format(const char* text) noexcept:
    """MPI's type for a format of Python; null if it is not one letter, or an unknown one."""
    cdef char letter = text[0]
    if letter == c'@' or letter == c'=' or letter == c'<':
        text += 1
        letter = text[0]
    if letter == c'Z':
        if text[1] == c'd' and text[2] == 0: return MPI_C_DOUBLE_COMPLEX
        if text[1] == c'f' and text[2] == 0: return MPI_C_FLOAT_COMPLEX
        return MPI_DATATYPE_NULL
    if letter == 0 or text[1] != 0: return MPI_DATATYPE_NULL
    if letter == c'd': return MPI_DOUBLE
    if letter == c'f': return MPI_FLOAT
    if letter == c'l': return MPI_LONG
    if letter == c'i': return MPI_INT
    if letter == c'q': return MPI_LONG_LONG
    if letter == c'B': return MPI_UNSIGNED_CHAR
    if letter == c'b': return MPI_SIGNED_CHAR
    if letter == c'h': return MPI_SHORT
    if letter == c'H': return MPI_UNSIGNED_SHORT
    if letter == c'I': return MPI_UNSIGNED
    if letter == c'L': return MPI_UNSIGNED_LONG
    if letter == c'Q': return MPI_UNSIGNED_LONG_LONG
    if letter == c'?': return MPI_C_BOOL
    if letter == c'g': return MPI_LONG_DOUBLE
    if letter == c'c': return MPI_CHAR
    return MPI_DATATYPE_NULL


@cython.final
cdef class _Buffer:
    """Memory of a program as MPI sees it: locked in its place for as long as this object lives."""

    cdef Py_buffer view
    cdef bint is_held
    cdef object kept
    cdef void* start
    cdef int count
    cdef MPI_Datatype datatype

    def __cinit__(self):
        self.start = NULL
        self.count = 0
        self.datatype = MPI_BYTE

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)


cdef _Buffer _buffer(object given, bint is_written):
    """What mpi4py takes for a buffer: an array, or a list of an array, how many, of which type.

    None is no buffer, for ranks where MPI looks at none.
    """
    cdef _Buffer buffer = _Buffer.__new__(_Buffer)
    cdef object memory = given, many = None, datatype = None
    cdef int flags = PyBUF_FORMAT | PyBUF_ANY_CONTIGUOUS
    cdef Py_ssize_t count
    if given is None:
        return buffer
    if given is _IN_PLACE:
        buffer.start = MPI_IN_PLACE
        return buffer
    if isinstance(given, (list, tuple)):
        memory, many, datatype = _parts(given)
    if is_written:
        flags |= PyBUF_WRITABLE
    PyObject_GetBuffer(memory, &buffer.view, flags)
    buffer.is_held = True
    buffer.start = buffer.view.buf
    if datatype is None:
        if buffer.view.format == NULL:
            buffer.datatype = MPI_UNSIGNED_CHAR
        else:
            buffer.datatype = _of_format(buffer.view.format)
            if buffer.datatype == MPI_DATATYPE_NULL:
                form = buffer.view.format.decode()
                datatype = _mpi.Datatype.fromcode(form)
    if datatype is not None:
        buffer.kept = datatype
        buffer.datatype = (<MPI.Datatype?> datatype).ob_mpi
    if many is None and datatype is None:
        count = buffer.view.len // max(buffer.view.itemsize, 1)
    else:
        extent = (datatype.extent if datatype is not None else buffer.view.itemsize) or 1
        fits = buffer.view.len // extent
        if many is None and buffer.view.len % extent != 0:
            raise ValueError(f"{buffer.view.len} bytes are no number of elements of {extent}")
        count = fits if many is None else many
        if count < 0 or count > fits:
            raise ValueError(f"{count} elements of {extent} bytes are not in {buffer.view.len}")
    if count > 0x7fffffff:
        raise OverflowError(f"{count} elements in one message: at most 2147483647")
    buffer.count = <int> count
    return buffer


cdef tuple _parts(object given):
    """Memory, number and type of a list, of which the last two may be left out."""
    memory, rest = given[0], list(given[1:])
    many = datatype = None
    if rest and isinstance(rest[-1], (_mpi.Datatype, str)):
        datatype = rest.pop()
        if isinstance(datatype, str):
            datatype = _mpi.Datatype.fromcode(datatype)
    if rest:
        many = rest.pop()
    if rest:
        raise ValueError("a buffer is [array], [array, type] or [array, number, type]")
    return memory, many, datatype


cdef int _alike(_Buffer sent, _Buffer received) except -1:
    """Makes sure that what is sent is what is received, for operations that take one of both."""
    if received is None or sent.start == MPI_IN_PLACE or received.start == MPI_IN_PLACE:
        return 0
    if sent.count != received.count:
        raise ValueError(f"sendbuf has {sent.count} elements, and recvbuf {received.count}")
    if sent.datatype != received.datatype:
        raise ValueError("sendbuf and recvbuf have elements of different types")
    return 0


cdef object _needed(object given, str name):
    """A buffer that an operation needs."""
    if given is None:
        raise TypeError(f"{name} is needed here, and was None")
    return given


cdef object _or_in_place(object given):
    """What is sent, for operations that find it in the other buffer when there is none."""
    return _IN_PLACE if given is None else given
