"""All benchmarks: ratios against the plain loop, the flat twin or the library's limit, each pair in one run.

    python -m benchmarks.run [--data FOLDER] [--out FILE.json]

With a folder of data sets on Cora, else on the built-in trees. One thread; ours over theirs by medians of interleaved
repeats, with the smallest and the largest ratio of a pair.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.decode import decode_against_plain, decode_times
from benchmarks.gram import gram_against_one_product
from benchmarks.hulls import against_qhull
from benchmarks.inprocess import against_plain_loop
from benchmarks.parts import codec_against_copies, forman_against_loop, sparse_against_dense
from benchmarks.secure_sum import recovery_against_its_parts
from benchmarks.steps import lorentz_against_flat
from benchmarks.timing import Ratio


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all rows and print them as they come."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run")
    parser.add_argument("--data", type=Path, help="folder of the public data sets; without it the built-in trees")
    parser.add_argument("--out", type=Path, help="where to write the figures as JSON")
    options = parser.parse_args(arguments)
    data, dataset = (options.data, "cora") if options.data else (Path(), "trees")
    rows: dict[str, Callable[[], Ratio]] = {
        f"in-process run, {dataset}, 100 rounds / the same training in one plain loop": (
            lambda: against_plain_loop(data, dataset)
        ),
        f"Lorentz GCN step / flat GCN step of equal width, {dataset}": lambda: lorentz_against_flat(data, dataset),
        f"GCN step on sparse features / on the same features dense, {dataset}": (
            lambda: sparse_against_dense(data, dataset)
        ),
        "encode and decode 1M float32 / copy them twice": codec_against_copies,
        "Forman-Ricci by sparse products / counting in a Python loop, 2,000 nodes": forman_against_loop,
        "Gram matrix of 20 models' deviations of 11M float32 / one matrix product": gram_against_one_product,
        "hyperbolic hull of 100,000 points / Qhull on them as Euclidean points": against_qhull,
        "decode of 5,000 bins / FLINT's roots of its locator alone": decode_times,
        "decode of 300 bins / Berlekamp-Massey and a search in plain Python": decode_against_plain,
        "recovery of a secure sum, 50 clients, 4 gone / its key agreements and streams alone": recovery_against_its_parts,
    }
    logging.getLogger("curvfed").addHandler(logging.NullHandler())
    table = Table("what", "ratio", "smallest-largest", "ours, s", "theirs, s")
    figures = {}
    for what, measure in rows.items():
        print(f"measuring: {what}", flush=True)
        found = measure()
        figures[what] = asdict(found) | {"ratio": found.ratio}
        spread = f"{found.low:.3g}-{found.high:.3g}"
        table.add_row(what, f"{found.ratio:.3g}", spread, f"{found.ours:.3g}", f"{found.theirs:.3g}")
    Console().print(table)
    if options.out:
        options.out.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
