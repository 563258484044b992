"""What a trained model is shown, and what it makes of it."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from curvfed.deployments.predict.trained_run import TrainedRun


@dataclass(frozen=True, eq=False)
class Shown:
    """Data that are new to a model, or that its run knows.

    Attributes
    ----------
    data : object
        As the task holds them.
    labels : list of str
        The class of each example; not used where none is scored.
    scored : (n,), bool
        Examples of known class that the model is scored on.
    which : str
        These examples, in words.
    names : list of str
        Of the examples; their numbers if it is left out.
    about : dict of str to str
        What had to be done to the data.
    """

    data: Any
    labels: Sequence[str]
    scored: NDArray[np.bool_]
    which: str = ""
    names: Sequence[str] = ()
    about: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a model makes of examples.

    Attributes
    ----------
    noun : str
        What is classified: "node", "graph", "image" or "point".
    names : list of str
        Of each example: a number, or the path of an image.
    classes : list of str
        Of each; "" where the model's answer is not finite.
    probabilities : Tensor, (n,)
        Of these classes: by softmax of the logits, of points by the classifier's own.
    about : dict of str to str
        What was used and what it scored, in words.
    """

    noun: str
    names: list[str]
    classes: list[str]
    probabilities: Tensor
    about: dict[str, str]


def prediction(
    run: TrainedRun, shown: Shown, classes: list[str], probabilities: Tensor, about: dict[str, str]
) -> Prediction:
    """The prediction of these classes, with the share of them that is right.

    Parameters
    ----------
    about : dict of str to str
        What the model is.
    """
    task, number = run.facts.task, str(len(classes))
    told = {"method": run.config.method} | about | shown.about | {task: number}
    if shown.scored.any():
        right = (np.array(classes) == np.array(shown.labels))[shown.scored]
        told[task] = f"{number}, {len(right)} to score on"
        told[f"accuracy on {shown.which}"] = f"{right.mean():.4f}"
    names = list(shown.names) or [str(number) for number in range(len(classes))]
    return Prediction(task.removesuffix("s"), names, classes, probabilities, told)


def most_likely(logits: Tensor, class_names: Sequence[str]) -> tuple[list[str], Tensor]:
    """The class of each row of logits (n, C), "" where one is not finite, and its probability (n,)."""
    probabilities, best = logits.softmax(dim=1).cpu().max(dim=1)
    finite = logits.isfinite().all(dim=1).tolist()
    return [class_names[index] if known else "" for index, known in zip(best.tolist(), finite)], probabilities


def is_own(run: TrainedRun, data: str, places: Iterable[Path] = ()) -> bool:
    """Whether `data` is the run's data set: by its name, or as the same file or folder as one of these places."""
    given = Path(data).expanduser()
    return data.lower() == run.config.dataset.lower() or any(
        given.exists() and place.exists() and os.path.samefile(given, place) for place in places
    )
