"""What the server remembers of each client: its last round, its examples, falls and absences."""

from curvfed.server_app.callbacks import Callback, Round
from curvfed.server_app.run_warnings import note_absences, note_training


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
