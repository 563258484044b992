"""Local training as in FedAvg, on the method's own loss and what its row lets pull on the parameters."""

from curvfed.strategies.base.learner import Learner

LEARNER = Learner
