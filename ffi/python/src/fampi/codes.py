"""The numbers of fampi.h under their names without `FAMPI_`."""

from . import _core

globals().update(_core.constants())

__all__ = sorted(_core.constants())


def is_own(code):
    """Whether a code is one of fampi's, and none of MPI's or of the program."""
    return code in _OWN


_OWN = frozenset(
    number for name, number in _core.constants().items() if name.startswith("ERR_")
)
