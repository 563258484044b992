"""Early stopping: a run ends when the validation scores no longer improve."""

import logging

from curvfed.server_app.callbacks import Callback, Round

log = logging.getLogger("curvfed")


class EarlyStopping(Callback):
    """Makes the next round the last one when the mean validation score has not improved in
    `early-stopping` rounds.

    The run trains one more round, so that its last round is known when it begins, as in every run:
    clients then calibrate, fine-tune and send their last scores.
    """

    def after_round(self, completed: Round) -> None:
        """Compare the last round whose validation scores are known with the best one."""
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
