"""Federated methods of other papers for graphs and images, to compare the curved ones with."""
