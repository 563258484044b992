"""TensorBoard: event files in the run directory."""

from collections.abc import Mapping
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from curvfed.strategies.base.keys import Scalar

FLUSH = 10
"""Maximum number of seconds before a figure is in the file."""


class TensorBoard:
    """A sink that writes event files in `tensorboard/` of a run directory.

    Parameters
    ----------
    path : Path
        The run directory.
    """

    def __init__(self, path: Path) -> None:
        self._folder = path / "tensorboard"

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Begin with an empty folder: a file cannot be cut off after a round, and all rounds
        follow."""
        for file in self._folder.glob("events.out.tfevents.*"):
            file.unlink()
        # The step makes an open TensorBoard forget what it has read of this run.
        self._writer = SummaryWriter(str(self._folder), purge_step=0, flush_secs=FLUSH)
        self._writer.add_text("configuration", _code(config), 0)

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Add a point to the curve of each figure."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, number)

    def end(self, rounds: int, figures: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """Add a point for each figure, and the texts."""
        self.round(rounds, {f"summary/{name}": value for name, value in figures.items()})
        self._writer.add_text("summary", _code(texts), rounds)
        self._writer.close()


def _code(values: Mapping[str, Scalar]) -> str:
    """A block of Markdown that is shown unchanged."""
    return "\n".join(f"    {key} = {value}" for key, value in values.items())
