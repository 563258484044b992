"""The callbacks of a run, in the order in which they are called, and those of a few lines."""

from collections.abc import Mapping
from typing import Any

from curvfed.server_app.callbacks import Callback, Round
from curvfed.server_app.callbacks.calibration import CalibrationCallback
from curvfed.server_app.callbacks.classifier_agreement import ClassifierAgreement
from curvfed.server_app.callbacks.early_stopping import EarlyStopping
from curvfed.server_app.callbacks.evaluation import Evaluation
from curvfed.server_app.callbacks.global_score import GlobalScore
from curvfed.server_app.client_history import note_absences, note_answers, note_training
from curvfed.server_app.cohort import Cohort, class_titles
from curvfed.server_app.directory import checkpoint as checkpoints
from curvfed.server_app.run import ROUND_SILENCE, Run
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.figures import GLOBAL_ACCURACY, find
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
        *([] if run.config.dp.unit != "none" else [Evaluation(run, cohort)]),
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


class BestRound(Callback):
    """Compares rounds that asked all clients to train."""

    def after_round(self, completed: Round) -> None:
        """Compare the scores of this round."""
        run = self.run
        if completed.answer is None or len(completed.clients) < len(run.federation.nodes):
            return
        # Every client had a request, so a client that failed has no score in this round.
        for partition in set(completed.clients) - completed.answer.replies.keys():
            run.state.latest.pop(partition, None)
        run.note_best(completed.number)


class CheckpointCallback(Callback):
    """Stores the run after each round."""

    def stored(self, completed: Round) -> None:
        """Store model and state; sinks receive only rounds that are stored."""
        run = self.run
        arrays = checkpoints.Checkpoint(run.model.state(), run.fixed, run.calibrated)
        checkpoints.save(run.directory.checkpoints, run.state, arrays, run.federation)
        run.sinks.flush()


class ClientHistory(Callback):
    """Updates the clients' histories in the state of the run, and logs new warnings."""

    def after_round(self, completed: Round) -> None:
        """Note who trained, who failed, and who became worse."""
        if completed.answer is None:
            return
        state = self.run.state
        answer = completed.answer
        for partition, reply in answer.replies.items():
            state.stamps[partition] = completed.number
            if answer.cohort is None:
                state.examples[partition] = reply.num_examples
        note_training(state, answer, self.run.federation)
        note_absences(state, completed.clients, answer)
        self.run.warn()


class Confusion(Callback):
    """Writes `confusion.csv`, and warns if all models predict a single class."""

    def after_round(self, completed: Round) -> None:
        """Write the counts of the last round."""
        run = self.run
        if completed.number != run.last_round:
            return
        if completed.answer is not None:
            note_answers(run.state, run.confusions, run.federation.metric)
            run.warn()
        rows = []
        for partition, counts in sorted(run.confusions.items()):
            names = [*class_titles(run, partition), ""]  # the name of -1, no class
            triples = zip(counts[::3], counts[1::3], counts[2::3], strict=True)
            rows += [
                (partition, names[true], names[predicted], count)
                for true, predicted, count in triples
            ]
        run.directory.write_confusions(rows)


class ProgressLine(Callback):
    """Logs the last round, and others at most every second."""

    def stored(self, completed: Round) -> None:
        """Log the figures of a round."""
        is_last = completed.number == self.run.last_round
        text = _in_words(completed.row, self.run.federation.metric)
        self.run.progress.say(completed.number, text, 0 if is_last else ROUND_SILENCE)


def _in_words(row: Mapping[str, Any], metric: str) -> str:
    """The figures of a round in `rounds.csv` for the log."""
    columns = {
        GLOBAL_ACCURACY: "global",
        "score": "AUC" if metric == "roc_auc" else "accuracy",
        "loss": "loss",
    }
    texts = [
        f"{words} {find(column).text(row[column])}"
        for column, words in columns.items()
        if row[column] is not None
    ]
    texts.append(f"{row['seconds']:.2f} s")
    if row["dropped"]:
        texts.append(f"{row['dropped']} dropped")
    return "  ".join(texts)
