# Requests of blocks, and what becomes of those that were cut short.

cdef class Request(MPI.Request):
    """A request of a block, one of mpi4py's with waits that end when the block cannot commit.

    It belongs to its block, which frees it when it is decided.
    """

    cdef _Buffer sent
    cdef _Buffer received
    cdef bint is_receive

    def Wait(self, MPI.Status status=None, timeout=None):
        """Waits until it is over; raises `fampi.Error` with the code of its failure.

        Any code but `ERR_TIMEOUT` means that the block fails: leave its `with`.
        """
        _check(_wait_local(self, status, _timeout(timeout)))
        return True

    def Test(self, MPI.Status status=None):
        """Whether it is over; raises `fampi.Error` with the code of its failure."""
        cdef int code = _wait_local(self, status, 0)
        if code == FAMPI_ERR_TIMEOUT:
            return False
        _check(code)
        return True

    @classmethod
    def Waitall(cls, requests, statuses=None, timeout=None):
        """Waits for all, fampi's and mpi4py's; raises the error of the first that fails."""
        for place, request in enumerate(requests):
            wait(request, None if statuses is None else statuses[place], timeout)
        return True

    def raise_error(self, int code):
        """Makes the block faulty with this code, which `report` gives to all ranks."""
        _check(FAMPI_Request_raise_error(self.ob_mpi, code))


cdef int _wait_local(MPI.Request request, MPI.Status status, int64_t limit) except? -1:
    cdef MPI_Status* told = MPI_STATUS_IGNORE if status is None else &status.ob_mpi
    cdef int code
    if request.ob_mpi == MPI_REQUEST_NULL:
        return 0
    with nogil:
        code = FAMPI_Wait_local(&request.ob_mpi, told, limit)
    return code


def wait(MPI.Request request not None, MPI.Status status=None, timeout=None):
    """Waits for a request of mpi4py's own in a block, and ends when the block cannot commit."""
    _check(_wait_local(request, status, _timeout(timeout)))


cdef bint _let_go(MPI.Request request) except -1:
    """Frees a request that is over; false for one that MPI still works on."""
    cdef int is_over = 0
    if request.ob_mpi == MPI_REQUEST_NULL:
        return True
    FAMPI_Request_get_status(request.ob_mpi, &is_over, MPI_STATUS_IGNORE)
    if is_over:
        FAMPI_Request_free(&request.ob_mpi)
    return is_over != 0


cdef int _give_up(MPI.Request request) except -1:
    """Frees a request of a block that does not count, or keeps it until MPI is done with it.

    Nobody sends what such a receive waits for, if it waits: it is cancelled.
    """
    if _let_go(request):
        return 0
    if isinstance(request, Request) and (<Request> request).is_receive:
        MPI_Cancel(&request.ob_mpi)
        if _let_go(request):
            return 0
    _cut_short.append(request)
    return 0


def cut_short():
    """The requests of blocks that are over which MPI still works on; their buffers are kept.

    Most often there are none. Nothing may be written to their buffers, or read from them.
    """
    global _cut_short
    _cut_short = [request for request in _cut_short if not _let_go(request)]
    return list(_cut_short)


def settle(double seconds):
    """Waits until MPI is done with all receives that were cut short; false if it is not by then."""
    end = _monotonic() + seconds
    while any(isinstance(it, Request) and (<Request> it).is_receive for it in cut_short()):
        if _monotonic() > end:
            return False
    return True
