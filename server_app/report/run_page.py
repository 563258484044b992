"""`report.html`: one self-contained page about a run, made only from the files of its directory."""

from pathlib import Path

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report.page import Page, html_page
from curvfed.server_app.report.parts import drawn, parts_of
from curvfed.strategies.methods import METHODS
from curvfed.tasks.amounts import amount
from curvfed.tasks.stored_files import write_atomically


def write_report(run_dir: Path) -> Path:
    """Make `report.html` of a run directory, or make it again; equal files give equal bytes.

    Parameters
    ----------
    run_dir : Path
        With any of summary.json, config.toml, clients.json, rounds.csv and clients.csv.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    OSError
        If the page cannot be written.
    """
    text = html_page(run_page(RunFiles(run_dir)))
    path = run_dir / "report.html"
    # Names from other machines may hold characters that UTF-8 cannot encode.
    write_atomically(path, text.encode("utf-8", "replace"), private=True)
    return path


def run_page(run: RunFiles) -> Page:
    """The content of the page: method, status, warnings, and the parts that the core and extensions
    have."""
    summary = run.summary
    name = summary.get("method") or ""
    dataset = summary.get("dataset")
    method = METHODS.get(name)
    warnings = [f"{text[:1].upper()}{text[1:]}." for text in summary.get("warnings") or ()]
    if name and dataset:
        title = f"{name} on {Path(dataset).name}"
    else:
        title = f"Run {run.name}"
    parts = parts_of(run)
    pictures = drawn(run, parts)
    absent = [f"Not in the run directory: {', '.join(run.absent)}."] if run.absent else []
    return Page(
        title=title,
        words=[f"{name}: {method.summary}."] if method else [],
        notes=[*warnings, *absent],
        pictures=pictures,
        tables=list(parts.tables),
        about=_about(run),
        headline=parts.headline,
        error=summary.get("error") or "",
        commands=parts.commands,
        configuration=parts.configuration,
        versions=summary.get("versions") or {},
    )


def _about(run: RunFiles) -> list[tuple[str, str]]:
    """How the run ended, and how large it was."""
    summary = run.summary
    status = summary.get("status") or "not finished"
    ending = status if status in ("completed", "failed") else "open"
    sizes = [amount(f"{summary.get('num_clients') or 0:,}", "client")]
    if summary.get("rounds"):
        sizes.append(amount(f"{summary['rounds']:,}", "round"))
    sizes.append(f"seed {summary.get('seed')}")
    return [(ending, status), *(("", text) for text in sizes if summary), ("", f"run {run.name}")]
