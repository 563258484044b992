"""The page of peers: their figures, ours and the difference, from all runs so far."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.tables import table_lines
from studies.peers.settings import ALPHAS, PAIRS, Pair

ABOUT = """\
# Beside other libraries: every pair

    python -m studies.peers graphs --data folder --openfgl clone --fed-pub clone \\
        --out docs/measured/peers.json --page docs/measured/peers.md
    python -m studies.peers images --data folder --pfllib clone --fedtgp clone --fedetf clone \\
        --out docs/measured/peers.json --page docs/measured/peers.md

write this page and [every pair](peers.csv). [Beside other libraries](../parity.md) says what is compared and how. A row
has the mean ± standard deviation over its seeds. Our times of FedALA and FedDBE are from a busier machine than theirs.
"""
HEADS = (
    "peer",
    "method",
    "score",
    "theirs",
    "ours",
    "ours − theirs",
    "seeds",
    "s a round, theirs",
    "s a round, ours",
)
DIFFERENCE = HEADS.index("ours − theirs")
TIMED = "As users run them, in seconds a round"
TITLES = {
    "best": "clients at best validation",
    "personal": "clients, last round",
    "global": "global model",
}


def tables(runs: Sequence[dict[str, Any]]) -> dict[str, list[list[str]]]:
    """Rows of cells by title: of the pairs, at their settings of today, those that have run, and
    why others failed."""
    tables = {"Cora, 10 clients": _rows(runs, "graphs", None)}
    tables |= {
        f"MNIST, 20 clients, Dirichlet({alpha:g})": _rows(runs, "images", alpha) for alpha in ALPHAS
    }
    tables[TIMED] = _timed(runs)
    return {title: rows for title, rows in tables.items() if rows}


def summary(tables: Mapping[str, Sequence[list[str]]]) -> list[str]:
    """The number of rows in which ours is level with theirs, higher or lower, and the rows that are
    not level or have no figures."""
    numbers = []
    apart = []
    for title, rows in tables.items():
        if title == TIMED:
            continue
        signs = [_sign(row) for row in rows]
        numbers.append([title, *(str(signs.count(sign)) for sign in "=+−")])
        apart += [[title, *row[:6]] for row, sign in zip(rows, signs, strict=True) if sign != "="]
    heads = ("clients", "level", "ours higher", "theirs higher")
    lines = [
        "Ours is level with theirs where the mean of the difference is at most its standard deviation.",
        "",
        *table_lines(heads, numbers),
    ]
    if apart:
        lines += ["", "## Not level", "", *table_lines(("clients", *HEADS[:6]), apart)]
    if timed := tables.get(TIMED):
        lines += ["", f"## {TIMED}", "", *table_lines(HEADS[1:6], [row[1:6] for row in timed])]
    return lines


def _sign(row: Sequence[str]) -> str:
    """= for a row in which both are level, + where ours is higher, − where it is lower; empty
    without figures."""
    mean, _, deviation = row[DIFFERENCE].replace("−", "-").partition(" ± ")
    if not mean:
        return ""
    if abs(float(mean)) <= float(deviation or 0):
        return "="
    return "+" if float(mean) > 0 else "−"


def _timed(runs: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Rows of the pairs that ran with `--workers`; our share of their time is in the place of the
    difference."""
    rows = list[list[str]]()
    for pair in PAIRS:
        seconds: dict[str, dict[int, float]] = {"theirs": {}, "ours": {}}
        number = 0
        for run in runs:
            number = run["settings"].get("workers", number)
            settings = pair.of_ours(run["seed"], run["alpha"]) | {"workers": number}
            if (run["peer"], run["name"]) == (pair.peer, pair.name) and (
                run["settings"] == settings and "error" not in run
            ):
                seconds[run["side"]][run["seed"]] = run["seconds"]
        theirs, ours = seconds.values()
        if seeds := sorted(theirs.keys() & ours.keys()):
            ratios = [ours[seed] / theirs[seed] for seed in seeds]
            range_ = f"{min(ratios):.2f} to {max(ratios):.2f}"
            rows.append(
                [
                    pair.peer,
                    pair.name,
                    f"ours with workers={number}",
                    f"{statistics.median(theirs.values()):.3g}",
                    f"{statistics.median(ours.values()):.3g}",
                    f"{statistics.median(ratios):.2f} ({range_}) of theirs",
                    " ".join(map(str, seeds)),
                    "",
                    "",
                ]
            )
    return rows


def _rows(runs: Sequence[dict[str, Any]], task: str, alpha: float | None) -> list[list[str]]:
    rows = list[list[str]]()
    for pair in PAIRS:
        mine = [
            run
            for run in runs
            if (run["peer"], run["name"], run["alpha"]) == (pair.peer, pair.name, alpha)
            and (run["settings"], run["with"]) == (pair.of_ours(run["seed"], alpha), pair.theirs)
        ]
        if pair.task == task and mine:
            rows += _of_pair(pair, mine)
    return rows


def _of_pair(pair: Pair, runs: Sequence[dict[str, Any]]) -> Iterable[list[str]]:
    by_side = {
        side: {run["seed"]: run for run in runs if run["side"] == side and "error" not in run}
        for side in ("theirs", "ours")
    }
    theirs, ours = by_side.values()
    seeds = sorted(theirs.keys() & ours.keys())
    if not seeds:
        reason = next((run["error"] for run in runs if "error" in run), "not both sides have run")
        return [[pair.peer, pair.label or pair.name, f"failed: {reason}", *[""] * 6]]
    time = [
        f"{statistics.median(side[seed]['seconds'] for seed in seeds):.3g}"
        for side in (theirs, ours)
    ]
    rows = []
    for score in pair.scores:
        values = [[side[seed][score] for seed in seeds] for side in (theirs, ours)]
        values.append([mine - other for other, mine in zip(*values, strict=True)])
        cells = [*map(spread, values[:2]), spread(values[2], "+")]
        rows.append(
            [
                pair.peer,
                pair.label or pair.name,
                TITLES[score],
                *cells,
                " ".join(map(str, seeds)),
                *time,
            ]
        )
    return rows


def spread(values: Sequence[float], sign: str = "") -> str:
    """Mean ± standard deviation (ddof = 1) over the seeds."""
    mean = f"{statistics.mean(values):{sign}.1f}".replace("-", "−")
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.1f}"
