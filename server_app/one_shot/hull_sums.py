"""The secure sums of the clients' hulls, one for each group of clients, and what they decode to."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from curvfed.server_app.phase import Phase
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure.masked_phases import joined
from curvfed.server_app.secure.secure_sum import Ask, SumsOfRun, secure_sum
from curvfed.strategies.hull.codec import DecodedHulls, decode_hulls, without_forged
from curvfed.strategies.hull.errors import HullError
from curvfed.strategies.hull.public_parameters import PublicParameters
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.wire.messages import Header

log = logging.getLogger("curvfed")


@dataclass(frozen=True)
class SummedHulls:
    """What the sums of all groups gave.

    Attributes
    ----------
    hulls : DecodedHulls
        Anonymous clients are numbered from 0 over all groups.
    summed : list of int
        Partitions whose vectors are in a sum that was decoded, ascending.
    refused : int
        Clients left out because what they sent is no hull.
    lost : int
        Groups left out because their sum ended without a result or does not decode.
    seconds : float
        For decoding.
    """

    hulls: DecodedHulls
    summed: list[int]
    refused: int
    lost: int
    seconds: float


def sum_hulls(
    ask: Ask,
    header: Header,
    groups: Sequence[Sequence[int]],
    public: Callable[[int], PublicParameters],
    sums: SumsOfRun,
) -> SummedHulls:
    """Sum and decode the hulls of each group; a group that fails is told and left out, never asked again.

    Parameters
    ----------
    groups : sequence of sequences of int
        Partitions, disjoint and fixed before any of them is asked.
    public : callable
        The public parameters for a number of clients.

    Raises
    ------
    RoundError
        If no group gives hulls.
    """
    found: list[tuple[Phase, DecodedHulls, int]] = []
    reasons, seconds = [], 0.0
    for group in groups:
        parameters = public(len(group))
        try:
            phase, total = secure_sum(ask, header, group, parameters.prime, parameters.length, sums)
            started = time.monotonic()
            found.append((phase, *without_forged(decode_hulls(total, parameters), parameters)))
            seconds += time.monotonic() - started
        except SecureSumError as error:
            reasons.append(f"the secure sum ends without a result: {error}")
        except HullError as error:
            reasons.append(str(error))
    if not found:
        raise RoundError("; ".join(reasons))
    for reason in reasons:
        log.warning("a group of clients is left out: %s", reason)
    phases, decoded, refused = zip(*found, strict=True)
    clients = [hulls for one in decoded for hulls in one.by_client()]
    told = SummedHulls(DecodedHulls.of(clients), sorted(joined(phases).replies), sum(refused), len(reasons), seconds)
    if told.refused:
        log.warning(
            "%d clients are left out, because what they sent is no convex hull: an honest client sends nothing else, so "
            "look at the nodes' versions and at who runs them", told.refused
        )  # fmt: skip
    if missing := len(told.summed) - len(clients) - told.refused:
        log.warning(
            "%d vectors are in the sum, and hulls of %d fewer clients: these sent none, or two sent to one place",
            len(told.summed), missing,
        )  # fmt: skip
    return told
