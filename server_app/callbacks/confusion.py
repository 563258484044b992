"""The clients' confusion counts after the last round."""

from curvfed.server_app.callbacks import Callback, Round
from curvfed.server_app.cohort import class_titles
from curvfed.server_app.run_warnings import note_answers


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
