"""A pool of workers that outlives them, with the interface of `concurrent.futures`.

    cargo fampi run -n 4 -- python3 -m fampi.futures program.py

    if __name__ == "__main__":
        with MPIPoolExecutor() as pool:
            for result in pool.map(function, range(100)):
                ...

Rank 0 runs the program, and the others are its workers. The task of a worker that dies is given to
another one, and the worker is replaced.
"""

from concurrent.futures import (
    ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, CancelledError, Future, as_completed, wait,
)

from .executor import BrokenPool, MPIPoolExecutor, WorkerDied

__all__ = [
    "ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION", "BrokenPool", "CancelledError", "Future",
    "MPIPoolExecutor", "WorkerDied", "as_completed", "wait",
]
