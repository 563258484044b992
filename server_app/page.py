"""HTML in small pieces. Text is escaped wherever it does not say that it is HTML: much of it comes from other machines."""

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

LONG = 20
"""Rows beyond which a table scrolls up and down too."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def join(*parts: Any) -> Html:
    """Put parts one after the other; None is nothing, and what is not `Html` is escaped."""
    return Html("".join(p if isinstance(p, Html) else html.escape(str(p)) for p in parts if p is not None))


def element(tag: str, *content: Any, **attributes: str) -> Html:
    """One element. A trailing underscore in an attribute's name is dropped (`class_`), others become hyphens."""
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    opening = "".join(f' {name}="{html.escape(value)}"' for name, value in named.items())
    return Html(f"<{tag}{opening}>{join(*content)}</{tag}>")


def section(title: str, *content: Any) -> Html:
    """A titled part of the page, or nothing if it would be empty."""
    return element("section", element("h2", title), *content) if any(content) else Html()


def table(header: Sequence[Any], rows: Iterable[Sequence[Any]], kind: str = "figures", *, label: str) -> Html:
    """A table that scrolls in its own box, the first cell of a row its heading.

    Parameters
    ----------
    header : sequence
        Empty for none.
    rows : iterable of sequences
        A cell that is `Html` brings its own `<td>`.
    kind : {"figures", "figures wide", "text"}
        Figures are aligned to the right; many columns of them leave little to the first.
    label : str
        What a screen reader calls the box.
    """
    head = element("thead", element("tr", *(element("th", cell, scope="col") for cell in header))) if header else None
    lines = [
        element(
            "tr", element("th", first, scope="row"), *(c if isinstance(c, Html) else element("td", c) for c in cells)
        )
        for first, *cells in rows
    ]
    inner = element("table", head, element("tbody", *lines), class_=kind)
    # A box that scrolls must be reachable by keyboard.
    kinds = "scroll long" if len(lines) > LONG else "scroll"
    return element("div", inner, class_=kinds, tabindex="0", role="region", aria_label=label)


def figure(picture: Html, caption: str) -> Html:
    """A picture and the sentence below it."""
    return element("figure", picture, element("figcaption", caption))


def percent(fraction: Any) -> str:
    """A fraction as percent with two decimals; a dash for what is not there."""
    return f"{100 * fraction:.2f}%" if is_number(fraction) else "–"


def size(count: Any) -> str:
    """Bytes, in units of 1000."""
    if not is_number(count):
        return "–"
    unit, *larger = "B", "kB", "MB", "GB", "TB"
    while larger and abs(count) >= 999.95:
        count, unit = count / 1000, larger.pop(0)
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def duration(seconds: Any) -> str:
    """Seconds to a sensible number of digits, from a minute on in minutes and hours."""
    if not is_number(seconds):
        return "–"
    if seconds < 60:
        return f"{seconds:.4f} s" if seconds < 0.1 else f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def number(value: Any, digits: int = 4) -> str:
    """A figure without a unit: a whole one with its thousands separated, another with so many decimals."""
    if not is_number(value):
        return "–"
    text = f"{value:,d}" if isinstance(value, int) else f"{value:,.{digits}f}"
    return text.replace("-", "−")


def amount(count: int, noun: str) -> str:
    """A count and its noun, in the plural where it takes one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def is_number(value: Any) -> bool:
    """Whether it is a finite number, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def page(title: str, *content: Any) -> str:
    """The whole document; it refers to nothing outside itself."""
    head = join(
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'),
        element("title", title),
        Html(f"<style>{STYLE}</style>"),
    )
    main = element("main", *content)
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{main}\n</body>\n</html>\n'


# The colours are Okabe and Ito's, which the colour-blind can tell apart; pictures name them by the same variables.
STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfc; --ink: #1d2329; --soft: #5b6570; --line: #e1e4e8; --wash: #f3f5f7;
  --mean: #0072b2; --other: #c04f00; --client: #7d8894; --bar: #cfe3f1; --good: #00694d; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181c; --ink: #e6e9ec; --soft: #a3adb7; --line: #2d343b;
  --wash: #1d2329; --mean: #56b4e9; --other: #e69f00; --client: #87929d; --bar: #1f4560; --good: #4fd1a5;
  --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI",
  Roboto, "Noto Sans", "DejaVu Sans", sans-serif; -webkit-text-size-adjust: 100%; overflow-wrap: break-word; }
main { max-width: 66rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: clamp(1.6rem, 5vw, 2.2rem); line-height: 1.15; margin: 0 0 .35rem; letter-spacing: -.015em; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 0 0 .7rem; }
section { margin-top: 2.6rem; }
p { margin: .5rem 0; max-width: 42rem; }
.about { color: var(--soft); margin: 0; max-width: none; }
.about > span:not(:last-child)::after { content: " · "; }
.lead { font-size: 1.1rem; margin-top: 1rem; }
.completed { color: var(--good); font-weight: 600; } .failed { color: var(--bad); font-weight: 600; }
.error { border-left: 4px solid var(--bad); background: var(--wash); padding: .8rem 1rem;
  margin: 1.2rem 0 0; }
.error strong { color: var(--bad); }
pre, code, td strong { font: .86rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre { background: var(--wash); padding: .8rem 1rem; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: .5rem 0 1rem; }
.error pre { background: none; padding: 0; margin: .3rem 0 0; }
.scroll { overflow: auto; border: 1px solid var(--line); border-radius: 6px; width: fit-content;
  max-width: 100%; margin: .6rem 0; }
.long { max-height: 36rem; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .8rem; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
thead th { position: sticky; top: 0; background: var(--wash); border-top: 0; font-weight: 600; vertical-align: bottom; }
tbody:first-child tr:first-child > * { border-top: 0; }
tbody th { font-weight: 400; }
.figures td, .figures thead th + th { text-align: right; }
.figures td { white-space: nowrap; }
.figures tbody th { min-width: 8.5rem; }
.figures.wide tbody th { min-width: 0; } .figures.wide :is(th, td) { padding-inline: .5rem; }
.text td { min-width: 8rem; white-space: pre-line; overflow-wrap: anywhere; } .text th { white-space: nowrap; }
td.bar { background: linear-gradient(to right, var(--bar) var(--share), transparent 0); }
.note { color: var(--soft); font-size: .9rem; }
.gallery { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 2rem;
  align-items: start; }
figure { margin: 0; max-width: 34rem; }
figure svg { display: block; width: 100%; height: auto; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
svg text { font-family: inherit !important; }
figcaption { color: var(--soft); font-size: .9rem; line-height: 1.45; margin-top: .4rem; }
summary { cursor: pointer; }
@media print { .long { max-height: none; } }
"""
