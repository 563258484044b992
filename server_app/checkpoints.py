"""The checkpoints of a run: its model and state after each round, with which it resumes."""

from curvfed.server_app.directory import checkpoint
from curvfed.server_app.federation import nodes_can_join
from curvfed.server_app.run import Run
from curvfed.strategies.base.further_state import whole_state


class Checkpoints:
    """Stores a run after each round.

    Parameters
    ----------
    run : Run
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._identity = checkpoint.identity(run.federation)
        # The system writes the files of a simulation within seconds, which take many short rounds.
        self._is_durable = nodes_can_join(run.grid)

    def store(self) -> None:
        """Store model and state; sinks receive only rows that are stored."""
        run = self._run
        arrays = checkpoint.Checkpoint(whole_state(run.model), run.fixed, run.calibrated)
        folder = run.directory.checkpoints
        checkpoint.save(folder, run.state, arrays, self._identity, self._is_durable)
        if run.sinks.names:
            run.sinks.flush()
