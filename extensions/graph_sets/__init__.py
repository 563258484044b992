"""Sets of graphs in the text files of the TU collection: one's own, and the published ones."""
