"""Our run of a job."""

from typing import Any

import curvfed
from studies.peers.job import Job, serve


def run(job: Job) -> dict[str, Any]:
    """Scores in percent, and seconds of a round with scoring, messages and files."""
    settings = job["settings"] | {"results-dir": job["folder"], "device": "cpu"}
    keywords = {name.replace("-", "_"): value for name, value in settings.items()}
    summary = curvfed.simulate(num_supernodes=job["clients"], quiet=True, **keywords).summary
    scores = {
        "best": summary["best_validation"] and summary["best_validation"]["personal_accuracy_mean"],
        "personal": summary["personal_accuracy_mean"],
        "pooled": summary["metrics"]["personal_accuracy_pooled"],
        "global": summary["global_accuracy"],
    }
    rounds = summary["rounds"] + job["settings"].get("fine-tune-epochs", 0) * (
        job["settings"]["method"] == "adafgl"
    )
    figures = {name: 100 * value for name, value in scores.items() if value is not None}
    return figures | {"seconds": summary["seconds"] / rounds}


if __name__ == "__main__":
    serve(run)
