# A block from its start to its verdict, and the report of it.

cdef class _Transaction:
    """What `Block` is without its operations and states."""

    cdef MPI_Request request
    cdef MPI_Comm handle
    cdef readonly MPI.Comm comm
    cdef list requests
    cdef int state
    cdef bint is_committed
    cdef object fused

    def __cinit__(self):
        self.request = MPI_REQUEST_NULL
        self.state = GONE

    def __init__(self, MPI.Comm comm not None, int level=FAMPI_TRYBLOCK_GLOBAL):
        cdef int code
        if self.state != GONE or self.request != MPI_REQUEST_NULL:
            raise ValueError("this block was started before")
        if _cut_short:
            cut_short()
        self.comm = comm
        self.handle = comm.ob_mpi
        self.requests = []
        with nogil:
            code = FAMPI_TryBlock_start(self.handle, level, &self.request)
        _check(code)
        self.state = OPEN

    def __del__(self):
        cdef int is_over = 0
        MPI_Finalized(&is_over)
        if self.state != GONE and not is_over:
            self.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            try:
                if self.state == OPEN:
                    self._finish(-1)
                if self.state != GONE:
                    self._wait(-1)
            finally:
                self.close()
        elif self.state == OPEN and _is_doom(error):
            try:
                from fampi.errors import Error
                if not isinstance(error, Error):
                    # Of a call of mpi4py's own, which may have nothing to do with this block: it is
                    # not committed, as its body was not done.
                    FAMPI_Request_raise_error(self.request, FAMPI_ERR_TRANSIENT)
                self._finish(-1)
                try:
                    self._wait(-1)
                except _mpi.Exception as failed:
                    raise failed from error
            finally:
                self.close()
        else:
            self.close()
        return False

    cdef int _finish(self, int64_t limit) except -1:
        cdef int count = <int> len(self.requests), code
        cdef MPI_Request few[16]
        cdef MPI_Request* list_ = few
        if count > 16:
            list_ = <MPI_Request*> malloc(count * sizeof(MPI_Request))
            if list_ == NULL:
                raise MemoryError()
        for place in range(count):
            list_[place] = (<MPI.Request> self.requests[place]).ob_mpi
        if self.fused is None:
            code = FAMPI_TryBlock_finish(self.request, count, list_, limit)
        else:
            code = self._finish_fused(count, list_, limit)
        if list_ != few:
            free(list_)
        _check(code)
        self.state = FINISHED
        return 0

    cdef int _finish_fused(self, int count, MPI_Request* list_, int64_t limit) except -1:
        sent, received, op = self.fused
        cdef _Buffer send = sent, receive = received
        return FAMPI_TryBlock_finish_allreduce(
            self.request, count, list_, limit, send.start, receive.start,
            receive.count, receive.datatype, (<MPI.Op> op).ob_mpi)

    cdef int _wait(self, int64_t limit) except -1:
        cdef int code
        with nogil:
            code = FAMPI_Wait_local(&self.request, MPI_STATUS_IGNORE, limit)
        if code == FAMPI_ERR_TIMEOUT:
            _check(code)
        if code == 0 or code == FAMPI_ERR_TRYBLOCK_FOUND_ERRORS:
            self.state = DECIDED
            self.is_committed = code == 0
            if self.is_committed:
                return 0
            from fampi.errors import BlockFailed
            raise BlockFailed(code, self.report(), self._failed_requests())
        return _check(code)

    def finish(self, timeout=None):
        """Ends this rank's part, without waiting; the `with` does it otherwise.

        A request that is not over after `timeout` seconds is a fault on all ranks.
        """
        self._finish(_timeout(timeout))

    def finish_allreduce(self, sendbuf, recvbuf, MPI.Op op=None, timeout=None):
        """Ends this rank's part, and reduces one to eight numbers by the messages of the commit.

        `recvbuf` is written if the block commits, by the wait for it. The sum is the default.
        """
        if self.state != OPEN:
            # The first one counts, and only the time limit is another one.
            self._finish(_timeout(timeout))
            return
        cdef _Buffer sent = _buffer(_or_in_place(sendbuf), False)
        cdef _Buffer received = _buffer(_needed(recvbuf, "recvbuf"), True)
        _alike(sent, received)
        self.fused = (sent, received, _mpi.SUM if op is None else op)
        try:
            self._finish(_timeout(timeout))
        except BaseException:
            self.fused = None
            raise

    def wait(self, timeout=None):
        """Waits for the verdict; raises `BlockFailed`, or `Timeout`, which tells nothing."""
        if self.state == GONE:
            return
        if self.state == OPEN:
            self._finish(-1)
        self._wait(_timeout(timeout))

    def close(self):
        """Gives back what the block holds; one that is not finished is left, and faulty on all."""
        cdef MPI.Request request
        if self.state == GONE:
            return
        if self.state == OPEN:
            FAMPI_Request_free(&self.request)
        elif self.state == FINISHED and self.fused is not None:
            # Nobody waits for the verdict, with which the library may write to it.
            _never_over.append(self.fused)
        self.state = GONE
        for request in self.requests:
            if not _mine_to_free(request):
                continue
            if self.is_committed:
                FAMPI_Request_free(&request.ob_mpi)
            else:
                _give_up(request)
        FAMPI_Request_free(&self.request)
        self.requests = []
        self.fused = None

    def add(self, MPI.Request request not None):
        """Puts a request of mpi4py's own into the block, which frees it unless it is persistent."""
        self._open()
        self.requests.append(request)
        return request

    def forget(self, MPI.Request request not None):
        """Takes out a request that was waited for and frees it, for blocks of many messages."""
        self.requests.remove(request)
        if _mine_to_free(request):
            _give_up(request)

    def wait_all(self):
        """Waits for all requests of the block, as `Request.Wait`."""
        for request in self.requests:
            _check(_wait_local(request, None, -1))

    def raise_error(self, int code):
        """Makes the block faulty on all ranks with this code, such as `fampi.ERR_PERMANENT`."""
        _check(FAMPI_Request_raise_error(self.request, code))

    def interrupt(self):
        """Makes the block faulty, and ends the waits of all ranks that are in it."""
        _check(FAMPI_TryBlock_interrupt(self.request))

    cdef int _open(self) except -1:
        if self.state != OPEN:
            raise ValueError("the block takes no more requests: it is finished")
        return 0

    cdef Request _posted(self, Request request, int code):
        _check(code)
        self.requests.append(request)
        return request

    cdef Request _request(self, object sent, object received):
        self._open()
        cdef Request request = Request.__new__(Request)
        if sent is not None:
            request.sent = _buffer(sent, False)
        if received is not None:
            request.received = _buffer(received, True)
        return request

    def report(self):
        """What was wrong, the same on all living ranks."""
        from fampi.errors import Fault, Report
        cdef FAMPI_Report* given = NULL
        cdef int rank = 0, code = 0, cause = 0, value = 0, place
        _check(FAMPI_Report_get(self.request, &given))
        faults = []
        try:
            for place in range(FAMPI_Report_count(given)):
                _check(FAMPI_Report_fault(given, place, &rank, &code))
                cause = value = 0
                if code == FAMPI_ERR_PROC_FAILED_SOFT or code == FAMPI_ERR_PROC_FAILED_HARD:
                    _check(FAMPI_Get_failure_cause(self.request, rank, &cause, &value))
                faults.append(Fault(rank, code, cause, value))
        finally:
            FAMPI_Report_free(given)
        return Report(tuple(faults), self.failed_ranks(FAMPI_ERR_PROC_FAILED))

    def failed_ranks(self, *codes):
        """The ranks with a fault of these codes; all that are dead for `ERR_PROC_FAILED`."""
        cdef MPI_Group group = MPI_GROUP_NULL, all_ = MPI_GROUP_NULL
        cdef int wanted[16]
        cdef int count = 0, place, rank = 0
        if len(codes) > 16:
            raise ValueError("at most 16 codes")
        for place in range(<int> len(codes)):
            wanted[place] = codes[place]
        _check(FAMPI_Get_failed_group(self.request, <int> len(codes), wanted, self.handle, &group))
        MPI_Comm_group(self.handle, &all_)
        MPI_Group_size(group, &count)
        ranks = []
        for place in range(count):
            MPI_Group_translate_ranks(group, 1, &place, all_, &rank)
            ranks.append(rank)
        MPI_Group_free(&group)
        MPI_Group_free(&all_)
        return tuple(sorted(ranks))

    def _failed_requests(self):
        cdef int any_ = FAMPI_ERR_RCODES_ANY, count = 0, most = <int> len(self.requests)
        if most == 0:
            return ()
        cdef int* places = <int*> malloc(most * sizeof(int))
        if places == NULL:
            raise MemoryError()
        try:
            _check(FAMPI_Get_failed_requests(self.request, 1, &any_, most, places, &count))
            return tuple(places[place] for place in range(min(count, most)))
        finally:
            free(places)


cdef bint _mine_to_free(MPI.Request request) except -1:
    return not isinstance(request, _mpi.Prequest)


cdef bint _is_doom(object error) except -1:
    """Whether an error is that of all ranks, or says that the block fails: all get to its end."""
    if not isinstance(error, _mpi.Exception):
        return False
    code = error.Get_error_code()
    if code in (FAMPI_ERR_INTERRUPTED, FAMPI_ERR_PROC_FAILED_SOFT, FAMPI_ERR_PROC_FAILED_HARD,
                FAMPI_ERR_STATE_LOST, FAMPI_ERR_NOTHING_PROTECTED, FAMPI_ERR_TOO_MANY_LOST,
                FAMPI_ERR_CHECKPOINTS_EXIST, FAMPI_ERR_NO_CHECKPOINT):
        return True
    return error.Get_error_class() in (
        _mpi.ERR_PROC_FAILED, _mpi.ERR_PROC_FAILED_PENDING, _mpi.ERR_REVOKED)
