"""The ServerApp: configuration -> method -> rounds -> run directory."""

import logging
import sys

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from server_app.hull_run import HullRun
from server_app.results import RunDirectory, failed_summary, write_failure
from server_app.rounds import Rounds
from strategies.config import ConfigError, RunConfig, flatten, parse
from strategies.methods import METHODS

log = logging.getLogger("curvfed")

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the method that the configuration names and leave a run directory, whatever happens."""
    _log_to_stdout()
    config = None
    try:
        config = parse(context.run_config)
        directory = RunDirectory.open(config)
    except ConfigError as error:
        place = write_failure(str(error), context.run_config, config)
        log.error("%s", error)
        log.error("summary of the failure: %s", place)
        raise
    run_in(directory, config, grid)


def run_in(directory: RunDirectory, config: RunConfig, grid: Grid) -> None:
    """Run in an open run directory; a failure is written there before it is raised."""
    log.info("run directory: %s", directory.path)
    log.info("configuration: %s", "  ".join(f"{key}={value}" for key, value in flatten(config).items()))
    one_shot = METHODS[config.method].is_one_shot
    run: HullRun | Rounds = (HullRun if one_shot else Rounds)(config, grid, directory)
    try:
        run.run()
    except BaseException as error:
        text = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__
        directory.write_summary(failed_summary(text, config) | run.figures() | {"status": "failed", "error": text})
        _report(directory)
        log.error("the run failed after round %d: %s", run.state.round, text)
        raise
    directory.write_summary({"status": "completed"} | run.figures())
    if _report(directory):
        log.info("done: %s", directory.path / "report.html")
    else:
        log.warning("done, without a report: %s", directory.path)


def _report(directory: RunDirectory) -> bool:
    """Draw the report, and say whether it could be: that must not cost the run its results."""
    try:
        from server_app.report import write_report

        write_report(directory.path)
    except Exception:
        log.exception("the report could not be made; the figures are in %s", directory.path)
        return False
    return True


def _log_to_stdout() -> None:
    """Flower streams what the ServerApp prints."""
    if not log.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("curvfed | %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
