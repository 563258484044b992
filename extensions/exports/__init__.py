"""Trained models as programs of PyTorch or ONNX that need no curvfed."""
