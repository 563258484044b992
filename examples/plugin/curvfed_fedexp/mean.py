"""Mean: the mean of all clients' points in the disc."""

from collections.abc import Mapping

from curvfed.strategies.base.method import POINTS, OneShot
from curvfed.strategies.base.one_shot import Half, Model, OneShotClient, OneShotServer, Vectors
from curvfed.strategies.base.statistics import Statistics


class Sums(Half):
    """What both halves know about a client's vector."""

    def vectors(self, clients: int) -> Vectors:
        """The sums of x and y, to which a point adds at most 1."""
        return Vectors(length=2, bound=1.0)


class MeanClient(Sums, OneShotClient):
    """The client's half."""

    def contribution(self, clients: int, order_numbers: Mapping[int, bytes]) -> Statistics:
        """The sum of the training points, and their number."""
        points = self.site.data.train_points
        return Statistics({"sums": points.sum(axis=0)}, len(points))


class MeanServer(Sums, OneShotServer):
    """The server's half."""

    summands = "sums of points"

    def learn(self, total: Statistics) -> Model:
        """The mean."""
        return Model({"mean": total.arrays["sums"] / total.weight})


MEAN = OneShot("mean of all points", "disc", tasks=POINTS, client=MeanClient, server=MeanServer)
