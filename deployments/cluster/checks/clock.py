"""How far this machine's clock is from the SuperLink's.

A SuperNode signs each call with its time. The SuperLink looks at the time before it looks whose key
it is, so calls signed by a new key tell how the clocks differ. This holds for Flower up to 1.39;
from 1.40 on it is not known.
"""

import bisect
import datetime

import grpc
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.common.constant import PUBLIC_KEY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message

from curvfed.deployments.cluster.checks.superlink import Link, SilentError, check_superlink
from curvfed.deployments.cluster.errors import ClusterError

AHEAD = 5.0
BEHIND = 305.0
"""Seconds by which a node's clock may differ, by Flower's `SYSTEM_TIME_TOLERANCE` and
`TIMESTAMP_TOLERANCE`."""

DAY = 86_400
STEP = 300


def check_clock(link: Link) -> str:
    """Say how the clocks differ, to a quarter of a second.

    Raises
    ------
    ClusterError
        If no SuperLink answers, or it refuses nodes with this machine's clock.
    """
    if not link.is_grpc:
        return "not known: Flower from 1.40 on does not say why it refuses a node"
    check_superlink(link)
    key = ec.generate_private_key(ec.SECP384R1())
    public = public_key_to_bytes(key.public_key())

    def is_taken(shift: float) -> bool:
        """Whether the SuperLink takes a time so many seconds after that of this clock."""
        time = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=shift)).isoformat()
        signature = sign_message(key, time.encode())
        answer = call(
            (PUBLIC_KEY_HEADER, public), (TIMESTAMP_HEADER, time), (SIGNATURE_HEADER, signature)
        )
        if answer.code != grpc.StatusCode.UNAUTHENTICATED:
            raise SilentError(
                f"the SuperLink at {link.address} does not answer any more ({answer.reason})"
            )
        return answer.words != "Invalid timestamp"

    with link.calls() as call:
        try:
            begin = next(
                shift for shift in sorted(range(-DAY, DAY + 1, STEP), key=abs) if is_taken(shift)
            )
        except StopIteration:
            raise ClusterError(
                "this machine's clock is more than a day from the server's; set both by NTP"
            ) from None
        taken = bisect.bisect(
            range(2 * int(AHEAD + BEHIND)), False, key=lambda half: not is_taken(begin + half / 2)
        )
    ahead = AHEAD - begin - (taken - 0.5) / 2
    told = f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} the server's"
    if not -BEHIND <= ahead <= AHEAD:
        raise ClusterError(
            f"this machine's clock is {told}, and the SuperLink refuses a node whose clock is more"
            f" than {AHEAD:g} s ahead or {BEHIND:g} s behind; set both by NTP"
        )
    return told
