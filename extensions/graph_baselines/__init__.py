"""Federated methods of other papers for graphs alone, to compare the curved ones with."""
