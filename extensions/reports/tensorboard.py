"""TensorBoard: event files in the run directory."""

from collections.abc import Mapping

from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.sinks import Sink
from curvfed.strategies.base.keys import Scalar
from curvfed.strategies.base.statistics import add_prefix

FLUSH = 10
"""Maximum number of seconds before a figure is in the file."""


class TensorBoard(Sink):
    """A sink that writes event files in `tensorboard/` of a run directory."""

    package = "tensorboard"

    def __init__(self, directory: RunDirectory) -> None:
        super().__init__(directory)
        self._folder = directory.path / "tensorboard"

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Begin with an empty folder: a file cannot be cut off after a round, and all rounds
        follow."""
        from torch.utils.tensorboard import SummaryWriter  # takes seconds

        for file in self._folder.glob("events.out.tfevents.*"):
            file.unlink()
        # The step makes an open TensorBoard forget its data of this run.
        self._writer = SummaryWriter(str(self._folder), purge_step=0, flush_secs=FLUSH)
        self._writer.add_text("configuration", _code(config), 0)

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Add a point to the curve of each figure."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, number)

    def end(self, rounds: int, figures: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """Add a point for each figure, and the texts."""
        self.round(rounds, add_prefix("summary/", figures))
        self._writer.add_text("summary", _code(texts), rounds)
        self._writer.close()


def _code(values: Mapping[str, Scalar]) -> str:
    """A block of Markdown that is shown unchanged."""
    return "\n".join(f"    {key} = {value}" for key, value in values.items())
