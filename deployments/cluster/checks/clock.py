"""The difference between this machine's clock and the SuperLink's.

A SuperNode signs each call with its time. The SuperLink checks the time before the key, so calls
signed by a new key reveal the difference of the clocks. This holds for Flower up to 1.39; from 1.40
on the difference is not known.
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
"""Tolerated seconds of a node's clock, by Flower's `SYSTEM_TIME_TOLERANCE` and
`TIMESTAMP_TOLERANCE`."""

DAY = 86_400
STEP = 300


def check_clock(link: Link) -> str:
    """Report the difference of the clocks, to a quarter of a second.

    Raises
    ------
    ClusterError
        If no SuperLink answers, or it refuses this machine's clock.
    """
    if not link.is_grpc:
        return "not known: Flower from 1.40 on does not say why it refuses a node"
    check_superlink(link)
    key = ec.generate_private_key(ec.SECP384R1())
    public = public_key_to_bytes(key.public_key())

    def is_accepted(shift: float) -> bool:
        """Whether the SuperLink accepts this clock's time plus `shift` seconds."""
        time = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=shift)).isoformat()
        signature = sign_message(key, time.encode())
        answer = call(
            (PUBLIC_KEY_HEADER, public), (TIMESTAMP_HEADER, time), (SIGNATURE_HEADER, signature)
        )
        if answer.code != grpc.StatusCode.UNAUTHENTICATED:
            raise SilentError(
                f"the SuperLink at {link.address} does not answer any more ({answer.reason})",
                key="silent-superlink",
            )
        return answer.text != "Invalid timestamp"

    with link.calls() as call:
        shifts = sorted(range(-DAY, DAY + 1, STEP), key=abs)
        begin = next(filter(is_accepted, shifts), None)
        if begin is None:
            raise ClusterError(
                "this machine's clock is more than a day from the server's; set both by NTP",
                key="clock",
            )
        half_seconds = range(2 * int(AHEAD + BEHIND))
        accepted = bisect.bisect(
            half_seconds, False, key=lambda half: not is_accepted(begin + half / 2)
        )
    ahead = AHEAD - begin - (accepted - 0.5) / 2
    difference = f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} the server's"
    if not -BEHIND <= ahead <= AHEAD:
        raise ClusterError(
            f"this machine's clock is {difference}, and the SuperLink refuses a node whose clock is"
            f" more than {AHEAD:g} s ahead or {BEHIND:g} s behind; set both by NTP",
            key="clock",
        )
    return difference
