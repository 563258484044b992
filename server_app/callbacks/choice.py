"""The callbacks of a run, in the order in which they are called, and the short ones."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from curvfed.server_app.answer import Answer, Question, personal_figures
from curvfed.server_app.callbacks import Callback, Round
from curvfed.server_app.callbacks.calibration import CalibrationCallback
from curvfed.server_app.callbacks.global_score import GlobalScore
from curvfed.server_app.callbacks.long_updates import LongUpdates
from curvfed.server_app.client_history import note_answers, note_training
from curvfed.server_app.cohort import Cohort
from curvfed.server_app.run import ROUND_SILENCE, Run
from curvfed.strategies.base.figures import GLOBAL_ACCURACY, PERSONAL_ACCURACY, find, words_of
from curvfed.strategies.base.statistics import HEAD, Statistics
from curvfed.strategies.config.one_shot import server_half
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.messages import EVALUATE, FINE_TUNE
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError

WEIGHT = f"{HEAD}weight"


def callbacks_of(run: Run, cohort: Cohort) -> list[Callback]:
    """The callbacks of a run.

    Raises
    ------
    ConfigError
        If a callback of another package is not installed, or is not a Callback.
    """
    config = run.config
    callbacks: list[Callback] = []
    if config.is_masked:
        from curvfed.server_app.callbacks.before_rounds import first_phase

        callbacks.append(first_phase(run, cohort))
    if run.method.is_one_shot:
        return callbacks
    global_score = GlobalScore(run)
    if global_score.has_model:
        callbacks.append(global_score)
    callbacks += [LongUpdates(run), ClassifierAgreement(run), ClientHistory(run)]
    if config.calibrator is not None:
        callbacks.append(CalibrationCallback(run, cohort, config.calibrator, global_score))
    if not config.guard.is_private:
        callbacks.append(Evaluation(run, cohort))
    if config.early_stopping:
        callbacks.append(EarlyStopping(run))
    callbacks.append(Confusion(run))
    callbacks += [kind(run) for kind in callback_classes(config)]
    callbacks.append(ProgressLine(run))
    return callbacks


def check_callbacks(config: RunConfig) -> None:
    """Refuse callbacks, or a one-shot method's server half, that a run cannot use.

    Raises
    ------
    ConfigError
    """
    callback_classes(config)
    if config.row.is_one_shot:
        server_half(config, ())


def callback_classes(config: RunConfig) -> list[type[Callback]]:
    """The callbacks of other packages that the key `callbacks` names.

    Raises
    ------
    ConfigError
        If no installed package has one of the names, or one cannot be imported or is not a
        Callback.
    """
    key = f'callbacks = "{config.callbacks}"'
    installed = plugins.additions("callbacks")
    classes: list[type[Callback]] = []
    for name in config.callback_names:
        if name not in installed:
            raise ConfigError(
                f"{key}: no installed package has a callback {name}; installed are"
                f" {', '.join(sorted(installed)) or 'none'}",
                key="no-such-callback",
            )
        try:
            kind = plugins.addition("callbacks", name)
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


class ClientHistory(Callback):
    """Updates the clients' histories in the state of the run, logs new warnings, and compares the
    scores of rounds that asked all clients to train."""

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
        note_training(state, completed.clients, answer, self.run.federation)
        self.run.warn()
        if len(completed.clients) == len(self.run.federation.nodes):
            # Every client had a request, so a client that failed has no score in this round.
            for partition in set(completed.clients) - answer.replies.keys():
                state.latest.pop(partition, None)
            state.note_best(completed.number, self.run.federation)


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
            names = [*run.federation.class_titles(partition), ""]  # the name of -1, no class
            triples = zip(counts[::3], counts[1::3], counts[2::3], strict=True)
            rows += [
                (partition, names[true], names[predicted], count)
                for true, predicted, count in triples
            ]
        run.directory.write_confusions(rows)


class ProgressLine(Callback):
    """Logs the last round, with the scores of the summary, and others at most every second."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        metric = run.federation.metric
        self._words = {
            GLOBAL_ACCURACY: words_of(GLOBAL_ACCURACY, [metric]),
            "score": f"personal {find(metric).short or metric}",
            "loss": "loss",
        }
        self._figures = {column: find(column) for column in self._words}

    def stored(self, completed: Round) -> None:
        """Log the figures of a round."""
        run = self.run
        row = dict(completed.row)
        words = dict(self._words)
        is_last = completed.number == run.last_round
        if is_last:  # the clients may be fine-tuned since, and others have scores of earlier rounds
            state = run.state
            figures = personal_figures(state.latest, run.federation.descriptions, state.cohort)
            scores = figures["metrics"] | {"accuracy": figures[PERSONAL_ACCURACY]}
            row["score"] = scores[run.federation.metric]
            if run.config.fine_tunes:
                words["score"] += ", fine-tuned"
            if state.scored.get("calibrated") is not None:
                row[GLOBAL_ACCURACY] = state.scored["calibrated"]
        texts = [
            f"{words[column]} {figure.text(row[column])}"
            for column, figure in self._figures.items()
            if row.get(column) is not None
        ]
        texts.append(f"{row['seconds']:.2f} s")
        if row["dropped"]:
            texts.append(f"{row['dropped']} dropped")
        run.progress.say(completed.number, "  ".join(texts), 0 if is_last else ROUND_SILENCE)


class EarlyStopping(Callback):
    """Makes the next round the last one when the mean validation score has not improved in
    `early-stopping` rounds.

    The run trains one more round, so that its last round is known when it begins, as in every run:
    clients then calibrate, fine-tune and send their last scores.
    """

    def after_round(self, completed: Round) -> None:
        """Compare the last round that has validation scores with the best one."""
        run = self.run
        state = run.state
        number = completed.number
        if number == 1 and not state.validated:
            log.warning(
                "early-stopping = %d waits for validation scores of all clients: they need"
                " validation examples (train-size and test-size below 1 in sum), and with"
                " fraction-train below 1 evaluate-every",
                run.config.early_stopping,
            )
        waited = state.validated - state.improved
        if waited < run.config.early_stopping or number >= run.last_round:
            return
        run.stop_after(number + 1)
        log.info(
            "round %d: no better validation score since round %d; round %d is the last"
            " (early-stopping = %d)",
            number,
            state.improved,
            run.last_round,
            run.config.early_stopping,
        )


class Evaluation(Callback):
    """Fine-tunes all clients, or scores those that did not train, in the rounds that
    `fine-tune-every` and `evaluate-every` select.

    Parameters
    ----------
    run : Run
    cohort : Cohort
    """

    def __init__(self, run: Run, cohort: Cohort) -> None:
        super().__init__(run)
        self._cohort = cohort
        # Without shared parameters, fine-tuning would only repeat the training.
        self._fine_tunes = run.config.fine_tunes and bool(run.model.sent_to(0))

    def after_round(self, completed: Round) -> None:
        """Score the clients, and compare with the best round."""
        run = self.run
        config = run.config
        number = completed.number
        clients = list(run.federation.nodes)
        if number == 0 and config.calibrator is not None:
            return  # the clients would score the classifier before its calibration, a random one
        if self._fine_tunes and run.is_due(number, config.fine_tune_every):
            self._score(FINE_TUNE, number, clients)
        elif run.is_due(number, config.evaluate_every):
            trained = set(completed.answer.replies) if completed.answer else set()
            untrained = [partition for partition in clients if partition not in trained]
            self._score(EVALUATE, number, self._cohort.scored_together(untrained))
        else:
            return
        run.state.note_best(number, run.federation)

    def _score(self, name: str, number: int, clients: list[int]) -> None:
        self.run.forget_scores(clients)
        if clients:
            started = time.monotonic()
            answer = self._cohort.ask(Question(name, number, clients))
            self._cohort.record(answer, started, in_round=False)


class ClassifierAgreement(Callback):
    """Adds two columns to `rounds.csv`, where the server sees the clients' classifiers."""

    def figures(self, number: int, answer: Answer) -> Mapping[str, Any]:
        """The agreement of this round's contributions."""
        return alignment(answer.contributions)


def alignment(contributions: Mapping[int, Statistics]) -> dict[str, float]:
    """Mean similarity of the clients' classifier rows (C, d), over the classes and all pairs of
    clients that trained.

    Parameters
    ----------
    contributions : mapping of partition to Statistics
        As received.

    Returns
    -------
    dict
        "classifier_cosine": cosine of the angle between two clients' rows for a class
        (SphereFed, Eq. 2); classes for which any client has a row of zeros are left out.
        "classifier_norm_gap": absolute difference between the norms of the two rows (Eq. 3; the
        mean of the signed difference is 0). Empty if fewer than two clients send a trained
        classifier.
    """
    sent = [
        contribution.arrays[WEIGHT]
        for contribution in contributions.values()
        if contribution.weight and WEIGHT in contribution.arrays
    ]
    if len(sent) < 2:
        return {}
    weights = np.stack(sent).astype(np.float64)
    count = len(weights)
    norms = np.linalg.norm(weights, axis=-1)
    # Sums over pairs as sums over clients: Σ⟨uⱼ, uₖ⟩ is ‖Σuₖ‖² − Σ‖uₖ‖². Among the sorted norms
    # each one is subtracted once for every larger norm and added once for every smaller one.
    order = 2 * np.arange(count)[:, None] + 1 - count
    pairs = count * (count - 1)
    nonzero = (norms > 0).all(axis=0)
    figures = {
        "classifier_norm_gap": float(
            2 * (order * np.sort(norms, axis=0)).sum(axis=0).mean() / pairs
        )
    }
    if nonzero.any():
        units = weights[:, nonzero] / norms[:, nonzero, None]
        figures["classifier_cosine"] = float(
            (np.square(units.sum(axis=0)).sum(axis=-1) - count).mean() / pairs
        )
    return figures
