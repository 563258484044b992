"""The losses of one pass over a client's training examples, without a step of an optimiser."""

from collections.abc import Iterator

from torch import Tensor, nn

from curvfed.tasks.task import Task


def losses(task: Task, model: nn.Module) -> Iterator[Tensor]:
    """The loss of each batch, in turn."""
    for batch in task.batches(model):
        yield task.loss(model, batch)
