"""Pools: what users of `concurrent.futures` know, and what happens when workers die."""

import os
import signal
import sys
import threading
import time

import numpy

import fampi
from fampi import futures
from fampi.futures import MPIPoolExecutor, executor, parcels, service

if os.environ.get("UNREADY") and __name__ == "__worker__":
    raise ImportError("not on this node")


def refuse_recovery(_):
    raise fampi.Error(fampi.ERR_CREATION)


if os.environ.get("UNREPLACED"):
    fampi.World.recover = refuse_recovery

MARKS = os.environ.get("MARKS", "")
HOW = "exit" if os.environ.get("HOW") == "exit" else signal.SIGTERM
known = []


def first_time(name):
    """Whether nobody in this job has asked for this name before."""
    try:
        os.close(os.open(os.path.join(MARKS, name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def die(how=signal.SIGKILL):
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), how)


def square(number):
    return number * number


def fail(number):
    raise KeyError(f"of task {number}")


def nothing_that_travels(_):
    return lambda: None


def double(array):
    return 2 * array


def die_once(name, how=signal.SIGKILL):
    if first_time(name):
        die(how)
    return name


def last(seconds, name):
    assert first_time(name), "done twice"
    time.sleep(seconds)
    return name


def always_die():
    die()


def learn(word):
    known.append(word)


def what_is_known(number):
    time.sleep(0.01)
    if number == 20:
        die_once("known")
    return list(known)


def number_of_process(_):
    time.sleep(0.05)
    return os.getpid()


def all_workers(pool):
    """The processes of a pool. One that others keep from its core is waited for, and so are the
    replacements of those that the launcher ends with a process that was started with them."""
    found, end = set(), time.monotonic() + 20
    while len(found) != 3 and time.monotonic() < end:
        found = {*pool.map(number_of_process, range(12))}
    assert len(found) == 3 == pool.num_workers, (found, pool.num_workers)
    return found


def raises(error, function):
    try:
        function()
    except error as raised:
        return raised
    raise AssertionError("not raised")


def interface():
    """As the executors of the standard library."""
    with MPIPoolExecutor() as pool:
        assert list(pool.map(square, range(50))) == [n * n for n in range(50)]
        assert list(pool.map(square, range(50), chunksize=7)) == [n * n for n in range(50)]
        assert list(pool.starmap(pow, [(2, 3), (3, 2)])) == [8, 9]
        assert pool.submit(pow, 2, exp=5).result() == 32
        assert pool.num_workers == 3
        jobs = {pool.submit(square, n): n for n in range(9)}
        assert all(it.result() == jobs[it] ** 2 for it in futures.as_completed(jobs, timeout=20))
        all_workers(pool)
        slow = pool.submit(time.sleep, 0.4)
        raises(TimeoutError, lambda: slow.result(timeout=0.05))
        assert futures.wait([slow], timeout=20).done == {slow}
    raises(RuntimeError, lambda: pool.submit(square, 1))
    with MPIPoolExecutor(max_workers=1) as pool:
        assert len({*pool.map(number_of_process, range(6))}) == 1
        first = pool.submit(time.sleep, 0.3)
        second = pool.submit(square, 3)
        time.sleep(0.1)
        assert first.running() and second.cancel()
    pool = MPIPoolExecutor()
    jobs = [pool.submit(time.sleep, 0.2) for _ in range(9)]
    pool.shutdown(cancel_futures=True)
    assert any(it.cancelled() for it in jobs) and all(it.done() for it in jobs)


def errors():
    """What a function raises is raised here, and what cannot travel is told."""
    with MPIPoolExecutor() as pool:
        error = raises(KeyError, lambda: pool.submit(fail, 7).result())
        assert "of task 7" in str(error) and error.__cause__ is None or "fail" in str(error.__cause__)
        raises(Exception, lambda: pool.submit(nothing_that_travels, 1).result())
        raises(Exception, lambda: pool.submit(lambda: 1).result())
        raises(SystemExit, lambda: pool.submit(sys.exit, 4).result())
        assert pool.submit(square, 4).result() == 16 and pool.num_workers == 3


def large():
    """Objects of some megabytes, and many small ones."""
    with MPIPoolExecutor() as pool:
        arrays = [numpy.full(1_000_000, float(n)) for n in range(6)]
        for array, doubled in zip(arrays, pool.map(double, arrays)):
            assert numpy.array_equal(2 * array, doubled)
        assert sum(pool.map(square, range(3000))) == sum(n * n for n in range(3000))


def hasty():
    """A wait that is over before it has begun ends, also behind something that was there."""
    master = service.Master.__new__(service.Master)
    master.inbox, master.waiting, master.is_over = type(executor._service.inbox)(), [], False

    def wait():
        for number in range(10_000):
            master.inbox.put(number)
            assert master.take(0) and not master.take(1e-9)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(30)
    assert not waiting.is_alive() and len(master.waiting) == 10_000


def deaths():
    """The task of a worker that dies is given to another one, and no other task is done twice."""
    with MPIPoolExecutor() as pool:
        long = [pool.submit(last, 1.5, "long"), pool.submit(last, 0.01, "short")]
        one = pool.submit(die_once, "one")
        other = pool.submit(die_once, "other", HOW)
        assert [it.result(timeout=30) for it in [*long, one, other]] == [
            "long", "short", "one", "other"]
        # All workers at once.
        names = [f"all{n}" for n in range(3)]
        assert list(pool.map(die_once, names)) == names
        assert list(pool.map(square, range(20))) == [n * n for n in range(20)]
        all_workers(pool)


def poison():
    """A task that takes each worker along is given up, and the pool goes on."""
    with MPIPoolExecutor(max_deaths=2) as pool:
        bad, good = pool.submit(always_die), pool.submit(square, 5)
        assert good.result(timeout=30) == 25
        error = bad.exception(timeout=30)
        assert isinstance(error, futures.WorkerDied) and str(error).startswith("2 workers"), error
        assert list(pool.map(square, range(20))) == [n * n for n in range(20)]


class Point:
    """Something of the program's own that travels in both directions."""

    def __init__(self, place):
        self.place = place

    def __eq__(self, other):
        return type(other) is Point and other.place == self.place


class Own(Exception):
    """An exception of the program's own."""


class Odd(Exception):
    """One that is not made of what is in it."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def moved(point):
    return Point(point.place + 1)


def fails_with(name, *words):
    raise {"Own": Own, "Odd": Odd}[name](*words)


def own():
    """Classes of the program travel in both directions, exceptions with what Python tells of them."""
    with MPIPoolExecutor() as pool:
        assert pool.submit(moved, Point(4)).result(timeout=30) == Point(5)
        error = raises(Own, lambda: pool.submit(fails_with, "Own", "mine").result(timeout=30))
        assert error.args == ("mine",) and "in fails_with" in str(error.__cause__)
        error = raises(RuntimeError, lambda: pool.submit(fails_with, "Odd", 1, 2).result(timeout=30))
        assert "Odd: 1 and 2" in str(error) and "in fails_with" in str(error)


def as_given():
    """A task is as it was when it was given, whenever it is done."""
    with MPIPoolExecutor(max_workers=1) as pool:
        slow, numbers = pool.submit(time.sleep, 0.2), [1, 2]
        total = pool.submit(sum, numbers)
        numbers.append(100)
        assert slow.result() is None and total.result() == 3


def give_large(most):
    parcels.MOST = most
    return bytes(2 * most)


def too_large():
    """What does not go in one message fails one task."""
    raises(ValueError, lambda: MPIPoolExecutor(max_workers=0))
    most = parcels.MOST
    with MPIPoolExecutor() as pool:
        error = raises(OverflowError, lambda: pool.submit(give_large, 5000).result(timeout=30))
        assert "at most 5000" in str(error)
        parcels.MOST = 5000
        raises(OverflowError, lambda: pool.submit(len, bytes(6000)).result(timeout=30))
        parcels.MOST = most
        assert list(pool.map(square, range(9))) == [n * n for n in range(9)]
        assert pool.num_workers == 3


def abandoned():
    """Where the dead cannot be replaced the living go on, until there is none."""
    with MPIPoolExecutor(max_deaths=9) as pool:
        assert pool.submit(die_once, "abandoned").result(timeout=30) == "abandoned"
        end = time.monotonic() + 20
        while executor._service.master.error is None and time.monotonic() < end:
            time.sleep(0.01)
        assert list(pool.map(square, range(20))) == [n * n for n in range(20)]
        assert pool.num_workers == 2
        error = pool.submit(always_die).exception(timeout=30)
        assert isinstance(error, futures.BrokenPool), error
        assert isinstance(pool.submit(square, 3).exception(timeout=30), futures.BrokenPool)


def unready():
    """A program that cannot be loaded by workers fails its tasks, and no worker."""
    with MPIPoolExecutor() as pool:
        errors = [pool.submit(square, n).exception(timeout=30) for n in range(5)]
        assert all(isinstance(error, ImportError) for error in errors), errors
        assert pool.num_workers == 3


def note(number):
    time.sleep(0.01)
    open(os.path.join(MARKS, str(number)), "x").close()


def queued():
    """Tasks that wait when the program ends are done."""
    pool = MPIPoolExecutor()
    for number in range(40):
        pool.submit(note, number)


def initializer():
    """It is called once on each worker, replacements as well."""
    with MPIPoolExecutor(initializer=learn, initargs=("word",)) as pool:
        assert list(pool.map(what_is_known, range(60))) == [["word"]] * 60


def first_fails(word):
    known.append(word)
    if len(known) == 1:
        raise ValueError("not yet")


def again():
    """An initializer that fails is called again for the next task."""
    with MPIPoolExecutor(max_workers=1, initializer=first_fails, initargs=("once",)) as pool:
        raises(ValueError, lambda: pool.submit(square, 2).result())
        assert [pool.submit(square, n).result() for n in range(3)] == [0, 1, 4]


def break_worker(name):
    if first_time(name):
        service.Sending = None
    return name


def broken():
    """A worker that cannot go on dies, and is replaced."""
    with MPIPoolExecutor() as pool:
        assert pool.submit(break_worker, "broken").result(timeout=30) == "broken"
        all_workers(pool)


def idle():
    """A worker that dies while there is nothing to do is replaced before there is."""
    with MPIPoolExecutor() as pool:
        before = all_workers(pool)
        os.kill(min(before), signal.SIGKILL)
        time.sleep(2.5)
        after = all_workers(pool)
        assert len(before & after) == 2, (before, after)


def master():
    """Without rank 0 there is nothing to work for."""
    with MPIPoolExecutor() as pool:
        pool.submit(time.sleep, 0.3)
        assert pool.submit(square, 3).result() == 9
        die()


def mistake():
    """An exception of the program ends the job."""
    with MPIPoolExecutor() as pool:
        pool.submit(square, 3)
        raise KeyError("of the program")


if __name__ == "__main__":
    for what in sys.argv[1:]:
        globals()[what]()
        sys.stdout.write(f"passed {what}\n")
        sys.stdout.flush()
