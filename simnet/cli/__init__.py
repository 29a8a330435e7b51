"""The command line: a verb, then files. Results to stdout, progress and logs to stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from simnet.cli.app import app
from simnet.errors import SimnetError

__all__ = ["app", "main", "run_command"]

_CODE_BUG = 3
_CODE_INTERRUPTED = 130


def main() -> None:
    """Run the command of this process and exit with its code."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: Sequence[str]) -> int:
    """Return the exit code of a command: 0 fine, 1 the model says no, 2 bad input, 3 a bug in simnet.

    Parameters
    ----------
    arguments
        Words after ``simnet``; ``--debug`` anywhere among them lets errors through with their traceback.
    """
    words = [word for word in arguments if word != "--debug"]
    is_debug = len(words) < len(arguments)
    try:
        app(words, prog_name="simnet", standalone_mode=True)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2
    except SimnetError as error:
        if is_debug:
            raise
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)  # noqa: T201 (the one way out of an error)
        return error.exit_code
    except KeyboardInterrupt:
        return _CODE_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output is gone: `simnet list | head`
        return 0
    except OSError as error:
        if is_debug:
            raise
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return SimnetError.exit_code
    except Exception as error:  # a bug must not bury the user in a traceback
        if is_debug:
            raise
        kind = type(error).__name__
        print(f"error: bug in simnet: {kind}: {error}; --debug shows where", file=sys.stderr)  # noqa: T201
        return _CODE_BUG
    return 0
