"""The GPUs of this machine."""

import os


def visible_gpus() -> list[str]:
    """The names of this process's GPUs in CUDA_VISIBLE_DEVICES."""
    import torch  # takes seconds

    count = torch.cuda.device_count()
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return [name.strip() for name in names.split(",")][:count]
