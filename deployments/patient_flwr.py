"""Flower's program `flwr`, with more time for the SuperLink that `flwr run` starts: the 15 seconds
that it gives are too few on a busy machine.

The first argument is the program, a script of Python; the others are its own.
"""

import runpy
import sys

START_TIME = 300.0
"""Seconds for the SuperLink to start."""

ANSWER_TIME = 10.0
"""Seconds for an answer to the question whether it is up."""


def main() -> None:
    """Run the program."""
    from flwr.cli import local_superlink

    # Without these names a further version of Flower keeps its own limits.
    vars(local_superlink).update(
        LOCAL_SUPERLINK_STARTUP_TIMEOUT=START_TIME, CONTROL_API_PROBE_TIMEOUT=ANSWER_TIME
    )
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
