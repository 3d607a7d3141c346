"""`python3 -m fampi.futures program.py …`: rank 0 runs the program, the others work for it."""

import io
import os
import sys
import types

from mpi4py import MPI

from fampi.futures import executor
from fampi.futures.service import MASTER, Service, work


def run_program(name):
    """Runs the program as a module of this name.

    It stays known by both of its names: what is defined in it has that of rank 0 there, and that of
    the workers here, and is sent in both directions.
    """
    path = sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules["__main__"] = sys.modules["__worker__"] = module
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec")
    exec(code, module.__dict__)


def main():
    if len(sys.argv) < 2:
        sys.exit("give a program: python3 -m fampi.futures program.py")
    del sys.argv[0]
    # Replacements that are started anew have a world of their own.
    is_launched = MPI.Comm.Get_parent() == MPI.COMM_NULL
    if not is_launched or MPI.COMM_WORLD.Get_rank() != MASTER:
        # Its main part does not run here.
        sys.exit(work(lambda: run_program("__worker__")))
    service = Service()
    executor._service = service
    try:
        run_program("__main__")
    finally:
        service.stop()
    sys.exit(service.status)


main()
