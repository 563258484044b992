"""The secure sums of the clients' hulls, one for each group of clients, and the decoded hulls."""

import logging
import time
from collections.abc import Callable, Sequence
from itertools import chain

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


def sum_hulls(
    ask: Ask,
    header: Header,
    groups: Sequence[Sequence[int]],
    public: Callable[[int], PublicParameters],
    sums: SumsOfRun,
) -> tuple[DecodedHulls, list[int], dict[str, float]]:
    """Sum and decode the hulls of each group; a group that fails is logged and left out for good.

    Parameters
    ----------
    groups : sequence of sequences of int
        Partitions, disjoint and fixed before any of them is asked.
    public : callable
        The public parameters for a number of clients.

    Returns
    -------
    hulls : DecodedHulls
        Anonymous clients are numbered from 0 over all groups.
    summed : list of int
        Partitions whose vectors are in a sum that was decoded, ascending.
    figures : dict
        Numbers of clients summed, of clients decoded, of clients refused for sending no hull, and
        of groups left out because their sum failed or does not decode; seconds of decoding.

    Raises
    ------
    RoundError
        If no group gives hulls.
    """
    results: list[tuple[Phase, DecodedHulls, int]] = []
    reasons = []
    seconds = 0.0
    for group in groups:
        parameters = public(len(group))
        try:
            phase, total = secure_sum(ask, header, group, parameters.prime, parameters.length, sums)
            started = time.monotonic()
            results.append((phase, *without_forged(decode_hulls(total, parameters), parameters)))
            seconds += time.monotonic() - started
        except SecureSumError as error:
            reasons.append(f"the secure sum ends without a result: {error}")
        except HullError as error:
            reasons.append(str(error))
    if not results:
        raise RoundError("; ".join(reasons), key="no-sum")
    for reason in reasons:
        log.warning("a group of clients is left out: %s", reason)
    phases, decoded, refused = zip(*results, strict=True)
    clients_hulls = list(chain.from_iterable(hulls.by_client() for hulls in decoded))
    summed = sorted(joined(phases).replies)
    forged = sum(refused)
    if forged:
        log.warning(
            "%d clients are left out: they sent no convex hull, as honest clients do; check the"
            " nodes' versions and who runs them",
            forged,
        )
    if missing := len(summed) - len(clients_hulls) - forged:
        log.warning(
            "%d vectors are in the sum, but hulls of %d clients are missing: they sent none, or two"
            " clients used one slot",
            len(summed),
            missing,
        )
    figures = {
        "clients_summed": len(summed),
        "clients_decoded": len(clients_hulls),
        "clients_refused": forged,
        "groups_left_out": len(reasons),
        "seconds_decoding": seconds,
    }
    return DecodedHulls.of(clients_hulls), summed, figures
