"""Make the papers' tables and figures: run all sweeps of the papers, then write the pages.

    python -m studies.papers --data FOLDER [--scale paper] [--to docs/results]
    python -m studies.papers --data FOLDER --only hull/table-02,flatland/figure-02
    python -m studies.papers --list

Completed runs are not repeated.
"""

import argparse
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

# As `curvfed` on a shell, without a second start.
from curvfed.deployments.commands.command import main as curvfed
from curvfed.strategies.base.keys import dotted
from studies.papers.data_counts import COUNTS, counts
from studies.papers.hull_baselines import BASELINES, accuracies, add_to_table
from studies.papers.pages import Sweep, read_sweeps, sweep_files, write_pages


def combined_sweep(paths: Sequence[Path], scale: str) -> dict[str, Any]:
    """The runs of several sweep files as one sweep: they share many runs, and one start of Ray."""
    blocks = []
    for path in paths:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        at_scale = content["scales"][scale]
        common = dotted(content.get("settings", {})) | dotted(at_scale.get("settings", {}))
        runs = at_scale.get("runs", content.get("runs", [{}]))
        blocks += [common | dotted(run) for run in runs]
    return {"title": f"all sweeps, {scale}", "runs": blocks}


def add_baselines(sweeps: Sequence[Sweep], results: Path) -> None:
    """Train the baselines that tables and figures of the paper on hulls compare its runs with, and
    compute what FlatLand's tables say about the data."""
    more = {"hull": (BASELINES, accuracies), "flatland": (COUNTS, counts)}
    for sweep in sweeps:
        if sweep.paper in more:
            shown: list[str] = []
            for spec in (*sweep.plan.tables, *sweep.plan.figures):
                named = spec.get("figures", [])
                for figure in [named] if isinstance(named, str) else named:
                    shown += figure if isinstance(figure, list) else [figure]
            runs = [run.name for run in sweep.plan.runs]
            add_to_table(results, runs, dict.fromkeys(shown), *more[sweep.paper])


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 all completed, 1 some runs failed, 2 wrong usage, 130 interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.papers", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--list", action="store_true", help="list the sweeps, and run nothing")
    parser.add_argument("--only", default="", help="names of sweeps, separated by commas")
    parser.add_argument("--scale", default="smoke", help="smoke (minutes, 2 cores), paper, …")
    parser.add_argument("--data", type=Path, help="folder of the public data sets")
    parser.add_argument("--to", type=Path, default=Path("paper"), help="folder of the pages")
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("~/curvfed/sweeps"),
        help="folder of the runs, ~/curvfed/sweeps by default",
    )
    options, for_sweep = parser.parse_known_args(arguments)
    files = sweep_files()
    if options.list:
        for name, path in files.items():
            content = tomllib.loads(path.read_text(encoding="utf-8"))
            print(f"{name}: {content['title']} ({content['source']})")
        return 0
    names = options.only.split(",") if options.only else list(files)
    if unknown := [name for name in names if name not in files]:
        parser.error(f"--only: no sweep {', '.join(unknown)}; --list shows all")
    paths = [files[name] for name in names]
    results = options.results.expanduser()
    try:
        sweeps = read_sweeps(paths, options.scale)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    options.to.mkdir(parents=True, exist_ok=True)
    data = ["--data", str(options.data)] if options.data else []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "all.toml")
        file.write_text(tomli_w.dumps(combined_sweep(paths, options.scale)), encoding="utf-8")
        status = curvfed(["sweep", str(file), "--results", str(results), *data, *for_sweep])
    if status not in (0, 1):
        return status
    add_baselines(sweeps, results)
    command = f"python -m studies.papers --scale {options.scale} --data FOLDER"
    write_pages(sweeps, results, options.to, command)
    print(f"pages: {options.to / 'README.md'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
