"""The checkpoint after each round, from which a run is resumed."""

from curvfed.server_app.callbacks import Callback, Round
from curvfed.server_app.directory import checkpoint as checkpoints


class CheckpointCallback(Callback):
    """Stores the run after each round."""

    def stored(self, completed: Round) -> None:
        """Store model and state; sinks receive only rounds that are stored."""
        run = self.run
        arrays = checkpoints.Checkpoint(run.model.state(), run.fixed, run.calibrated)
        checkpoints.save(run.directory.checkpoints, run.state, arrays, run.federation)
        run.sinks.flush()
