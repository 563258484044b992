"""A client's private rounds: what they cost, and their replies, so that a repeated request costs
nothing."""

from hashlib import sha256
from typing import TYPE_CHECKING

from curvfed.client_app.rounds import Contribution, prepare, train
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.private_steps import PrivateSteps
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.privacy.accountant import Release
from curvfed.strategies.privacy.record import round_release
from curvfed.strategies.wire.messages import Request
from curvfed.strategies.wire.store import LostState, Store
from curvfed.tasks.task import Task

if TYPE_CHECKING:
    from curvfed.client_app.client import Client
