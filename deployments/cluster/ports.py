"""The default ports of a SuperLink."""

FLEET_PORT = 9092
API_PORT = 8000
"""Flower's own defaults: for nodes, and for runs and registrations."""

LAST_PORT = 65535
