"""Which decoded sets of bins are convex hulls at all."""

import numpy as np

from curvfed.geometry.hull import convex_hull
from curvfed.strategies.hull.codec import DecodedHulls
from curvfed.strategies.hull.public_parameters import PublicParameters


def without_forged(hulls: DecodedHulls, public: PublicParameters) -> tuple[DecodedHulls, int]:
    """The hulls without those of clients that sent a set of bins that is no hull.

    Every bin of an honest hull is a corner of it, also after it was thinned. That does not hold of most points that
    somebody makes up, nor of two hulls that were sent to one slot.

    Returns
    -------
    hulls : DecodedHulls
        Of the other clients, numbered from 0 again.
    refused : int
        How many clients are left out.
    """
    clients = hulls.by_client()
    honest = [one for one in clients if all(_is_convex(bins, public) for bins in one)]
    return DecodedHulls.of(honest), len(clients) - len(honest)


def _is_convex(bins: list[int], public: PublicParameters) -> bool:
    centres = public.quantizer.decode(np.array(bins, np.uint64))
    return len(convex_hull(centres, public.curvature)) == len(bins)
