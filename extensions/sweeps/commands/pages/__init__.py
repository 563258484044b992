"""The page of many runs: selection of figures, tables and pictures.

Importing it imports none of its modules: a command's help needs only the formats.
"""

FORMATS = ("md", "html", "tex", "csv", "pdf")
"""Formats of a sweep's page and tables. Figures are always written as png and svg; pdf adds PDF
files of them."""
