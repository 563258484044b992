"""The callbacks of a run, in the order in which they are called."""

from curvfed.server_app.callbacks import Callback
from curvfed.server_app.callbacks.best_round import BestRound
from curvfed.server_app.callbacks.calibration import CalibrationCallback
from curvfed.server_app.callbacks.checkpoint import CheckpointCallback
from curvfed.server_app.callbacks.classifier_agreement import ClassifierAgreement
from curvfed.server_app.callbacks.client_history import ClientHistory
from curvfed.server_app.callbacks.confusion import Confusion
from curvfed.server_app.callbacks.early_stopping import EarlyStopping
from curvfed.server_app.callbacks.evaluation import Evaluation
from curvfed.server_app.callbacks.global_score import GlobalScore
from curvfed.server_app.callbacks.progress_line import ProgressLine
from curvfed.server_app.cohort import Cohort
from curvfed.server_app.run import Run
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError


def callbacks_of(run: Run, cohort: Cohort) -> list[Callback]:
    """The callbacks of a run.

    Raises
    ------
    ConfigError
        If a callback of another package is not installed, or is not a Callback.
    """
    global_score = GlobalScore(run)
    calibrations: list[Callback] = []
    if run.config.calibration is not None:
        calibrations = [CalibrationCallback(run, cohort, run.config.calibration, global_score)]
    return [
        global_score,
        ClassifierAgreement(run),
        ClientHistory(run),
        BestRound(run),
        *calibrations,
        Evaluation(run, cohort),
        *([EarlyStopping(run)] if run.config.early_stopping else []),
        Confusion(run),
        CheckpointCallback(run),
        *(kind(run) for kind in callback_classes(run.config)),
        ProgressLine(run),
    ]


def callback_classes(config: RunConfig) -> list[type[Callback]]:
    """The callbacks of other packages that the key `callbacks` names.

    Raises
    ------
    ConfigError
        If no installed package has one of the names, or one cannot be imported or is no Callback.
    """
    key = f'callbacks = "{config.callbacks}"'
    installed = plugins.registered("callbacks")
    classes: list[type[Callback]] = []
    for name in config.callback_names:
        if name not in installed:
            raise ConfigError(
                f"{key}: no installed package has a callback {name}; installed are"
                f" {', '.join(sorted(installed)) or 'none'}",
                key="no-such-callback",
            )
        try:
            kind = plugins.load("callbacks", name)
        except DataError as error:
            raise ConfigError(f"{key}: {error}", key="callback") from None
        if not (isinstance(kind, type) and issubclass(kind, Callback)):
            raise ConfigError(
                f"{key}: {name} is {kind!r}; allowed is a subclass of"
                f" {Callback.__module__}.Callback",
                key="not-a-callback",
            )
        classes.append(kind)
    return classes
