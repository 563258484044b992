"""Checks on this machine before a run: its name, its device, its data and those of a client."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, cast

from curvfed.client_app.clients_in_memory import get_client
from curvfed.client_app.data import Data, describe_parts, describe_size, load_data, num_classes
from curvfed.client_app.description import describe
from curvfed.client_app.node import IN_MEMORY, Node
from curvfed.client_app.resources import is_about_memory
from curvfed.deployments.arguments import NOTE, Request
from curvfed.deployments.simulation import simulator
from curvfed.server_app.directory.run_name import check_name
from curvfed.server_app.facts import check_clients, check_task
from curvfed.server_app.sinks import sinks_class
from curvfed.strategies.base.figures import find
from curvfed.strategies.base.keys import AUTO
from curvfed.strategies.base.score_words import FEW_TESTS, examples_text, few_examples
from curvfed.strategies.config.build_method import (
    build_model,
    check_personal,
    encoder,
    model_spec,
)
from curvfed.strategies.config.checks import check_path, idle_keys
from curvfed.strategies.config.device import pick_device
from curvfed.strategies.config.run_config import (
    RunConfig,
    defaults,
    open_dataset,
    resolve_defaults,
    with_bits,
)
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.codec import decode_reply, encode_reply
from curvfed.strategies.wire.exchange import FederationError
from curvfed.strategies.wire.messages import DESCRIBE, Description, Facts, Header, Reply
from curvfed.tasks.amounts import amount
from curvfed.tasks.class_names import names_listed
from curvfed.tasks.dataset import dataset_class
from curvfed.tasks.errors import DataError, EncoderError
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.places import Place
from curvfed.tasks.registry import OWN, is_named, source_of

MAX_CLIENTS = 100
"""Maximum number of clients whose data `check` loads."""

MAX_LINES = 10
"""Maximum number of clients with a line of their own, unless there are more data sets."""


def preflight(request: Request) -> Request:
    """Refuse a simulation that cannot run here; nothing is started, and no folder is made.

    The data are loaded as the clients load them, so that the clients find them in the cache.
    Missing public data sets are downloaded.

    Raises
    ------
    UsageError, ConfigError
        If the name is in use, this machine lacks the device, data are missing or unfit, or the
        model cannot be made.
    """
    check_machine(request)
    for note in look_for_notes(request)[0]:
        log.warning("%s", note)
    return request


def look_for_notes(request: Request) -> tuple[list[str], Data | None]:
    """The notes on the data of the first `MAX_LINES` clients, and the data of the first one, as
    `look_at_data`."""
    lines, held = look_at_data(request, MAX_LINES)
    first = next(iter(held.values()), None)
    return [line for line in lines if line.startswith(NOTE)], first


def check_machine(request: Request) -> None:
    """Refuse a name in use, a device or workers that this machine lacks, and a sink that does not
    open.

    Raises
    ------
    ConfigError
    """
    check_name(request.config)
    sinks_class().check(request.config)
    pick_device(request.config.device)
    simulator(request.config)


def look_at_data(
    request: Request, clients: int = 1, downloads: bool = True
) -> tuple[list[str], dict[int, Data]]:
    """Describe the places of the data and the data of a client for each data set.

    The data are loaded as the clients load them, into the same cache.

    Parameters
    ----------
    request : Request
    clients : int
        The number of clients to load, at least one for each data set.
    downloads : bool
        Whether missing public data are downloaded or left out.

    Returns
    -------
    lines : list of str
    held : dict of int to Data
        The data that were loaded, by client.

    Raises
    ------
    ConfigError
        If `dataset` or `test-data` is a path without data, the data are unfit or cannot be
        downloaded, or `model` cannot be made for them.
    """
    config = request.config
    held: dict[int, Data] = {}
    with _naming("dataset", config.dataset):
        places = _places(request)
        lines = [line for place in places for line in f"data: {place.text}".splitlines()]
        decisions = [place.decision for place in places if place.decision]
        below_places = len(lines)
        lines += [f"{NOTE}{note}" for place in places for note in place.notes]
        if is_named(config.dataset) and Path(config.dataset).exists():
            lines.append(
                f"{NOTE}{config.dataset} is a data set's name; ./{config.dataset} names the file or"
                " folder here"
            )
        number = request.num_supernodes
        num_loaded = 1 if config.dataset == OWN else min(max(clients, len(places)), number)
        num_lines = max(MAX_LINES, len(places))
        for client in range(num_loaded):
            # Client p has data of set p modulo their number.
            if places[client % len(places)].exists or downloads:
                data = load_data(config, Node(partition=client, num_partitions=number))
                if client < num_lines:
                    text = f"{describe_parts(data)}{_trivial(data)}"
                    lines.append(f"client {client} of {number}: {text}")
                if not held:
                    words = "classes" if KINDS[data.task].has_classes else "names"
                    lines.append(f"{words}: {names_listed(data.class_names)}")
                    steps = getattr(data, "history", "").split("; ")
                    lines += [f"read: {step}" for step in steps if step]
                    lines += notes_on_method(request, data)
                held[client] = data
        first = next(iter(held.values()), None)
        kinds = [one.text_of(first.task) if first else one.text for one in decisions]
        lines[below_places:below_places] = kinds
        if len(held) > num_lines:
            lines.append(f"… {number - num_lines} more")
        if len(held) > 1:
            lines.append(_spread([*held.values()]))
        lines += _notes_on_data(held)
        has_scores = config.row.has_network and not config.guard.is_private
        if clients > 1 and len(held) == number and has_scores:
            lines += _scored([*held.values()])
    if first:
        try:
            check_task(first.task, config)
        except FederationError as error:
            raise ConfigError(f'dataset = "{config.dataset}": {error}', key="other-task") from None
    _check_model_of(request, first)
    if config.test_data == "auto":
        has_test_data = first is not None and KINDS[first.task].has_test_set
        naming = _naming("dataset", config.dataset)
    else:
        has_test_data = KINDS[request.task].reads_test_data and config.test_data != "none"
        naming = _naming("test-data", config.test_data)
    if has_test_data:
        with naming:
            lines.append(_test_data(request, first))
    return lines, held


def _scored(held: Sequence[Data]) -> list[str]:
    """The number of test examples that the scores of all clients will rest on, and a note if these
    are few."""
    kind = KINDS[held[0].task]
    number = sum(kind.num_scored(data.statistics()) for data in held)
    if not number and not kind.has_validation:
        return []  # such as points, whose test part the server has
    lines = [f"personal scores: of {examples_text(number)}"]
    if 0 < number < FEW_TESTS:
        lines.append(f"{NOTE}{few_examples('personal score', number)}")
    return lines


def _spread(held: Sequence[Data]) -> str:
    """The smallest, median and largest numbers of examples and classes of a client, in words."""
    counts = {"training examples": [int(data.train.sum()) for data in held]}
    if KINDS[held[0].task].has_classes:
        counts["classes"] = [num_classes(data) for data in held]
    texts = [
        f"{name} {min(numbers)}, {median(numbers):g}, {max(numbers)}"
        for name, numbers in counts.items()
    ]
    return f"min, median, max of {amount(len(held), 'client')}: {'; '.join(texts)}"


def _trivial(data: Data) -> str:
    """The scores of the trivial answers, which need no model, in words."""
    scores = data.trivial_scores().items()
    texts = [f"; {find(name).words} {find(name).text(score)}" for name, score in scores if score]
    return "".join(texts)


def notes_on_method(request: Request, data: Data) -> list[str]:
    """The notes on keys that are set to another value than the default and have no effect, and on
    the data that the method of the run does not use."""
    idle = idle_keys(request.resolved, data.task)
    default = defaults()
    notes = [
        f"{key} has no effect: {reason}"
        for key, reason in idle.items()
        if request.settings.get(key, default[key]) != default[key]
    ]
    model = encoder(request.resolved, data.task)
    notes += dataset_class(data.task).unused(request.resolved, data, model)
    return [f"{NOTE}{note}" for note in notes]


def _notes_on_data(held: Mapping[int, Data]) -> list[str]:
    """The possible faults of the clients' data, each once, with the clients that have it and the
    number of clients that were checked."""
    clients: dict[str, list[str]] = {}
    for client, data in held.items():
        for note in _faults(data):
            clients.setdefault(note, []).append(str(client))
    return [
        f"{NOTE}{'client' if len(names) == 1 else 'clients'} {', '.join(names)}"
        f" (of {len(held)} checked): {note}"
        for note, names in clients.items()
    ]


def _faults(data: Data) -> list[str]:
    """Possible faults of a client's data, in words."""
    notes = [*getattr(data, "notes", ())]
    num_blank = getattr(data, "num_blank", 0)
    if num_blank:
        notes.append(f"{amount(num_blank, 'image')} of one value throughout, such as black")
    return notes


def _check_model_of(request: Request, data: Data | None) -> None:
    """Make the model for these data; without data, that of the images of a public data set."""
    source = source_of(request.config.dataset)
    if data is not None:
        facts = Facts(data.task, data.num_features, data.class_names, data.shape)
    elif source is not None and source.channels:
        facts = Facts(source.task, 0, ("0", "1"), f"{source.channels}x32x32")
    else:
        return
    _check_model(request.config, facts)


def assign_data(nodes: list[dict[str, Any]], data: Sequence[object], config: RunConfig) -> None:
    """Assign each simulated node its data in memory, or their path.

    Raises
    ------
    DataError, ConfigError
        If they are unfit, or the method does not work on such data.
    """
    for place, item in enumerate(data):
        if isinstance(item, str | os.PathLike):
            check_path(f"data[{place}]", os.fspath(item))
            if not Path(item).expanduser().exists():
                raise DataError(
                    f"data[{place}]: no file or folder {item}; allowed is a path of a client's own"
                    " data",
                    key="missing-file",
                )
            nodes[place]["data-path"] = os.fspath(item)
            continue
        # Imported only here, because it knows the arrays of every kind of data.
        from curvfed.tasks.in_memory import check_data

        raw = check_data(
            f"data[{place}]", item, label_key=config.points.label_key, tasks=config.row.tasks
        )
        nodes[place][IN_MEMORY] = raw
        task = raw.task
        if task not in config.row.tasks:
            raise ConfigError(
                f'data[{place}] is {task}; method = "{config.method}" works on'
                f" {', '.join(config.row.tasks)}",
                key="other-task",
            )


def look_at_clients(config: RunConfig, nodes: Sequence[dict[str, Any]]) -> None:
    """Refuse clients with data of their own that cannot all take part in the run.

    The clients are set up as in the run, which then finds them in memory.

    Raises
    ------
    ConfigError
        If a client's data are unreadable, unfit, or of another kind than most, or the model cannot
        be made for them.
    """
    descriptions = {}
    for place, node in enumerate(nodes):
        with _naming(f"data[{place}]", node.get("data-path", "in memory")):
            header = Header(config.run_name, DESCRIBE, 0)
            client = get_client(config, config.run_name, Node.read(node))
            reply = Reply(header, place, description=describe(client))
            # Decoded as by the server, which refuses impossible values, such as no classes.
            decoded = decode_reply(encode_reply(reply), header)
            descriptions[place] = cast(Description, decoded.description)
    try:
        facts = check_clients(descriptions, config)
    except FederationError as error:
        raise ConfigError(str(error), key="clients-differ") from None
    _check_model(config, facts)


def _check_model(config: RunConfig, facts: Facts) -> None:
    """Make the model of the run, which must have the method's personal parameters; skip one-shot
    methods, which lack a model."""
    if config.row.has_network:
        config = resolve_defaults(config, facts.task)
        with _naming("model", config.model or AUTO):
            build_model(model_spec(config, facts), config.seed)
            check_personal(config, facts)


@contextlib.contextmanager
def _naming(key: str, value: str) -> Iterator[None]:
    """Errors about data or a model name the key with its path or name; those about a frozen network
    name their own key."""
    try:
        yield
    except EncoderError as error:
        raise ConfigError(str(error), key="data") from None
    except (DataError, MessageError) as error:
        raise ConfigError(f'{key} = "{value}": {error}', key="data") from None
    except (OSError, ImportError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not is_about_memory(error):
            raise
        raise ConfigError(
            f'{key} = "{value}" cannot be read: {type(error).__name__}: {error}', key="unreadable"
        ) from None


def _places(request: Request) -> list[Place]:
    """The place of each data set of the run."""
    config = request.config
    if config.dataset.lower() == OWN:
        return [Place(f"{OWN}, generated by the run")]
    return open_dataset(config, request.task).places()


def _test_data(request: Request, client: Data | None) -> str:
    """The server's test data, in words: those of the path `test-data`, or the test part of the
    client's data set.

    Raises
    ------
    DataError
        If they are unfit.
    """
    config = with_bits(request.config, getattr(client, "bits", 0))
    dataset = open_dataset(config, request.task)
    path = request.config.test_path
    test = dataset.test(path)
    if test and client:
        test.check_test(client.shape, client.class_names)
    place = "" if path is None else f", in {dataset.where(dataset.locate_own(path))}"
    return f"test data: {describe_size(test) if test else 'none'}{place}"
