"""The aggregations of curvfed as strategies of Flower, for any Flower app."""
