"""Whole in-process runs against the same training in one plain loop."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.plain_images import PlainImages
from benchmarks.plain_loop import PlainLoop
from benchmarks.timing import Ratio, compare
from curvfed.deployments.simulate import simulate
from curvfed.strategies.config.parse import parse


def against_plain_loop(data_dir: Path, dataset: str = "cora", rounds: int = 100, repeats: int = 3) -> Ratio:
    """FlatLand, ten clients; ours has data from the cache, messages, checkpoints and report, theirs the rounds alone."""
    return _against({"dataset": dataset, "data-dir": str(data_dir), "num-rounds": rounds}, 10, PlainLoop, repeats)


def images_against_plain_loop(settings: Mapping[str, Any], clients: int, repeats: int = 3) -> Ratio:
    """A method of images that keeps nothing at its clients, likewise."""
    return _against(dict(settings), clients, PlainImages, repeats)


def _against(settings: dict[str, Any], clients: int, loop: type[PlainLoop] | type[PlainImages], repeats: int) -> Ratio:
    loops = [loop(parse(settings), clients) for _ in range(repeats + 2)]
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(repeats + 2))

        def ours() -> None:
            simulate(settings | {"results-dir": folder, "run-name": f"run-{next(names)}"}, clients)

        return compare(ours, lambda: loops.pop().run(), repeats)
