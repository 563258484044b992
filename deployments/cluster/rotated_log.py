"""What a program in the background says, in a log file of limited size.

    PROGRAM | python -P deployments/cluster/rotated_log.py FILE

The last whole files are kept beside it as FILE.1, the newest, to FILE.3.
"""

import contextlib
import logging
import sys
from collections.abc import Iterable
from logging.handlers import RotatingFileHandler

MOST_BYTES = 8 * 2**20
KEPT = 3
"""Size of a file, and number of earlier files. A SuperLink writes about 40 MB a day."""


def write(lines: Iterable[str], path: str, most_bytes: int = MOST_BYTES) -> None:
    """Append lines to a file as they come. If it cannot be written, they are lost, and the program
    goes on."""
    logging.raiseExceptions = False
    handler = RotatingFileHandler(path, maxBytes=most_bytes, backupCount=KEPT, encoding="utf-8")
    handler.terminator = ""
    with contextlib.suppress(OSError), contextlib.closing(handler):
        for line in lines:
            handler.emit(logging.makeLogRecord({"msg": line}))


if __name__ == "__main__":
    with open(0, encoding="utf-8", errors="replace") as program:
        write(program, sys.argv[1])
