"""`python3 -m fampi.futures program.py …`: rank 0 runs the program, the others work for it."""

import runpy
import sys
import types

from mpi4py import MPI

from fampi.futures import executor
from fampi.futures.service import MASTER, Service, work


def load_program():
    """Makes the functions of the program known, whose main part does not run."""
    module = types.ModuleType("__main__")
    module.__dict__.update(runpy.run_path(sys.argv[0], run_name="__worker__"))
    module.__name__ = "__main__"
    sys.modules["__main__"] = module


def main():
    if len(sys.argv) < 2:
        sys.exit("give a program: python3 -m fampi.futures program.py")
    del sys.argv[0]
    # Replacements that are started anew have a world of their own.
    is_launched = MPI.Comm.Get_parent() == MPI.COMM_NULL
    if not is_launched or MPI.COMM_WORLD.Get_rank() != MASTER:
        sys.exit(work(load_program))
    service = Service()
    executor._service = service
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        service.stop()
    sys.exit(service.status)


main()
