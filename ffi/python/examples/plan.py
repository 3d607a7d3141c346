"""What the examples are told from outside: who dies when, and how.

`KILL_PLAN="5:2 9:0:exit"` kills in step 5 the process that had rank 2 at the launch, and has that
of rank 0 leave in step 9 by `os._exit`. Replacements live.
"""

import os
import signal


def die_if_planned(launched_as, step, is_replacement=False):
    """Dies as a crashing process would, if that is planned."""
    if is_replacement:
        return
    for kill in os.environ.get("KILL_PLAN", "").split():
        planned, rank, *how = kill.split(":")
        if (int(planned), int(rank)) == (step, launched_as):
            if how == ["exit"]:
                os._exit(3)
            os.kill(os.getpid(), signal.SIGKILL)
