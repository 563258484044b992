"""Classification of nodes and of graphs."""
