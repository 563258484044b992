"""Tables and figures of a sweep."""
