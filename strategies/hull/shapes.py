"""Which decoded sets of bins are convex hulls at all."""

import numpy as np

from curvfed.geometry.hull import convex_hull
from curvfed.strategies.hull.codec import DecodedHulls, Words
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
    good = np.array([_is_convex(bins, public) for bins in hulls.bins], bool)
    forgers = np.unique(hulls.clients[~good])
    kept = ~np.isin(hulls.clients, forgers)
    clients = np.unique(hulls.clients[kept], return_inverse=True)[1]
    bins = [one for one, keep in zip(hulls.bins, kept, strict=True) if keep]
    return DecodedHulls(bins, clients.astype(np.int64)), len(forgers)


def _is_convex(bins: Words, public: PublicParameters) -> bool:
    centres = public.quantizer.decode(bins)
    return len(convex_hull(centres, public.curvature)) == len(bins)
