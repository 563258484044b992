"""A comparison as its runs, tables and pages read it: the data, the methods, and what is tuned."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from curvfed.deployments.arguments import Value, check_request, pop_supernodes
from curvfed.extensions.sweeps.commands.sweep import DEFAULTS
from curvfed.strategies.base.keys import AUTO
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.kinds import KINDS

COMMAND = Path("compare")
"""The source of the runs in error texts; relative paths are relative to the working folder."""


@dataclass(frozen=True)
class Entrant:
    """A method that is compared, or a method with some of its keys.

    Attributes
    ----------
    settings : dict
        `method`, and the keys that make the entrant.
    rate, decay : float
        The method's default learning rate and weight decay.
    optimizer : str
    axes : dict of str to list
        Values of the other tuned keys, the default first.
    at_zero : str
        For a curved method, the name of the entrant that is itself at curvature 0; "" for none.
    control : str
        The name of its control among the entrants; "" for none.
    is_rival : bool
        Whether it is flat, so that somebody could use it in place of a curved method.
    """

    settings: dict[str, Any]
    rate: float
    decay: float
    optimizer: str
    axes: dict[str, list[Any]]
    at_zero: str = ""
    control: str = ""
    is_rival: bool = True


@dataclass(frozen=True)
class Comparison:
    """A comparison of methods.

    Attributes
    ----------
    task : str
        A key of `KINDS`.
    settings : dict
        The keys of all runs, with `num-supernodes`.
    places : dict
        `data-dir`, which the results do not depend on.
    numbers : dict of str to int
        `budget`, `tuning-seeds` and `seeds`.
    score : str
        A key of `SCORES`.
    entrants : dict of str to Entrant
        By name.
    against : str
        The rival, or "auto" for the best one; the runs do not depend on it.
    notes : tuple of str
        Possible faults of the data, in words.
    results : Path or None
        The folder of the runs by the key `results-dir`.
    """

    task: str
    settings: dict[str, Value]
    places: dict[str, Value]
    numbers: dict[str, int]
    score: str
    entrants: dict[str, Entrant]
    against: str = AUTO
    notes: tuple[str, ...] = ()
    results: Path | None = None

    @property
    def data(self) -> str:
        """The name of the data set, or of the user's file or folder."""
        return Path(str(self.settings["dataset"])).stem

    @property
    def first_config(self) -> RunConfig:
        """The configuration of the first entrant, without tuned values."""
        first = next(iter(self.entrants.values()))
        settings = self.settings | self.places | first.settings
        number = pop_supernodes(settings, 1)
        return check_request(settings, number).resolved

    @property
    def tuning_settings(self) -> dict[str, Value]:
        """Further keys of the runs by which configurations are chosen: points have no part for
        validation, so these runs hold a part of the training points out in place of the test
        points."""
        return {} if KINDS[self.task].has_validation else {"points.hold-out": "validation"}

    @property
    def plan(self) -> dict[str, Any]:
        """All keys that the results depend on, for JSON."""
        return {
            "methods": list(self.entrants),
            "score": self.score,
            **self.numbers,
            **self.settings,
            "tried": {name: asdict(entrant) for name, entrant in self.entrants.items()},
        }

    @property
    def seeds(self) -> tuple[range, range]:
        """The seeds for choosing configurations, and further ones for comparing methods."""
        first = int(self.settings.get("seed", DEFAULTS["seed"]))
        fresh = first + self.numbers["tuning-seeds"]
        return range(first, fresh), range(fresh, fresh + self.numbers["seeds"])
