"""The whole protocol of hulls in one process, without messages, for many splits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.hull.classifier import accuracy, name_groups
from curvfed.strategies.hull.codec import PublicParameters, decode_hulls, encode_hulls
from curvfed.strategies.hull.learn import Learned, Settings, learn
from curvfed.strategies.hull.local import (
    LocalHulls,
    client_position,
    draw_order_number,
    draw_slots,
    local_hulls,
)
from curvfed.strategies.secure_sum import Session
from studies.accept.sum_in_memory import sum_in_memory

Points = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Trial:
    """The result of a trial.

    Attributes
    ----------
    locals : tuple of LocalHulls
        For each client what it would have sent.
    learned : Learned
    names : int array (J,)
        The class of every group, by the test points.
    accuracy : float or None
        On the test points.
    """

    locals: tuple[LocalHulls, ...]
    learned: Learned
    names: Labels
    accuracy: float | None


def trial(
    clients: Sequence[tuple[Points, Labels]],
    test: tuple[Points, Labels],
    public: PublicParameters,
    settings: Settings,
) -> Trial:
    """Compute hulls, encode them, sum them in secret, decode the sum, group, train and score.

    Parameters
    ----------
    clients : sequence of (points (n, 2), labels (n,))
    test : (points, labels)

    Raises
    ------
    ValueError
        As the steps do.
    """
    mine = tuple(local_hulls(points, labels, public) for points, labels in clients)
    numbers = {client: draw_order_number() for client in range(len(mine))}
    vectors = {
        client: encode_hulls(
            one.hulls,
            client_position(numbers, client),
            draw_slots(public.num_classes, len(one.hulls)),
            public,
        )
        for client, one in enumerate(mine)
    }
    session = Session("trial", "hulls", 0, public.prime, public.length, tuple(range(len(mine))))
    learned = learn(decode_hulls(sum_in_memory(session, vectors), public), public, settings)
    points, labels = test
    predicted = learned.classifier.predict(points)
    # There may be test points of classes that no client has.
    names = name_groups(
        predicted,
        labels,
        public.num_classes,
        max(public.num_classes, int(labels.max(initial=0)) + 1),
    )
    return Trial(mine, learned, names, accuracy(predicted, labels, names))
