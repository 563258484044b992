"""The pages of a run and of many runs: one kit of figures, tables and templates.

It reads run directories, and knows nothing of running. Importing it imports none of its modules: a
command's help needs only the formats.
"""

FORMATS = ("md", "html", "tex", "csv", "pdf")
"""Formats of a sweep's page and tables. Figures are always written as png and svg; pdf adds PDF
files of them."""
