"""The pixels of an image file: upright, of 8 bits, grey or in colour."""

import logging
import os
import stat
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

log = logging.getLogger("curvfed")

UPRIGHT = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
"""What turns an image upright, of `PIL.Image.Transpose`, by EXIF's orientation."""

ORIENTATION = 0x0112

PHOTOMETRIC = 262
WHITE_IS_ZERO = 0
"""What TIFF says of negatives, such as radiographs."""

DEPTHS = {8: range(128, 256), 12: range(2048, 4096), 16: range(4096, 2**16)}
"""The bits that values of 16-bit files have, by the highest value. Values between these could be of
either depth."""


class PixelError(ValueError):
    """Pixels of which it cannot be told what they mean."""


def decoded(path: str, bits: Callable[[], int]) -> Tensor:
    """The first frame of an image file, (1, c, h, w), uint8: one channel if the file is grey, else
    three.

    Images are turned upright by EXIF's orientation. Of 16 bits per channel the upper 8 of those in
    use are taken. A picture that is in the opacity alone, of one colour, is laid on white, or on
    black if it is bright.

    Parameters
    ----------
    path : str
    bits : callable
        The bits in use in 16-bit files; called for such a file alone.

    Raises
    ------
    PixelError
        If it cannot be told what the pixels mean.
    Exception
        Whatever Pillow comes upon.
    """
    from PIL import Image

    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would be waited for
        raise OSError("no regular file")
    # By its path, Pillow would map an uncompressed file into memory, and garble one that is to be
    # turned by a right angle.
    with open(path, "rb") as file, Image.open(file) as image:
        deep = _has_16_bits(image)
        image.load()
        turned = UPRIGHT.get(_orientation(image))
        upright = image if turned is None else image.transpose(Image.Transpose(turned))
        if upright.mode.startswith("I"):  # Pillow would clip what exceeds 255
            pixels = (_values(upright) >> (bits() - 8)).astype(np.uint8)
            # Pillow turns those of 8 bits alone
            if getattr(image, "tag_v2", {}).get(PHOTOMETRIC) == WHITE_IS_ZERO:
                pixels = 255 - pixels
        elif deep and bits() < 16:
            raise PixelError(
                f"its colours have 16 bits per channel and use {bits()} of them; save it with 8"
                " bits"
            )
        else:
            pixels = _of_8_bits(upright)
    return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)[None]


def common_bits(paths: Iterable[str]) -> int:
    """How many of the bits of 16-bit files are in use, by their highest value: 8, 12 or 16; 16
    without such files.

    Raises
    ------
    PixelError
        If the highest value fits none of `DEPTHS`.
    """
    highest = 0
    for path in paths:
        highest = max(highest, _highest(path))
        if highest in DEPTHS[16]:
            break
    for bits, values in DEPTHS.items():
        if highest in values:
            if bits < 16:
                log.warning(
                    "16-bit images hold values up to %d: they are read as %d bits", highest, bits
                )
            return bits
    if highest:
        raise PixelError(
            f"it has 16 bits per channel, but no value in the folder is above {highest}: it cannot"
            " be told which is white; save the images with 8 bits, or with values up to 65535"
        )
    return 16


def _highest(path: str) -> int:
    """The highest value of a 16-bit file; 0 for any other, which may be damaged: reading it
    tells.
    """
    from PIL import Image

    try:
        with open(path, "rb") as file, Image.open(file) as image:
            if not _has_16_bits(image):
                return 0
            if image.mode.startswith("I"):
                return int(_values(image).max())
            # Pillow reads the upper half of colours
            return 256 * int(np.asarray(image).max()) + 255
    except Exception:
        return 0


def _has_16_bits(image: Any) -> bool:
    return image.mode.startswith("I") or any(";16" in str(tile[3]) for tile in image.tile)


def _values(image: Any) -> NDArray[Any]:
    values = np.asarray(image)
    if values.min() < 0 or values.max() >= 2**16:
        raise PixelError("it has negative values, or more than 16 bits")
    return values


def _orientation(image: Any) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # damaged EXIF data, of an image that is whole
        return 1


def _of_8_bits(image: Any) -> NDArray[np.uint8]:
    if image.mode == "F":
        raise PixelError("its pixels are no integers")
    is_grey = image.mode in ("1", "L", "LA", "La")
    if image.mode in ("LA", "PA", "RGBA", "P"):
        transparent = np.array(image.convert("RGBA"))
        colours = transparent[..., :3]
        opacity = transparent[..., 3:]
        if np.ptp(opacity) and not np.ptp(colours, axis=(0, 1)).any():
            ground = 255 if colours[0, 0].mean() < 128 else 0
            shares = opacity / 255
            flat: NDArray[np.uint8] = np.rint(shares * colours + (1 - shares) * ground).astype(
                np.uint8
            )
            return flat[..., 0] if is_grey else flat
    # A palette with transparency is read by way of RGBA: Pillow warns of the other.
    image = image.convert("RGBA") if image.mode == "P" else image
    return np.array(image.convert("L" if is_grey else "RGB"))
