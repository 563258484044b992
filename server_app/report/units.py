"""Numbers as readers see them: percent, bytes, durations, counts; a dash for a missing number."""

from typing import Any

from curvfed.server_app.directory import is_number


def percent(fraction: Any) -> str:
    """A fraction as percent with one decimal."""
    return f"{100 * fraction:.1f}%" if is_number(fraction) else "–"


def size(count: Any) -> str:
    """Bytes, in units of 1000."""
    if not is_number(count):
        return "–"
    unit, *larger = "B", "kB", "MB", "GB", "TB"
    while larger and abs(count) >= 999.95:
        count = count / 1000
        unit = larger.pop(0)
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def duration(seconds: Any) -> str:
    """Seconds with a sensible number of digits; from a minute on, minutes and hours."""
    if not is_number(seconds):
        return "–"
    if seconds < 60:
        return f"{seconds:.4f} s" if seconds < 0.1 else f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes} min {rest:02d} s"
        if minutes < 60
        else f"{minutes // 60} h {minutes % 60:02d} min"
    )


def number(value: Any, digits: int = 4) -> str:
    """A number without a unit: an int with separated thousands, a float with `digits` decimals."""
    if not is_number(value):
        return "–"
    text = f"{value:,d}" if isinstance(value, int) else f"{value:,.{digits}f}"
    return text.replace("-", "−")


def amount(count: int, noun: str) -> str:
    """A count and its noun, in the plural unless the count is 1."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def printable(text: str, longest: int = 18) -> str:
    """A text on one line, cut short, with ? for letters that cannot be printed: names come from
    other machines."""
    plain = " ".join("".join(letter if letter.isprintable() else "?" for letter in text).split())
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"
