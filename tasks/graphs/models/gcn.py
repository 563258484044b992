"""The flat graph convolutional network for nodes."""

import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.graphs.dropout import dropout
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.models.model_spec import ModelSpec, start_all, store_by_input


class GCN(nn.Module):
    """The flat network (Kipf & Welling, 2017) with a linear classifier, as FED-PUB uses it."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.dropout = spec.dropout
        self.first = nn.Linear(spec.num_features, spec.width)
        self.second = nn.Linear(spec.width, spec.width)
        self.head = nn.Linear(spec.width, spec.num_classes)
        start_all(self.first, self.second, self.head)
        store_by_input(self.first.weight)

    def encode(self, inputs: GraphInputs) -> Tensor:
        """The output of the second convolution, (N, width)."""
        hidden = F.relu(inputs.adjacency @ (inputs.features @ self.first.weight.t()) + self.first.bias)
        hidden = dropout(hidden, self.dropout, self.training)
        return inputs.adjacency @ (hidden @ self.second.weight.t()) + self.second.bias

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (N, C)."""
        logits: Tensor = self.head(F.relu(self.encode(inputs)))
        return logits
