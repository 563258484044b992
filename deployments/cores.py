"""The cores of this machine that a process may use, and those that are free."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from curvfed.tasks.amounts import be

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
LOAD = Path("/proc/loadavg")


@dataclass(frozen=True)
class Cores:
    """The cores for the processes of a command.

    Attributes
    ----------
    machine : int
        All cores of this machine.
    affine : int
        Those on which this process may be scheduled.
    quota : float
        Cores whose time the control groups of this process grant; infinite without a limit.
    load : float
        Cores of this machine at which other programs work.
    """

    machine: int
    affine: int
    quota: float = math.inf
    load: float = 0.0

    @property
    def usable(self) -> int:
        """Cores that this process may use, whatever other programs do; at least 1."""
        return max(1, int(min(self.affine, self.quota)))

    @property
    def idle(self) -> int:
        """Usable cores at which no other program works; 0 if there is none."""
        return max(0, min(self.usable, self.machine - round(self.load)))

    @property
    def free(self) -> int:
        """Cores for the processes of a command: the idle ones, and at least 1."""
        return max(1, self.idle)

    def __str__(self) -> str:
        words = []
        if self.affine < self.machine:
            words.append(f"affinity {self.affine}")
        if self.quota < math.inf:
            words.append(f"quota {self.quota:g}")
        words.append(f"load {self.load:.1f}")
        return f"{self.idle} of {self.machine} cores {be(self.idle)} free ({', '.join(words)})"


def read_cores(groups: Path = GROUPS, own_groups: Path = OWN_GROUPS, load: Path = LOAD) -> Cores:
    """The cores of this process now.

    Parameters
    ----------
    groups : Path
        The folder of the control groups.
    own_groups : Path
        The file with the control groups of this process.
    load : Path
        The file with the load of the machine.
    """
    machine = os.cpu_count() or 1
    affine = machine
    if hasattr(os, "sched_getaffinity"):
        affine = len(os.sched_getaffinity(0))
    quota = min(_quotas(groups, own_groups), default=math.inf)
    return Cores(machine, affine, quota, _load_of_others(load))


def usable_cores() -> int:
    """Cores that this process may use: by its affinity and the limits of its control groups
    (container, service or job)."""
    return read_cores().usable


def _load_of_others(path: Path) -> float:
    """The load of other programs, in cores.

    The average of the last minute still has programs that have just ended, and the number of
    processes that are ready to run has those of a moment; so the smaller one counts.
    """
    try:
        average, _, _, ready, _ = path.read_text(encoding="ascii").split()
        ready_now = int(ready.partition("/")[0]) - 1  # without this process, which reads the file
        return max(0.0, min(float(average), ready_now))
    except (OSError, ValueError):  # another system
        return 0.0


def _quotas(groups: Path, own_groups: Path) -> Iterator[float]:
    """The limits of this process's control groups and of those above them, in cores."""
    try:
        lines = own_groups.read_text(encoding="utf-8").splitlines()
    except OSError:  # another system
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if not controllers:  # the groups of version 2
            top = groups
        elif "cpu" in controllers.split(","):
            top = groups / controllers
        else:
            continue
        folder = top / name.lstrip("/")
        # A container may see its own group as the top, under the name that its host uses.
        for parent in (folder, *folder.parents):
            if (quota := _quota(parent)) is not None:
                yield quota
            if parent == top:
                break


def _quota(group: Path) -> float | None:
    """The limit of one group in cores, in the files of version 2 or 1; None without a limit."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = (
                (group / f"cpu.cfs_{name}_us").read_text(encoding="ascii")
                for name in ("quota", "period")
            )
        cores = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        return None
    return cores if cores > 0 else None
