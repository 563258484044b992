"""Data sets, partitions, models, losses and metrics. Knows no Flower."""
