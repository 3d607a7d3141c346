"""The service behind the pools: a thread of rank 0, which alone calls MPI and fampi there.

All ranks are in one block at a time, and messages go between rank 0 and the workers inside of it.
A death ends only what needed the dead, so tasks go on. When nothing is to be done, or too few
workers are left, rank 0 ends the block, the world is rebuilt, and the next block begins with
replacements. If rank 0 dies its workers end.
"""

import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from collections import deque

from mpi4py import MPI

import fampi
from fampi.futures.executor import BrokenPool, WorkerDied
from fampi.futures.parcels import END_OF_BLOCK, END_OF_POOL, Receiving, Sending, packed

MASTER = 0
# Between two looks at what has come: short at first, longer when nothing does.
FIRST_SLEEP, LONGEST_SLEEP = 20e-6, 2e-3

# The numbers of the executors whose initializer this worker has run.
_begun_for = set()


class Pause:
    """Sleeps for longer and longer until something happens."""

    def __init__(self):
        self.reset()

    def reset(self):
        """Something has happened."""
        self.seconds, self.spins = FIRST_SLEEP, 0

    def grow(self):
        """The seconds of the next sleep."""
        self.spins += 1
        if self.spins > 100:
            self.seconds = min(2 * self.seconds, LONGEST_SLEEP)
        return self.seconds


class Worker:
    """A worker as rank 0 sees it, in one block."""

    def __init__(self, block, rank):
        self.rank, self.task, self.sent = rank, None, None
        self.answer = Receiving(block, rank)


class Master:
    """Gives tasks to workers, and takes them back from the dead."""

    def __init__(self, world, inbox):
        self.world, self.inbox = world, inbox
        self.waiting, self.is_over, self.is_broken = deque(), False, False
        self.block, self.workers, self.error = None, {}, None
        self.strength = world.size - 1
        self.living = self.strength

    def serve(self):
        """Serves the pools until the program is over."""
        self.begin()
        pause = Pause()
        while True:
            if self.look():
                pause.reset()
                continue
            is_busy = any(worker.task for worker in self.workers.values())
            if self.is_over and not self.waiting and not is_busy:
                break
            if not is_busy and len(self.workers) < self.strength and not self.is_broken:
                self.renew()
                continue
            self.take(pause.grow())
        self.end(END_OF_POOL)

    def begin(self):
        """Starts a block with all workers of the world."""
        self.block = self.world.block()
        ranks = [rank for rank in range(self.world.size) if rank != MASTER]
        self.workers = {rank: Worker(self.block, rank) for rank in ranks}
        self.living = len(self.workers)

    def end(self, word):
        """Ends the block, after which the workers do what the word says."""
        for worker in self.workers.values():
            try:
                worker.sent = Sending(self.block, worker.rank, word=word)
            except fampi.Error:
                pass
        try:
            # Answers that nobody will give are no part of the verdict.
            for worker in self.workers.values():
                if worker.answer.request is not None:
                    self.block.forget(worker.answer.request)
            self.block.finish()
            self.block.wait()
        except fampi.BlockFailed:
            pass
        finally:
            self.block.close()
            self.workers = {}

    def renew(self):
        """Replaces the dead; where that cannot be done the pool goes on without, or is broken."""
        self.end(END_OF_BLOCK)
        try:
            self.world.recover()
        except fampi.Error as error:
            self.is_broken, self.error = True, error
        self.begin()

    def take(self, seconds):
        """Waits for something from the program for a moment."""
        try:
            given = self.inbox.get(timeout=seconds)
        except queue.Empty:
            return False
        if given is None:
            self.is_over = True
        else:
            self.waiting.append(given)
        return True

    def look(self):
        """Looks once at all that may have happened; whether anything has."""
        has_happened = False
        while not self.inbox.empty():
            has_happened |= self.take(0)
        for worker in list(self.workers.values()):
            try:
                has_happened |= self.look_at(worker)
            except fampi.Error:
                self.bury(worker)
                has_happened = True
        drains = 2 * len(self.workers) < self.strength
        if self.is_broken and not self.workers:
            self.refuse(self.error)
        if not drains or self.is_broken:
            has_happened |= self.hand_out()
        return has_happened

    def look_at(self, worker):
        """Takes the answer of a worker, if it is there."""
        if worker.sent is not None and worker.sent.is_over():
            worker.sent = None
        if not worker.answer.is_over():
            return False
        task, worker.task = worker.task, None
        task.executor._busy -= 1
        settle(task.future, worker.answer)
        worker.answer = Receiving(self.block, worker.rank)
        return True

    def bury(self, worker):
        """Takes back what a dead worker had to do."""
        del self.workers[worker.rank]
        self.living = len(self.workers)
        task = worker.task
        if task is None:
            return
        task.executor._busy -= 1
        task.deaths += 1
        if task.deaths >= task.executor._max_deaths:
            task.future.set_exception(WorkerDied(f"{task.deaths} workers died of this task"))
        else:
            self.waiting.appendleft(task)

    def hand_out(self):
        """Gives waiting tasks to workers that have none; whether it gave any."""
        idle = [worker for worker in self.workers.values() if worker.task is None]
        has_given, passed = False, deque()
        while idle and self.waiting:
            task = self.waiting.popleft()
            most = task.executor._most
            if most is not None and task.executor._busy >= most:
                passed.append(task)
                continue
            if not task.has_begun and not task.future.set_running_or_notify_cancel():
                continue
            task.has_begun = has_given = True
            self.send(idle.pop(0), task)
        self.waiting.extendleft(reversed(passed))
        return has_given

    def send(self, worker, task):
        """Sends a task to a worker."""
        worker.task = task
        task.executor._busy += 1
        try:
            worker.sent = Sending(self.block, worker.rank, raw=task.raw)
        except fampi.Error:
            self.bury(worker)

    def give_up(self, error):
        """Tells all that the service ends by an error."""
        for worker in self.workers.values():
            if worker.task is not None:
                worker.task.future.set_exception(BrokenPool(str(error)))
        while self.take(0):
            pass
        self.refuse(error)

    def refuse(self, error):
        """Tells all that wait that there are no workers."""
        while self.waiting:
            task = self.waiting.popleft()
            if task.has_begun or task.future.set_running_or_notify_cancel():
                task.future.set_exception(BrokenPool(str(error)))


def settle(future, answer):
    """Gives a future what a worker has answered."""
    try:
        is_result, value = answer.object()
    except BaseException as error:
        future.set_exception(error)
        return
    if is_result:
        future.set_result(value)
        return
    raw, told = value
    cause = RuntimeError(f"\n{told}")
    try:
        error = cause if raw is None else pickle.loads(raw)
    except BaseException:
        # Such as one that is not made of what is in it.
        error = cause
    if error is not cause:
        error.__cause__ = cause
    future.set_exception(error)


def failure(error):
    """An exception as what can be sent of it: itself, if it can be, and what Python tells of it."""
    told = "".join(traceback.format_exception(error))
    try:
        raw = packed(error)
    except Exception:
        raw = None
    return packed((False, (raw, told)))


def answer_to(parcel, mistake):
    """Does a task, which nobody can if the program was a mistake: what came of it, as bytes."""
    if mistake is not None:
        return failure(mistake)
    try:
        begin, function, arguments, words = parcel.object()
        if begin is not None and begin[0] not in _begun_for:
            number, initializer, initargs = begin
            initializer(*initargs)
            _begun_for.add(number)
        return packed((True, function(*arguments, **words)))
    except BaseException as error:
        return failure(error)


def work(load_program):
    """Does tasks until rank 0 ends the pool, or dies; the status to leave with.

    A worker that cannot go on dies: one that leaves in order is not replaced.
    """
    with fampi.World() as world:
        try:
            return work_for(world, load_program)
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)


def work_for(world, load_program):
    """As `work`, in a world."""
    mistake = None
    try:
        load_program()
    except BaseException as error:
        mistake = error
    word = END_OF_BLOCK
    while word == END_OF_BLOCK:
        block = world.block()
        word = work_in(block, mistake)
        try:
            block.finish()
            block.wait()
        except fampi.BlockFailed as failed:
            if has_left(MASTER, failed.report):
                return 1
            if word == END_OF_BLOCK:
                go_on(world)
        finally:
            block.close()
    return 0


def go_on(world):
    """Has the dead replaced, if that can be done: rank 0 says what comes of it."""
    try:
        world.recover()
    except fampi.Error:
        pass


def has_left(rank, report):
    """Whether a rank starts no further block: it is dead, or has ended MPI."""
    leaving = (fampi.ERR_FINALIZED, fampi.ERR_ABANDONED)
    ended = any(fault.rank == rank and fault.code in leaving for fault in report.faults)
    return rank in report.dead or ended


def work_in(block, mistake):
    """Does the tasks of one block; the word that ends it."""
    pause, sent = Pause(), None
    while True:
        parcel = Receiving(block, MASTER)
        try:
            while not parcel.is_over():
                time.sleep(pause.grow())
            pause.reset()
            if sent is not None:
                while not sent.is_over():
                    time.sleep(pause.grow())
            if parcel.word < 0:
                return parcel.word
            sent = Sending(block, MASTER, raw=answer_to(parcel, mistake))
        except fampi.Error:
            # Rank 0 is gone, or has ended the block without a word to this rank.
            return END_OF_BLOCK


class Service:
    """The thread of rank 0, and what the program gives to it."""

    def __init__(self):
        # No `SimpleQueue`: there a wait that is shorter than the system takes to begin it never ends
        # (CPython 3.11).
        self.inbox, self.entered = queue.Queue(), threading.Event()
        self.status, self.master = 0, None
        # Nothing is given any more once it has ended.
        self.has_ended, self.gate = False, threading.Lock()
        self.thread = threading.Thread(target=self.run, name="fampi.futures")
        self.thread.start()
        self.entered.wait()

    def run(self):
        """The world of the pools from its start to the end of MPI."""
        try:
            with fampi.World() as world:
                self.master = Master(world, self.inbox)
                self.entered.set()
                self.master.serve()
        except BaseException as error:
            self.status = 1
            traceback.print_exc(file=sys.stderr)
            with self.gate:
                self.has_ended = True
            if self.master is not None:
                self.master.give_up(error)
        finally:
            self.entered.set()
            # fampi has a part in it, and knows this thread alone.
            MPI.Finalize()

    def give(self, task):
        """Takes a task of the program."""
        with self.gate:
            if self.has_ended or not self.thread.is_alive():
                raise BrokenPool("the service has ended: see standard error")
            self.inbox.put(task)

    def count(self):
        """How many workers live."""
        return self.master.living if self.master is not None else 0

    def stop(self):
        """Ends the workers when all tasks are done."""
        self.inbox.put(None)
        self.thread.join()
