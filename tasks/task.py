"""A client's data on its device, with one interface for the local training loop, and the scores of
its predictions."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from curvfed.tasks.errors import DataError
from curvfed.tasks.examples import Examples

if TYPE_CHECKING:
    from curvfed.tasks.points import ClientPoints


def score(metric: str, logits: Tensor, labels: Tensor) -> float | None:
    """Evaluate logits of some examples.

    Parameters
    ----------
    metric : str
        "accuracy" or "roc_auc"; the latter takes the second of two classes as positive.
    logits : Tensor, (n, C), float
    labels : Tensor, (n,), int64

    Returns
    -------
    float or None
        In [0, 1]; None if the score is undefined: without examples, or for "roc_auc" with a single
        class. Logits that are not finite count as wrong for "accuracy" and make "roc_auc"
        undefined.
    """
    if len(labels) == 0:
        return None
    if metric == "accuracy":
        return float((predictions(logits) == labels).double().mean())
    if metric != "roc_auc":
        raise ValueError(f'metric is "{metric}"; allowed: accuracy, roc_auc')
    return roc_auc((logits[:, 1] - logits[:, 0]).double(), labels == 1)


def predictions(logits: Tensor) -> Tensor:
    """The class (n,) of the largest of the logits (n, C), or −1, no class, unless all are finite.

    Examples
    --------
    >>> predictions(torch.tensor([[0.0, 2.0], [float("nan"), 0.0]])).tolist()
    [1, -1]
    """
    return logits.argmax(dim=1).where(logits.isfinite().all(dim=1), -1)


def roc_auc(scores: Tensor, positive: Tensor) -> float | None:
    """Share of (positive, negative) pairs in the right order, ties counting half (Mann-Whitney U,
    by mean ranks).

    Parameters
    ----------
    scores : Tensor, (n,), float64
    positive : Tensor, (n,), bool

    Returns
    -------
    float or None
        None without a pair or if a score is not finite.
    """
    num_positive = int(positive.sum())
    num_negative = len(positive) - num_positive
    if num_positive == 0 or num_negative == 0 or not bool(scores.isfinite().all()):
        return None
    _, group, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    ends = counts.cumsum(0)
    mean_rank = ends.double() - (counts - 1).double() / 2
    rank_sum = float(mean_rank[group[positive]].sum())
    return (rank_sum - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative)


PARTS = ("train", "val", "test")
SCORED = {"val": "validation", "test": "score"}
"""The name of the score of each part."""


class Batch(NamedTuple):
    """The examples of one step.

    Attributes
    ----------
    inputs : object
        The argument of the model.
    labels : Tensor, (n,), int64
    rows : Tensor, (n,), int64, or None
        The examples' rows in the model's output; None: all rows, in order.

    Examples
    --------
    >>> batch = Batch(torch.eye(3), torch.tensor([1, 0]), rows=torch.tensor([0, 2]))
    >>> batch.select(torch.tensor([5.0, 6.0, 7.0]))
    tensor([5., 7.])
    """

    inputs: Any
    labels: Tensor
    rows: Tensor | None = None

    def select(self, output: Tensor) -> Tensor:
        """The examples' rows of an output of the model, or of its features."""
        return output if self.rows is None else output[self.rows]


def filled_up(numbers: Tensor, size: int) -> Tensor:
    """Numbers (n,), n ≥ 1, and the last of them once more for each that lacks to `size`.

    Processors round sums differently in batches of different sizes. In batches of one size an
    example's results are the same to the bit, whatever other examples there are.

    Examples
    --------
    >>> filled_up(torch.tensor([4, 7]), 5).tolist()
    [4, 7, 7, 7, 7]
    """
    return numbers[torch.arange(size, device=numbers.device).clamp(max=len(numbers) - 1)]


class IndependentExamples(Protocol):
    """A task in which the loss of an example depends on that example alone, so that a step may use
    any of them.

    Attributes
    ----------
    num_examples : int
        Examples to train on.

    Examples
    --------
    >>> class Vectors:
    ...     num_examples = 3
    ...     def batches_of(self, positions, size):
    ...         for part in positions.split(size):
    ...             inputs = torch.eye(3)[filled_up(part, size)]
    ...             yield Batch(inputs, torch.tensor([1, 0, 1])[part], torch.arange(len(part)))
    >>> task: IndependentExamples = Vectors()
    >>> batch, = task.batches_of(torch.tensor([2, 0]), 4)
    >>> batch.labels, len(batch.inputs)
    (tensor([1, 1]), 4)
    """

    num_examples: int

    def batches_of(self, positions: Tensor, size: int) -> Iterator[Batch]:
        """The training examples at these positions among the training examples, in batches.

        The shape of a batch's inputs depends on `size` and on each of its examples alone, never on
        how many examples there are: the inputs are filled up, and `rows` are the first ones.
        """
        ...


class Task(ABC):
    """One client's data on its device, with labels in the federation's numbering.

    Parameters
    ----------
    examples : Examples or ClientPoints
    class_names : tuple of str
        The classes that number the labels and the logits: those of the federation, or the client's
        own if the clients lack common classes.
    device : torch.device

    Attributes
    ----------
    metric : str
        "accuracy", "roc_auc" or that of an added kind, such as "mrr".
    labels : Tensor, (n,), int64
        -1 where the class is unknown.
    parts : dict of str to Tensor, (m,), int64
        The numbers of the "train", "val" and "test" examples.
    num_examples : int
        Examples to train on: the client's weight in an average.
    train_labels : Tensor, (num_examples,), int64
        Their labels.

    Raises
    ------
    DataError
        If the client has a class that is not among `class_names`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> class Vectors(Task):
    ...     num_steps = 1
    ...
    ...     def __init__(self, x, *more):
    ...         super().__init__(*more)
    ...         self.x = x
    ...
    ...     def batches(self, model):
    ...         yield Batch(self.x, self.train_labels, self.parts["train"])
    ...
    ...     def loss(self, model, batch):
    ...         return nn.functional.cross_entropy(batch.select(model(batch.inputs)), batch.labels)
    ...
    ...     def logits(self, model):
    ...         return model(self.x)
    >>> examples = SimpleNamespace(class_names=("b", "a"), labels=[0, 1, 0], metric="accuracy")
    >>> examples.train = [True, False, False]
    >>> examples.val = [False, True, False]
    >>> examples.test = [False, False, True]
    >>> task = Vectors(torch.eye(3)[:, :2], examples, ("a", "b"), torch.device("cpu"))
    >>> task.labels.tolist(), task.num_examples
    ([1, 0, 1], 1)
    >>> with torch.no_grad():
    ...     task.scores(nn.Identity())
    {'validation': 0.0, 'score': 0.0}
    """

    def __init__(
        self,
        examples: "Examples | ClientPoints",
        class_names: tuple[str, ...],
        device: torch.device,
    ) -> None:
        unknown = set(examples.class_names) - set(class_names)
        if unknown:
            raise DataError(
                f"classes {sorted(unknown)} are not among the federation's {list(class_names)}",
                key="unknown-class",
            )
        # The last number is that of an unknown class, with label -1.
        numbers = torch.tensor([*map(class_names.index, examples.class_names), -1])
        self.metric = examples.metric
        self.labels = numbers[torch.as_tensor(examples.labels)].to(device)
        masks = {name: torch.as_tensor(getattr(examples, name)) for name in PARTS}
        self.parts = {name: mask.nonzero().squeeze(1).to(device) for name, mask in masks.items()}
        self.train_labels = self.labels[self.parts["train"]]
        self.num_examples = len(self.train_labels)

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """The number of steps of one pass over the training examples."""

    @abstractmethod
    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """One pass over the training examples, each once, in batches drawn by dropout's
        generator."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The mean local loss over a batch, of shape ()."""

    @abstractmethod
    def logits(self, model: nn.Module) -> Tensor:
        """Logits (n, C) of every example, dropout off."""

    def scored_logits(self, model: nn.Module) -> dict[str, Tensor]:
        """Logits (m, C) of the "val" and of the "test" examples, dropout off."""
        logits = self.logits(model)
        return {name: logits[self.parts[name]] for name in ("val", "test")}

    def scores(self, model: nn.Module) -> dict[str, float]:
        """Score the validation and the test examples, dropout off.

        Returns
        -------
        dict
            "validation", and "score" for the test examples, by the data set's own metric; for other
            metrics than accuracy also "accuracy" of the test examples. Undefined scores are absent.
        """
        logits = self.scored_logits(model)
        labels = {name: self.labels[self.parts[name]] for name in logits}
        scores = {SCORED[name]: score(self.metric, logits[name], labels[name]) for name in logits}
        if self.metric != "accuracy":
            scores["accuracy"] = score("accuracy", logits["test"], labels["test"])
        return {name: value for name, value in scores.items() if value is not None}

    def confusion(self, model: nn.Module) -> list[int]:
        """True class, predicted class and number of test examples of each pair that occurs, in one
        flat list.

        The prediction is −1, no class, if a logit is not finite.
        """
        labels = self.labels[self.parts["test"]]
        if not len(labels):
            return []
        test_logits = self.scored_logits(model)["test"]
        pairs = torch.stack([labels, predictions(test_logits)], dim=1)
        distinct, counts = torch.unique(pairs, dim=0, return_counts=True)
        return [int(number) for number in torch.cat([distinct, counts[:, None]], dim=1).flatten()]
