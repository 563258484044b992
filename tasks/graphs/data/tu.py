"""The names of the sets of graphs, how a run names several of them, and where their files are."""

import os

from curvfed.tasks.errors import DataError, did_you_mean
from curvfed.tasks.graphs.data.sources import PYG, SOURCES, in_collection
from curvfed.tasks.public_data import PublicData

ORIGIN = f"{PYG}.TUDataset"

REQUIRED = ("A", "graph_indicator", "graph_labels")
"""The files that every set has."""

GROUPS = {
    "CHEM": ("MUTAG", "BZR", "COX2", "DHFR", "PTC_MR", "AIDS", "NCI1"),
    "BIO": ("ENZYMES", "DD", "PROTEINS"),
    "SN": ("COLLAB", "IMDB-BINARY", "IMDB-MULTI"),
}
GROUPS["BIO-CHEM-SN"] = (*GROUPS["CHEM"], *GROUPS["BIO"], *GROUPS["SN"])
"""The groups of Xie et al. (2021)."""

_OTHERS = """
BZR_MD COX2_MD DHFR_MD ER_MD FRANKENSTEIN MCF-7 MCF-7H MOLT-4 MOLT-4H Mutagenicity NCI109 NCI-H23
NCI-H23H OVCAR-8 OVCAR-8H P388 P388H PC-3 PC-3H PTC_FM PTC_FR PTC_MM SF-295 SF-295H SN12C SN12CH
SW-620 SW-620H UACC257 UACC257H Yeast YeastH KKI OHSU Peking_1 PROTEINS_full COIL-DEL COIL-RAG
Cuneiform Fingerprint FIRSTMM_DB Letter-high Letter-low Letter-med MSRC_9 MSRC_21 MSRC_21C DBLP_v1
deezer_ego_nets github_stargazers REDDIT-BINARY REDDIT-MULTI-5K REDDIT-MULTI-12K reddit_threads
twitch_egos TWITTER-Real-Graph-Partial COLORS-3 SYNTHETIC SYNTHETICnew Synthie TRIANGLES
"""
_TOX21_ASSAYS = (
    "AhR",
    "AR",
    "AR-LBD",
    "ARE",
    "aromatase",
    "ATAD5",
    "ER",
    "ER-LBD",
    "HSE",
    "MMP",
    "p53",
    "PPAR-gamma",
)
_TOX21_PARTS = ("training", "testing", "evaluation")

NAMES = (
    *GROUPS["BIO-CHEM-SN"],
    *_OTHERS.split(),
    *(f"Tox21_{assay}_{role}" for assay in _TOX21_ASSAYS for role in _TOX21_PARTS),
)
"""The data sets of the TU collection for classification, without those for regression and those of
temporal graphs."""

LISTED = (
    f"the sets of the groups above, {', '.join(_OTHERS.split())}, and Tox21_ASSAY_PART with ASSAY "
    f"{', '.join(_TOX21_ASSAYS)} and PART {', '.join(_TOX21_PARTS)}"
)
"""`NAMES`, in words."""

_SPELLED = {name.lower(): name for name in (*NAMES, *GROUPS)}


def graph_dataset_names(text: str) -> tuple[str, ...] | None:
    """The sets of graphs that a run-config's `dataset` names, in the TU collection's spelling.

    Parameters
    ----------
    text : str
        A data set, a group of `GROUPS`, or a list of both, separated by commas, in any case; or the
        path (with a separator in it) of a folder in the layout of the collection.

    Returns
    -------
    tuple of str, or None
        In the order of `text`; only the path if `text` is a path; None if `text` names no set of
        graphs.

    Raises
    ------
    DataError
        If a list names a data set twice, or something else than sets of graphs; names the item and
        the nearest data set.
    """
    if text.lower().endswith(".pt"):
        return None
    if is_path(text):
        return (text,)
    items = [item.strip() for item in text.split(",")]
    spelled = [_SPELLED.get(item.lower()) for item in items]
    recognised = [name for name in spelled if name is not None]
    if not recognised:
        return None
    if len(recognised) < len(items):
        problem = _unknown_item(items[spelled.index(None)], recognised)
        raise DataError(f'dataset is "{text}": {problem}', key="unknown-data-set")
    names = [name for item in recognised for name in GROUPS.get(item, (item,))]
    doubled = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if doubled:
        raise DataError(
            f'dataset is "{text}": it names {", ".join(doubled)} twice; each may be named once',
            key="doubled-data-set",
        )
    return tuple(names)


def is_path(text: str) -> bool:
    """Whether a data set is given by a path: paths have a separator, names have none."""
    return "/" in text or os.sep in text


def tu_files(name: str) -> PublicData:
    """The raw files of a data set of the collection, which PyTorch Geometric downloads."""
    files = [f"{name}_{file}.txt" for file in REQUIRED]
    return PublicData(**in_collection(ORIGIN, name, "tu", name, *files, task="graphs"))


def _unknown_item(item: str, recognised: list[str]) -> str:
    """What is wrong with `item` in a list of sets of graphs with the `recognised` names."""
    if not item:
        return "an item of the list is empty; single commas separate the names"
    if item.lower() in ("trees", *SOURCES):
        return (
            f'"{item}" is for the classification of nodes, {", ".join(recognised)} for that of'
            " graphs; a run has one task"
        )
    return (
        "no set of graphs is called"
        f' "{item}"{did_you_mean(item, _SPELLED.values(), "`curvfed datasets`")}'
    )
