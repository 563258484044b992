"""Random draws on the CPU: from torch's generator, which all threads of a process share, or within
`own_draws` from a generator of this thread."""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_thread = threading.local()

_DRAWING = frozenset(
    {Tensor.bernoulli_, Tensor.normal_, Tensor.random_, Tensor.uniform_, torch.rand, torch.randn}
)


@contextlib.contextmanager
def own_draws() -> Iterator[None]:
    """Within the block this thread draws from a generator of its own, unless `share_draws` is
    called; torch's generator is then restored at the end."""
    before = generator()
    state = torch.get_rng_state()
    _thread.generator = torch.Generator()
    try:
        yield
    finally:
        if generator() is None:
            torch.set_rng_state(state)
        _thread.generator = before


def share_draws() -> None:
    """Let this thread draw from torch's generator to the end of `own_draws`: for code that takes no
    generator, such as the network of another package."""
    _thread.generator = None


def generator(device: torch.device | None = None) -> torch.Generator | None:
    """This thread's generator for a device, by default the CPU; None: torch's."""
    if device is not None and device.type != "cpu":
        return None
    return getattr(_thread, "generator", None)


def permutation(count: int, device: torch.device) -> Tensor:
    """The numbers below `count` in random order."""
    return torch.randperm(count, device=device, generator=generator(device))


def uniform(
    shape: Sequence[int], device: torch.device, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Random numbers in [0, 1)."""
    return torch.rand(shape, device=device, dtype=dtype, generator=generator(device))


def whole_numbers(limit: int, shape: Sequence[int], device: torch.device, start: int = 0) -> Tensor:
    """Random whole numbers from `start` to below `limit`."""
    return torch.randint(start, limit, shape, device=device, generator=generator(device))


def normal_like(values: Tensor) -> Tensor:
    """Standard normal numbers in the shape and dtype of a tensor."""
    return torch.empty_like(values).normal_(generator=generator(values.device))


def seed_draws(seed: int) -> None:
    """Seed the draws of this thread on the CPU.

    Examples
    --------
    >>> with own_draws():
    ...     seed_draws(7)
    ...     first = torch.randperm(9, generator=generator())
    >>> with own_draws():
    ...     seed_draws(7)
    ...     bool((torch.randperm(9, generator=generator()) == first).all())
    True
    """
    (generator() or torch.default_generator).manual_seed(seed)


@contextlib.contextmanager
def seeded(seed: int, shares: bool = False) -> Iterator[None]:
    """Within the block the layers of networks are initialised by this seed, and no other draws of
    this thread change.

    Parameters
    ----------
    seed : int
    shares : bool
        Whether the network of another package is made, which draws as it likes: `share_draws`.
    """
    if shares:
        share_draws()
    # torch.manual_seed would also seed the GPUs, and is slower.
    if generator() is None:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            yield
        return
    with own_draws(), _Initialisation():
        seed_draws(seed)
        yield


class _Initialisation(TorchFunctionMode):
    """Hands this thread's generator to torch's functions of initialisation."""

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords = dict(kwargs or {})
        if func in _DRAWING or "generator" in keywords:
            keywords["generator"] = keywords.get("generator") or generator()
        return func(*args, **keywords)


class Dropout(nn.Dropout):
    """Torch's dropout, with the draws of this thread."""

    def forward(self, input: Tensor) -> Tensor:
        """The same as `torch.nn.Dropout`."""
        draws = generator(input.device)
        if draws is None or not self.training or not 0 < self.p < 1:
            return super().forward(input)
        mask = torch.empty_like(input).bernoulli_(1 - self.p, generator=draws)
        return input * mask.div_(1 - self.p)
