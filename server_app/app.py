"""The ServerApp: configuration -> method -> rounds -> run directory."""

import contextlib
import logging
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.logger import FLOWER_LOGGER

from curvfed.server_app.callbacks.choice import check_callbacks
from curvfed.server_app.client_history import mostly_absent
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.summary import failed_summary, write_failure
from curvfed.server_app.loop import run_rounds
from curvfed.server_app.run import Run
from curvfed.server_app.sinks import sinks_class
from curvfed.strategies.base.figures import GLOBAL_ACCURACY, PERSONAL_ACCURACY, find
from curvfed.strategies.base.score_words import scored_text
from curvfed.strategies.config.device import own_settings
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig, defaults, flatten, plain
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log, log_to_stdout
from curvfed.strategies.wire.exchange import has_supernodes
from curvfed.tasks import plugins
from curvfed.tasks.errors import KeyedError

app = ServerApp()

NO_KEYS = (
    "no key was given: all are defaults, method=%s and num-rounds=%d among them. Flower drops pairs"
    ' with spaces around the "=" without a word; right is flwr run . --stream --run-config'
    ' \'method="hyperfed" dataset="digits"\', or curvfed run method=hyperfed dataset=digits'
)
"""The warning of a run by Flower without keys."""

DEFAULT_DATA = (
    "method=%s and dataset=%s are the defaults; if you gave others, Flower dropped them, as it does"
    ' with pairs that have spaces around the "="'
)
"""The hint of a run by Flower with keys, but neither another method nor other data."""

IN_RUN_DIRECTORY = ("results-dir", "run-name")
"""Keys that the line about the run directory shows."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the configured method; the run directory is written whatever happens."""
    log_to_stdout()
    FLOWER_LOGGER.addFilter(_without_traceback)
    try:
        config = parse(context.run_config)
    except ConfigError as error:
        _refuse(error, context.run_config, None)
        raise
    usual = parse({})
    if config == usual:
        log.warning(NO_KEYS, config.method, config.num_rounds)
    elif not config.run_name and (config.method, config.dataset) == (usual.method, usual.dataset):
        # `curvfed run` always gives a name, and drops nothing.
        log.info(DEFAULT_DATA, config.method, config.dataset)
    serve(config, grid)


def _without_traceback(record: logging.LogRecord) -> bool:
    """Remove the traceback of an expected error, whose text the run has logged; with debug=true the
    run logs the traceback, too."""
    if record.exc_info and isinstance(record.exc_info[1], KeyedError):
        record.exc_info = None
    return True


def serve(config: RunConfig, grid: Grid) -> Path:
    """Run a configuration, and return the run directory.

    Raises
    ------
    Exception
        The error that ended the run; the summary is written.
    """
    try:
        sinks_class().check(config)
        check_callbacks(config)
        directory = RunDirectory.open(config)
    except ConfigError as error:
        _refuse(error, flatten(config), _known(config, grid))
        raise
    with _signals_later(), own_settings():
        try:
            run_in(directory, config, grid)
        finally:
            directory.lock.release()
    return directory.path


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """A signal to end raises KeyboardInterrupt in the block, and is passed on to Flower's handler
    after it.

    `flwr stop` makes Flower send one to this process, and Flower's handler kills the process after
    five seconds, in which no report can be made.
    """
    # Flower's simulation, which handles its signals itself
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []

    def end(signum: int, frame: FrameType | None) -> None:
        caught.append(signum)
        if len(caught) == 1:  # Flower sends it again while the report is made
            raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.getsignal(number) for number in signals}
    for number in signals:
        if handlers[number] is not signal.SIG_IGN:  # as under `nohup`
            signal.signal(number, end)
    try:
        yield
    finally:
        for number in signals:
            signal.signal(number, handlers[number])
        if caught:
            signal.raise_signal(caught[0])


def run_in(directory: RunDirectory, config: RunConfig, grid: Grid) -> None:
    """Run in an open run directory; a failure is written there before it is raised."""
    log.info("run directory: %s", directory.path)
    # The method's built-in data set counts as a default.
    default_values = defaults() | {"dataset": _built_in(config)}
    chosen = [
        f"{key}={plain(value)}"
        for key, value in flatten(config).items()
        if value != default_values[key] and key not in IN_RUN_DIRECTORY
    ]
    log.info(
        "keys that differ from the defaults: %s; config.toml has all keys",
        "  ".join(chosen) or "none",
    )
    run = Run(config, grid, directory)
    try:
        run_rounds(run)
    except BaseException as error:
        # Flower turns a signal into SystemExit and kills the process seconds later, so the summary
        # is written first.
        if not directory.is_writable:  # a resumed run that could not begin changes nothing
            refusal = error
            is_damaged = isinstance(error, TypeError | ValueError | LookupError | AttributeError)
            if is_damaged and not _is_ours(error):
                refusal = ConfigError(
                    f"resume = true: {directory.path} cannot be resumed ({reason(error)}): its"
                    " files are damaged, or were written by another version of the app; restore"
                    " them, or start a new run with another run-name",
                    key="damaged-run",
                )
            raw = flatten(config) | {"run-name": directory.name}
            _refuse(refusal, raw, _known(config, grid))
            raise refusal from error.__cause__
        text = reason(error)
        failure = failed_summary(text, error_key(error), _known(config, grid))
        figures = failure | run.figures()
        for name in ("status", "error", "error_key"):
            figures[name] = failure[name]
        with contextlib.suppress(OSError):  # on a full disk; the error that is raised says so
            directory.write_summary(figures)
        place = f" after round {run.state.round}" if run.num_rounds else ""
        log.error("the run failed%s: %s%s", place, text, _more(error, config))
        if config.report:
            _report(directory)
        run.sinks.end(figures)
        raise
    figures = {
        "status": "completed with absences" if mostly_absent(run.state) else "completed"
    } | run.figures()
    directory.write_summary(figures)
    if not run.num_rounds:
        _log_scores(figures)
    for product in plugins.additions("documents"):
        _without_harm(directory, product, partial(_write_document, product, run, figures))
    is_written = config.report and _report(directory)
    run.sinks.end(figures)
    if is_written:
        log.info("done: %s", directory.path / "report.html")
    elif config.report:
        log.warning("done, without a report: %s", directory.path)
    else:
        log.info("done: %s", directory.path)


def _built_in(config: RunConfig) -> str:
    """The data set of a run of this method without the key."""
    return parse({"method": config.method}).dataset


def _known(config: RunConfig, grid: Grid) -> RunConfig:
    """The configuration, without the data set where nodes choose it: before they have described
    their data, nobody knows what it is."""
    if has_supernodes(grid) and config.dataset == _built_in(config):
        return config.model_copy(update={"dataset": ""})
    return config


def _log_scores(figures: Mapping[str, Any]) -> None:
    """Log the scores of a run without rounds, as the line of a round does."""
    for name in (PERSONAL_ACCURACY, GLOBAL_ACCURACY):
        text = scored_text(name, figures, figures.get("metrics") or {})
        if text:
            log.info("%s: %s", find(name).words, text)


def _refuse(error: BaseException, raw: Mapping[str, Any], config: RunConfig | None) -> None:
    """Log why a run cannot begin, and write it next to the run directories."""
    place = write_failure(reason(error), error_key(error), raw, config)
    log.error("%s%s", reason(error), _more(error, config))
    log.error("summary of the failure: %s", place)


def reason(error: BaseException) -> str:
    """The reason for the end of a run, in one line; errors that are not ours are named by their
    type too."""
    # After `flwr stop` a process hears by a signal or by an answer that its run is over.
    stopped = (
        isinstance(error, KeyboardInterrupt) or type(error).__name__ == "RunNotRunningException"
    )
    if stopped or (isinstance(error, SystemExit) and not error.code):
        return "interrupted"
    if isinstance(error, SystemExit):
        return "ended by Flower, whose own log says why"
    name = type(error).__name__
    if str(error) and not _is_ours(error):
        return f"{name}: {error}"
    return str(error) or name


def error_key(error: BaseException) -> str:
    """The stable key of an error; of an error that is not ours the name of its class."""
    return error.key if isinstance(error, KeyedError) else type(error).__name__


def _is_ours(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] == "curvfed"


def _more(error: BaseException, config: RunConfig | None) -> str:
    """The text after the reason: with debug=true key and traceback, otherwise how to get them."""
    if config is not None and config.debug:
        frames = "".join(traceback.format_exception(error)).rstrip()
        return f" [{error_key(error)}]\n{frames}"
    if _is_ours(error) or isinstance(error, KeyboardInterrupt | SystemExit):
        return ""
    return "; --debug shows where"


def _write_document(name: str, run: Run, figures: Mapping[str, Any]) -> None:
    """Let an extension or another package add a file to the results, by the group
    `curvfed.documents`."""
    plugins.addition("documents", name)(run, figures)


def _report(directory: RunDirectory) -> bool:
    """Draw the report, and return whether it succeeded."""

    def write() -> None:
        from curvfed.server_app.report.run_page import write_report

        write_report(directory.path)

    return _without_harm(directory, "report", write)


def _without_harm(directory: RunDirectory, product: str, make: Callable[[], None]) -> bool:
    """Add a product to the results, and return whether it succeeded. A failure, such as a full
    disk, must not cost the run its results."""
    try:
        make()
    except Exception as error:
        text = "the %s could not be made (%s); the figures are in %s"
        is_unforeseen = not isinstance(error, OSError)
        log.error(text, product, reason(error), directory.path, exc_info=is_unforeseen)
        return False
    return True
