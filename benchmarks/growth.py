"""How time and memory grow with clients, parameters, nodes, edges, points and bins.

    python -m benchmarks.growth [--to docs/cost] [--only WORD ...] [--largest FRACTION] [--cap SECONDS]

Writes `growth.json` and one figure, `growth.svg`, into the folder, and the tables of the page beside it, `FOLDER.md`. With
`--only` the other curves keep the points that the folder has of them; without a word after it nothing is measured, and
figure and tables are made anew. One thread. Sizes that would take more time or memory than there is are left out.
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
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from threadpoolctl import threadpool_limits

from benchmarks import graphs, one_shot, secure_sums, server, whole_runs
from benchmarks.measure import Call, Told, peak_bytes, seconds
from benchmarks.page import machine, write_tables
from curvfed.strategies.store import write_atomically

MODEL = 25_000
"""Parameters of a client's model, where the clients grow: about as many as a small GCN has."""
MODELS = 5
"""Where the parameters grow."""
DEGREE, NODES = 10, 10_000
"""Mean degree where the nodes of a graph grow, and nodes where its edges grow."""
LEAST_BYTES = 2_000_000
"""Less is what the system's own accounts of a process come and go by."""
HEADS = ("what", "time", "exponent", "expected", "memory", "exponent")

CLIENTS = (10, 20, 50, 100, 200, 500, 1_000)
PARAMETERS = (*(step * 10**power for power in range(4, 8) for step in (1, 3)), 10**8)
GRAPH = (*(step * 10**power for power in range(3, 6) for step in (1, 3)), 10**6)
BINS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)


class Curve(NamedTuple):
    """What is measured at several sizes: from a size `make` makes what is timed; `expected` is the exponent of the time."""

    what: str
    sizes: tuple[int, ...]
    make: Callable[[int], Call | Told]
    expected: float = 1


def _clients(use: Callable[..., Any]) -> Callable[[int], Call]:
    return lambda size: partial(use, *server.models(size, MODEL)[:2])


def _parameters(use: Callable[..., Any]) -> Callable[[int], Call]:
    return lambda size: partial(use, *server.models(MODELS, size)[:2])


def _nodes(make: Callable[[int, int], Call]) -> Callable[[int], Call]:
    return lambda size: make(size, size * DEGREE // 2)


CURVES = {
    "clients.average": Curve("average of the clients' models", CLIENTS, _clients(server.AGGREGATE["average"])),
    "clients.consistent": Curve("consistent aggregation", CLIENTS, _clients(server.AGGREGATE["consistent"]), 2),
    "clients.secure-sum": Curve("server's side of a secure sum of 2,500 entries", CLIENTS, secure_sums.server, 2),
    "clients.description": Curve("the clients' descriptions, in-process, on trees", CLIENTS, whole_runs.descriptions),
    "clients.round": Curve("a whole round, in-process, on trees", CLIENTS, whole_runs.whole_round),
    "parameters.message": Curve("a model encoded and decoded", PARAMETERS, server.message),
    "parameters.average": Curve("average of 5 models", PARAMETERS, _parameters(server.AGGREGATE["average"])),
    "parameters.gram": Curve(
        "inner products of 5 models' deviations", PARAMETERS, _parameters(server.AGGREGATE["gram"])
    ),
    "nodes.ricci": Curve("Forman–Ricci curvature", GRAPH, _nodes(graphs.ricci)),
    "nodes.step": Curve("a training step of the Lorentz GCN", GRAPH, _nodes(graphs.step)),
    "nodes.partition": Curve("partition into 10 parts", GRAPH, _nodes(graphs.parts)),
    "edges.ricci": Curve("Forman–Ricci curvature", GRAPH, partial(graphs.ricci, NODES), 2),
    "edges.step": Curve("a training step of the Lorentz GCN", GRAPH, partial(graphs.step, NODES)),
    "edges.partition": Curve("partition into 10 parts", GRAPH, partial(graphs.parts, NODES)),
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
    parser.add_argument("--to", type=Path, default=Path("docs/cost"), help="folder; the page is beside it")
    parser.add_argument("--only", nargs="*", default=[""], metavar="WORD", help=f"parts of {', '.join(CURVES)}")
    parser.add_argument("--largest", type=float, default=1.0, help="share of the largest size that sizes may have")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds for a curve")
    options = parser.parse_args(arguments)
    path = options.to / "growth.json"
    here = {"measured": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(), "curves": {}}
    told = json.loads(path.read_text()) if path.exists() else here
    if options.only and told["machine"] != here["machine"]:
        told = here  # points of two machines make no curve
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for name, curve in CURVES.items():
            if any(word in name for word in options.only):
                print(f"measuring {name}", flush=True)
                told["curves"][name] = found = measure(curve, options.largest, options.cap)
                print("   ", "; ".join(f"{one['size']:,}: {one['seconds']:.3g} s" for one in found["points"]))
                write_atomically(path, (json.dumps(told, indent=1) + "\n").encode())
    curves = {name: told["curves"][name] for name in CURVES if name in told["curves"]}
    write_atomically(options.to / "growth.svg", draw(curves))
    of = {grows: [name for name in curves if name.startswith(grows)] for grows in GROWS}
    tables = {f"more {grows}": [_cells(name, curves[name]) for name in names] for grows, names in of.items() if names}
    write_tables(options.to.parent / f"{options.to.name}.md", told, HEADS, tables)
    return 0


def measure(curve: Curve, largest: float, cap: float) -> dict[str, Any]:
    """Points of a curve, as far as time and memory allow, and the sizes that were left out."""
    wanted = [size for place, size in enumerate(curve.sizes) if place < 3 or size <= largest * curve.sizes[-1]]
    points: list[dict[str, Any]] = []
    spent = total = held = 0.0
    process = psutil.Process()
    for size in wanted:
        growth = (size / points[-1]["size"]) ** curve.expected if points else 0.0
        if spent + total * growth > cap or held * growth > psutil.virtual_memory().available / 2:
            break
        gc.collect()
        began, before = time.perf_counter(), process.memory_info().rss
        call = curve.make(size)
        data, repeats = process.memory_info().rss - before, 1
        if not isinstance(call, Told):
            once = seconds(call)
            repeats = 25 if once < 0.02 else 5 if once < 2 else 1
            call = Told(statistics.median(seconds(call) for _ in range(repeats)), peak_bytes(call))
        points.append({"size": size, **call._asdict(), "repeats": repeats})
        total = time.perf_counter() - began
        spent, held = spent + total, data + (call.bytes or 0)
    return {"points": points, "left_out": wanted[len(points) :], "cap": cap}


def exponent(points: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The p of value = a·size^p, by least squares on the logarithms of the upper half of the sizes, at least three.

    Memory below `LEAST_BYTES` is left out; None for fewer than two points.
    """
    least = LEAST_BYTES if key == "bytes" else 0
    kept = [(one["size"], one[key]) for one in points if (one[key] or 0) > least]
    upper = kept[-max(3, (len(kept) + 1) // 2) :]
    return float(np.polyfit(*np.log(np.array(upper, float)).T, 1)[0]) if len(upper) > 1 else None


def _cells(name: str, found: Mapping[str, Any]) -> list[str]:
    points, curve = found["points"], CURVES[name]
    time_slope, memory_slope = (
        "" if (slope := exponent(points, key)) is None else f"{slope:.2f}" for key in ("seconds", "bytes")
    )
    last = points[-1]
    at, duration = f" at {last['size']:,}", last["seconds"]
    took = f"{duration:.3g} s" if duration >= 0.1 else f"{1e3 * duration:.3g} ms"
    memory = "" if last["bytes"] is None else f"{last['bytes'] / 1e6:,.0f} MB{at}"
    memory = "under 2 MB" if last["bytes"] is not None and last["bytes"] < LEAST_BYTES else memory
    left = f" (left out: {', '.join(f'{size:,}' for size in found['left_out'])})" if found["left_out"] else ""
    return [curve.what + left, took + at, time_slope, f"{curve.expected:g}", memory, memory_slope]


def draw(curves: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Time and memory over the size, both axes logarithmic: a row of panels for everything that grows, as SVG."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 3 * len(GROWS)), layout="constrained")
        for grows, panels in zip(GROWS, figure.subplots(len(GROWS), 2), strict=True):
            for axes, key, label in zip(panels, ("seconds", "bytes"), ("seconds", "MB"), strict=True):
                for number, name in enumerate(name for name in curves if name.startswith(grows)):
                    points = [one for one in curves[name]["points"] if key == "seconds" or one["bytes"]]
                    values = [one[key] / (1e6 if key == "bytes" else 1) for one in points]
                    look = {"marker": "os^Dv"[number], "label": CURVES[name].what}
                    axes.plot([one["size"] for one in points], values, **look)
                axes.set(xscale="log", yscale="log", xlabel=grows, ylabel=label)
                axes.grid(color="#dddddd")
            if panels[0].lines:
                panels[0].legend(frameon=False, fontsize=8)
        to = BytesIO()
        figure.savefig(to, format="svg", metadata={"Date": None})
    return to.getvalue()


if __name__ == "__main__":
    sys.exit(main())
