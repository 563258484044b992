"""The masked phases: their message without the model, which the clients check; the groups in which
clients are summed; and a client's vector: its values, its weight and figures about the client. The
server sees only sums of these vectors."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.arrays import Array, Floats
from curvfed.strategies.base.figures import SUMMED
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import GROUP_SIZE
from curvfed.strategies.base.statistics import OF_UPDATE, WHOLE, Arrays, Statistics
from curvfed.strategies.config.masked import is_masked
from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum import Session
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME, FixedPoint
from curvfed.strategies.secure_sum.messages import BytesByPartition
from curvfed.strategies.wire.messages import Header

MASKED = "masked"
"""Name of the array in a masked reply."""


class Opening(BytesByPartition):
    """The values of a masked phase's message without the model: the size of the vectors, and the
    texts of the member's peers from the exchange of keys.

    Attributes
    ----------
    modulus, length : int
        Of the vectors.
    partitions, values : list
        The peers, and their encrypted texts.
    """

    modulus: int
    length: int


def session_of(
    header: Header, config: RunKeys, members: Sequence[int], size: tuple[int, int]
) -> Session:
    """The session of these members in a phase; `size` is the modulus and the length of the vectors.

    Raises
    ------
    SecureSumError
        If a value is out of range, or the phase is not masked in this run.
    """
    if not is_masked(config, header.phase):
        raise SecureSumError(
            f"phase {header.phase!r} is not masked in this run", key="unmasked-phase"
        )
    modulus, length = size
    return Session(
        run=header.run,
        phase=header.phase,
        round=header.round,
        modulus=modulus,
        length=length,
        clients=tuple(members),
    )


def groups(clients: Collection[int], number: int = 0, size: int = GROUP_SIZE) -> list[list[int]]:
    """Divide the clients into groups of about equal size, in ascending order of partitions.

    Parameters
    ----------
    number : int
        The number of groups; 0 for groups of `size` and more.
    size : int
        The smallest size of a group; fewer than twice this number of clients are one group.
    """
    number = number or max(len(clients) // size, 1)
    return [group.tolist() for group in np.array_split(sorted(clients), number)]


MAX_EXAMPLES = 2**20
"""Maximum number of a client's training examples, since the encoding needs a bound in advance."""

ROUNDING = 1e-6
"""Tolerated relative error of a length in float32."""

COUNT_ROUNDING = 2**-22
"""Bound on the relative error of a share of at most `MAX_EXAMPLES` in float32."""


def decoded(
    residues: NDArray[np.uint64], encoding: FixedPoint, like: Arrays
) -> tuple[Statistics, dict[str, tuple[float, int]]]:
    """The sum of the clients' vectors from the sum of their residues.

    Parameters
    ----------
    like : dict of str to array
        The names and shapes of the arrays that the vectors were made of.

    Returns
    -------
    total : Statistics
        Without figures.
    means : dict of str to (float, int)
        For each reported figure, its mean over the clients that report it, and their number; see
        `joined_means`.
    """
    num_figures = len(SUMMED)
    places = [-1 - 2 * num_figures, -2 * num_figures, -num_figures]
    values, weight, sums, counts = np.split(encoding.decode(residues), places)
    means = {
        name: (float(total / count), int(count))
        for name, total, count in zip(SUMMED, sums, np.rint(counts), strict=True)
        if count
    }
    total = Statistics(like, int(np.rint(weight[0])), error=encoding.error).unflatten(values)
    return total, means


def joined_means(
    groups: Sequence[Mapping[str, tuple[float, int]]],
) -> dict[str, tuple[float, int]]:
    """The means of figures over the clients of several groups, and the numbers of clients."""
    joined: dict[str, tuple[float, int]] = {}
    for means in groups:
        for name, (mean, count) in means.items():
            earlier, before = joined.get(name, (0.0, 0))
            together = before + count
            joined[name] = ((earlier * before + mean * count) / together, together)
    return joined


def sum_encoding(bound: float, clients: int) -> FixedPoint:
    """The encoding for sums over `clients` vectors with entries of at most `bound *
    MAX_EXAMPLES`."""
    return FixedPoint(bound * MAX_EXAMPLES, clients, SUM_PRIME)


def vector_length(values: int) -> int:
    """The length of a client's vector with this number of values."""
    return values + 1 + 2 * len(SUMMED)


def client_vector(
    values: Floats, weight: int, figures: Mapping[str, float], bound: float
) -> Floats:
    """A client's vector: values, weight, figures, and for each figure whether it is reported.

    Raises
    ------
    SecureSumError
        If the weight or a value is too large for the encoding, or a value is not finite.
    """
    if weight > MAX_EXAMPLES:
        raise SecureSumError(
            f"a client has more training examples than a secure sum allows, {MAX_EXAMPLES}",
            key="too-many-examples",
        )
    if not np.isfinite(values).all():
        raise SecureSumError("values in a secure sum must be finite", key="not-finite")
    if np.abs(values).max(initial=0.0) > bound * MAX_EXAMPLES:
        raise SecureSumError(
            f"values in a secure sum must be at most {bound:g} x {MAX_EXAMPLES} (secure.clip)",
            key="value-too-large",
        )
    numbers = [figures.get(name, np.nan) for name in SUMMED]
    is_reported = np.isfinite(numbers)
    return np.concatenate([values, [weight], np.where(is_reported, numbers, 0.0), is_reported])


def whole_counts(arrays: Mapping[str, Array], weight: int) -> Arrays:
    """The arrays, with counts that are whole numbers times `weight`. Fractions in a sum, of float32
    or of a weight that is below the number of examples, would show which members have which."""
    counts = {
        name: np.ceil(array.astype(np.float64) * weight * (1 - COUNT_ROUNDING)) / weight
        for name, array in arrays.items()
        if name.startswith(WHOLE)
    }
    return {**arrays, **counts}


def weighted_update(
    arrays: Mapping[str, Array],
    received: Mapping[str, Array],
    weight: int,
    limit: float,
) -> tuple[Floats, float]:
    """A client's change of the received parameters, in the order of their names, times its weight.

    A change longer than `limit` is shortened to `limit`, which bounds how far one client moves the
    average, and what follows from it (SCAFFOLD's change of a variate) by as much: unshortened, the
    two sums would show the change of a single client that is too long. Other arrays that are not
    parameters (FedNova's step length, sums of rows) are only weighted.

    Returns
    -------
    vector : array (n,)
    norm : float
        The length of the change before it is shortened.
    """
    moves = parameters(received).keys() & arrays.keys()
    change = {name: array.astype(np.float64) for name, array in arrays.items()}
    for name in moves:
        change[name] -= received[name]
    squares = [np.square(change[name]).sum() for name in sorted(moves)]
    norm = float(np.sqrt(sum(squares)))
    scale = limit / norm if norm > limit else 1.0
    for name in change:
        is_shortened = name in moves or name.startswith(OF_UPDATE)
        change[name] *= weight * scale if is_shortened else weight
    return Statistics(change).flatten(), norm


def parameters(received: Mapping[str, Array]) -> Arrays:
    """The model's parameters among the arrays; other arrays, such as SCAFFOLD's variates, have a
    prefix."""
    return {name: array for name, array in received.items() if "/" not in name}


def check_mean(total: Statistics, sent: Arrays, limit: float) -> None:
    """Refuse a mean change that is longer than `limit`: members shorten theirs to it, so some
    member did not follow the protocol. Noise is allowed twice its length.

    Raises
    ------
    SecureSumError
    """
    changes = [total.arrays[name] for name in parameters(sent) if name in total.arrays]
    lengths = [np.linalg.norm(change) for change in changes]
    norm = float(np.linalg.norm(lengths))
    entry = total.error + 2 * total.noise * limit
    slack = entry * sum(change.size for change in changes) ** 0.5
    if norm > limit * total.weight * (1 + ROUNDING) + slack:
        raise SecureSumError(
            f"the changes of the members add up to the length {norm:.3g} over {total.weight}"
            f" examples; allowed is {limit:g} for each (secure.clip), to which members shorten"
            " theirs: some vector is false, and a secure sum does not show whose",
            key="impossible-mean",
        )


def mean_update(total: Statistics, like: Arrays, sent: Arrays) -> Arrays:
    """The sent parameters plus the clients' mean change, with the shapes and dtypes of `like`;
    `sent` itself if the weight is 0."""
    if total.weight == 0:
        return dict(sent)
    starts = parameters(sent)
    return {
        name: (total.arrays[name] / total.weight + starts.get(name, 0)).astype(array.dtype)
        for name, array in like.items()
    }
