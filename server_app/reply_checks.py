"""Checks of a reply that need the state of the run: what a client may say about its examples, its
steps and its confusion counts."""

from curvfed.server_app.run import Run
from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.checks import check_confusion, check_steps, check_variances
from curvfed.strategies.wire.messages import CONFUSION, TRAIN, Reply
from curvfed.tasks.class_names import titles
from curvfed.tasks.kinds import KINDS


def check_reply(run: Run, reply: Reply) -> None:
    """Refuse a changed number of examples, an impossible number of steps, impossible running
    statistics, and impossible confusion counts.

    Raises
    ------
    MessageError
    """
    expected = run.state.examples.get(reply.partition)
    if reply.header.phase == TRAIN:
        if expected is None:
            expected = run.federation.descriptions[reply.partition].statistics.get("num_train")
        if expected is not None and reply.num_examples != expected:
            raise MessageError(
                f"num_examples is {reply.num_examples}; it was {expected} before",
                key="num-examples",
            )
        config = run.config
        # A batch of clusters counts all its nodes, at least one of which is a training node.
        size = config.batch_size
        if not KINDS[run.federation.facts.task].batches_training_only:
            size = min(size, 1)
        check_steps(reply.metrics.get("steps"), reply.num_examples, config.local_epochs, size)
        check_variances(reply.arrays)
    elif expected is not None and reply.num_examples > expected:
        raise MessageError(
            f"num_examples is {reply.num_examples}; it trained on {expected}",
            key="num-examples",
        )
    if CONFUSION in reply.parts:
        _check_confusion(run, reply)


def check_masked_reply(reply: Reply) -> None:
    """Refuse a reply of a secure sum with figures of a single client.

    Raises
    ------
    MessageError
    """
    if reply.num_examples or reply.metrics:
        raise MessageError(
            "a reply of a secure sum has figures that are not masked", key="open-figures"
        )


def _check_confusion(run: Run, reply: Reply) -> None:
    num_test = run.federation.descriptions[reply.partition].statistics.get("num_test")
    if num_test is None or reply.header.round != run.last_round:
        raise MessageError(
            "counts of true and predicted classes are not expected", key="unexpected-confusion"
        )
    num_classes = len(class_titles(run, reply.partition))
    check_confusion(reply.parts[CONFUSION], num_classes, num_test)


def class_titles(run: Run, partition: int) -> list[str]:
    """A client's classes in the order of its logits, as the report names them."""
    description = run.federation.descriptions[partition]
    return titles(description.space, run.federation.facts.class_names or description.class_names)
