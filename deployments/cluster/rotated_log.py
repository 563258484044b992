"""The output of a program in the background, in a log file of limited size.

    PROGRAM | python -P deployments/cluster/rotated_log.py FILE

Earlier files stay beside it, from FILE.1, the newest, to FILE.3.
"""

import contextlib
import logging
import sys
from collections.abc import Iterable
from logging.handlers import RotatingFileHandler

MAX_BYTES = 8 * 2**20
OLD_FILES = 3
"""Size of a file, and number of earlier files. A SuperLink writes about 40 MB a day."""


def write(lines: Iterable[str], path: str, max_bytes: int = MAX_BYTES) -> None:
    """Append lines to a file. If it cannot be written, they are lost, and the program continues."""
    logging.raiseExceptions = False
    handler = RotatingFileHandler(path, maxBytes=max_bytes, backupCount=OLD_FILES, encoding="utf-8")
    handler.terminator = ""
    with contextlib.suppress(OSError), contextlib.closing(handler):
        for line in lines:
            handler.emit(logging.makeLogRecord({"msg": line}))


if __name__ == "__main__":
    with open(0, encoding="utf-8", errors="replace") as program:
        write(program, sys.argv[1])
