"""Objects as messages of a block: how long it is and what it is for, and then the object."""

import pickle
from array import array

HEAD, BODY = 1, 2
# The bytes of one message.
MOST = 0x7FFFFFFF

# What a head says, beside the number of bytes of an object.
END_OF_BLOCK, END_OF_POOL = -1, -2


def packed(thing):
    """An object as the bytes of one message; raises what it cannot be."""
    raw = pickle.dumps(thing, protocol=5)
    if len(raw) > MOST:
        raise OverflowError(f"an object of {len(raw)} bytes: at most {MOST} go in one message")
    return raw


class Sending:
    """A parcel under way, which belongs to one block."""

    def __init__(self, block, to, *, word=None, raw=b""):
        self.block = block
        head = array("q", [len(raw) if word is None else word])
        self.requests = [block.Isend(head, dest=to, tag=HEAD)]
        if word is None:
            self.requests.append(block.Isend(raw, dest=to, tag=BODY))

    def is_over(self):
        """Whether it has gone; raises `fampi.Error` if it cannot."""
        while self.requests and self.requests[0].Test():
            self.block.forget(self.requests.pop(0))
        return not self.requests


class Receiving:
    """The next parcel of a rank, which belongs to one block."""

    def __init__(self, block, source):
        self.block, self.source = block, source
        self.head, self.body = array("q", [0]), None
        self.request = block.Irecv(self.head, source=source, tag=HEAD)

    def is_over(self):
        """Whether it is there; raises `fampi.Error` if it does not come."""
        if self.request is None:
            return True
        if not self.request.Test():
            return False
        self.block.forget(self.request)
        self.request = None
        if self.body is None and self.word >= 0:
            self.body = bytearray(self.word)
            self.request = self.block.Irecv(self.body, source=self.source, tag=BODY)
            return self.is_over()
        return True

    @property
    def word(self):
        """The number of bytes, or what the head says instead."""
        return self.head[0]

    def object(self):
        """The object."""
        return pickle.loads(self.body)
