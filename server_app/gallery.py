"""From the files of a run to its pictures, each with a caption and in words, and to the table of its clients."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app import image_gallery, image_pictures, pictures
from curvfed.server_app.hull_gallery import hull_gallery
from curvfed.server_app.hull_outcome import is_one_shot
from curvfed.server_app.page import Html, amount, element, figure, is_number, number, percent, table
from curvfed.server_app.run_files import RunFiles, own_classes
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import FINE_TUNE, TRAIN

Array = NDArray[np.float64]

SIZES = {
    "num_graphs": "graphs",
    "num_nodes": "nodes",
    "num_edges": "edges",
    "num_train": "training",
    "num_val": "validation",
    "num_test": "test",
}
"""What tells how large a client is."""


LOSSES = {
    "cross-entropy": ("Cross-entropy", "nats"),
    "mse": ("Mean squared error of the scores of the classes", ""),
    "triplet": ("Triplet loss, of hyperbolic distances,", ""),
    "geodesic": ("Hyperbolic distance to the prototype of the right class", ""),
}
"""Training losses in words, and their units."""


def gallery(run: RunFiles) -> list[Html]:
    """Every picture that the files have figures for."""
    draws = (
        image_gallery.accuracy, _score, _loss, image_gallery.confusion, image_gallery.features, image_gallery.weights,
        _curvature_course, _curvature, _classes,
    )  # fmt: skip
    drawn = hull_gallery(run) + [picture for draw in draws if (picture := draw(run))]
    return [element("div", *drawn, class_="gallery")] if drawn else []


def _score(run: RunFiles) -> Html | None:
    rounds, test = run.by_client("test")
    if not _is_course(test):
        return None
    name, best = run.metric_name, (run.summary.get("best_validation") or {}).get("round")
    majority: Any = (run.summary.get("metrics") or {}).get("majority_accuracy")
    level = None
    if run.metric == "roc_auc":
        level = ("guessing", 50.0)
    elif run.metric == "accuracy" and is_number(majority):
        level = ("most frequent class alone", 100 * majority)
    picture = pictures.over_rounds(
        "score", rounds, 100 * test, f"test {name} (%)",
        f"Line chart of test {name} by round. {_course(rounds, test, percent)}",
        validation=100 * pictures.row_means(pictures.known(run.by_client("val")[1])), level=level, best=best,
        names=[run.data_sets.get(partition, "") for partition in run.partitions] if run.data_sets else None,
    )  # fmt: skip
    star = "; the star is the round that validation data choose" if best is not None else ""
    return figure(picture, f"Test {name} after local training: {_lines(test)}{star}.")


def _loss(run: RunFiles) -> Html | None:
    rounds, loss = run.by_client("loss")
    if not _is_course(loss):
        return None
    name, unit = _loss_name(run)
    alt = f"Line chart of training loss by round. {_course(rounds, loss, number)}"
    picture = pictures.over_rounds("loss", rounds, loss, f"training loss{f' ({unit})' if unit else ''}", alt)
    inside = f", in {unit}" if unit else ""
    return figure(picture, f"{name} on the training data during local training{inside}: {_lines(loss)}.")


def _loss_name(run: RunFiles) -> tuple[str, str]:
    """What the clients' training lowers, in words, and its unit."""
    method = METHODS.get(run.summary.get("method") or "")
    loss = method.loss if method else "cross-entropy"
    if loss == "mse":
        loss = run.config.get("spherefed.loss", loss)
    name, unit = LOSSES[loss]
    mixup = run.config.get("hyperfed.mixup", 0)
    more = f" and {mixup:g} times the cross-entropy of mixed images" if loss == "triplet" and mixup else ""
    return name + more, unit


def _curvature_course(run: RunFiles) -> Html | None:
    rounds, curvature = run.by_client("curvature")
    if not _is_course(curvature):
        return None
    alt = f"Line chart of curvature by round. {_course(rounds, curvature, number)}"
    picture = pictures.over_rounds("curvature", rounds, curvature, pictures.CURVATURE, alt)
    return figure(
        picture, f"Curvature of the space that a client works in, stronger further down: {_lines(curvature)}."
    )


def _curvature(run: RunFiles) -> Html | None:
    """Curvature against Forman-Ricci, of the clients that tell both."""
    _, curvature = run.by_client("curvature")
    forman = {about["partition"]: (about.get("statistics") or {}).get("forman") for about in run.clients}
    told = [
        (forman[partition], *course[np.isfinite(course)][[0, -1]], str(partition))
        for partition, course in zip(run.partitions, curvature.T, strict=True)
        if np.isfinite(course).any() and is_number(forman.get(partition))
    ]
    if not told:
        return None
    x, first, last, labels = zip(*told, strict=True)
    alt = (
        f"Scatter plot of {amount(len(told), 'client')}: mean Forman–Ricci curvature from {min(x):.2f} to {max(x):.2f}, "
        f"sectional curvature after the last round from {min(last):.3f} to {max(last):.3f}."
    )
    picture = pictures.curvature_scatter("forman", np.array(x), np.array(first), np.array(last), list(labels), alt)
    named = "" if len(told) > pictures.MANY_CLIENTS else ", with its partition's number"
    return figure(
        picture,
        f"A dot is a client{named}: further left its graph branches more, further down its space curves more.",
    )


def _classes(run: RunFiles) -> Html | None:
    """Class counts, of the largest clients and classes where there are many."""
    told = {about["partition"]: counts for about in run.clients if (counts := _class_counts(about))}
    if not told:
        return None
    table = np.array([[counts.get(name, 0) for name in run.class_names] for counts in told.values()], dtype=np.float64)
    most = pictures.MOST_COLUMNS, pictures.MOST_ROWS
    shaded = run.examples == "images" and (table.shape[0] > most[0] or table.shape[1] > most[1])
    if shaded:
        most = image_pictures.MOST_CELLS, image_pictures.MOST_CELLS
    rows, columns = pictures.largest(table.sum(axis=1), most[0]), pictures.largest(table.sum(axis=0), most[1])
    shown = table[rows][:, columns]
    labels, things = [str(list(told)[row]) for row in rows], run.examples
    what = "cell" if shaded else "square"
    alt = (
        f"A {what} per client and class, {amount(len(rows), 'client')} and {len(columns)} classes; the largest holds "
        f"{shown.max():.0f} {things}."
    )
    draw = image_pictures.counts if shaded else pictures.class_squares
    picture = draw("classes", shown, labels, [run.class_names[column] for column in columns], alt)
    tells = "The colour of a cell deepens with the square root of" if shaded else "The area of a square is"
    caption = f"{tells} the number of {things} that a client has of a class, up to {shown.max():,.0f}"
    left_out = [
        f"the {len(kept)} largest of {total:,} {nouns}"
        for kept, total, nouns in ((rows, len(told), "clients"), (columns, len(run.class_names), "classes"))
        if len(kept) < total
    ]
    some = f" (drawn are {' and '.join(left_out)})" if left_out else ""
    return figure(picture, f"{caption}: columns that look alike are clients that hold alike data{some}.")


def _class_counts(about: dict[str, Any]) -> dict[str, float]:
    """What a client tells of its classes, by name; nothing if it makes no sense, since clients say what they like."""
    names, counts = own_classes(about), (about.get("statistics") or {}).get("class_counts") or []
    fits = len(names) == len(counts) and all(is_number(count) and count >= 0 for count in counts)
    return dict(zip(names, counts, strict=True)) if fits else {}


def clients_table(run: RunFiles) -> list[Html]:
    """A row per client: its size, and what it last measured."""
    about = {client["partition"]: client.get("statistics") or {} for client in run.clients}
    partitions = sorted({*about, *run.partitions})
    if not partitions:
        return []
    last = {name: _last(run, name) for name in ("test", "test_before", "val", "accuracy", "curvature")}
    last["num_examples"] = _last(run, "num_examples", TRAIN)
    tuned = _last(run, "test", FINE_TUNE)

    def told(name: str, show: Callable[[Any], str] = number) -> list[Any]:
        return [show(about.get(partition, {}).get(name)) for partition in partitions]

    def measured(name: str, show: Callable[[Any], str] = percent) -> list[Any]:
        return [show(last[name].get(partition)) for partition in partitions]

    name, one_shot = run.metric_name, is_one_shot(run)
    after = f"test {name}" if one_shot else f"{name} after"
    columns: dict[str, list[Any]] = {"data set": [run.data_sets.get(partition, "–") for partition in partitions]}
    columns |= {title: told(key) for key, title in SIZES.items() if key != "num_graphs" or run.examples == "graphs"}
    if all(cell == "–" for cell in columns["training"]):
        columns["training"] = measured("num_examples", lambda value: number(value, 0))
    columns |= {
        f"{name} before": measured("test_before"),
        after: measured("test"),
        "fine-tuned": [percent(tuned.get(partition)) for partition in partitions],
        f"validation {name}": measured("val"),
        "accuracy": measured("accuracy"),
        "most frequent class": told("majority_accuracy", percent),
        "curvature": measured("curvature", lambda value: number(value, 3)),
        "Forman–Ricci": told("forman", lambda value: number(value, 2)),
    }
    columns = {title: cells for title, cells in columns.items() if any(cell != "–" for cell in cells)}
    if after in columns:
        columns[after] = [_bar(cell) for cell in columns[after]]
    rows = list(zip(partitions, *columns.values(), strict=True))
    note = f"Clients by partition; sizes in {run.examples}."
    if not one_shot:
        note += " Scores are from the last round that scored the client."
    differ = (run.summary.get("metrics") or {}).get("heterogeneity")
    if run.clients and not any(about.values()):
        theirs = "class counts and sizes" if one_shot else "class counts, sizes and curvatures"
        note += f" The clients keep their {theirs} to themselves (share-statistics = false)."
    if is_number(differ):
        note += f" Median Jensen–Shannon distance of two clients' classes: {differ:.3f}, of at most 0.833."
    drawn = [table(["client", *columns], rows, "figures wide", label="Clients")] if columns else []
    return [*drawn, element("p", note, class_="note")]


def _bar(cell: str) -> Html:
    share = cell if cell.endswith("%") else "0%"
    return element("td", cell, class_="bar", style=f"--share:{share}")


def _last(run: RunFiles, name: str, *phases: str) -> dict[int, float]:
    """The last figure of every client that has one; what it measured before training counts if it trained then."""
    _, values = run.by_client(name, *phases)
    anchor = run.by_client("test")[1] if name == "test_before" else values
    found = {}
    for partition, course, seen in zip(run.partitions, values.T, anchor.T, strict=True):
        there = np.flatnonzero(np.isfinite(seen))
        if len(there) and np.isfinite(course[there[-1]]):
            found[partition] = float(course[there[-1]])
    return found


def _is_course(values: Array) -> bool:
    """Whether there are two rounds to draw a line between."""
    return bool(np.isfinite(values).any(axis=1).sum() > 1)


def _lines(values: Array) -> str:
    """What the lines of a picture over the rounds are."""
    clients = values.shape[1]
    if clients == 1:
        return "the line is the one client"
    scored = values[np.isfinite(values).any(axis=1)]
    whose = "their mean" if np.isfinite(scored).all() else "the mean of what each measured last"
    thin = "a thin line is a client"
    if clients > pictures.MANY_CLIENTS:
        thin = f"the band holds the middle 80% of the {clients:,} clients"
    return f"{thin}, the bold one {whose}"


def _course(rounds: Array, values: Array, show: Callable[[Any], str]) -> str:
    """A picture over the rounds, in words."""
    latest = pictures.known(values)
    mean = pictures.row_means(latest)
    first, *_, last = np.flatnonzero(np.isfinite(mean))
    ends = latest[last][np.isfinite(latest[last])]
    start, end, low, high = (show(float(value)) for value in (mean[first], mean[last], ends.min(), ends.max()))
    return (
        f"The mean over the clients goes from {start} in round {rounds[first]:.0f} to {end} in round {rounds[last]:.0f}, "
        f"where the clients lie between {low} and {high}."
    )
