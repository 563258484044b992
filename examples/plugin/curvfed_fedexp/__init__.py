"""FedExP for curvfed."""
