"""Methods, models and data that a Python program gives as objects."""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from curvfed.client_app.node.node import IN_MEMORY
from curvfed.deployments.arguments import UsageError
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import GRAPHS, IMAGES, POINTS, Method
from curvfed.strategies.config.run_config import defaults, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import foreign_methods, is_built_in
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError


def method_name(method: object) -> str:
    """The name of a method; a row or a learner is registered under the name of its keys or class.

    Raises
    ------
    UsageError
        If it is no method, or has the name of a method of curvfed.
    """
    if isinstance(method, str):
        return method
    row = method
    if isinstance(method, type) and issubclass(method, Learner):
        summary = (method.__doc__ or method.__name__).splitlines()[0]
        row = Method(summary, space="flat", client=method, tasks=(*GRAPHS, *IMAGES, *POINTS))
    if not isinstance(row, Method):
        raise UsageError(
            f"method is {method!r}; allowed is a name, a {Method.__module__}.Method, or a subclass"
            f" of {Learner.__module__}.Learner",
            key="method",
        )
    client_name = row.client.__name__.lower() if isinstance(row.client, type) else "own"
    name = next(iter(row.keys), row.aggregation if row.server else client_name)
    if is_built_in(name):
        raise UsageError(
            f'method has the name "{name}" of a method of curvfed\'s; allowed are keys in a table'
            " of another name",
            key="method",
        )
    place = plugins.register_object(row, f"{type(row).__module__}:{name}")
    plugins.registered("methods")[name] = [EntryPoint(name, place, "curvfed.methods")]
    foreign_methods.cache_clear()
    defaults.cache_clear()
    resolve_defaults.cache_clear()
    return name


def model_name(model: Any) -> str | None:
    """The import path of a class or function that makes a network, with the keywords of a
    `functools.partial`.

    Raises
    ------
    UsageError
        If it makes no network.
    """
    if model is None or isinstance(model, str):
        return model
    keywords: dict[str, Any] = {}
    factory = model
    if isinstance(model, partial) and not model.args:
        factory = model.func
        keywords = model.keywords
    if hasattr(model, "state_dict") and not isinstance(model, type):
        raise UsageError(
            f"model is a network of the class {type(model).__name__}; allowed is the class, or"
            " another factory",
            key="model",
        )
    if not callable(factory) or not hasattr(factory, "__qualname__"):
        raise UsageError(
            f"model is {model!r}; allowed is a name, a class or a function that makes a network",
            key="model",
        )
    settings = ", ".join(f"{name}={value!r}" for name, value in keywords.items())
    place = plugins.register_object(factory, f"{factory.__module__}:{factory.__qualname__}")
    return f"{place}({settings})" if settings else place


def client_list(data: object) -> list[object]:
    """The data of each client, as a list.

    Raises
    ------
    UsageError
        If they are the data of one client, such as a path or a graph, or of none.
    """
    # A Partitioner of Flower's datasets.
    if hasattr(data, "load_partition") and hasattr(data, "num_partitions"):
        return [data.load_partition(number) for number in range(data.num_partitions)]
    is_single = isinstance(data, str | bytes | os.PathLike | Mapping) or hasattr(data, "stores")
    is_single = is_single or hasattr(data, "column_names")
    clients = list(data) if isinstance(data, Iterable) and not is_single else []
    if not clients:
        raise UsageError(
            f"data is a {type(data).__name__}{'' if is_single else ' without entries'}; allowed is"
            " a list with a path or an object for each client, such as data=[a, b]",
            key="data",
        )
    return clients


def assign_data(
    nodes: list[dict[str, Any]], data: Sequence[object], method: str, tasks: Sequence[str]
) -> None:
    """Assign each simulated node its data in memory, or their path.

    Raises
    ------
    DataError, ConfigError
        If they are unfit, or the method does not work on such data.
    """
    for place, item in enumerate(data):
        if isinstance(item, str | os.PathLike):
            if not Path(item).expanduser().exists():
                raise DataError(
                    f"data[{place}]: no file or folder {item}; allowed is a path of a client's own"
                    " data",
                    key="missing-file",
                )
            nodes[place]["data-path"] = os.fspath(item)
            continue
        # Imported only here, because it knows the arrays of every kind of data.
        from curvfed.tasks.in_memory import check_data, task_of

        raw = check_data(f"data[{place}]", item)
        nodes[place][IN_MEMORY] = raw
        task = task_of(raw)
        if task not in tasks:
            raise ConfigError(
                f'data[{place}] is {task}; method = "{method}" works on {", ".join(tasks)}',
                key="other-task",
            )
