"""Image classification: data sets and their partition, networks, local objectives."""
