"""A pool whose workers die at their work, with the results of one whose workers do not.

    cargo fampi run -n 4 -- python3 -m fampi.futures pool.py

`DEADLY="3 11"` has the tasks of these numbers kill the worker that is the first to get them.
"""

import os
import signal
import sys
import time

from fampi.futures import MPIPoolExecutor


def is_deadly(number):
    """Whether this task is to kill its worker, which it does once in a job."""
    if str(number) not in os.environ.get("DEADLY", "").split():
        return False
    try:
        os.close(os.open(f"{os.environ['DEADLY_MARKS']}/{number}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def primes_below(number):
    """How many primes are smaller, found slowly."""
    if is_deadly(number):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.002)
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, number))


if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        counts = list(pool.map(primes_below, range(200)))
        sys.stdout.write(f"{sum(counts)} in all, {counts[-1]} below 199\n")
