"""Odd configurations and odd files, each given to the command in a process of its own, with limits
of time and memory.

`python odd_input.py` reads cases as JSON, imports the app once and forks for every case, so that
hundreds take minutes.
"""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

MOST_BYTES, MOST_SECONDS, MOST_TEXT = 2 * 10**9, 180, 20_000

BASES = (
    "method=flatland num-supernodes=2 num-rounds=1 embedding-dim=4",
    "method=fedavg num-supernodes=2 num-rounds=1 embedding-dim=4 secure-sum=true",
    (
        "method=fedavg dataset=digits num-supernodes=2 num-rounds=1 images.train-subset=60"
        " images.test-subset=20"
    ),
    "method=hull dataset=uniform num-supernodes=2 points.num=200",
    "method=discriminant dataset=uniform num-supernodes=2 points.num=200",
)

VALUES = (
    *("", " ", ",", "nan", "inf", "-inf", "-1", "0", "-0.0", "1e308", "-1e308", "5e-324", "1e400"),
    *("2147483648", "9" * 40, "true", "auto", "none", "null", "[red]x[/red]", "[/]"),
    *("{0}%s\\n", "ü" * 300, "x" * 5000, "1_0", "0x10", "٣", "a\nb"),
    *("~nobody-of-this-name/x", "~nobody-of-this-name/x.pt", "../../up"),
    *("/dev/zero", "/proc/self/mem", "/dev/zero/x.csv"),
    *("MUTAG," * 100, "trees,digits", "a.toml", "flower:Krum", "1,2,3", "metis", "dirichlet"),
    "float16",
)


@dataclass
class Case:
    """Arguments of the command, and the folder that it runs in; afterwards also what came of it."""

    folder: str
    arguments: list[str]
    status: int = 0
    text: str = ""
    bytes: int = 0

    @property
    def complaints(self) -> list[str]:
        """What is wrong with what came of it."""
        written = [
            path
            for name in ("config.toml", "summary.json")
            for path in Path(self.folder).parent.rglob(name)
        ]
        known = Path(self.folder) / "known"  # what was there before
        written = [path for path in written if not path.is_relative_to(known)]
        return [
            *(["a traceback"] if "Traceback (most recent call last)" in self.text else []),
            *([f"exit status {self.status}"] if self.status not in (0, 1, 2) else []),
            *([f"{self.bytes} bytes of memory"] if self.bytes > MOST_BYTES else []),
            *([f"{len(self.text)} characters"] if len(self.text) > MOST_TEXT else []),
            *([f"exit status 2, but {written[0]}"] if self.status == 2 and written else []),
        ]


def configurations(folder: Path, number: int, seed: int) -> Iterator[Case]:
    """Runs with one to three keys of odd values: any of `VALUES`, or one at an edge."""
    from curvfed.strategies.config.parse import all_fields

    draw, edges = (
        random.Random(seed),
        {key: _edges(field) for key, field in all_fields()} | {"num-supernodes": ["1"]},
    )
    keys = sorted(edges)
    for each in range(number):
        home = folder / f"configuration-{each}" / "one" / "two"
        home.mkdir(parents=True)
        chosen = draw.sample(keys, draw.choice((1, 1, 2, 3)))
        odd = [
            f"{key}={draw.choice(draw.choice((VALUES, edges[key] or VALUES)))}" for key in chosen
        ]
        yield Case(str(home), ["simulate", *draw.choice(BASES).split(), *odd])


def _edges(field: Any) -> list[str]:
    """Values that a key allows: the least, a very large number, all of a few."""
    from curvfed.strategies.base.keys import value_type

    kind = value_type(field)
    if get_origin(kind) is Literal:
        return list(map(str, get_args(kind)))
    result = {
        name: getattr(item, name)
        for item in field.metadata
        for name in ("ge", "le", "lt")
        if hasattr(item, name)
    }
    most = [] if {"le", "lt"} & result.keys() else ["2147483648"]
    return {
        bool: ["true", "false"],
        int: [*most, str(result.get("ge", 1))],
        float: [*most, "1e-300"],
    }.get(kind, [])


def files(folder: Path, number: int, seed: int) -> Iterator[Case]:
    """Commands that read a file or folder that is damaged, of another kind, or no file."""
    draw = random.Random(seed)
    sound = folder / "sound"
    _write_sound(sound)
    kinds = sorted(path.name for path in sound.iterdir())
    for each in range(number):
        home = folder / f"file-{each}" / "one" / "two"
        home.mkdir(parents=True)
        kind = draw.choice(kinds)
        known = home / "known" / kind
        known.parent.mkdir()
        (shutil.copytree if (sound / kind).is_dir() else shutil.copy)(sound / kind, known)
        inside = (
            sorted(path for path in known.rglob("*") if path.is_file()) if known.is_dir() else []
        )
        _damage(draw.choice(inside) if inside and draw.random() < 0.9 else known, draw, sound)
        small = ["num-supernodes=2", "num-rounds=2", "embedding-dim=4", "min-client-size=1"]
        if kind == "run":
            command = draw.choice(
                [
                    [
                        "simulate",
                        "num-supernodes=2",
                        "num-rounds=3",
                        "embedding-dim=4",
                        f"results-dir={known.parent}",
                        "run-name=run",
                        "resume=true",
                    ],
                    ["predict", str(known), "trees", "--client", "0"],
                ]
            )
        elif kind.endswith(".toml"):
            command = ["simulate", str(known), *small]
        else:
            method = "hull" if kind.startswith("points") else "fedavg"
            command = [
                draw.choice(["check", "simulate"]),
                f"dataset={known}",
                f"method={method}",
                *small,
            ]
        yield Case(str(home), command)


def _write_sound(folder: Path) -> None:
    import numpy as np
    import torch
    from graph_fixtures import user_fields, write_tu
    from image_fixtures import write_classes

    from curvfed.deployments.inprocess import simulate

    folder.mkdir()
    torch.save(user_fields(), folder / "graph.pt")
    torch.save([user_fields(9, seed) | {"y": seed % 2} for seed in range(12)], folder / "graphs.pt")
    rng = np.random.default_rng(0)
    points, labels = rng.uniform(-0.5, 0.5, (80, 2)), np.arange(80) % 2
    np.savez(folder / "points.npz", data=points, label=labels)
    rows = [f"{x},{y},{'ab'[label]}" for (x, y), label in zip(points, labels, strict=True)]
    (folder / "points.csv").write_text("x,y,label\n" + "\n".join(rows) + "\n")
    (folder / "points.tsv").write_text("\n".join(rows).replace(",", "\t") + "\n")
    (folder / "settings.toml").write_text(
        'method = "fedavg"\nseed = 3\n[images]\ntrain-subset = 60\n'
    )
    write_classes(folder / "images", {"a": 6, "b": 6})
    write_tu(folder)
    (folder / "tu" / "MUTAG" / "raw").rename(folder / "collection")
    shutil.rmtree(folder / "tu")
    simulate(
        {"results-dir": str(folder), "run-name": "run", "num-rounds": 2, "embedding-dim": 4}, 2
    )


def _damage(path: Path, draw: random.Random, sound: Path) -> None:
    """Change a file's bytes, or put something else in its place."""
    how = draw.choice(
        [
            *("cut", "cut", "flip", "flip", "flip", "empty", "longer", "other", "pipe", "loop"),
            *("gone", "folder"),
        ]
    )
    if path.is_dir() and how in ("cut", "flip", "empty", "longer", "other"):
        how = "loop inside"
    if how in ("cut", "flip", "longer"):
        data = bytearray(path.read_bytes())
        if how == "cut":
            del data[draw.randrange(len(data) + 1) :]
        for _ in range(draw.choice((1, 5, 100)) if how == "flip" and data else 0):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(bytes(data) + draw.randbytes(1000) * (how == "longer"))
        return
    if how == "loop inside":
        (path / "again").symlink_to(path)
        return
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if how == "empty":
        path.write_bytes(b"")
    elif how == "other":
        shutil.copy(draw.choice([one for one in sorted(sound.iterdir()) if one.is_file()]), path)
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "loop":
        path.symlink_to(path.name)
    elif how == "folder":
        path.mkdir()


def tried(cases: Sequence[Case]) -> list[Case]:
    """What came of the cases, in a process with nothing but the app."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps([asdict(case) for case in cases]),
        env=os.environ | {"OMP_NUM_THREADS": "1", "no_proxy": "*"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [Case(**notes) for notes in json.loads(done.stdout)]


def _try(case: Case) -> None:
    """Fork, and run the command in the child."""
    output = Path(case.folder).parent / "output.txt"
    child = os.fork()
    if not child:
        status = 99
        with contextlib.suppress(BaseException):
            descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
            for stream in (1, 2):
                os.dup2(descriptor, stream)
            os.environ["HOME"] = case.folder
            os.chdir(case.folder)
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
            signal.alarm(MOST_SECONDS)
            try:
                status = main(case.arguments)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
    _, status, usage = os.wait4(child, 0)
    case.status, case.bytes = os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024
    case.text = output.read_text(errors="replace")


if __name__ == "__main__":
    for heavy in (
        "client_app.app",
        "deployments.inprocess",
        "server_app.app",
        "server_app.report.run_page",
    ):
        import_module(f"curvfed.{heavy}")  # once, and not in every child
    from curvfed.deployments.commands.command import main

    with contextlib.suppress(ImportError):  # the extension may be absent
        from curvfed.extensions.public_data import downloads

        downloads.PROBE_URL = "http://127.0.0.1:9/"  # absent data are not waited for
    asked = [Case(**notes) for notes in json.load(sys.stdin)]
    for one in asked:
        _try(one)
    json.dump([asdict(one) for one in asked], sys.stdout)
