"""Adapt a finished run to a new client: its personal part is trained, the shared part is fixed."""

import copy
import json
from dataclasses import asdict, replace
from pathlib import Path

from curvfed.client_app.client import Client
from curvfed.client_app.description import describe
from curvfed.client_app.node import Node, absolute
from curvfed.client_app.personal import collect_state, restore_state
from curvfed.deployments.inputs import PredictError, RequestError, check_there
from curvfed.deployments.predict import TrainedRun
from curvfed.deployments.predict.prediction import is_own
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.run_name import check_model_code
from curvfed.strategies.base.figures import VALIDATION
from curvfed.strategies.base.training import (
    make_optimizer,
    seed_dropout,
    train,
    training_only,
)
from curvfed.strategies.config.build_method import learner_class, personal_patterns
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import flatten


def adapt(
    run: TrainedRun, data: str, out: Path, client: int | None = None
) -> tuple[int, dict[str, float]]:
    """Train a new client's personal part on `data`, and write a folder for predictions.

    The client trains for the same number of epochs as the clients of the run, and keeps the state
    with the best validation score.

    Parameters
    ----------
    run : TrainedRun
    data : str
        A path, or the run's own data set; `client` then names a part that no client had.
    out : Path
        The folder to make: the run's shared parameters and this client.
    client : int, optional
        The client's number; default: the next free one.

    Returns
    -------
    number : int
    scores : dict
        The client's scores, as `Task.scores`, and those "before" training.

    Raises
    ------
    PredictError, ConfigError, DataError, MessageError, StoreError, TrainingError
        If the method has nothing to adapt, or run, data and number do not fit together.
    """
    check_model_code(run.path, run.config.model)
    has_personal_part = bool(personal_patterns(run.config, run.facts))
    if learner_class(run.config.row).own_model or not run.shared.is_global or not has_personal_part:
        raise PredictError(
            f"{run.config.method} has no personal part of a shared model: there is nothing to"
            " adapt",
            key="nothing-to-adapt",
        )
    if (out / "config.toml").exists():  # before minutes of training
        raise RequestError(
            f"out is {out}, which has a run already; allowed is a new folder", key="out"
        )
    number = max(run.clients) + 1 if client is None else client
    check_there(run.config.dataset, data)
    is_part = is_own(run, data)
    num_partitions = next(iter(run.clients.values())).num_partitions
    _check_number(run, number, num_partitions if is_part else None, data)
    own_place = {"results-dir": str(out.absolute().parent), "run-name": out.name}
    config = parse(flatten(run.config) | own_place)
    if is_part:
        node = Node(partition=number, num_partitions=num_partitions, device="auto")
    else:
        node = Node(partition=number, data_path=absolute(data), device="auto")
    joined = Client(config, out.name, node)
    description = describe(joined)
    facts = run.facts
    if facts.own_ends:
        facts = replace(
            facts, num_features=description.num_features, class_names=description.class_names
        )
    joined.prepare(facts, stamp=0)
    joined.receive(run.shared.sent_to(number), run.fixed)
    before = joined.scores()
    _train_personal_part(joined, before.get(VALIDATION, 0.0))
    directory = RunDirectory.open(config)
    stamp = max(run.last_round, 1)
    clients = json.loads((run.path / "clients.json").read_text(encoding="utf-8"))
    clients["clients"].append({"partition": number} | asdict(description))
    directory.write_clients(clients)
    model_facts = {
        "method": config.method,
        "facts": asdict(run.facts),
        "stamps": {number: stamp},
        "last_round": stamp,
    }
    directory.write_model(run.arrays, model_facts)
    joined.files.save(stamp, joined.personal, None, base=stamp)
    scores = joined.scores() | {f"{name} before": value for name, value in before.items()}
    directory.write_summary(
        {
            "status": "adapted",
            "method": config.method,
            "dataset": data,
            "seed": config.seed,
            "client": number,
            "metrics": scores,
        }
    )
    directory.lock.release()
    return number, scores


def _check_number(run: TrainedRun, number: int, num_partitions: int | None, data: str) -> None:
    """Refuse the number of a client of the run, or of no part of its data set."""
    if num_partitions is not None and run.clients.keys() >= set(range(num_partitions)):
        raise RequestError(
            f"every part of {data} took part in this run; give the file or folder of a new client",
            key="no-data",
        )
    is_beyond = num_partitions is not None and number >= num_partitions
    if number in run.clients or number < 0 or is_beyond:
        raise RequestError(
            f"client is {number}; allowed is a number that no client of the run has"
            f" ({run.listed}), and for the run's own data set one below the number of its parts"
            f"{'' if num_partitions is None else f', {num_partitions}'}",
            key="client",
        )


def _train_personal_part(client: Client, best_score: float) -> None:
    """Train the personal parameters, and restore those with the best validation score; at the start
    it is `best_score`."""
    best = copy.deepcopy(collect_state(client.personal, None))
    parameters = {
        name: client.trained[name] for name in client.trained.keys() & client.personal.keys()
    }
    config = client.config
    epochs = config.num_rounds * config.local_epochs if client.task.num_examples else 0
    seed_dropout(config.seed, client.device)
    with training_only(client.parameters, parameters):
        optimizer = make_optimizer(parameters, config)
        optimizer.learning_rate = config.learning_rate
        for _ in range(epochs):
            train(client.model, client.task, optimizer, 1, clip_norm=config.clip_norm)
            score = client.scores().get(VALIDATION, 1.0)
            if score >= best_score:
                best = copy.deepcopy(collect_state(client.personal, None))
                best_score = score
    restore_state(best, client.personal, None)
