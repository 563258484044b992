"""The examples that a model predicts, and the prediction."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.tasks.names import OWN, is_named

if TYPE_CHECKING:  # pandas takes a second to import
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class Examples:
    """Data to predict: new to the model, or the run's own.

    Attributes
    ----------
    data : object
        In the form of the task.
    labels : list of str
        The class of each example; ignored if no example is scored.
    scored : (n,), bool
        The examples of known class on which the model is scored.
    which : str
        The scored examples in words.
    names : list of str
        The name of each example; by default its number.
    about : dict of str to str
        How the data were changed to fit the model.
    """

    data: Any
    labels: Sequence[str]
    scored: NDArray[np.bool_]
    which: str = ""
    names: Sequence[str] = ()
    about: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Prediction:
    """The predicted class of every example.

    Attributes
    ----------
    noun : str
        "node", "graph", "image" or "point".
    names : list of str
        A number, the path of an image, or the name of a cell.
    classes : list of str
        "" if the model's output is not finite.
    probabilities : Tensor, (n,)
        The probabilities of these classes: the softmax of the logits, for points the classifier's
        own.
    about : dict of str to str
        The model and its scores, in words.
    unknown : (n,), bool, or None
        Whether an example is of none of the classes, where the classifier can tell.
    """

    noun: str
    names: list[str]
    classes: list[str]
    probabilities: Tensor
    about: dict[str, str]
    unknown: NDArray[np.bool_] | None = None

    def table(self) -> "DataFrame":
        """A row per example: its number, path or name, its class, the probability of that, whether
        it is of none."""
        from pandas import DataFrame

        names = [int(name) if name.isdecimal() else name for name in self.names]
        columns = {
            self.noun: names,
            "class": self.classes,
            "probability": self.probabilities.numpy(),
        }
        return DataFrame(columns | ({} if self.unknown is None else {"unknown": self.unknown}))


def prediction(
    run: TrainedRun,
    examples: Examples,
    classes: list[str],
    probabilities: Tensor,
    about: dict[str, str],
) -> Prediction:
    """Score the predicted classes, and name them; `about` describes the model."""
    task = run.facts.task
    number = str(len(classes))
    told = {"method": run.config.method} | about | examples.about | {task: number}
    if examples.scored.any():
        right = (np.array(classes) == np.array(examples.labels))[examples.scored]
        told[task] = f"{number}, {len(right)} to score on"
        told[f"accuracy on {examples.which}"] = f"{right.mean():.4f}"
    names = list(examples.names) or [str(number) for number in range(len(classes))]
    return Prediction(task.removesuffix("s"), names, classes, probabilities, told)


def most_likely(logits: Tensor, class_names: Sequence[str]) -> tuple[list[str], Tensor]:
    """The class of each row of logits (n, C), "" if the row is not finite, and its probability
    (n,)."""
    probabilities, best = logits.softmax(dim=1).cpu().max(dim=1)
    finite = logits.isfinite().all(dim=1).tolist()
    return [
        class_names[index] if known else "" for index, known in zip(best.tolist(), finite)
    ], probabilities


def own_name(run: TrainedRun) -> str:
    """The name of the run's data set as the first of what is allowed; nothing if every node had
    data of its own."""
    return "" if run.config.dataset == OWN else f'"{run.config.dataset}", the run\'s own, '


def is_own(run: TrainedRun, data: str, places: Iterable[Path] = ()) -> bool:
    """Whether `data` is the run's data set: its name, or the same file or folder as its path or one
    of these places."""
    given = Path(data).expanduser()
    if not is_named(run.config.dataset):  # a folder here may have the name of a data set
        places = (Path(run.config.dataset).expanduser(), *places)
    return data.lower() == run.config.dataset.lower() or any(
        given.exists() and place.exists() and os.path.samefile(given, place) for place in places
    )
