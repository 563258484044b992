"""Random crops and flips of a whole batch, on its device."""

import torch
import torch.nn.functional as F
from torch import Tensor

PADDING = 4


def crop_and_flip(images: Tensor) -> Tensor:
    """Randomly shift each image by up to 4 pixels in each direction, filled with 0, and mirror half
    of the images.

    The usual augmentation of CIFAR: a random crop of the image padded by 4, and a random horizontal
    flip.

    Parameters
    ----------
    images : Tensor (n, c, h, w), any dtype

    Returns
    -------
    Tensor (n, c, h, w)
        Of the same dtype. Draws are per image, from the default generator of the device.
    """
    num, _, height, width = images.shape
    device = images.device
    # All crops as a view (n, c, 9, 9, h, w); one indexing operation copies the drawn crops.
    crops = F.pad(images, (PADDING,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    down, right = torch.randint(2 * PADDING + 1, (2, num), device=device)
    cropped = crops[torch.arange(num, device=device), :, down, right]
    flipped = torch.rand(num, 1, 1, 1, device=device) < 0.5
    return torch.where(flipped, cropped.flip(3), cropped)
