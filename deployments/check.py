"""`curvfed check`: what a run would use, or what is wrong with it. Nothing is trained or
downloaded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from curvfed.deployments.pairs import Value
from curvfed.deployments.request import Request, read_request
from curvfed.strategies.base.keys import AUTO
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.parse import all_fields, allowed
from curvfed.strategies.config.run_config import RunConfig, flatten, resolve_defaults
from curvfed.tasks.images.sources import source_of

if TYPE_CHECKING:
    from curvfed.client_app.data.load import Data

MOST_CLIENTS = 10
"""Clients whose data are described."""

PARTS = {"gated": "flatland", "lorentz": "flatland", "split": "flatland", "consistent": "hyperfed"}
"""Encoders and aggregations that several methods use: their keys stand in the table of the method
they come from."""


def main(pairs: Sequence[str], everything: bool = False) -> int:
    """Print the configuration in effect and the data; the exit status, 0.

    Parameters
    ----------
    pairs : sequence of str
    everything : bool
        Print every key, those of other methods too, and the allowed values.

    Raises
    ------
    UsageError, ConfigError
        If it can never run.
    """
    console = Console()
    request = read_request(pairs)
    # These take seconds to import, and a slip of the pen is told at once.
    from curvfed.deployments.preflight import check_machine, look_at_data
    from curvfed.deployments.secure_sum_check import check_secure_sums

    check_machine(request)
    told, data = look_at_data(request, MOST_CLIENTS, downloads=False)
    console.print(key_table(request, data, everything))
    masked = (
        check_secure_sums(request.resolved, request.num_supernodes)
        if request.resolved.is_masked
        else []
    )
    for line in [*told, *masked]:
        console.print(escape(line), soft_wrap=True, highlight=False)
    return 0


def key_table(request: Request, data: "Data | None", everything: bool) -> Table:
    """The keys, their values in effect and the origin of each; `data` are those of a client, if
    they were loaded."""
    table = Table("key", "value", "from", *(["allowed"] if everything else []))
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.overflow = "fold"
    task = request.task if data is None else data.task
    run = resolve_defaults(request.config, task)
    others = defaults() | request.settings  # with the keys of other methods
    given = others | flatten(request.config)
    in_effect = others | flatten(run) | {"model": _model(run, task, data)}
    for key, field in all_fields():
        chosen = in_effect[key] != given[key]
        origin = "auto" if chosen else "set" if key in request.settings else "default"
        if everything or key in request.settings or is_in_use(key, run, task):
            # The type of a plain string says nothing, so its description is shown.
            words = allowed(field) if allowed(field) != "a string" else str(field.description)
            cells = [
                key,
                escape(_toml(in_effect[key])),
                origin,
                *([escape(words)] if everything else []),
            ]
            table.add_row(*cells, style="bold" if key in request.settings else "")
    number = [
        str(request.num_supernodes),
        "",
        *(["number of simulated clients"] if everything else []),
    ]
    table.add_row("num-supernodes", *number)
    return table


def is_in_use(key: str, config: RunConfig, task: str) -> bool:
    """Whether a run uses the key, or at least the table that it is in; `config` is settled.

    A method's table is called as the method is, or as those that it is an ablation or a variant of,
    `hyperfed-fixed` or `fedsage+`, as one of the parts of its row, or as what comes before the dot
    in a key that the row names.
    """
    from curvfed.strategies.config.model_spec import encoder

    table, dot, _ = key.partition(".")
    if not dot:
        return True
    row = config.row
    keys = (named.partition(".")[0] for named in (row.proximal, row.sparsity, row.selection))
    parts = {
        config.method,
        config.aggregation.partition(":")[0],
        encoder(config, task),
        *row.after,
        *keys,
    }
    tables = {task, *row.keys, *config.sinks.split(","), *(PARTS.get(part, part) for part in parts)}
    if config.is_masked:
        tables.add("secure")
    return any(name == table or name.startswith((f"{table}-", f"{table}+")) for name in tables)


def _model(config: RunConfig, task: str, data: "Data | None") -> str:
    """The network, as far as it is known: for images it depends on their channels."""
    from curvfed.strategies.config.model_spec import encoder

    source = source_of(config.dataset)
    channels: int = config.images.channels or (source.channels if source else 0)
    if data is not None and data.shape:
        channels = int(data.shape.partition("x")[0])
    return encoder(config, task, channels) or AUTO


def _toml(value: Value) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f'"{value}"'
        if isinstance(value, str)
        else str(value)
    )
