"""The tables of docs/parity.md: theirs, ours and the difference, from all runs so far."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.peers.settings import ALPHAS, CLIENTS, COMMON, PAIRS, Pair

HEADS = ("peer", "method", "score", "theirs", "ours", "ours − theirs", "seeds", "s a round, theirs", "ours")
TITLES = {"best": "clients at best validation", "personal": "clients, last round", "global": "global model"}


def tables(runs: Sequence[dict[str, Any]]) -> dict[str, list[list[str]]]:
    """Rows of cells by title; pairs that both sides have completed, and those that are missing by their reason."""
    found = {"Cora, 10 clients": _rows(runs, "graphs", None)}
    found |= {f"MNIST, 20 clients, Dirichlet({alpha:g})": _rows(runs, "images", alpha) for alpha in ALPHAS}
    return {title: rows for title, rows in found.items() if rows}


def settings_told() -> list[str]:
    """Lines that say what all runs have in common, and a list of what a pair has beside it."""
    lines = []
    for task, common in COMMON.items():
        lines += [f"{task.capitalize()}, {CLIENTS[task]} clients: {_told(common)}.", ""]
    lines += ["| peer | method | ours | theirs |", "| --- | --- | --- | --- |"]
    return lines + [
        f"| {pair.peer} | {pair.name} | {_told(pair.settings)} | {_told(pair.theirs)} |"
        for pair in PAIRS
        if pair.settings or pair.theirs
    ]


def _told(settings: dict[str, Any]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in settings.items())


def _rows(runs: Sequence[dict[str, Any]], task: str, alpha: float | None) -> list[list[str]]:
    rows = []
    for pair in PAIRS:
        mine = [run for run in runs if (run["peer"], run["name"], run["alpha"]) == (pair.peer, pair.name, alpha)]
        if pair.task == task and mine:
            rows += _of_pair(pair, mine)
    return rows


def _of_pair(pair: Pair, runs: Sequence[dict[str, Any]]) -> Iterable[list[str]]:
    by_side = {side: {run["seed"]: run for run in runs if run["side"] == side and "error" not in run}
               for side in ("theirs", "ours")}  # fmt: skip
    theirs, ours = by_side.values()
    seeds = sorted(theirs.keys() & ours.keys())
    if not seeds:
        reason = next((run["error"] for run in runs if "error" in run), "not both sides have run")
        return [[pair.peer, pair.name, f"failed: {reason}", *[""] * 6]]
    time = [f"{statistics.median(side[seed]['seconds'] for seed in seeds):.3g}" for side in (theirs, ours)]
    rows = []
    for score in pair.scores:
        values = [[side[seed][score] for seed in seeds] for side in (theirs, ours)]
        values.append([mine - other for other, mine in zip(*values, strict=True)])
        cells = [*map(spread, values[:2]), spread(values[2], "+")]
        rows.append([pair.peer, pair.name, TITLES[score], *cells, " ".join(map(str, seeds)), *time])
    return rows


def spread(values: Sequence[float], sign: str = "") -> str:
    """Mean ± standard deviation (ddof = 1) over the seeds."""
    mean = f"{statistics.mean(values):{sign}.1f}".replace("-", "−")
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.1f}"
