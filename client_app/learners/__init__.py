"""What a client makes of a round, one module for each way; a row of `curvfed.strategies.methods` names its own.

A module here has a `LEARNER`, a subclass of `curvfed.strategies.base.learner.Learner`. It is imported where its
method runs and nowhere else, for a real node starts a process per message. Another package's is "package.module:Class".
"""

import importlib

from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.learner import Learner
from curvfed.tasks import plugins


def learner_class(name: str) -> type[Learner]:
    """The learner of this name: `LEARNER` of the module that is called so, or "package.module:Class".

    Raises
    ------
    DataError, ConfigError
        If another package's cannot be imported here, or is none.
    """
    own = f"{__name__}.{name.replace('-', '_')}"
    found: type[Learner] = plugins.imported(name) if ":" in name else importlib.import_module(own).LEARNER
    if not (isinstance(found, type) and issubclass(found, Learner)):
        raise ConfigError(f'learner "{name}" is {found!r}; allowed is a subclass of {Learner.__module__}.Learner')
    return found
