"""Examples for a model, and its prediction: in tables, and as CSV or in a copy of the data."""

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor

from curvfed.deployments.inputs import COPIES, is_same_name
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.deployments.terminal import print_data
from curvfed.geometry.arrays import Booleans
from curvfed.server_app.directory import frame_csv
from curvfed.tasks import plugins
from curvfed.tasks.amounts import amount, be
from curvfed.tasks.class_names import in_order, names_listed
from curvfed.tasks.registry import OWN, is_named
from curvfed.tasks.stored_files import write_atomically

if TYPE_CHECKING:  # pandas takes a second to import
    from pandas import DataFrame


class Options(NamedTuple):
    """The options of a prediction: the first three on data without classes, such as links.

    Attributes
    ----------
    show : str
        A table of the kind of data: for links tails, neighbours or hierarchy.
    most : int
        Rows of each item.
    known : str or None
        Examples excluded from the answer: a file, or the name of the run's data set.
    label_key : str or None
        The column of the classes of points; None: `points.label-key` of the run.
    """

    show: str = "tails"
    most: int = 10
    known: str | None = None
    label_key: str | None = None


class Predicted(Protocol):
    """A table, and notes about the model in words."""

    @property
    def notes(self) -> dict[str, str]:
        """The notes by name."""
        ...

    def table(self) -> "DataFrame":
        """The table."""
        ...


@dataclass(frozen=True, eq=False)
class Examples:
    """Data to predict: new to the model, or the run's own.

    Attributes
    ----------
    data : object
        The data, in the form of the task.
    labels : list of str
        The class of each example; ignored if no example is scored.
    scored : (n,), bool
        The examples of known class on which the model is scored.
    scored_words : str
        The scored examples, in words.
    names : list of str
        The name of each example; default: its number.
    notes : dict of str to str
        The changes of the data to fit the model, in words.
    """

    data: Any
    labels: Sequence[str]
    scored: Booleans
    scored_words: str = ""
    names: Sequence[str] = ()
    notes: dict[str, str] = field(default_factory=dict)


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
        The probabilities of these classes: the softmax of the logits; for points, those of the
        classifier.
    notes : dict of str to str
        The model and its scores, in words.
    unknown : (n,), bool, or None
        Whether an example belongs to none of the classes, if the classifier reports it.
    """

    noun: str
    names: list[str]
    classes: list[str]
    probabilities: Tensor
    notes: dict[str, str]
    unknown: Booleans | None = None

    def table(self) -> "DataFrame":
        """A row per example: its number, path or name, its class, the probability of the class, and
        whether it belongs to none."""
        from pandas import DataFrame

        names = [int(name) if name.isdecimal() else name for name in self.names]
        columns = {
            self.noun: names,
            "class": self.classes,
            "probability": self.probabilities.numpy(),
        }
        if self.unknown is not None:
            columns["unknown"] = self.unknown
        return DataFrame(columns)


OF_KNOWN_CLASS = " of known class"
"""The words for scored examples where others have a class that the model cannot predict, or
none."""


def without_other_classes(examples: Examples, class_names: Collection[str], noun: str) -> Examples:
    """The same examples, of which those of other classes than the run's are not scored; a note
    counts them and names their classes.

    Parameters
    ----------
    examples : Examples
    class_names : collection of str
        The classes of the run.
    noun : str
        The examples in words: "nodes", "graphs", "images" or "points".
    """
    is_other = examples.scored & ~np.isin(examples.labels, list(class_names))
    if not is_other.any():
        return examples
    others = in_order([examples.labels[place] for place in is_other.nonzero()[0].tolist()])
    number = int(is_other.sum())
    subject = f"{amount(number, noun.removesuffix('s'))} {be(number)}"
    text = f"{subject} not scored, of {names_listed(others)}, which the run lacks"
    return replace(
        examples,
        scored=examples.scored & ~is_other,
        scored_words=examples.scored_words.removesuffix(OF_KNOWN_CLASS) + OF_KNOWN_CLASS,
        notes=examples.notes | {"classes": text},
    )


def scored_prediction(
    run: TrainedRun,
    examples: Examples,
    classes: list[str],
    probabilities: Tensor,
    notes: dict[str, str],
) -> Prediction:
    """Score the predicted classes; `notes` describe the model."""
    task = run.facts.task
    number = str(len(classes))
    notes = {"method": run.config.method} | notes | examples.notes | {task: number}
    if examples.scored.any():
        is_right = (np.array(classes) == np.array(examples.labels))[examples.scored]
        notes[task] = f"{number}, {len(is_right)} to score on"
        notes[f"accuracy on {examples.scored_words}"] = f"{is_right.mean():.4f}"
    names = list(examples.names) or [str(number) for number in range(len(classes))]
    return Prediction(task.removesuffix("s"), names, classes, probabilities, notes)


def most_likely(logits: Tensor, class_names: Sequence[str]) -> tuple[list[str], Tensor]:
    """The class of each row of logits (n, C), "" if the row is not finite, and its probability
    (n,)."""
    probabilities, best = logits.softmax(dim=1).cpu().max(dim=1)
    is_finite = logits.isfinite().all(dim=1).tolist()
    classes = [
        class_names[index] if finite else ""
        for index, finite in zip(best.tolist(), is_finite, strict=True)
    ]
    return classes, probabilities


def own_name(run: TrainedRun) -> str:
    """The run's data set as the first entry of a list of allowed data; "" if every node had data of
    its own."""
    if run.config.dataset == OWN:
        return ""
    return f'"{run.config.dataset}", the run\'s own, '


def is_own(run: TrainedRun, data: str, places: Iterable[Path] = ()) -> bool:
    """Whether `data` is the run's data set: its name in any case, or the file or folder of its path
    or of these places."""
    dataset = run.config.dataset
    if not is_named(dataset):  # a folder here may have the name of a data set
        own_path = Path(dataset).expanduser()
        places = (own_path, run.config.data_path / own_path, *places)
    path = Path(data).expanduser()
    return is_same_name(dataset, data) or (
        path.exists() and any(place.exists() and os.path.samefile(path, place) for place in places)
    )


def write_prediction(table: "DataFrame", data: str, out: Path | None) -> None:
    """Write the table of a prediction to a file, or as CSV to the standard output.

    In a format of `COPIES` it is a copy of the data with the predictions.

    Raises
    ------
    DataError
        If the data have other examples than the prediction.
    OSError
        If the output cannot be written.
    """
    suffix = ".csv" if out is None else out.suffix.lower()
    if out is not None and suffix in COPIES:
        plugins.imported(COPIES[suffix])(Path(data).expanduser(), table, out)
        return
    if suffix == ".json":
        text = table.to_json(orient="records", double_precision=6, force_ascii=False) + "\n"
    else:
        separator = "\t" if suffix == ".tsv" else ","
        text = frame_csv(table, float_format="%.6f", separator=separator)
    if out is None:
        print_data(text)
    else:
        write_atomically(out, text.encode())
