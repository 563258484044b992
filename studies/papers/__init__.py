"""The tables and figures of the four papers, from runs of our own."""

PAPERS = ("flatland", "hyperfed", "spherefed", "hull")
