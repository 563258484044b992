"""FedRep (Collins et al., ICML 2021): a personal classifier is trained first, then the body, which
is averaged."""

from pydantic import Field

from curvfed.strategies.base.keys import Table
from curvfed.strategies.base.learner import Learner, run_epochs
from curvfed.strategies.base.method import IMAGES, Method
from curvfed.strategies.base.statistics import HEAD
from curvfed.strategies.base.training import Trained, train, training_only


class Keys(Table):
    """Keys of FedRep."""

    head_epochs: int = Field(default=5, ge=1, le=10_000)
    """passes that train the head, before local-epochs"""


class FedRepClient(Learner):
    """`fedrep.head-epochs` passes train the classifier, then `local-epochs` passes the body."""

    keys: Keys

    def train(self) -> Trained:
        """Train both; loss and number of steps are those of the body's passes."""
        local = self.local
        config = self.local.config
        head = {name for name in local.trained if name.startswith(HEAD)}
        with training_only(local.trained, head):
            train(
                local.model,
                local.task,
                local.optimizer,
                self.keys.head_epochs,
                clip_norm=config.clip_norm,
            )
        with training_only(local.trained, local.trained.keys() - head):
            return run_epochs(self, config.local_epochs)


METHODS = {
    "fedrep": Method(
        "personal classifier, trained first, then the body, which is averaged (Collins et al.,"
        " 2021)",
        space="flat",
        personal=("head.*",),
        tasks=IMAGES,
        keys={"fedrep": Keys},
        tuned={"images": {"fedrep.head-epochs": (1, 10)}},
        client=FedRepClient,
    ),
}
