"""`curvfed check`: the configuration and the data of a run, or its errors, without training or
downloads."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from curvfed.deployments.application import Pairs
from curvfed.deployments.arguments import NOTE, Request, Value, read_request
from curvfed.strategies.base.keys import AUTO, kebab
from curvfed.strategies.config.checks import unread_keys
from curvfed.strategies.config.parse import all_fields, allowed
from curvfed.strategies.config.run_config import (
    ROBUST_NAMES,
    RunConfig,
    defaults,
    flatten,
    plain,
    resolve_defaults,
)
from curvfed.tasks.registry import source_of

if TYPE_CHECKING:
    from curvfed.client_app.data import Data

MAX_CLIENTS = 10
"""Clients whose data are described."""


def check(
    pairs: Pairs = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="All keys, also those of other methods, with the allowed values."
        ),
    ] = False,
) -> None:
    """Show the configuration and the data of a run, or its errors. Nothing is trained or
    downloaded.

    curvfed check method=flatland dataset=cora data-dir=~/data
    curvfed check --all method=hyperfed dataset=mnist

    For each key that the method uses it shows the value and its origin: set by you,
    default, or auto, chosen by the task or the method. Then it shows the place of the
    data and the data of a client; loading can take minutes the first time. For a
    secure sum it shows how many clients must stay to the end, and for hull the size
    of a client's message.
    Exit status: 0 it can run, 2 it cannot.
    """
    console = Console()
    request = read_request(pairs or [])
    # These imports take seconds, and a wrong key is reported at once.
    from curvfed.deployments.preflight import check_machine, look_at_data
    from curvfed.deployments.secure_sum_check import check_secure_sums
    from curvfed.strategies.config.privacy import privacy_cost

    check_machine(request)
    lines, data = look_at_data(request, MAX_CLIENTS, downloads=False)
    console.print(key_table(request, data, everything))
    if request.resolved.is_masked:
        lines += check_secure_sums(request.resolved, request.num_supernodes)
    if data is not None and (size := int(data.train.sum())) and request.config.dp.unit != "none":
        lines.append(privacy_cost(request.resolved, size))
    if unread := unread_keys(request.config):
        lines.append(f"{NOTE}{unread}")
    for line in lines:
        console.print(escape(line), soft_wrap=True, highlight=False)


def key_table(request: Request, data: "Data | None", everything: bool) -> Table:
    """The keys, their values and their origins; `data` are those of a client, if they are
    loaded."""
    columns = ["key", "value", "from"]
    if everything:
        columns.append("allowed")
    table = Table(*columns)
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.overflow = "fold"
    task = request.task if data is None else data.task
    run = resolve_defaults(request.config, task)
    all_keys = defaults() | request.settings  # with the keys of other methods
    configured = all_keys | flatten(request.config)
    resolved = all_keys | flatten(run) | {"model": _model(run, task, data)}
    for key, field in all_fields():
        is_set = key in request.settings
        if not (everything or is_set or is_in_use(key, run, task)):
            continue
        origin = "set" if is_set else "default"
        if resolved[key] != configured[key]:
            origin = "auto"
        # The type of a plain string says nothing, so its description is shown.
        values = allowed(field) if allowed(field) != "a string" else str(field.description)
        cells = [key, escape(_toml(resolved[key])), origin, escape(values)]
        table.add_row(*cells[: len(columns)], style="bold" if is_set else "")
    cells = ["num-supernodes", str(request.num_supernodes), "", "number of simulated clients"]
    table.add_row(*cells[: len(columns)])
    return table


def is_in_use(key: str, config: RunConfig, task: str) -> bool:
    """Whether a run uses the key or its table; the defaults of `config` are resolved."""
    table, dot, _ = key.partition(".")
    own_tables = type(config).model_fields.keys() - RunConfig.model_fields.keys()
    tables = {task, *map(kebab, own_tables), *config.sinks.split(",")}
    tables.add(config.aggregation.partition(":")[0])
    if config.aggregation in ROBUST_NAMES:
        tables.add("robust")
    if config.is_masked:
        tables.add("secure")
    if config.dp.unit != "none":
        tables.add("dp")
    return not dot or table in tables


def _model(config: RunConfig, task: str, data: "Data | None") -> str:
    """The network, if it is known: for images it depends on their channels."""
    from curvfed.strategies.config.build_method import encoder

    source = source_of(config.dataset)
    channels: int = config.images.channels or (source.channels if source else 0)
    if data is not None and data.shape:
        channels = int(data.shape.partition("x")[0])
    return encoder(config, task, channels) or AUTO


def _toml(value: Value) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return plain(value)
