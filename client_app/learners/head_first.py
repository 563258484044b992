"""FedRep's local work (Collins et al., 2021, Algorithm 1): the classifier alone, then the rest with it frozen."""

from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import HEAD
from curvfed.strategies.base.training import Trained, train, training_only


class HeadFirst(Learner):
    """`fedrep.head-epochs` passes train the classifier, `local-epochs` the body."""

    def train(self) -> Trained:
        """Both; the loss and the steps are those of the body's passes."""
        local, config = self.local, self.local.config
        head = {name for name in local.trained if name.startswith(HEAD)}
        with training_only(local.trained, head):
            train(local.model, local.task, local.optimizer, config.fedrep.head_epochs, clip_norm=config.clip_norm)
        with training_only(local.trained, local.trained.keys() - head):
            return self.descend(config.local_epochs)


LEARNER = HeadFirst
