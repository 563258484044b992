"""The flat graph convolutional network for nodes."""

import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.graphs.dropout import dropout
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.model_spec import ModelSpec, start_all, store_by_input
from curvfed.tasks.graphs.sparse import Constant


class GCN(nn.Module):
    """The flat network (Kipf & Welling, 2017) with a linear classifier, as in FED-PUB."""

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
        hidden = F.relu(
            self.convolve(self.first, inputs.features @ self.first.weight.t(), inputs.adjacency)
        )
        hidden = dropout(hidden, self.dropout, self.training)
        return self.convolve(self.second, hidden @ self.second.weight.t(), inputs.adjacency)

    def convolve(self, layer: nn.Linear, product: Tensor, adjacency: Constant) -> Tensor:
        """The output of a layer, (N, width), from the product of its input with its weights."""
        return adjacency @ product + layer.bias

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (N, C)."""
        logits: Tensor = self.head(F.relu(self.encode(inputs)))
        return logits
