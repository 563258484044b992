"""Every run of these tests has a home of its own, and fresh clients."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import client_app.live
import server_app.app
import strategies.cohort


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home below tmp_path, no clients left in memory, no report (it takes longer than the run), the log to pytest."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(client_app.live, "_live", client_app.live._live.__class__())
    monkeypatch.setattr(server_app.app, "_report", lambda directory: None)
    # With a handler there already the app adds none: its own would hold on to this test's stdout.
    log, quiet = logging.getLogger("curvfed"), logging.NullHandler()
    log.addHandler(quiet)
    yield home
    log.removeHandler(quiet)


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
    monkeypatch.setattr(strategies.cohort, "time", clock)
    return clock
