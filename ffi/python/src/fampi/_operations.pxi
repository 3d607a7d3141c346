# The operations of a block, by the names of mpi4py, and the states that it keeps.

cdef class Block(_Transaction):
    """A transaction of all living ranks of a communicator, which starts with this object.

    Used in a `with`, it ends with it: the ranks agree, and where a rank died or a request failed,
    `fampi.BlockFailed` is raised on all of them. Another exception that leaves the `with` on one
    rank leaves the block: it is faulty on all others.
    """

    # The operations run between the living, in contexts of fampi's own: nothing of an aborted
    # block meets a later one.

    def Isend(self, buf, int dest, int tag=0):
        """Sends to a rank, which receives by `Irecv` of the same block."""
        cdef Request request = self._request(_needed(buf, "buf"), None)
        return self._posted(request, FAMPI_Isend(
            request.sent.start, request.sent.count, request.sent.datatype, dest, tag, self.handle,
            &request.ob_mpi))

    def Issend(self, buf, int dest, int tag=0):
        """As `Isend`, and complete when its receive has started."""
        cdef Request request = self._request(_needed(buf, "buf"), None)
        return self._posted(request, FAMPI_Issend(
            request.sent.start, request.sent.count, request.sent.datatype, dest, tag, self.handle,
            &request.ob_mpi))

    def Irecv(self, buf, int source=MPI_ANY_SOURCE, int tag=0):
        """Receives a message of `Isend` or `Issend`. There is no `MPI.ANY_TAG`."""
        cdef Request request = self._request(None, _needed(buf, "buf"))
        request.is_receive = True
        return self._posted(request, FAMPI_Irecv(
            request.received.start, request.received.count, request.received.datatype, source, tag,
            self.handle, &request.ob_mpi))

    def Ibarrier(self):
        """Complete when all living ranks have called it."""
        cdef Request request = self._request(None, None)
        return self._posted(request, FAMPI_Ibarrier(self.handle, &request.ob_mpi))

    def Ibcast(self, buf, int root=0):
        """The buffer of the root, on all."""
        cdef Request request = self._request(None, None)
        request.received = _buffer(_needed(buf, "buf"), self.comm.rank != root)
        return self._posted(request, FAMPI_Ibcast(
            request.received.start, request.received.count, request.received.datatype, root,
            self.handle, &request.ob_mpi))

    def Iallreduce(self, sendbuf, recvbuf, MPI.Op op=_mpi.SUM):
        """Combines the elements of all, for all."""
        cdef Request request = self._request(
            _or_in_place(sendbuf), _needed(recvbuf, "recvbuf"))
        _alike(request.sent, request.received)
        return self._posted(request, FAMPI_Iallreduce(
            request.sent.start, request.received.start, request.received.count,
            request.received.datatype, op.ob_mpi, self.handle, &request.ob_mpi))

    cdef Request _rooted(self, object sendbuf, object recvbuf, int root):
        if self.comm.rank == root:
            return self._request(_or_in_place(sendbuf), _needed(recvbuf, "recvbuf"))
        return self._request(_needed(sendbuf, "sendbuf"), recvbuf)

    def Ireduce(self, sendbuf, recvbuf, MPI.Op op=_mpi.SUM, int root=0):
        """Combines the elements of all, for the root; `recvbuf` is None elsewhere."""
        cdef Request request = self._rooted(sendbuf, recvbuf, root)
        cdef _Buffer shape = request.sent
        _alike(request.sent, request.received)
        if request.sent.start == MPI_IN_PLACE:
            shape = request.received
        return self._posted(request, FAMPI_Ireduce(
            request.sent.start, NULL if request.received is None else request.received.start,
            shape.count, shape.datatype, op.ob_mpi, root, self.handle, &request.ob_mpi))

    def Iscan(self, sendbuf, recvbuf, MPI.Op op=_mpi.SUM):
        """Combines the elements of the ranks up to this one."""
        cdef Request request = self._request(
            _or_in_place(sendbuf), _needed(recvbuf, "recvbuf"))
        _alike(request.sent, request.received)
        return self._posted(request, FAMPI_Iscan(
            request.sent.start, request.received.start, request.received.count,
            request.received.datatype, op.ob_mpi, self.handle, &request.ob_mpi))

    def Iexscan(self, sendbuf, recvbuf, MPI.Op op=_mpi.SUM):
        """Combines the elements of the ranks before this one."""
        cdef Request request = self._request(
            _or_in_place(sendbuf), _needed(recvbuf, "recvbuf"))
        _alike(request.sent, request.received)
        return self._posted(request, FAMPI_Iexscan(
            request.sent.start, request.received.start, request.received.count,
            request.received.datatype, op.ob_mpi, self.handle, &request.ob_mpi))

    cdef int _part(self, _Buffer whole, str name) except -1:
        cdef int size = self.comm.Get_size()
        if whole is None or whole.start == MPI_IN_PLACE:
            return 0
        if whole.count % size != 0:
            raise ValueError(f"{name} has {whole.count} elements, which {size} ranks cannot share")
        return whole.count // size

    def Igather(self, sendbuf, recvbuf, int root=0):
        """Equal parts of all, for the root; `recvbuf` is None elsewhere."""
        cdef Request request = self._rooted(sendbuf, recvbuf, root)
        cdef _Buffer sent = request.sent, received = request.received
        if received is None:
            received = _Buffer.__new__(_Buffer)
        return self._posted(request, FAMPI_Igather(
            sent.start, sent.count, sent.datatype, received.start, self._part(received, "recvbuf"),
            received.datatype, root, self.handle, &request.ob_mpi))

    def Iscatter(self, sendbuf, recvbuf, int root=0):
        """Equal parts of what the root has, for all; `sendbuf` is None elsewhere."""
        cdef Request request
        if self.comm.rank == root:
            request = self._request(_needed(sendbuf, "sendbuf"), _or_in_place(recvbuf))
        else:
            request = self._request(sendbuf, _needed(recvbuf, "recvbuf"))
        cdef _Buffer sent = request.sent, received = request.received
        if sent is None:
            sent = _Buffer.__new__(_Buffer)
        return self._posted(request, FAMPI_Iscatter(
            sent.start, self._part(sent, "sendbuf"), sent.datatype, received.start, received.count,
            received.datatype, root, self.handle, &request.ob_mpi))

    def Iallgather(self, sendbuf, recvbuf):
        """Equal parts of all, for all."""
        cdef Request request = self._request(
            _or_in_place(sendbuf), _needed(recvbuf, "recvbuf"))
        cdef _Buffer sent = request.sent, received = request.received
        return self._posted(request, FAMPI_Iallgather(
            sent.start, sent.count, sent.datatype, received.start, self._part(received, "recvbuf"),
            received.datatype, self.handle, &request.ob_mpi))

    def Ialltoall(self, sendbuf, recvbuf):
        """A part for each from each."""
        cdef Request request = self._request(
            _or_in_place(sendbuf), _needed(recvbuf, "recvbuf"))
        cdef _Buffer sent = request.sent, received = request.received
        return self._posted(request, FAMPI_Ialltoall(
            sent.start, self._part(sent, "sendbuf"), sent.datatype, received.start,
            self._part(received, "recvbuf"), received.datatype, self.handle, &request.ob_mpi))

    # States of a rank that others keep become valid with the commit of the block.

    def set_redundancy(self, int redundancy, int ranks=0, int losses=0):
        """Says where states are kept that are protected from now on: `REDUNDANCY_OWN`, …"""
        _check(FAMPI_Set_redundancy(self.request, redundancy, ranks, losses))

    def protect(self, int slot, state):
        """Protects an array, taken at once, as the state of this rank in a slot, 0 to 63."""
        cdef _Buffer memory = _buffer(state, False)
        cdef int code
        with nogil:
            code = FAMPI_Protect(self.request, slot, memory.start, memory.count, memory.datatype)
        _check(code)

    def restore(self, int slot, state):
        """Brings back into an array what the last commit protected.

        Other ranks may get another error: let it leave the `with`, and branch on the report.
        """
        cdef _Buffer memory = _buffer(state, True)
        cdef int code, count = 0
        with nogil:
            code = FAMPI_Restore(
                self.request, slot, memory.start, memory.count, memory.datatype, &count)
        _check(code)
        if count != memory.count:
            raise ValueError(f"the state has {count} elements, and the array {memory.count}")

    def restored(self, int slot):
        """The bytes that the last commit protected."""
        cdef int code, count = 0
        with nogil:
            code = FAMPI_Restore(self.request, slot, NULL, 0, MPI_BYTE, &count)
        _check(code)
        cdef bytearray state = bytearray(count)
        cdef char* start = state
        with nogil:
            code = FAMPI_Restore(self.request, slot, start, count, MPI_BYTE, &count)
        _check(code)
        return state

    def restart(self, bint resizes=False):
        """Where the states are: `STATES_NOWHERE`, `STATES_IN_MEMORY` or `STATES_IN_FILES`.

        With the step of the checkpoint, -1 without one, and the number of ranks that have saved it:
        as many as there are, unless `resizes` is true. All ranks call it, before `restore` in the
        same block.
        """
        cdef int code, where = 0, ranks = 0
        cdef int64_t step = 0
        with nogil:
            code = FAMPI_Restart(self.request, resizes, &where, &step, &ranks)
        _check(code)
        return where, step, ranks

    def checkpoint(self, int64_t step):
        """Saves what was protected last, after so many steps, if that is due; whether it did.

        Under `fampi run --checkpoint`; all ranks call it, in each step.
        """
        cdef int code, flag = 0
        with nogil:
            code = FAMPI_Checkpoint(self.request, step, &flag)
        _check(code)
        return bool(flag)

    def inherited(self, int slot):
        """The rank of a dead one whose state is kept here, and its bytes; None if there is none.

        In a block of a communicator that was shrunken, as long as it has protected no state.
        """
        cdef int count = 0, rank = MPI_PROC_NULL
        _check(FAMPI_Inherit(self.request, slot, NULL, 0, MPI_BYTE, &count, &rank))
        if rank == MPI_PROC_NULL:
            return None
        cdef bytearray state = bytearray(count)
        cdef char* start = state
        _check(FAMPI_Inherit(self.request, slot, start, count, MPI_BYTE, &count, &rank))
        return rank, state
