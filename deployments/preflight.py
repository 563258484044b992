"""Checks on this machine before a run begins: its name, its device, where its data lie and what a
client has of them."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from curvfed.client_app.clients_in_memory import get_client
from curvfed.client_app.data.load import Data, load_data, size_by_part
from curvfed.client_app.resources import is_about_memory
from curvfed.deployments.request import NOTE, Request
from curvfed.server_app.directory.run_directory import check_name
from curvfed.server_app.federation import check_clients
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.keys import AUTO
from curvfed.strategies.config.device import pick_device
from curvfed.strategies.config.model_spec import build_model, model_spec
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.exchange import FederationError
from curvfed.strategies.wire.messages import (
    DESCRIBE,
    Description,
    Facts,
    Header,
    Reply,
    decode_reply,
    encode_reply,
)
from curvfed.tasks.class_names import names_listed
from curvfed.tasks.errors import DataError
from curvfed.tasks.names import GENERATED, OWN, is_named

log = logging.getLogger("curvfed")


def preflight(request: Request) -> Request:
    """Refuse a simulation that cannot run here; nothing is started, and no folder is made.

    The data are loaded as the clients will load them, who then find them prepared in the cache.
    Public data sets that are absent are downloaded.

    Raises
    ------
    UsageError, ConfigError
        If the name is taken, this machine lacks the device, data are absent or unfit, or the model
        cannot be made.
    """
    check_machine(request)
    for line in look_at_data(request)[0]:
        if line.startswith(NOTE):
            log.warning("%s", line)
    return request


def check_machine(request: Request) -> None:
    """Refuse a name that is taken, and a device that this machine lacks.

    Raises
    ------
    ConfigError
    """
    check_name(request.config)
    pick_device(request.config.device)


def look_at_data(
    request: Request, clients: int = 1, downloads: bool = True
) -> tuple[list[str], Data | None]:
    """Where the data lie and what a client has of each data set, in words; and the data of the
    first such client.

    Of a single data set so many `clients` are looked at. They are loaded as the clients load them,
    into the same cache. Absent public data are downloaded, or without `downloads` left out.

    Raises
    ------
    ConfigError
        If `dataset` or `test-data` is a path without data, the data are unfit or cannot be
        downloaded, or `model` cannot be made for them.
    """
    config = request.config
    number = request.num_supernodes
    first: Data | None = None
    with _naming("dataset", config.dataset):
        located = _places(request)
        told = [line for words, _ in located for line in f"data: {words}".splitlines()]
        if is_named(config.dataset) and Path(config.dataset).exists():
            told.append(
                f"{NOTE}{config.dataset} is a data set's name; ./{config.dataset} names what is"
                " here"
            )
        several = min(clients, number) if len(located) == 1 and config.dataset != OWN else 1
        for client, (_, is_there) in enumerate(located * several):
            if is_there or downloads:
                data = load_data(config, client, {"partition-id": client, "num-partitions": number})
                told.append(f"client {client} of {number}: {size_by_part(data)}")
                if blank := getattr(data, "num_blank", 0):
                    told.append(
                        f"{NOTE}client {client}: {blank} images have one value throughout, such as"
                        " black"
                    )
                first = first or data
                if first is data:
                    told.append(f"classes: {names_listed(data.class_names)}")
                    told += [
                        f"read: {words}"
                        for words in getattr(data, "history", "").split("; ")
                        if words
                    ]
        if 1 < several < number and first:
            told.append(f"… {number - several} more")
    if first and first.task not in (tasks := config.row.tasks):
        raise ConfigError(
            f'dataset = "{config.dataset}": the data are {first.task}, method = "{config.method}"'
            " works on "
            f"{', '.join(tasks)}"
        )
    if first:
        _check_model(request, Facts(first.task, first.num_features, first.class_names, first.shape))
    else:
        from curvfed.tasks.images.sources import source_of

        if source := source_of(config.dataset):
            _check_model(request, Facts("images", 0, ("0", "1"), f"{source.channels}x32x32"))
    key, value = (
        ("dataset", config.dataset)
        if config.test_data == "auto"
        else ("test-data", config.test_data)
    )
    is_tested = (
        first is not None and first.task == "images"
        if key == "dataset"
        else request.task in ("images", "points")
    )
    with _naming(key, value):
        if is_tested and config.test_data != "none":
            from curvfed.deployments.data_places import test_data

            told.append(test_data(request, first))
    return told, first


def look_at_clients(request: Request, nodes: Sequence[dict[str, Any]]) -> None:
    """Refuse clients with data of their own that cannot all take part in the run.

    The clients are set up as the run sets them up, which then finds them in memory.

    Raises
    ------
    ConfigError
        If a client's data cannot be read, are unfit, or of another kind than most, or the model
        cannot be made for them.
    """
    config = request.config
    descriptions = {}
    for place, node in enumerate(nodes):
        with _naming(f"data[{place}]", node.get("data-path", "in memory")):
            header = Header(config.run_name, DESCRIBE, 0)
            reply = Reply(
                header,
                place,
                description=get_client(config, config.run_name, place, node).describe(),
            )
            # Read as the server reads it, which refuses what is impossible, such as no class at
            # all.
            descriptions[place] = cast(
                Description, decode_reply(encode_reply(reply), header).description
            )
    try:
        facts = check_clients(descriptions, config)
    except FederationError as error:
        raise ConfigError(str(error)) from None
    _check_model(request, facts)


def _check_model(request: Request, facts: Facts) -> None:
    """Make the model as the run will; one-shot methods have none."""
    config = request.config
    if not config.row.is_one_shot:
        with _naming("model", config.model or AUTO):
            build_model(model_spec(resolve_defaults(config, facts.task), facts), config.seed)


@contextlib.contextmanager
def _naming(key: str, value: str) -> Iterator[None]:
    """Errors about data or a model name the key that names it."""
    try:
        yield
    except (DataError, MessageError) as error:
        raise ConfigError(f'{key} = "{value}": {error}') from None
    except (OSError, ImportError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not is_about_memory(error):
            raise
        raise ConfigError(
            f'{key} = "{value}" cannot be read: {type(error).__name__}: {error}'
        ) from None


def _places(request: Request) -> list[tuple[str, bool]]:
    """Where each data set of the run lies, in words, and whether it is there."""
    if (name := request.config.dataset.lower()) in (*GENERATED, OWN):
        return [(f"{name}, {'built in' if name == 'digits' else 'generated by the run'}", True)]
    from curvfed.deployments.data_places import places  # which knows all kinds of data

    return places(request)
