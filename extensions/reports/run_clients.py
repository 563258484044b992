"""What the clients of a run say of themselves in `clients.json`: classes, their counts, and
curvatures."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from curvfed.geometry.arrays import Floats
from curvfed.server_app.directory import is_number
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.tasks.class_names import titles
from curvfed.tasks.kinds import KINDS


def class_names(run: RunFiles) -> list[str]:
    """The classes; if every client has its own, each with the name of its data set."""
    common = run.described.get("facts", {}).get("class_names", [])
    if common and not any(client.get("space") for client in run.clients):
        return list(common)
    descriptions = run.described.get("clients", [])
    return list(
        dict.fromkeys(name for description in descriptions for name in own_classes(description))
    )


def own_classes(description: Mapping[str, Any]) -> list[str]:
    """The names of a client's classes, with the name of its data set if there are several."""
    return titles(description.get("space") or "", description.get("class_names") or [])


def examples_of(run: RunFiles) -> str:
    """The kind of the clients' examples, in the plural."""
    tasks = KINDS.keys() & {description.get("task") for description in run.clients}
    return str(tasks.pop()) if len(tasks) == 1 else "examples"


def class_counts(run: RunFiles) -> dict[int, dict[str, float]]:
    """Class counts of every client that shares them, invalid ones left out: clients may lie."""
    counts_by_client = {}
    for description in run.clients:
        names = own_classes(description)
        counts = (description.get("statistics") or {}).get("class_counts") or []
        if (
            counts
            and len(names) == len(counts)
            and all(is_number(count) and count >= 0 for count in counts)
        ):
            counts_by_client[int(description["partition"])] = dict(zip(names, counts, strict=True))
    return counts_by_client


def curvatures(run: RunFiles) -> tuple[dict[int, float], dict[int, Floats]]:
    """The mean Forman–Ricci curvature of each client's graph and the curvatures of its space, where
    clients share them."""
    forman: dict[int, Any] = {
        description["partition"]: (description.get("statistics") or {}).get("forman")
        for description in run.clients
    }
    courses = zip(run.partitions, run.by_client("curvature")[1].T, strict=True)
    finite = {client: course[np.isfinite(course)] for client, course in courses}
    of_graphs = {client: float(value) for client, value in forman.items() if is_number(value)}
    return of_graphs, {client: course for client, course in finite.items() if len(course)}
