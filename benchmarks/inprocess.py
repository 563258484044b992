"""A whole in-process run against the same training in one plain loop."""

import tempfile
from pathlib import Path

from benchmarks.plain_loop import PlainLoop
from benchmarks.timing import Ratio, compare
from deployments.simulate import simulate
from strategies.config import parse


def against_plain_loop(data_dir: Path, dataset: str = "cora", rounds: int = 100, repeats: int = 3) -> Ratio:
    """Ten clients; ours includes data from the cache, messages, checkpoints and report, theirs only the rounds."""
    settings = {"dataset": dataset, "data-dir": str(data_dir), "num-rounds": rounds}
    loops = [PlainLoop(parse(settings), 10) for _ in range(repeats + 1)]
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(repeats + 1))

        def ours() -> None:
            simulate(settings | {"results-dir": folder, "run-name": f"run-{next(names)}"}, 10)

        return compare(ours, lambda: loops.pop().run(), repeats)
