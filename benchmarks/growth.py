"""How time and memory grow with clients, parameters, nodes, edges, points and bins.

    python -m benchmarks.growth [--to docs/measured] [--only WORD ...] [--largest FRACTION]
        [--cap SECONDS]

Writes the points, `growth.json`, a figure, `growth.svg`, and a page, `growth.md`, with its rows,
`growth.csv`, into the folder.
With `--only` the other curves keep the points that the folder has of them; without a word after it
nothing is measured, and figure and page are made anew. One thread. Sizes that would take more time
or memory than there is are left out.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from threadpoolctl import threadpool_limits

from benchmarks import graphs, one_shot, server, whole_runs
from benchmarks.measure import Call, peak_bytes, seconds
from benchmarks.page import Tables, duration, machine, write_page
from benchmarks.tables import table_lines
from curvfed.extensions.reports.svg_files import svg_file
from curvfed.server_app.report import style
from curvfed.tasks.stored_files import write_atomically

INTRODUCTION = """\
# Scaling: every curve

    python -m benchmarks.growth

writes this page, its figure, [every curve](growth.csv) and the measured points, `growth.json`. Time and memory are
those of the largest size; an exponent is the p in size^p. [Speed](../speed.md#scaling) sums the page up.

![time and memory over clients, parameters, nodes, edges, points and bins](growth.svg)
"""

MODEL = 25_000  # parameters where the number of clients grows, as many as a small GCN has
MODELS = 5  # models where the number of parameters grows
DEGREE = 10  # mean degree where the number of nodes grows
NODES = 10_000  # nodes where the number of edges grows
LEAST_BYTES = 2_000_000  # less is what the system's own accounts of a process come and go by
COLUMNS = ("what", "time", "exponent of time", "expected", "memory", "exponent of memory")
CLOSE = 0.1  # exponents that differ by less are equal

CLIENTS = (10, 20, 50, 100, 200, 500, 1_000)
PARAMETERS = (*(step * 10**power for power in range(4, 8) for step in (1, 3)), 10**8)
GRAPH = (*(step * 10**power for power in range(3, 6) for step in (1, 3)), 10**6)
BINS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)


class Curve(NamedTuple):
    """What is measured at several sizes: from a size `make` makes what is timed, or its figures."""

    what: str
    sizes: tuple[int, ...]
    make: Callable[[int], Call | dict[str, Any]]
    expected: float = 1


def _models(name: str, num: int = 0, length: int = 0) -> Callable[[int], Call]:
    """An aggregation of as many models, or of models as large, as the size says."""
    return lambda size: partial(
        server.AGGREGATE[name], *server.models(num or size, length or size)[:2]
    )


def _nodes(make: Callable[[int, int], Call]) -> Callable[[int], Call]:
    return lambda size: make(size, size * DEGREE // 2)


RICCI = "Forman–Ricci curvature"
STEP = "a training step of the Lorentz GCN"
CUT = "partition into 10 parts"
CURVES = {
    "clients.average": Curve(
        "average of the clients' models", CLIENTS, _models("average", length=MODEL)
    ),
    "clients.consistent": Curve(
        "consistent aggregation", CLIENTS, _models("consistent", length=MODEL), 2
    ),
    "clients.secure-sum": Curve(
        "server's side of a secure sum of 2,500 entries", CLIENTS, one_shot.sum_server, 2
    ),
    "clients.description": Curve(
        "the clients' descriptions, in-process, on trees", CLIENTS, whole_runs.descriptions
    ),
    "clients.round": Curve("a whole round, in-process, on trees", CLIENTS, whole_runs.whole_round),
    "parameters.message": Curve("a model encoded and decoded", PARAMETERS, server.message),
    "parameters.average": Curve("average of 5 models", PARAMETERS, _models("average", MODELS)),
    "parameters.gram": Curve(
        "inner products of the deviations of 5 models", PARAMETERS, _models("gram", MODELS)
    ),
    "nodes.ricci": Curve(RICCI, GRAPH, _nodes(graphs.ricci)),
    "nodes.step": Curve(STEP, GRAPH, _nodes(graphs.step)),
    "nodes.partition": Curve(CUT, GRAPH, _nodes(graphs.parts)),
    "edges.ricci": Curve(RICCI, GRAPH, partial(graphs.ricci, NODES), 2),
    "edges.step": Curve(STEP, GRAPH, partial(graphs.step, NODES)),
    "edges.partition": Curve(CUT, GRAPH, partial(graphs.parts, NODES)),
    "points.hull": Curve("convex hull", GRAPH, one_shot.hull),
    "points.quantise": Curve("quantiser, points to bins", GRAPH, one_shot.bins),
    "points.client": Curve("a client's work for hull, before masks", GRAPH, one_shot.hull_client),
    "bins.decode": Curve("decoding of the hulls' symbols", BINS, one_shot.decode_bins, 1.25),
}
"""By what grows, a dot, and a word."""
GROWS = tuple(dict.fromkeys(name.partition(".")[0] for name in CURVES))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the points after every curve, and figure and tables at the end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument(
        "--to", type=Path, default=Path("docs/measured"), help="folder of figure and page"
    )
    parser.add_argument(
        "--only", nargs="*", default=[""], metavar="WORD", help=f"parts of {', '.join(CURVES)}"
    )
    parser.add_argument(
        "--largest", type=float, default=1.0, help="share of the largest size that sizes may have"
    )
    parser.add_argument("--cap", type=float, default=60.0, help="seconds for a curve")
    options = parser.parse_args(arguments)
    path = options.to / "growth.json"
    fresh = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "curves": {},
    }
    figures: dict[str, Any] = json.loads(path.read_text()) if path.exists() else fresh
    if options.only and figures["machine"] != fresh["machine"]:
        figures = fresh  # points of two machines make no curve
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for name in (name for name in CURVES if any(word in name for word in options.only)):
            print(f"measuring {name}", flush=True)
            curve = measure(CURVES[name], options.largest, options.cap)
            figures["curves"][name] = curve
            print(
                "   ",
                "; ".join(
                    f"{point['size']:,}: {duration(point['seconds'])}" for point in curve["points"]
                ),
            )
            write_atomically(path, (json.dumps(figures, indent=1) + "\n").encode())
    if options.only:
        figures["measured"] = fresh["measured"]
    curves = {name: figures["curves"][name] for name in CURVES if name in figures["curves"]}
    with style.applied():
        picture = svg_file(draw(curves), "growth")
    write_atomically(options.to / "growth.svg", picture.encode())
    tables: dict[str, list[list[str]]] = {}
    for name, curve in curves.items():
        rows = tables.setdefault(f"more {name.partition('.')[0]}", [])
        rows.append(_cells(CURVES[name], curve))
    write_page(options.to / "growth.md", INTRODUCTION, figures, COLUMNS, tables, steep_curves)
    return 0


def measure(curve: Curve, largest: float, cap: float) -> dict[str, Any]:
    """Points of a curve, as far as time and memory allow, and the sizes that were left out."""
    wanted = [
        size
        for place, size in enumerate(curve.sizes)
        if place < 3 or size <= largest * curve.sizes[-1]
    ]
    points: list[dict[str, Any]] = []
    spent = total = held = 0.0
    process = psutil.Process()
    for size in wanted:
        growth = (size / points[-1]["size"]) ** curve.expected if points else 0.0
        if spent + total * growth > cap or held * growth > psutil.virtual_memory().available / 2:
            break
        gc.collect()
        began = time.perf_counter()
        before = process.memory_info().rss
        call = curve.make(size)
        repeats = 1
        data = process.memory_info().rss - before
        if callable(call):
            once = seconds(call)
            repeats = 25 if once < 0.02 else 5 if once < 2 else 1
            call = {
                "seconds": statistics.median(seconds(call) for _ in range(repeats)),
                "bytes": peak_bytes(call),
            }
        points.append({"size": size, **call, "repeats": repeats})
        total = time.perf_counter() - began
        spent = spent + total
        held = data + (call["bytes"] or 0)
    return {"points": points, "left_out": wanted[len(points) :], "cap": cap}


def exponent(points: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The p of value = a·size^p, by least squares on the logarithms of the upper half of the sizes,
    at least three.

    Memory below `LEAST_BYTES` is left out; None for fewer than two points.
    """
    least = LEAST_BYTES if key == "bytes" else 0
    kept = [(point["size"], point[key]) for point in points if (point[key] or 0) > least]
    sizes, values = np.log(np.array(kept[-max(3, (len(kept) + 1) // 2) :], float).reshape(-1, 2)).T
    return float(np.polyfit(sizes, values, 1)[0]) if len(sizes) > 1 else None


def _cells(curve: Curve, measured: Mapping[str, Any]) -> list[str]:
    last = measured["points"][-1]
    slopes = [exponent(measured["points"], key) for key in ("seconds", "bytes")]
    times, memories = ("" if slope is None else f"{slope:.2f}" for slope in slopes)
    left = (
        f" (left out: {', '.join(f'{size:,}' for size in measured['left_out'])})"
        if measured["left_out"]
        else ""
    )
    at = f" at {last['size']:,}"
    size = last["bytes"]
    memory = (
        "" if size is None else f"{size / 1e6:,.0f} MB{at}" if size > LEAST_BYTES else "under 2 MB"
    )
    return [
        curve.what + left,
        duration(last["seconds"]) + at,
        times,
        f"{curve.expected:g}",
        memory,
        memories,
    ]


def steep_curves(tables: Tables) -> list[str]:
    """The curves whose time grows faster than expected."""
    rows = [[title.removeprefix("more "), *row] for title, part in tables.items() for row in part]
    steep = [row[:5] for row in rows if row[3] and float(row[3]) > float(row[4]) + CLOSE]
    heads = ("more", *COLUMNS[:4])
    lines = [f"{len(steep)} of {len(rows)} curves grow faster than expected:", ""]
    return lines + table_lines(heads, steep)


def draw(curves: Mapping[str, Mapping[str, Any]]) -> Any:
    """Time and memory over the size, both axes logarithmic: a row of panels for everything that
    grows."""
    from matplotlib.figure import Figure

    parts = (("seconds", "seconds", 1.0), ("bytes", "MB", 1e6))
    figure = Figure(figsize=(9, 3 * len(GROWS)), layout="constrained")
    for grows, panels in zip(GROWS, figure.subplots(len(GROWS), 2), strict=True):
        names = [name for name in curves if name.startswith(grows)]
        for axes, (key, label, unit) in zip(panels, parts, strict=True):
            for marker, name in zip("os^Dv", names, strict=False):
                points = [point for point in curves[name]["points"] if point[key]]
                sizes = [point["size"] for point in points]
                values = [point[key] / unit for point in points]
                axes.plot(sizes, values, marker=marker, label=CURVES[name].what)
            axes.set(xscale="log", yscale="log", xlabel=grows, ylabel=label)
            axes.minorticks_off()
            axes.xaxis.set_major_formatter(_tick)
            axes.yaxis.set_major_formatter(_tick)
        if panels[0].lines:
            panels[0].legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1))
    return figure


def _tick(value: float, _position: int) -> str:
    if value >= 1e6:
        return f"{value / 1e6:,.0f} M"
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


if __name__ == "__main__":
    sys.exit(main())
