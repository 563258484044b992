"""Lines that delay and lose frames, for kernels without netem: between the two taps of each line
stands this process.

    python lossy_lines.py DELAY LOSS TAP TAP [TAP TAP …]

Says `ready` once the taps are there, and at the end of its standard input how many frames it lost.
"""

import contextlib
import fcntl
import heapq
import os
import random
import selectors
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
FRAME = 65536


def tap(name: str) -> int:
    """A tap device of this name, gone with this process."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def carry(lines: list[tuple[int, int]], delay: float, loss: float) -> int:
    """Carry frames both ways until the standard input ends; how many were lost."""
    draw = random.Random(0)
    other = {one: two for line in lines for one, two in (line, line[::-1])}
    passed = lost = 0
    waiting: list[tuple[float, int, int, bytes]] = []
    with selectors.DefaultSelector() as ready:
        for end in (*other, sys.stdin.fileno()):
            ready.register(end, selectors.EVENT_READ)
        while True:
            pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
            for key, _ in ready.select(pause):
                if key.fd == sys.stdin.fileno():
                    return lost
                with contextlib.suppress(OSError):
                    frame = os.read(key.fd, FRAME)
                    if draw.random() < loss:
                        lost += 1
                    else:
                        passed += 1  # frames of one moment stay in their order
                        heapq.heappush(
                            waiting, (time.monotonic() + delay, passed, other[key.fd], frame)
                        )
            while waiting and waiting[0][0] <= time.monotonic():
                *_, end, frame = heapq.heappop(waiting)
                with contextlib.suppress(OSError):  # a tap that is down loses it
                    os.write(end, frame)


if __name__ == "__main__":
    delay, loss, *names = sys.argv[1:]
    ends = [tap(name) for name in names]
    print("ready", flush=True)
    print(
        carry(list(zip(ends[::2], ends[1::2], strict=True)), float(delay), float(loss)), flush=True
    )
