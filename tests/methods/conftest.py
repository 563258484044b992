"""Every run of these tests has a home of its own, and fresh clients."""

from pathlib import Path

import pytest

import curvfed.strategies.wire.exchange


@pytest.fixture(autouse=True)
def at_home(own_home: Path) -> None:
    """For all of them."""


class Clock:
    """A time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Timeouts of phases that neither take their time nor depend on how busy the machine is."""
    clock = Clock()
    monkeypatch.setattr(curvfed.strategies.wire.exchange, "time", clock)
    return clock
