"""Studies made with curvfed: the papers' tables and figures, and the acceptance tables.

They stand outside the product: neither the wheel nor Flower's bundle holds them.
"""
