"""The layout of the TU collection (Morris et al., 2020), and its data sets by name."""

from pathlib import Path

from curvfed.tasks.format import Format
from curvfed.tasks.graphs.data import in_collection
from curvfed.tasks.public_data import PublicData

FILES = "curvfed.extensions.graph_sets.tu_files"
"""The module of the readers."""

REQUIRED = ("A", "graph_indicator", "graph_labels")
"""The files that every set of the TU collection has."""


def _recognise(path: Path) -> str:
    """The reason for a folder with a file of the TU collection, as published or as stored by
    PyTorch Geometric."""
    names = [file.name for file in (*path.glob("*_A.txt"), *path.glob("raw/*_A.txt"))]
    return f"it holds {names[0]}" if names else ""


TU = Format("a folder in the TU collection's layout", ("graphs",), _recognise, f"{FILES}:locate")

ORIGIN = "torch_geometric.datasets.TUDataset"

WHOLE = "of the TU collection, one or several"

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


def _set(name: str) -> PublicData:
    """The raw files of a data set of the collection, which PyTorch Geometric downloads."""
    files = [f"{name}_{file}.txt" for file in REQUIRED]
    collection = in_collection(ORIGIN, name, "tu", name, *files, task="graphs")
    return PublicData(**collection, find=f"{FILES}:find_set", is_listed=False)


def _group(title: str, members: tuple[str, ...], words: str) -> PublicData:
    return PublicData(title, members=members, origin=f"{ORIGIN}: {words}", task="graphs")


SETS = {
    **{name: _group(name, GROUPS[name], ", ".join(GROUPS[name])) for name in ("CHEM", "BIO", "SN")},
    "BIO-CHEM-SN": _group("BIO-CHEM-SN", GROUPS["BIO-CHEM-SN"], "the sets of BIO, CHEM and SN"),
    WHOLE: _group(WHOLE, NAMES, LISTED),
    **{name: _set(name) for name in NAMES},
}
"""The sets of graphs, and groups of them."""
