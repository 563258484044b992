"""Cells with gene expression to points in the Poincaré disc, by a public reference."""
