"""The settings of a run on its page: all keys, and the commands that repeat the run."""

import shlex
from typing import Any

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.directory.run_name import located
from curvfed.server_app.report.page import Cell, Table
from curvfed.strategies.base.keys import AUTO
from curvfed.strategies.config.parse import fields
from curvfed.strategies.config.run_config import config_class, defaults, plain
from curvfed.strategies.methods import METHODS

CHECKOUT = "Or by Flower's own command, in a checkout of curvfed:"

ONE_RUN_ONLY = frozenset({"run-name", "resume"})
"""Keys that another run must not take over."""


def configuration(run: RunFiles) -> Table:
    """All keys, with their values, the run's choices, and their descriptions."""
    changed = _changed(run)
    meanings = _meanings(run)
    settled = run.summary.get("settled") or {}
    rows = []
    for key, value in run.config.items():
        text = _toml(value) + (f" → {_toml(settled[key])}" if key in settled else "")
        meaning = meanings.get(key, f"key of {key.split('.')[0]}, at its default")
        rows.append(([key], [Cell(text, is_best=key in changed), Cell(meaning)]))
    title = f"All {len(rows)} keys; {len(changed)} differ from the defaults, in bold"
    return Table(title, ["key"], ["value", "what it is"], rows, kind="text")


def commands(run: RunFiles) -> dict[str, str]:
    """Commands that repeat the run, with the keys that differ from the defaults, by their
    effect."""
    keys = dict.fromkeys(["method", "dataset", "seed", *_changed(run)])
    values = {
        key: located(key, run.config[key])
        for key in keys
        if key in run.config and key not in ONE_RUN_ONLY
    }
    if not values:
        return {}
    pairs = " ".join(f"{key}={_toml(value)}" for key, value in values.items())
    flower = f"flwr run . --stream --run-config {shlex.quote(pairs)}"
    words = [shlex.quote(f"{key}={plain(value)}") for key, value in values.items()]
    clients = max((client.get("num_partitions", 0) for client in run.clients), default=0)
    # Clients that bring their own data do not share a partition, and cannot be simulated.
    if any(client.get("partition_digest") for client in run.clients):
        flower += f" --federation-config 'num-supernodes={clients} client-resources-num-cpus=1'"
        words.append(f"num-supernodes={clients}")
    elif run.clients:
        submit = " ".join(["curvfed cluster run", *words])
        return {"On the nodes, which have the data:": submit, CHECKOUT: flower}
    same = " ".join(words)
    return {
        "In one process:": f"curvfed simulate {same}",
        "Through Flower:": f"curvfed run {same}",
        CHECKOUT: flower,
    }


def _changed(run: RunFiles) -> list[str]:
    """Keys with values other than the defaults."""
    keys = defaults()
    return [key for key, value in run.config.items() if key not in keys or keys[key] != value]


def _toml(value: Any) -> str:
    """A value as Flower's command line takes it: without escapes inside quotes."""
    if isinstance(value, str):
        if '"' in value or "\\" in value:
            return f"'{value}'"
        return f'"{value}"'
    return plain(value)


def _meanings(run: RunFiles) -> dict[str, str]:
    """The description of each key of the run's configuration."""
    method = METHODS.get(str(run.config.get("method")))
    keys = fields()
    if method:
        aggregation = str(run.config.get("aggregation"))
        model = str(run.config.get("model", AUTO))
        keys = fields(config_class(method, aggregation, model, _changed(run)))
    return {key: field.description or "" for key, field in keys}
