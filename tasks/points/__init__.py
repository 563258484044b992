"""Classification of points in the Poincaré disc: data sets, their partition, a sampler. Needs no
torch."""
