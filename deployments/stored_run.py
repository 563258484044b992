"""A run, read from its directory: its figures and its model, with plots, predictions and exports.

Runs of one process take turns: they share torch's settings, Flower's identity and the log.
"""

import contextlib
import html
import os
import threading
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.resources import check_working_folder
from curvfed.server_app.directory import TABLES, TEXTS
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.strategies.config.device import own_settings
from curvfed.strategies.config.parse import read_settings
from curvfed.tasks import plugins
from curvfed.tasks.draws import own_draws
from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.registry import path_text

if TYPE_CHECKING:  # pandas takes a second to import
    from pandas import DataFrame
    from torch import nn

    from curvfed.deployments.predict.trained_run import TrainedData, TrainedRun


class _Line:
    """The turns of this process: a lock, and the thread that has the turn."""

    def __init__(self) -> None:
        self.renew()
        # A child process lacks the thread of the turn.
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """No thread has the turn."""
        self.lock = threading.Lock()
        self.thread = 0


_line = _Line()


@contextlib.contextmanager
def turn(name: str, may_nest: bool = False) -> Iterator[None]:
    """Wait until no other thread of this process has the turn, and restore torch's state at the
    end.

    Parameters
    ----------
    name : str
        The function of the turn.
    may_nest : bool
        Whether a run may call it, too.

    Raises
    ------
    UsageError
        If a run of the same thread calls it, which would wait forever; or if the working folder
        was deleted.
    """
    if _line.thread == threading.get_ident():
        if not may_nest:
            raise UsageError(
                f"{name} is called by a run of this thread; allowed is a call after that run, or in"
                " a new process",
                key="nested-run",
            )
        yield
        return
    check_working_folder()
    with _line.lock:
        threads = torch.get_num_threads()
        _line.thread = threading.get_ident()
        try:
            with own_settings(), own_draws():
                yield
        finally:
            _line.thread = 0
            torch.set_num_threads(threads)


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
        summary = RunFiles(self.path).summary
        path = self.path / "summary.json"
        if not summary and path.exists():
            raise DataError(f"{path} is damaged, or not the summary of a run", key="unreadable")
        return summary

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
        from curvfed.server_app.report.run_page import write_report

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
        from curvfed.server_app.report.parts import run_figure

        return run_figure(self.path)

    @property
    def _trained(self) -> "TrainedRun":  # read each time: a resumed run writes it again
        from curvfed.deployments.predict import TrainedRun

        return TrainedRun.read(self.path)

    @property
    def data(self) -> "TrainedData":
        """The data that the finished run was trained on: task, features and classes.

        Raises
        ------
        PredictError, ConfigError
            If the run is not finished, or its folder cannot be read.
        """
        return self._trained.data

    def model(self, client: int | None = None) -> "nn.Module":
        """The trained model, a torch module in evaluation mode.

        It takes data as the run prepared them, unlike `export`'s program.

        Parameters
        ----------
        client : int, optional
            The client's own model: its fine-tuned one, or the shared parameters with its personal
            ones. Required if each client has its own model.

        Raises
        ------
        PredictError, ConfigError, DataError, MessageError, StoreError
            If the run is not finished, a client's state is missing or does not fit, or no package
            makes a module of the classifier of a one-shot run.
        """
        from curvfed.deployments.predict.model import model_of

        return model_of(self._trained, _plain(client))[0]

    @turn("export", may_nest=True)
    def export(self, out: str | os.PathLike[str], client: int | None = None) -> Path:
        """Write the trained model as a program that needs no curvfed, as `curvfed export`.

        The writer is `export` of the group `curvfed.programs`.

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
        UsageError, PredictError, ConfigError, DataError, MessageError, StoreError
            If the model does not exist, the program's answers are not the model's, or no package
            writes programs.
        """
        file = Path(out).expanduser()
        export = plugins.addition("programs", "export")
        export(self._trained, file, _plain(client))
        return file

    @turn("predict", may_nest=True)
    def predict(self, data: object, client: int | None = None, **options: Any) -> "DataFrame":
        """Predict the classes of nodes, graphs, images or points, or the tails of heads.

        Parameters
        ----------
        data : str, path or object
            A path or the name of the run's data set, as for `curvfed predict`; or data in memory,
            as for `simulate`, with or without classes. For a run on links a list of heads, or of
            pairs of head and relation.
        client : int, optional
            Use this client's model, and its part of the run's own data set. Required if each client
            has its own model.
        **options
            For a run on links: `show` "tails", "neighbours" or "hierarchy", at `most` so many (10),
            without the `known` links of a file or of the run's data set. For a run on points:
            `label_key`, the column of the classes in a file.

        Returns
        -------
        DataFrame
            A row per node, graph, image or point: its number or path, its class, and the
            probability of the class; for links as `curvfed predict` writes it.

        Raises
        ------
        UsageError, PredictError, ConfigError, DataError, MessageError, StoreError
            If an option is unknown, a file is missing, or data, model and personal state do not fit
            together.
            StoreError is a RuntimeError, the others are ValueErrors.
        """
        from curvfed.deployments.predict import predict
        from curvfed.deployments.predict.prediction import Options
        from curvfed.tasks.in_memory import check_data
        from curvfed.tasks.kinds import KINDS

        if unknown := sorted(options.keys() - set(Options._fields)):
            raise UsageError(
                f"{', '.join(unknown)}: no such option; allowed are {', '.join(Options._fields)}",
                key="option",
            )
        trained = self._trained
        client = _plain(client)
        examples: Any = data
        if isinstance(data, os.PathLike):
            examples = path_text(data)
        elif not isinstance(data, str) and KINDS[trained.facts.task].has_classes:
            facts = trained.facts if client is None else trained.facts_of(client)
            examples = check_data("the data", data, facts.class_names)
        return predict(trained, examples, client, options=Options(**options)).table()

    @turn("adapt")
    def adapt(
        self, data: str | os.PathLike[str], out: str | os.PathLike[str], client: int | None = None
    ) -> tuple["Run", int, dict[str, float]]:
        """Add a client to the finished run: its personal part is trained on its own data, the
        shared part is fixed.

        The code is `adapt` of the group `curvfed.programs`.

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
            If the method has nothing to adapt, run, data and number do not fit together, or no
            package has the code. StoreError and TrainingError are RuntimeErrors, the others
            ValueErrors.
        """
        adapt = plugins.addition("programs", "adapt")
        out = Path(out).expanduser()
        text = data if isinstance(data, str) else path_text(data)
        number, scores = adapt(self._trained, text, out, _plain(client))
        return Run(out.resolve()), number, scores

    def __repr__(self) -> str:
        summary = self.summary
        names = [str(summary[key]) for key in ("method", "dataset") if summary.get(key)]
        title = " on ".join(names) or "not finished"
        return f"<curvfed.Run {title}, {summary.get('status', 'not finished')}, in {self.path}>"

    def _repr_html_(self) -> str:
        """The printed table of figures, and a link to the report."""
        import pandas

        from curvfed.deployments.terminal import summary_table

        columns = summary_table(self.summary, RunFiles(self.path).fine_tuned).columns
        cells = {str(column.header): list(map(str, column.cells)) for column in columns}
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
        try:
            return pandas.read_csv(path, dtype=dict.fromkeys(TEXTS[name], "string"))
        except ValueError as error:  # of the parser, too
            raise unreadable(path, error, "table of a run") from None


def _plain(client: Any) -> Any:
    """A client's number of NumPy, such as from a table of clients, as an int of Python's."""
    return int(client) if isinstance(client, np.integer) else client
