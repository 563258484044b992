"""The functions for Python and notebooks: `simulate` and `load`, which return a `Run`; methods,
models and data that a Python program gives as objects."""

import contextlib
import html
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from curvfed.client_app.clients_in_memory import forget_all
from curvfed.deployments.arguments import (
    NUM_SUPERNODES,
    UsageError,
    check_request,
    pop_supernodes,
    read_keywords,
)
from curvfed.deployments.inprocess import run_in_process, simulated_nodes
from curvfed.deployments.inputs import run_folder
from curvfed.deployments.preflight import assign_data, check_machine, look_at_clients, preflight
from curvfed.deployments.simulation import run_simulation
from curvfed.deployments.stored_run import Run, turn
from curvfed.server_app.directory.run_name import named
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import GRAPHS, IMAGES, POINTS, Method
from curvfed.strategies.config.run_config import defaults, resolve_defaults
from curvfed.strategies.methods import foreign_methods, listed
from curvfed.strategies.run_log import log, log_to_stdout, logged_from
from curvfed.tasks import plugins
from curvfed.tasks.amounts import with_article
from curvfed.tasks.registry import OWN

__all__ = ["Run", "load", "simulate"]


def method_name(method: object) -> str:
    """The name of a method; a row or a learner is registered under the name of its keys or class.

    Raises
    ------
    UsageError
        If it is not a method, or has the name of a method of curvfed.
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
    if name in listed():
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
            f"data is {with_article(type(data).__name__)}{'' if is_single else ' without entries'};"
            " allowed is a list with a path or an object for each client, such as data=[a, b]",
            key="data",
        )
    return clients


@turn("simulate")
def simulate(
    method: "str | Method | type[Learner]" = "flatland",
    dataset: str | os.PathLike[str] | None = None,
    data: object = None,
    num_supernodes: int | None = None,
    quiet: bool = False,
    **keys: Any,
) -> Run:
    """Run in this process, like `curvfed simulate`.

    Calls in several threads run one after the other; for parallel runs start processes. With
    `workers=4` the clients train in four processes, forks of this one; their results are the same.

    Parameters
    ----------
    method : str, Method or type of Learner
        A name; a row, as in plug-ins; or a client half, with an averaging server.
    dataset : str or path, optional
        A data set to partition into `num_supernodes` parts. Default: the built-in one of the
        method's task.
    data : sequence, optional
        Instead of a data set, the data of each client, in memory: a graph with classes of nodes
        (PyTorch Geometric's `Data`, or a dict, of x, edge_index, y and, optionally, train_mask,
        val_mask, test_mask, class_names), a list of graphs with one y each, (images, labels) with
        images (n, h, w), (n, c, h, w) or (n, h, w, c) of uint8, or (points, labels) with points (n,
        2) in the disc, or links as a list of (head, tail) or (head, relation, tail), a DataFrame of
        such columns, or a graph of networkx. The data are not written to disk; unlike for a real
        node, the run's files contain figures about them. Or a Dataset of Hugging Face's datasets
        for each client, or the path of its own file or folder; or instead of the sequence a
        Partitioner of flwr-datasets, with a partition per client.
    num_supernodes : int, optional
        The number of clients; default: 10, or the length of `data`.
    quiet : bool
        Whether only warnings are logged.
    **keys
        Keys of the run configuration, with _ instead of -. Tables are dicts, or keys with a dot.
        `model` can be a class or function that makes a network, or a `functools.partial` of it.

    Returns
    -------
    Run

    Raises
    ------
    ConfigError, UsageError, DataError
        If it cannot run; nothing is written. All are ValueErrors.
    Exception
        The error that ended the run, with a note that names the run directory; its summary has the
        error, too.

    Examples
    --------
    >>> import curvfed
    >>> settings = {"num_supernodes": 2, "num_rounds": 3, "embedding_dim": 8, "quiet": True}
    >>> run = curvfed.simulate(flatland={"gate": False}, **settings)
    >>> run.config["flatland.gate"], len(run.clients)
    (False, 6)
    >>> import numpy as np
    >>> classes = np.arange(40) % 2
    >>> images = np.random.default_rng(0).integers(0, 128, (40, 8, 8), dtype=np.uint8)
    >>> images[classes == 1] += 100  # brighter
    >>> run = curvfed.simulate("fedavg", data=[(images, classes)] * 3, num_rounds=1, quiet=True)
    >>> run.summary["dataset"]
    'own data of 3 nodes'
    >>> run.predict(images[:2])["image"].tolist()
    [0, 1]
    """
    source = dataset if data is None else OWN
    names = {"method": method_name(method), "model": model_name(keys.get("model"))}
    settings = read_keywords(keys | names | {"dataset": source})
    clients = None if data is None else client_list(data)
    default = NUM_SUPERNODES if clients is None else len(clients)
    count = default if num_supernodes is None else num_supernodes
    number = pop_supernodes({"num-supernodes": count}, default)
    if clients is not None and number != len(clients):
        raise UsageError(
            f"num-supernodes is {number}; data has {len(clients)} clients", key="num-supernodes"
        )
    if data is not None and dataset is not None:
        raise UsageError(
            f"dataset = {dataset} and data are both given; allowed is one of them",
            key="two-data-sets",
        )
    request = check_request(settings, number)
    config = named(request.config)
    nodes = simulated_nodes(number)
    with logged_from(logging.WARNING):  # the run itself logs how its data are read
        if clients is None:
            preflight(request)
        else:
            check_machine(request)
            assign_data(nodes, clients, config)
    log_to_stdout()
    # By default in this process: records of a caller's classes and data stay visible.
    make_run = run_simulation if config.workers else run_in_process
    try:
        with logged_from(logging.WARNING if quiet else logging.INFO):
            if clients is not None:
                look_at_clients(config, nodes)
            try:
                with _round_bar():
                    return Run(make_run(config, nodes))
            except BaseException as error:
                error.add_note(f"run directory: {config.results_path / config.run_name}")
                raise
    finally:
        forget_all()  # for the next runs of the caller


class _Bar(logging.Handler):
    """Draws the log lines about rounds as a bar."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: Any = None

    def emit(self, record: logging.LogRecord) -> None:
        """Redraw the bar; errors of the notebook are ignored."""
        if _is_other(record):
            return
        done, rounds = record.rounds  # type: ignore[attr-defined]
        text = html.escape(record.getMessage())
        with contextlib.suppress(Exception):
            from IPython.display import HTML, display

            bar = HTML(f'<progress value="{done}" max="{rounds}"></progress> {text}')
            if self._shown is None:
                self._shown = display(bar, display_id=True)
            else:
                self._shown.update(bar)


@contextlib.contextmanager
def _round_bar() -> Iterator[None]:
    """Within the block a notebook shows the rounds as a bar, if the log shows them."""
    module = sys.modules.get("IPython")
    if not hasattr(module and module.get_ipython(), "kernel"):  # a terminal's IPython has none
        yield
        return
    bar = _Bar()
    lines = log.handlers.copy()
    for handler in lines:
        handler.addFilter(_is_other)
    log.addHandler(bar)
    try:
        yield
    finally:
        log.removeHandler(bar)
        for handler in lines:
            handler.removeFilter(_is_other)


def _is_other(record: logging.LogRecord) -> bool:
    return not hasattr(record, "rounds")


def load(path: str | os.PathLike[str]) -> Run:
    """Open a completed, failed or running run.

    Parameters
    ----------
    path : str or path
        A run directory, or a name in the default results folder.

    Raises
    ------
    UsageError
        If `path` is neither.
    NoRunError
        If the run does not exist; both a ValueError and a FileNotFoundError.

    Examples
    --------
    >>> import curvfed
    >>> settings = {"num_supernodes": 2, "num_rounds": 1, "embedding_dim": 8, "quiet": True}
    >>> made = curvfed.simulate("local", run_name="mine", **settings)
    >>> curvfed.load("mine").summary["rounds"]
    1
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(
            f"path is {with_article(type(path).__name__)}; allowed is the path or the name of a"
            " run",
            key="not-a-run",
        )
    return Run(run_folder(Path(path)))
