"""What a client makes of a round, one module for each way; a row of `curvfed.strategies.methods` names its own.

A module here has a `LEARNER`, a subclass of `curvfed.client_app.learners.learner.Learner`. It is imported where its
method runs and nowhere else, for a real node starts a process per message.
"""

import importlib

from curvfed.client_app.learners.learner import Learner


def learner_class(name: str) -> type[Learner]:
    """The learner of this name: `LEARNER` of the module that is called so."""
    found: type[Learner] = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").LEARNER
    return found
