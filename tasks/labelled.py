"""What the labels of a client's examples say, whatever the kind of data; without torch, which
points do not need."""

from typing import Any

import numpy as np


class Labelled:
    """The labels, parts and class names of a client's examples, in arrays or tensors of the CPU."""

    labels: Any
    train: Any
    test: Any
    class_names: tuple[str, ...]

    def trivial_scores(self) -> dict[str, float | None]:
        """The test scores of answers that no model is needed for, by name; None without training or
        test examples."""
        labels = np.asarray(self.labels)
        train_labels = labels[np.asarray(self.train)]
        test_labels = labels[np.asarray(self.test)]
        if not len(test_labels) or not len(train_labels):
            return {"majority_accuracy": None}
        # Of equally frequent classes argmax takes the first: equal figures everywhere.
        frequent = np.bincount(train_labels).argmax()
        return {"majority_accuracy": float((test_labels == frequent).mean())}

    def held(self, minimum: int) -> set[str]:
        """The names of the classes with at least this number of training examples, 1 or more."""
        train_labels = np.asarray(self.labels)[np.asarray(self.train)]
        sizes = np.bincount(train_labels, minlength=len(self.class_names))
        names = zip(self.class_names, sizes.tolist(), strict=True)
        return {name for name, size in names if size >= minimum}
