"""The round with the best validation scores."""

from curvfed.server_app.callbacks import Callback, Round


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
