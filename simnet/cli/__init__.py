"""The command line: a verb, then files. Results to stdout, progress and logs to stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from simnet.cli.app import app
from simnet.cli.output import mend_streams, say
from simnet.errors import SimnetError

__all__ = ["app", "main", "run_command"]

_CODE_BUG = 3
_CODE_INTERRUPTED = 130


def main() -> None:
    """Run the command of this process and exit with its code."""
    mend_streams()
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: Sequence[str]) -> int:
    """Return the exit code of a command: 0 fine, 1 the model says no, 2 bad input, 3 a bug in simnet.

    Parameters
    ----------
    arguments
        Words after ``simnet``; ``--debug`` anywhere among them lets errors through with their traceback.
    """
    words = [word for word in arguments if word != "--debug"]
    if len(words) < len(arguments):
        return _run(words)
    try:
        return _run(words)
    except SimnetError as error:
        return _refuse(error.exit_code, *(str(problem) for problem in error.problems))
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        return _refuse(SimnetError.exit_code, f"{where}{error.strerror or error}")
    except Exception as error:  # a bug must not bury the user in a traceback
        return _refuse(_CODE_BUG, f"bug in simnet: {type(error).__name__}: {error}; --debug shows where")


def _run(words: Sequence[str]) -> int:
    try:
        app(words, prog_name="simnet", standalone_mode=True)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # `simnet --help | true`: the reader has gone, all is well
            return 0
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        return _CODE_INTERRUPTED
    return 0


def _refuse(code: int, *lines: str) -> int:
    for line in lines:
        say(f"error: {line}", err=True)
    return code
