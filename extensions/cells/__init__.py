"""Cells with gene expression: their coordinates in the Poincaré disc, and methods that sum moments
of their points or genes."""
