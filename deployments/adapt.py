"""A client that was not in a run gets its personal part from its own data, the shared part
fixed.
"""

import copy
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from curvfed.client_app.client import Client
from curvfed.client_app.node.configuration import SIMULATED
from curvfed.client_app.personal import collect_state, restore_state
from curvfed.deployments.predict import EXPECTED, PredictError, TrainedRun
from curvfed.deployments.predict.prediction import is_own
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.strategies.base.figures import VALIDATION, find
from curvfed.strategies.base.training import (
    TrainingError,
    make_optimizer,
    seed_dropout,
    train,
    training_only,
)
from curvfed.strategies.config.build_method import personal_patterns
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import flatten

SCORES = ("score", "accuracy", VALIDATION)
"""The scores of the client that are printed."""


def adapt(
    run: TrainedRun, data: str, out: Path, client: int | None = None
) -> tuple[int, dict[str, float]]:
    """Train what the run's method keeps at a client on `data`, and write a folder that predictions
    can use.

    It makes as many passes as the run's clients did, and keeps the state with the best score on its
    validation examples.

    Parameters
    ----------
    run : TrainedRun
    data : str
        A path, or the run's own data set, of which `client` then names a part that no client had.
    out : Path
        The folder to make: the run's shared parameters and this client.
    client : int, optional
        Its number; by default the next one.

    Returns
    -------
    int
        Its number.
    dict
        Its scores, as `Task.scores`, and those "before" it trained.

    Raises
    ------
    PredictError, ConfigError, DataError, MessageError, StoreError, TrainingError
        If the method has nothing to adapt, or run, data and number do not fit together.
    """
    if (
        run.config.row.own_model
        or not run.shared.is_global
        or not personal_patterns(run.config, run.facts)
    ):
        raise PredictError(
            f"{run.config.method} has no personal part of a shared model: there is nothing to adapt"
        )
    if (out / "config.toml").exists():  # before minutes of training
        raise PredictError(f"--out {out} has a run already; name a new folder")
    number = max(run.clients) + 1 if client is None else client
    parts = next(iter(run.clients.values())).num_partitions
    of_run = is_own(run, data)
    if of_run and run.clients.keys() >= set(range(parts)):
        raise PredictError(
            f"every part of {data} took part in this run; give the file or folder of a new client"
        )
    if number in run.clients or number < 0 or (of_run and number >= parts):
        raise PredictError(
            f"--client is {number}; allowed is a number that no client of the run has"
            f" ({run.listed}), and of the run's own data set one below {parts}, the number of its"
            " parts"
        )
    config = parse(
        flatten(run.config) | {"results-dir": str(out.absolute().parent), "run-name": out.name}
    )
    node = {"partition-id": number, "num-partitions": parts} if of_run else {"data-path": data}
    made = Client(config, out.name, number, node | SIMULATED | {"device": "auto"})
    told = made.describe()
    ends: dict[str, Any] = (
        {"num_features": told.num_features, "class_names": told.class_names}
        if run.facts.own_ends
        else {}
    )
    made.prepare(replace(run.facts, **ends), stamp=0)
    made.receive(run.shared.sent_to(number), run.fixed)
    before = made.scores()
    best = copy.deepcopy(collect_state(made.personal, None))
    best_score = before.get(VALIDATION, 0.0)
    own = {name: made.trained[name] for name in made.trained.keys() & made.personal.keys()}
    seed_dropout(config.seed, made.device)
    with training_only(made.parameters, own):
        optimizer = make_optimizer(own, made.config)
        optimizer.learning_rate = made.config.learning_rate
        for _ in range(
            config.num_rounds * made.config.local_epochs if made.task.num_examples else 0
        ):
            train(made.model, made.task, optimizer, 1, clip_norm=made.config.clip_norm)
            if (score := made.scores().get(VALIDATION, 1.0)) >= best_score:
                best = copy.deepcopy(collect_state(made.personal, None))
                best_score = score
    restore_state(best, made.personal, None)
    directory = RunDirectory.open(config)
    stamp = max(run.last_round, 1)
    known = json.loads((run.path / "clients.json").read_text(encoding="utf-8"))
    known["clients"].append({"partition": number} | asdict(told))
    directory.write_clients(known)
    about = {
        "method": config.method,
        "facts": asdict(run.facts),
        "stamps": {number: stamp},
        "last_round": stamp,
    }
    directory.write_model(run.arrays, about)
    made.files.save(stamp, made.personal, None, base=stamp)
    scores = made.scores() | {f"{name} before": value for name, value in before.items()}
    about = {"method": config.method, "dataset": data, "seed": config.seed, "client": number}
    directory.write_summary({"status": "adapted", **about, "metrics": scores})
    directory.lock.release()
    return number, scores


def main(folder: Path, data: str, out: Path, client: int | None) -> int:
    """Adapt, and say how good it is; the exit status, 0 adapted, 1 it cannot be done."""
    console = Console(stderr=True)
    try:
        number, scores = adapt(TrainedRun.read(folder), data, out, client)
    except (*EXPECTED, TrainingError, OSError) as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        return 1
    table = Table(f"client {number}", "before", "after")
    for name in (name for name in SCORES if name in scores):
        table.add_row(
            find(name).words,
            *(find(name).text(scores[key]) for key in (f"{name} before", name)),
        )
    console.print(table)
    print(f"curvfed predict {out} {data} --client {number}")
    return 0
