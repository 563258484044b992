"""Curved spaces: pure functions on tensors and arrays. Knows neither Flower nor data sets."""
