"""Tables and figures of a sweep."""

FORMATS = ("md", "html", "tex", "csv", "pdf")
"""Of the page and its tables, and pdf of its figures, which always are png and svg too."""
