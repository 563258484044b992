"""Every run of these tests has a home of its own, and fresh clients."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def at_home(own_home: Path) -> None:
    """For all of them."""
