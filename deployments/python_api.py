"""The functions for Python and notebooks: `simulate`, `load`, and their result `Run`."""

import contextlib
import html
import json
import logging
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from curvfed.client_app.clients_in_memory import forget_all
from curvfed.deployments.arguments import (
    NUM_SUPERNODES,
    UsageError,
    check_request,
    pop_supernodes,
    read_keywords,
)
from curvfed.deployments.inprocess import run_in_process, simulated_nodes
from curvfed.deployments.own_objects import assign_data, client_list, method_name, model_name
from curvfed.deployments.preflight import look_at_clients, preflight
from curvfed.deployments.round_bar import round_bar
from curvfed.deployments.turns import turn
from curvfed.server_app.directory.run_directory import check_name, named
from curvfed.server_app.directory.tables import TABLES, TEXTS
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.config.device import pick_device
from curvfed.strategies.config.settings_file import read_settings
from curvfed.strategies.run_log import log_to_stdout, logged_from
from curvfed.tasks.registry import OWN, path_text


class Partitioner(Protocol):
    """A Partitioner of flwr-datasets, with its data set assigned."""

    @property
    def num_partitions(self) -> int:
        """The number of partitions."""

    def load_partition(self, partition_id: int) -> object:
        """The `Dataset` of one client."""


if TYPE_CHECKING:  # pandas takes a second to import
    from pandas import DataFrame
    from torch import nn

    from curvfed.deployments.predict.trained_run import TrainedData, TrainedRun
    from curvfed.strategies.base.learner import Learner
    from curvfed.strategies.base.method import Method


class Run:
    """A run, read from its directory.

    Parameters
    ----------
    path : Path
        The run directory.

    Attributes
    ----------
    path : Path

    Examples
    --------
    >>> import curvfed
    >>> settings = {"num_supernodes": 2, "num_rounds": 2, "embedding_dim": 8, "quiet": True}
    >>> run = curvfed.simulate(method="fedavg", **settings)
    >>> run.summary["status"], run.config["num-rounds"]
    ('completed', 2)
    >>> run.rounds[["round", "phase", "replies"]].tail(2)
       round  phase  replies
    0      1  train        2
    1      2  train        2
    >>> run.predict("trees", client=1).columns.tolist()
    ['node', 'class', 'probability']
    >>> run.data.task, run.data.num_features, len(run.data.class_names)
    ('nodes', 300, 6)
    >>> type(run.model()).__name__
    'GCN'
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`: status, figures and versions; empty before the end."""
        path = self.path / "summary.json"
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}

    @cached_property
    def config(self) -> dict[str, Any]:
        """`config.toml` by dotted key, such as "flatland.gate"; empty if the run has not begun."""
        path = self.path / "config.toml"
        return read_settings(path, written_by_run=True) if path.exists() else {}

    @cached_property
    def rounds(self) -> "DataFrame":
        """`rounds.csv`, a row per round and phase."""
        return self._table("rounds.csv")

    @cached_property
    def clients(self) -> "DataFrame":
        """`clients.csv`, a row per client, round and phase."""
        return self._table("clients.csv")

    @turn("report", may_nest=True)
    def report(self) -> Path:
        """The path of `report.html`, which is written if it is missing."""
        from curvfed.server_app.report import write_report

        path = self.path / "report.html"
        return path if path.exists() else write_report(self.path)

    @turn("plot", may_nest=True)
    def plot(self) -> Any:
        """Draw the accuracy over the rounds, as in the report, or the disc of a one-shot run.

        Returns
        -------
        Figure
            Matplotlib's, for `savefig` with any of its formats, such as pdf.

        Raises
        ------
        ValueError
            If the run has neither: a run of rounds needs scores of two rounds.
        """
        from curvfed.server_app.report import run_figure

        return run_figure(self.path)

    @property
    def _trained(self) -> "TrainedRun":  # read each time: a resumed run writes it again
        from curvfed.deployments.predict import TrainedRun

        return TrainedRun.read(self.path)

    @property
    def data(self) -> "TrainedData":
        """What the finished run was trained on: its task, features and classes.

        Raises
        ------
        PredictError, ConfigError
            If the run is not finished, or its folder cannot be read.
        """
        return self._trained.data

    def model(self, client: int | None = None) -> "nn.Module":
        """The trained model, a torch module in evaluation mode.

        It takes data as the run prepared them, as `export`'s program does not.

        Parameters
        ----------
        client : int, optional
            The client's own model: its fine-tuned one, or the shared parameters with its personal
            ones. Required if each client has its own model.

        Raises
        ------
        PredictError, ConfigError, MessageError, StoreError
            If the run is not finished, or a client's state is missing or does not fit.
        """
        from curvfed.deployments.predict.model import model_of

        return model_of(self._trained, client)[0]

    @turn("export", may_nest=True)
    def export(self, out: str | os.PathLike[str], client: int | None = None) -> Path:
        """Write the trained model as a program that needs no curvfed, as `curvfed export`.

        Parameters
        ----------
        out : str or path
            A `.pt2` file for `torch.export.load`, or an `.onnx` file (images and points).
        client : int, optional
            As for `model`.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        UsageError, PredictError, ConfigError, MessageError, StoreError
            If there is no such model, or the program's answers are not the model's.
        """
        from curvfed.deployments.predict.export import export

        file = Path(out).expanduser()
        export(self._trained, file, client)
        return file

    @turn("predict", may_nest=True)
    def predict(self, data: object, client: int | None = None) -> "DataFrame":
        """Predict the classes of nodes, graphs, images or points.

        Parameters
        ----------
        data : str, path or object
            A path or the name of the run's data set, as for `curvfed predict`; or data in memory,
            as for `simulate`, with or without classes.
        client : int, optional
            Use this client's model, and its part of the run's own data set. Required if each client
            has its own model.

        Returns
        -------
        DataFrame
            A row per node, graph, image or point: its number or path, its class, and the
            probability of the class.

        Raises
        ------
        PredictError, ConfigError, DataError, MessageError, StoreError
            If a file is missing, or data, model and personal state do not fit together.
            StoreError is a RuntimeError, the others are ValueErrors.
        """
        from curvfed.deployments.predict import predict
        from curvfed.tasks.in_memory import check_data

        trained = self._trained
        examples: Any = data
        if isinstance(data, os.PathLike):
            examples = path_text(data)
        elif not isinstance(data, str):
            facts = trained.facts if client is None else trained.facts_of(client)
            examples = check_data("the data", data, facts.class_names)
        return predict(trained, examples, client).table()

    @turn("adapt")
    def adapt(
        self, data: str | os.PathLike[str], out: str | os.PathLike[str], client: int | None = None
    ) -> tuple["Run", int, dict[str, float]]:
        """Add a client to the finished run: its personal part is trained on its own data, the
        shared part is fixed.

        Parameters
        ----------
        data : str or path
            The client's own file or folder, or the name of the run's data set.
        out : path
            The folder to make.
        client : int, optional
            Its number; for the run's data set, a part that no client had. Default: the next number.

        Returns
        -------
        Run
            In `out`.
        int
            The client's number.
        dict
            Its scores, and those "before" it trained.

        Raises
        ------
        PredictError, ConfigError, DataError, MessageError, StoreError, TrainingError
            If the method has nothing to adapt, or run, data and number do not fit together.
            StoreError and TrainingError are RuntimeErrors, the others ValueErrors.
        """
        from curvfed.deployments.adapt import adapt

        out = Path(out).expanduser()
        text = data if isinstance(data, str) else path_text(data)
        number, scores = adapt(self._trained, text, out, client)
        return Run(out.resolve()), number, scores

    def __repr__(self) -> str:
        summary = self.summary
        names = [str(summary[key]) for key in ("method", "dataset") if summary.get(key)]
        title = " on ".join(names) or "not finished"
        return f"<curvfed.Run {title}, {summary.get('status', 'not finished')}, in {self.path}>"

    def _repr_html_(self) -> str:
        """The printed table of figures, and a link to the report."""
        import pandas

        from curvfed.deployments.tables import summary_table

        columns = summary_table(self.summary).columns
        cells = {str(column.header): list(column.cells) for column in columns}
        with pandas.option_context("display.max_colwidth", None):
            table = pandas.DataFrame(cells).to_html(index=False, border=0)
        report = self.path / "report.html"
        link = ""
        if report.exists():
            link = f'<a href="{html.escape(report.absolute().as_uri())}">report.html</a>'
        return f"{table}<p>{html.escape(str(self.path))} {link}</p>"

    def _table(self, name: str) -> "DataFrame":
        import pandas

        path = self.path / name
        if not path.exists():  # the run ended before the first phase
            return pandas.DataFrame(columns=list(TABLES[name]))
        return pandas.read_csv(path, dtype=dict.fromkeys(TEXTS[name], "string"))


@turn("simulate")
def simulate(
    method: "str | Method | type[Learner]" = "flatland",
    dataset: str | os.PathLike[str] | None = None,
    data: "Sequence[object] | Partitioner | None" = None,
    num_supernodes: int | None = None,
    quiet: bool = False,
    **keys: Any,
) -> Run:
    """Run in this process, like `curvfed simulate`.

    Calls in several threads run one after the other; for parallel runs start processes.

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
        2) in the disc. The data are not written to disk; unlike for a real node, the run's files
        contain figures about them. Or a Dataset of Hugging Face's datasets for each client, or the
        path of its own file or folder; or instead of the sequence a Partitioner of flwr-datasets,
        whose partitions are the clients.
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
    default = NUM_SUPERNODES
    if data is not None:
        data = client_list(data)
        default = len(data)
    number = pop_supernodes(
        {"num-supernodes": default if num_supernodes is None else num_supernodes}, default
    )
    if data is not None and number != len(data):
        raise UsageError(
            f"num-supernodes is {number}; data has {len(data)} clients", key="num-supernodes"
        )
    if data is not None and dataset is not None:
        raise UsageError(
            f"dataset = {dataset} and data are both given; allowed is one of them",
            key="two-data-sets",
        )
    request = check_request(settings, number)
    config = named(request.config)
    if data is None:
        preflight(request)
    else:
        check_name(config)
        pick_device(config.device)
    nodes = simulated_nodes(number)
    if data is not None:
        assign_data(nodes, data, config.method, config.row.tasks)
    log_to_stdout()
    try:
        with logged_from(logging.WARNING if quiet else logging.INFO):
            if data is not None:
                look_at_clients(config, nodes)
            with round_bar(), _noting(config.results_path / config.run_name):
                return Run(run_in_process(config, nodes))
    finally:
        forget_all()  # for the next runs of the caller


@contextlib.contextmanager
def _noting(directory: Path) -> Iterator[None]:
    """Errors within the block name the run directory."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"run directory: {directory}")
        raise


def load(path: str | os.PathLike[str]) -> Run:
    """Open a completed, failed or running run.

    Parameters
    ----------
    path : str or path
        A run directory, or a name in the default results folder.

    Raises
    ------
    FileNotFoundError
        If there is no run.

    Examples
    --------
    >>> import curvfed
    >>> settings = {"num_supernodes": 2, "num_rounds": 1, "embedding_dim": 8, "quiet": True}
    >>> made = curvfed.simulate("local", run_name="mine", **settings)
    >>> curvfed.load("mine").summary["rounds"]
    1
    """
    places = [Path(path).expanduser(), home() / "results" / path]
    for place in places:
        if (place / "summary.json").is_file() or (place / "config.toml").is_file():
            return Run(place.resolve())
    raise FileNotFoundError(
        f"there is no run in {' nor in '.join(dict.fromkeys(map(str, places)))}"
    )
