"""A line in the log about a round."""

from curvfed.server_app.callbacks import Callback, Round
from curvfed.server_app.progress import ROUND_SILENCE, in_words


class ProgressLine(Callback):
    """Logs the last round, and others at most every second."""

    def stored(self, completed: Round) -> None:
        """Log the figures of a round."""
        is_last = completed.number == self.run.last_round
        text = in_words(completed.row, self.run.federation.metric)
        self.run.progress.say(completed.number, text, 0 if is_last else ROUND_SILENCE)
