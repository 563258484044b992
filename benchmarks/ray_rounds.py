"""What a round costs beyond training, from a run's own `rounds.csv`."""

import statistics
from collections.abc import Sequence


def overhead(rows: Sequence[dict[str, str]], workers: int) -> float:
    """Mean seconds per round, the first left out, beyond the clients' training shared among `workers` processes."""
    later = [row for row in rows if row["phase"] == "train"][1:]
    return statistics.mean(float(row["seconds"]) - float(row["seconds_training"]) / workers for row in later)
