"""Our run of a job."""

import json
import logging
from pathlib import Path
from typing import Any

from curvfed.deployments.inprocess import simulate
from studies.peers.job import Job, serve


def run(job: Job) -> dict[str, Any]:
    """Scores in percent, and seconds of a round with scoring, messages and files."""
    logging.getLogger("curvfed").addHandler(logging.NullHandler())
    folder = simulate(
        job["settings"] | {"results-dir": job["folder"], "device": "cpu"}, job["clients"]
    )
    summary = json.loads((Path(folder) / "summary.json").read_text())
    scores = {
        "best": summary["best_validation"] and summary["best_validation"]["personal_accuracy_mean"],
        "personal": summary["personal_accuracy_mean"],
        "global": summary["global_accuracy"],
    }
    rounds = summary["rounds"] + job["settings"].get("fine-tune-epochs", 0) * (
        job["settings"]["method"] == "adafgl"
    )
    told = {name: 100 * value for name, value in scores.items() if value is not None}
    return told | {"seconds": summary["seconds"] / rounds}


if __name__ == "__main__":
    serve(run)
