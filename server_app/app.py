"""The ServerApp: configuration -> method -> rounds -> run directory."""

import logging
import traceback
from collections.abc import Mapping
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.summary import failed_summary, write_failure
from curvfed.server_app.rounds import Rounds
from curvfed.server_app.run import Run
from curvfed.server_app.sinks import check_installed
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig, flatten
from curvfed.strategies.run_log import log_to_stdout

log = logging.getLogger("curvfed")

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the configured method; the run directory is written whatever happens."""
    log_to_stdout()
    config = None
    try:
        config = parse(context.run_config)
        check_installed(config.sinks)
        directory = RunDirectory.open(config)
    except ConfigError as error:
        _refuse(error, context.run_config, config)
        raise
    try:
        run_in(directory, config, grid)
    finally:
        directory.lock.release()


def _kind_of_run(config: RunConfig) -> type[Run]:
    """The class for this method; the hull run and what it needs are imported only where they are used."""
    if config.row.is_one_shot:
        from curvfed.server_app.one_shot.discriminant_run import DiscriminantRun
        from curvfed.server_app.one_shot.hull_run import HullRun
        from curvfed.server_app.one_shot.pca_run import PcaRun

        return {"discriminant": DiscriminantRun, "pca": PcaRun}.get(config.method, HullRun)
    return Rounds


def run_in(directory: RunDirectory, config: RunConfig, grid: Grid) -> None:
    """Run in an open run directory; a failure is written there before it is raised."""
    log.info("run directory: %s", directory.path)
    every = defaults()
    chosen = [f"{key}={value}" for key, value in flatten(config).items() if value != every[key]]
    log.info("configuration: %s; config.toml has all of it", "  ".join(chosen) or "the defaults")
    run = _kind_of_run(config)(config, grid, directory)
    try:
        run.run()
    except BaseException as error:
        # Flower turns a signal into SystemExit and kills the process seconds later, so the summary is written first.
        text = reason(error)
        if not directory.is_writable:  # a resumed run that could not begin changes nothing
            _refuse(error, flatten(config) | {"run-name": directory.name}, config)
            raise
        told = failed_summary(text, config) | run.figures() | {"status": "failed", "error": text}
        directory.write_summary(told)
        log.error("the run failed after round %d: %s%s", run.state.round, text, _more(error, config))
        _report(directory)
        run.sinks.end(told)
        raise
    told = {"status": "completed"} | run.figures()
    directory.write_summary(told)
    drawn = _report(directory)
    run.sinks.end(told)
    if drawn:
        log.info("done: %s", directory.path / "report.html")
    else:
        log.warning("done, without a report: %s", directory.path)


def _refuse(error: BaseException, raw: Mapping[str, Any], config: RunConfig | None) -> None:
    """Log why a run cannot begin, and write it beside the run directories."""
    place = write_failure(reason(error), raw, config)
    log.error("%s%s", reason(error), _more(error, config))
    log.error("summary of the failure: %s", place)


def reason(error: BaseException) -> str:
    """Why a run ended, in one line; errors that are not ours are named by their type too."""
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, SystemExit) and not error.code):
        return "interrupted"
    if isinstance(error, SystemExit):
        return "ended by Flower, whose own log says why"
    name = type(error).__name__
    return f"{name}: {error}" if str(error) and not _is_ours(error) else str(error) or name


def _is_ours(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] == "curvfed"


def _more(error: BaseException, config: RunConfig | None) -> str:
    """The text after the reason: the traceback with debug=true, otherwise how to get it."""
    if config is not None and config.debug:
        return "\n" + "".join(traceback.format_exception(error)).rstrip()
    return "" if _is_ours(error) or isinstance(error, KeyboardInterrupt | SystemExit) else "; --debug shows where"


def _report(directory: RunDirectory) -> bool:
    """Draw the report; whether it succeeded. A failure must not cost the run its results."""
    try:
        from curvfed.server_app.report.page import write_report

        write_report(directory.path)
    except Exception:
        log.exception("the report could not be made; the figures are in %s", directory.path)
        return False
    return True
