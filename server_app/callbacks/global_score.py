"""The score of the global model on the server's own test data."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from curvfed.server_app.answer import Answer
from curvfed.server_app.callbacks import Callback, Round
from curvfed.server_app.directory.summary import LAST
from curvfed.server_app.run import Run
from curvfed.strategies.base.figures import GLOBAL_ACCURACY
from curvfed.strategies.base.statistics import Arrays
from curvfed.tasks.kinds import KINDS

if TYPE_CHECKING:
    from curvfed.server_app.global_model import ScoredModel


class GlobalScore(Callback):
    """Scores the model in the rounds that `global-every` selects.

    Without test data at the server it takes no part in rounds. `Run.expects_no_score` is true from
    the start if neither the server nor a client has test data, so that the run's warning does not
    wait for the end.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._model: ScoredModel | None = None
        if KINDS[run.federation.facts.task].reads_test_data:
            from curvfed.server_app.global_model import open_global_model

            self._model = open_global_model(run.config, run.federation, run.model.is_global)
        sizes = {
            description.statistics.get("num_test")
            for description in run.federation.descriptions.values()
        }
        run.expects_no_score = self._model is None and sizes == {0}

    @property
    def has_model(self) -> bool:
        """Whether the server has test data to score the model on."""
        return self._model is not None

    def before_round(self, number: int) -> None:
        """Drop the figures of an earlier round; this one may not be scored."""
        self.run.state.scored.pop("figures", None)

    def figures(self, number: int, answer: Answer) -> Mapping[str, Any]:
        """The accuracy; None in the other rounds."""
        accuracy = self._score_round(number)
        return {GLOBAL_ACCURACY: accuracy, **self.run.state.scored.get("figures", {})}

    def after_round(self, completed: Round) -> None:
        """Score the starting model of a run without rounds."""
        if completed.answer is None:
            self._score_round(completed.number)

    def end(self) -> None:
        """Write the predictions of the last model."""
        if self._model is not None:
            run = self.run
            self._model.write(run.whole_model, run.calibrated, run.directory.path)

    def score(self, changed: Arrays) -> float | None:
        """The accuracy of the model with some parameters changed; None without test data."""
        if self._model is None:
            return None
        return self._model.score(self.run.whole_model | changed)

    def _score_round(self, number: int) -> float | None:
        if self._model is None or not self.run.is_due(number, self.run.config.global_every):
            return None
        accuracy = self._model.score(self.run.whole_model)
        scored = self.run.state.scored
        if self._model.figures:
            scored["figures"] = self._model.figures
        if accuracy is None:
            return None
        scored["last"] = [*scored.get("last", []), accuracy][-LAST:]
        return accuracy
