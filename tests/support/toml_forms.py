"""TOML files as Windows' editors save them: byte-order mark, UTF-16, line ends."""

from codecs import BOM_UTF8
from collections.abc import Callable

FORMS: dict[str, Callable[[str], bytes]] = {
    "mark": lambda text: BOM_UTF8 + text.encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "lines": lambda text: BOM_UTF8 + text.replace("\n", "\r\n").encode(),
}
