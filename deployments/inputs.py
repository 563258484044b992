"""The files of a prediction: the run, the data and the output. They are checked before torch is
imported, which takes seconds."""

from pathlib import Path

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.resources import check_output
from curvfed.server_app.directory.run_lock import stored_status
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.config.parse import read_settings
from curvfed.tasks.errors import KeyedError
from curvfed.tasks.formats import FORMATS
from curvfed.tasks.registry import is_named, is_own_data

RUN_FILES = ("config.toml", "summary.json")
"""A folder with one of these is a run directory."""

MOST_LISTED = 5
"""Largest number of runs that an error lists."""

COPIES = {ending: form.writer for form in FORMATS if form.writer for ending in form.endings}
"""The place of the function that writes a copy of the data with predictions, by the end of their
name."""

SUFFIXES = (".csv", ".tsv", ".json", *COPIES)


class PredictError(KeyedError, ValueError):
    """A prediction that cannot be made; the text names the missing or unfit input."""

    area = "predict"


class RequestError(PredictError, UsageError):
    """An argument that does not fit the run; a command ends with the status of wrong usage."""


class NoRunError(RequestError, FileNotFoundError):
    """A path or name of no run."""


def run_folder(path: Path) -> Path:
    """The run directory of this path, or of this name in the default results folder.

    Raises
    ------
    NoRunError
        With the names of the newest runs there, or beside a path.
    """
    results = home() / "results"
    places = [path.expanduser().resolve(), (results / path.expanduser()).resolve()]
    for place in places:
        if any((place / name).exists() for name in RUN_FILES):
            return place
    text = " nor in ".join(dict.fromkeys(map(str, places)))
    raise NoRunError(
        f"{path} is not the directory of a run: no {' or '.join(RUN_FILES)} in {text};"
        f" allowed is a run directory, or the name of one in {results};"
        f" {_newest_runs(places[0], results if path.name == str(path) else places[0].parent)}",
        key="not-a-run",
    )


def _newest_runs(*folders: Path) -> str:
    """The names of the newest completed runs in the first folder that has any, in words."""
    for results in folders:
        runs = [run for run in results.glob("*") if stored_status(run).startswith("completed")]
        runs.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
        if runs:
            names = [folder.name for folder in runs[:MOST_LISTED]]
            return f"the newest runs in {results} are {', '.join(names)}"
    return f"{folders[-1]} has no completed run"


def is_same_name(dataset: str, data: str) -> bool:
    """Whether `data` is the text of a run's `dataset`; names may be in any case."""
    if is_named(dataset):
        return data.lower() == dataset.lower()
    return data == dataset


def check_there(dataset: str, data: str) -> None:
    """Refuse the path of a file or folder that does not exist, unless it is the run's `dataset`.

    Raises
    ------
    RequestError
    """
    is_absent = is_own_data(data) and not Path(data).expanduser().exists()
    if is_absent and not is_same_name(dataset, data):
        raise RequestError(f'DATA is "{data}"; there is no such file or folder', key="data")


def check_data(run: Path, data: str) -> None:
    """Refuse the path of absent data, by the configuration of a run directory.

    Raises
    ------
    RequestError, ConfigError
    """
    config = run / "config.toml"
    if config.is_file():  # otherwise the run itself cannot be read
        check_there(str(read_settings(config).get("dataset")), data)


def check_out(out: Path | None, data: str) -> None:
    """Refuse a file that cannot be written, before the computation.

    Raises
    ------
    UsageError
    """
    if out is None:
        return
    check_output(out, SUFFIXES, Path(data).expanduser())
    suffix = out.suffix.lower()
    if suffix in COPIES and Path(data).suffix.lower() != suffix:
        raise UsageError(
            f'out is "{out}", a copy of the data with predictions; for DATA "{data}" allowed are'
            " .csv, .tsv and .json",
            key="out",
        )
