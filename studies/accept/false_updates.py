"""Runs in which one or two of ten clients send false updates, under several aggregations.

    python -m studies.accept.false_updates [--only fedavg,flatland] [--rules own,robust]

prints accuracies in percent, and the clients that the run names. "own" is the method without the key
aggregation. Needs no data.
"""

import argparse
import csv
import json
import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message

from curvfed.deployments.inprocess import simulate
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.strategies.wire.codec import (
    decode_arrays,
    decode_reply,
    decode_request,
    encode_reply,
)
from curvfed.strategies.wire.messages import TRAIN, Header
from curvfed.tasks.stored_files import write_atomically

CLIENTS = 10
LIARS = (0, 1, 2)
"""Numbers of clients that lie: the first ones."""

IMAGES: dict[str, Any] = {"dataset": "digits", "num-rounds": 20, "fine-tune-epochs": 0}
NODES: dict[str, Any] = {"dataset": "trees", "num-rounds": 30}
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": IMAGES,
    "hyperfed": IMAGES,
    "spherefed": IMAGES,
    "flatland": NODES,
}
"""All other keys have their defaults: digits in Dirichlet parts, trees in METIS parts."""

Lie = Callable[[Any, Any, np.random.Generator], Any]
"""(parameters received, parameters trained, generator) -> parameters sent, for one array."""

LIES: dict[str, Lie] = {
    "flip x 10": lambda received, trained, _: received - 10 * (trained - received),
    "flip x 4": lambda received, trained, _: received - 4 * (trained - received),
    "flip": lambda received, trained, _: 2 * received - trained,
    "noise": lambda received, _, generator: received + generator.standard_normal(received.shape),
    "1e20": lambda received, *_: np.full_like(received, 1e20),
}
"""The update times −10, −4 (shorter than a bound of 5 medians) and −1 (as long as an honest one);
standard normal noise; the same huge number in every entry."""


class Liars:
    """Makes the updates of the first clients false.

    Parameters
    ----------
    number : int
        Number of these clients.
    lie : callable
    """

    def __init__(self, number: int, lie: Lie) -> None:
        self._number = number
        self._lie = lie

    def __call__(self, request: Message, handle: Callable[[Message], Message]) -> Message:
        """Answer as the client does, with other parameters."""
        header = request.content.config_records["header"]
        received = {}
        if header["phase"] == TRAIN:
            received = decode_arrays(decode_request(request.content).arrays)
        answer = handle(request)
        if header["phase"] != TRAIN or not answer.has_content():
            return answer
        expected = Header(str(header["run"]), TRAIN, int(str(header["round"])))
        reply = decode_reply(answer.content, expected)
        if reply.partition >= self._number:
            return answer
        generator = np.random.default_rng((reply.partition, expected.round))
        arrays = {
            name: self._lie(received[name], trained, generator).astype(trained.dtype)
            for name, trained in reply.arrays.items()
        }
        return Message(encode_reply(replace(reply, arrays=arrays)), reply_to=request)


def accuracy(method: str, rule: str, seed: int, number: int, lie: str) -> tuple[float | None, str]:
    """Accuracy of a run in percent, and the clients that its warnings name; None and the
    error if the run fails."""
    settings = METHODS[method] | {"method": method, "seed": seed, "report": False}
    if rule != "own":
        settings["aggregation"] = rule
    with tempfile.TemporaryDirectory() as folder:
        settings["results-dir"] = folder
        liars = Liars(number, LIES[lie]) if number else None
        try:
            path = simulate(settings, CLIENTS, intercept=liars)
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"
        summary = RunFiles(path).summary
        value = global_accuracy(path)
    keys = zip(summary["warning_keys"], summary["warnings"], strict=True)
    return value, "; ".join(text for key, text in keys if key == "updates")


def global_accuracy(path: Path) -> float:
    """The final accuracy of a run in percent; the mean over the clients that never lie if every
    client has a model of its own."""
    value = RunFiles(path).summary["global_accuracy"]
    if value is None:
        with (path / "clients.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        last = {int(row["partition"]): float(row["score"] or "nan") for row in rows}
        value = np.mean([value for partition, value in last.items() if partition >= max(LIARS)])
    return 100 * float(value)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line per run, and a table of means at the end."""
    parser = argparse.ArgumentParser(prog="python -m studies.accept.false_updates")
    parser.add_argument("--only", default=",".join(METHODS))
    parser.add_argument("--rules", default="own,robust")
    parser.add_argument("--lies", default=",".join(LIES))
    parser.add_argument("--seeds", default="10,11,12", help="the rules were chosen on 0, 1 and 2")
    parser.add_argument("--keep", type=Path, help="file for the figures, as JSON")
    options = parser.parse_args(arguments)
    logging.getLogger("curvfed").setLevel(logging.ERROR)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    results: dict[str, Any] = {}
    for method in options.only.split(","):
        for rule in options.rules.split(","):
            for lie in ("none", *options.lies.split(",")):
                for number in LIARS[1:] if lie != "none" else LIARS[:1]:
                    runs = [accuracy(method, rule, seed, number, lie) for seed in seeds]
                    name = f"{method} | {rule} | {lie} | {number}"
                    values = [value for value, _ in runs if value is not None]
                    mean = f"{np.mean(values):.1f}" if len(values) == len(runs) else "ends"
                    results[name] = {"mean": mean, "runs": runs}
                    print(f"{name} | {mean} | {runs[0][1][:160]}", flush=True)
    if options.keep:
        text = json.dumps(results, indent=1, ensure_ascii=False)
        write_atomically(options.keep, f"{text}\n".encode())


if __name__ == "__main__":
    main()
