"""The names of the models for each task: a configuration is checked without importing the models."""

from curvfed.tasks import plugins

MODELS: dict[str, tuple[str, ...]] = {
    "nodes": ("gcn", "lorentz", "split"),
    "graphs": ("gin", "gcn", "lorentz"),
    "images": ("cnn", "convnet", "resnet18", "resnet18-7x7", "vgg13", "mobilenetv2", "senet18"),
    "points": (),
}

plugins.leave_out("models", {"auto", *(name for names in MODELS.values() for name in names)})
