"""`curvfed check`: the configuration and the data of a run, or its errors, without training or
downloads."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from curvfed.deployments.application import Pairs
from curvfed.deployments.arguments import NOTE, Request, Value, read_request
from curvfed.deployments.terminal import open_console
from curvfed.strategies.base.keys import AUTO, kebab
from curvfed.strategies.base.keys import Table as KeyTable
from curvfed.strategies.config.checks import idle_keys, unread_keys
from curvfed.strategies.config.parse import all_fields, allowed
from curvfed.strategies.config.run_config import (
    RunConfig,
    base_class,
    defaults,
    flatten,
    plain,
    resolve_defaults,
)
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.registry import source_of

if TYPE_CHECKING:
    from curvfed.client_app.data import Data


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
    data, the data of ten clients and the spread over up to 100; loading can take
    minutes the first time. For a secure sum it shows its groups, for hull the size of a
    client's message, and on GPUs the workers of each.
    Exit status: 0 it can run, 2 it cannot.
    """
    console = open_console()
    request = read_request(pairs or [])
    # These imports take seconds, and a wrong key is reported at once.
    from curvfed.deployments.preflight import MAX_CLIENTS, check_machine, look_at_data
    from curvfed.deployments.simulation import simulation_plan
    from curvfed.deployments.start_warnings import start_warnings
    from curvfed.server_app.secure.groups import check_secure_sums

    check_machine(request)
    lines, held = look_at_data(request, MAX_CLIENTS, downloads=False)
    data = next(iter(held.values()), None)
    console.print(key_table(request, data, everything))
    if request.resolved.is_masked:
        lines += check_secure_sums(request.resolved, request.num_supernodes)
        lines += _few_for_nodes(request.num_supernodes)
    if data is not None and (size := int(data.train.sum())):
        lines += filter(None, [request.resolved.guard.cost(size)])
    warnings = [unread_keys(request.config)]
    if len(held) == request.num_supernodes:
        warnings += start_warnings(request.resolved, held)
    lines += [f"{NOTE}{warning}" for warning in dict.fromkeys(warnings) if warning]
    lines += simulation_plan(request.config, request.num_supernodes)
    for line in lines:
        console.print(line, soft_wrap=True)


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
    resolved = all_keys | flatten(run)
    chosen = chosen_here(run, task, data).items()
    resolved |= {key: value for key, value in chosen if resolved.get(key) == AUTO}
    for key, field in all_fields():
        is_set = key in request.settings
        if not (everything or is_set or is_in_use(key, run, task)):
            continue
        origin = "set" if is_set else "default"
        if resolved[key] != configured[key]:
            origin = "auto"
        # The type of a plain string says nothing, so its description is shown.
        values = allowed(field) if allowed(field) != "a string" else str(field.description)
        cells = [key, _toml(resolved[key]), origin, values]
        table.add_row(*cells[: len(columns)], style="bold" if is_set else "")
    origin = "set" if request.sets_number else "default"
    cells = ["num-supernodes", str(request.num_supernodes), origin, "number of simulated clients"]
    table.add_row(*cells[: len(columns)])
    return table


def chosen_here(run: RunConfig, task: str, data: "Data | None") -> dict[str, Value]:
    """The values in place of auto that this machine, other keys or the loaded data decide; `run`
    has resolved defaults."""
    from curvfed.strategies.config.device import pick_device

    values: dict[str, Value] = {
        "model": _model(run, task, data),
        "device": pick_device(run.device).type,
        "fine-tune-learning-rate": run.fine_tuning_rate,
    }
    if run.network.calibration is None:
        values["calibration"] = "none"
    if not KINDS[task].has_test_set:
        values["test-data"] = "none"
    for name in type(run).model_fields:
        keys = getattr(run, name)
        if isinstance(keys, KeyTable):
            values |= {f"{kebab(name)}.{key}": value for key, value in keys.chosen().items()}
    if data is not None and data.shape and not run.images.encoder:
        channels, *sides = map(int, data.shape.split("x"))
        values["images.channels"] = channels
        if len(set(sides)) == 1:
            values["images.size"] = sides[0]
    bits = getattr(data, "bits", 0)
    if bits:
        values["images.bits"] = bits
    return values


def is_in_use(key: str, config: RunConfig, task: str) -> bool:
    """Whether a run uses the key or its table; the defaults of `config` are resolved."""
    table, dot, _ = key.partition(".")
    own_tables = type(config).model_fields.keys() - base_class().model_fields.keys()
    tables = {task, *map(kebab, own_tables), *config.sinks.split(",")}
    tables.add(config.aggregation.partition(":")[0])
    if config.is_masked:
        tables.add("secure")
    tables.add(config.guard.table)
    if dot:
        return table in tables
    return key not in config.row.unread and key not in idle_keys(config, task)


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


def _few_for_nodes(number: int) -> list[str]:
    """A sentence if real nodes take part in no sum over so few clients; a secure sum is over
    all."""
    from curvfed.client_app.node.policy import Sums

    minimum = Sums().contributors
    if number >= minimum:
        return []
    return [
        f"real nodes take part in no sum over fewer than {minimum}, unless [sums] in their"
        " policy.toml allows it"
    ]
