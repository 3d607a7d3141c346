"""The executor: what the program sees of the pool."""

import itertools
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future

from fampi.futures.parcels import packed

# The service of this process, if it is the one with the program.
_service = None
_numbers = itertools.count()


class BrokenPool(BrokenExecutor):
    """There are no workers any more, and none can be started."""


class WorkerDied(BrokenExecutor):
    """A task took so many workers along that it is given to no other one."""


class Task:
    """What a worker is to do, and the future of it."""

    def __init__(self, executor):
        self.executor, self.future, self.raw = executor, Future(), b""
        # How many workers have died of it.
        self.deaths = 0
        self.has_begun = False


def _chunk(function, calls):
    return [function(*arguments) for arguments in calls]


def _later(futures):
    for future in futures:
        yield from future.result()


class MPIPoolExecutor(Executor):
    """Runs calls on the workers, which the pools of a program share.

    `initializer(*initargs)` is called on each worker before its first task. A task whose worker
    dies is given to another one, up to `max_deaths` times: so it may be done more than once.
    """

    def __init__(self, max_workers=None, initializer=None, initargs=(), max_deaths=3):
        if _service is None:
            raise RuntimeError(
                "there are no workers: start the program with `cargo fampi run -n 4 -- python3 -m "
                "fampi.futures program.py`, and make a pool below `if __name__ == \"__main__\":`")
        if max_workers is not None and max_workers < 1:
            raise ValueError("max_workers must be 1 or more")
        if initializer is not None and not callable(initializer):
            raise TypeError("the initializer is to be called")
        self._number, self._most, self._busy = next(_numbers), max_workers, 0
        self._initializer, self._initargs = initializer, tuple(initargs)
        self._max_deaths = max_deaths
        self._pending, self._is_over = set(), False

    @property
    def num_workers(self):
        """How many workers live."""
        return _service.count()

    def submit(self, fn, /, *args, **kwargs):
        """Has a worker call a function, whose result the future gets."""
        if self._is_over:
            raise RuntimeError("cannot schedule new futures after shutdown")
        task, begin = Task(self), None
        if self._initializer is not None:
            # With each task, as only the worker knows whether it is new.
            begin = self._number, self._initializer, self._initargs
        try:
            # As it is now: it may be sent much later, and again.
            task.raw = packed((begin, fn, args, kwargs))
        except Exception as error:
            task.future.set_exception(error)
            return task.future
        _service.give(task)
        # One that is done by now is taken out at once.
        self._pending.add(task.future)
        task.future.add_done_callback(self._pending.discard)
        return task.future

    def map(self, fn, *iterables, timeout=None, chunksize=1):
        """The results of calls, in the order of the arguments; several calls are one task."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        return self.starmap(fn, zip(*iterables), timeout, chunksize)

    def starmap(self, fn, iterable, timeout=None, chunksize=1):
        """As `map`, for arguments that are tuples already."""
        calls = iter(iterable)
        chunks = iter(lambda: list(itertools.islice(calls, chunksize)), [])
        lists = super().map(_chunk, itertools.repeat(fn), chunks, timeout=timeout)
        return itertools.chain.from_iterable(lists)

    def shutdown(self, wait=True, *, cancel_futures=False):
        """Takes no more calls; the workers stay for other pools."""
        self._is_over = True
        pending = list(self._pending)
        if cancel_futures:
            for future in pending:
                future.cancel()
        if wait:
            for future in pending:
                try:
                    future.exception()
                except CancelledError:
                    pass
