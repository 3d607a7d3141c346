"""Launches programs on real ranks, with deaths and time limits.

The launcher is `fampi run`: the tool that `FAMPI` names, or that of the checkout. It ends what is
left of a job, and a job that goes on for too long.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[2]


class Job:
    """What a job that is over has said."""

    def __init__(self, line, done):
        self.line, self.status = line, done.returncode
        self.output, self.errors = done.stdout, done.stderr

    def lines(self):
        """The lines of standard output, in an order that does not depend on chance."""
        return sorted(self.output.splitlines())

    def expect(self, ranks, word="passed", status=0):
        """Makes sure that so many ranks said the word, and that the job ended with this status."""
        said = sum(word in line for line in self.output.splitlines())
        assert said == ranks, f"{said} ranks said {word!r}: {self}"
        assert self.status == status, str(self)
        return self

    def __str__(self):
        return (f"{self.line}\nstatus {self.status}\n--- output\n{self.output}\n"
                f"--- errors\n{self.errors}")


@pytest.fixture
def launch():
    """Runs so many ranks of a program, which is an example, a measurement, or in `programs`."""

    def run(ranks, program, *words, flags=(), module=None, limit=60, do=("run",), **variables):
        tool = os.environ.get("FAMPI", str(CHECKOUT / "target/release/fampi"))
        folders = HERE / "programs", HERE.parent / "examples", HERE.parent / "bench"
        path = next(it / program for it in folders if (it / program).is_file())
        line = [tool, *do, "-n", str(ranks), "--timeout", str(limit), *flags, "--",
                sys.executable, *(["-m", module] if module else []), str(path), *words]
        environment = {**os.environ, **variables}
        done = subprocess.run(
            line, env=environment, cwd=CHECKOUT, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=limit + 30, errors="replace",
        )
        shown = [f"{name}={value!r}" for name, value in variables.items()]
        return Job(" ".join(shown + line), done)

    return run
