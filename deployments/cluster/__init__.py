"""The app between machines: a SuperLink, its SuperNodes, their certificates and keys."""
