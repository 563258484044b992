"""FedBABU (Oh et al., ICLR 2022): the body is averaged; the classifier is random and fixed until
fine-tuning."""

from curvfed.strategies.base.method import IMAGES, Method, Network

METHODS = {
    "fedbabu": Method(
        "body averaged under a random fixed classifier, then fine-tuned at each client (Oh et al.,"
        " 2022)",
        space="flat",
        network=Network(head_from="server"),
        tasks=IMAGES,
        settings={"images": {"fine_tune": "all"}},
    ),
}
