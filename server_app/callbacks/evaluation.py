"""Evaluation of the clients after some rounds: with a model fine-tuned at each, or as received."""

import time

from curvfed.server_app.callbacks import Callback, Round
from curvfed.server_app.cohort import Cohort, Question
from curvfed.server_app.run import Run
from curvfed.strategies.wire.messages import EVALUATE, FINE_TUNE


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

    def after_round(self, completed: Round) -> None:
        """Score the clients, and compare with the best round."""
        run = self.run
        config = run.config
        number = completed.number
        clients = list(run.federation.nodes)
        # Where nothing is shared, fine-tuning would be more of the same training.
        fine_tunes = config.fine_tunes and bool(run.model.sent_to(0))
        if fine_tunes and run.is_due(number, config.fine_tune_every):
            self._score(FINE_TUNE, number, clients)
        elif run.is_due(number, config.evaluate_every):
            trained = set(completed.answer.replies) if completed.answer else set()
            untrained = [partition for partition in clients if partition not in trained]
            self._score(EVALUATE, number, self._cohort.scored_together(untrained))
        else:
            return
        run.note_best(number)

    def _score(self, name: str, number: int, clients: list[int]) -> None:
        self.run.forget_scores(clients)
        if clients:
            started = time.monotonic()
            answer = self._cohort.ask(Question(name, number, clients))
            self._cohort.record(answer, started, in_round=False)
