"""Decode images: the pixels of a file, upright, in 8 bits, grey or colour, and many images one by
one."""

import logging
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from curvfed.geometry.arrays import Array, Integers
from curvfed.tasks.class_names import names_listed
from curvfed.tasks.errors import DataError
from curvfed.tasks.images.raw import converted

log = logging.getLogger("curvfed")

UPRIGHT = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
"""The value of `PIL.Image.Transpose` that turns an image upright, by EXIF's orientation."""

ORIENTATION = 0x0112

PHOTOMETRIC = 262
WHITE_IS_ZERO = 0
"""TIFF's photometric value for negatives, such as radiographs."""

DEPTHS = {8: range(128, 256), 12: range(2048, 4096), 16: range(4096, 2**16)}
"""The bits of the values in 16-bit files, by the highest value. Values between the ranges are
ambiguous."""


GREY = ("1", "L", "LA", "La")
"""Pillow's modes of grey images with up to 8 bits."""


class PixelError(ValueError):
    """Pixels with an ambiguous meaning."""


class DepthError(PixelError):
    """Values that do not fit the number of bits, or do not show it."""


def decoded(path: str, bits: Callable[[], int]) -> Tensor:
    """The first frame of an image file, (1, c, h, w), uint8: one channel if the file is grey, else
    three.

    EXIF's orientation turns images upright. For 16 bits per channel the result has the upper 8 of
    the bits in use. An image of one colour, with its picture only in the opacity, is drawn on
    white, or on black if the colour is bright.

    Parameters
    ----------
    path : str
    bits : callable
        The number of bits in use in 16-bit files; called only for such a file.

    Raises
    ------
    PixelError
        If the meaning of the pixels is ambiguous.
    Exception
        Any error of Pillow.
    """
    from PIL import Image

    # Reading a pipe would wait forever.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("no regular file")
    # Given a path, Pillow would map an uncompressed file into memory, and garble an image that
    # needs a turn by a right angle.
    with open(path, "rb") as file, Image.open(file) as image:
        has_16_bits = _has_16_bits(image)
        image.load()
        turn = UPRIGHT.get(_orientation(image))
        upright = image if turn is None else image.transpose(Image.Transpose(turn))
        # In these modes Pillow's conversion to 8 bits clips values above 255.
        if upright.mode.startswith("I"):
            pixels = _upper_bits(_values(upright), bits())
            # Pillow inverts only negatives of 8 bits.
            if getattr(image, "tag_v2", {}).get(PHOTOMETRIC) == WHITE_IS_ZERO:
                pixels = 255 - pixels
        elif has_16_bits and bits() < 16:
            raise PixelError(
                f"its colours have 16 bits per channel and use {bits()} of them; save it with 8"
                " bits"
            )
        else:
            pixels = _8_bit_pixels(upright)
    return _as_tensor(pixels)


def picture(image: Any) -> Tensor:
    """The pixels of an opened image of Pillow, as `decoded` returns those of a file with 8 bits.

    Raises
    ------
    PixelError
        If the image has more bits.
    """
    from PIL import ImageOps

    if _has_16_bits(image):
        raise PixelError("it has 16 bits per channel; save it with 8 bits")
    return _as_tensor(_8_bit_pixels(ImageOps.exif_transpose(image)))


def _as_tensor(pixels: NDArray[np.uint8]) -> Tensor:
    """(1, c, h, w) of (h, w) or (h, w, c)."""
    return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)[None]


def common_bits(paths: Iterable[str]) -> int:
    """The number of bits in use in 16-bit files, by their highest value: 8, 12 or 16; 16 without
    such files.

    Raises
    ------
    DepthError
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
                    "16-bit images hold values up to %d: they are read as %d bits; images.bits sets"
                    " another number",
                    highest,
                    bits,
                )
            return bits
    if highest:
        raise DepthError(
            f"it has 16 bits per channel, but no value in the folder is above {highest}, so the"
            " value of white is ambiguous"
        )
    return 16


def _highest(path: str) -> int:
    """The highest value of a 16-bit file; 0 for any other file, also a damaged one."""
    from PIL import Image

    try:
        with open(path, "rb") as file, Image.open(file) as image:
            if not _has_16_bits(image):
                return 0
            if image.mode.startswith("I"):
                return int(_values(image).max())
            # Pillow reads the upper half of the bits of colours.
            return 256 * int(np.asarray(image).max()) + 255
    except Exception:
        return 0


def has_colour(path: str) -> bool:
    """Whether `decoded` makes three channels of a file, by its header; False if it is damaged."""
    from PIL import Image

    try:
        with open(path, "rb") as file, Image.open(file) as image:
            return not (image.mode in GREY or image.mode.startswith("I"))
    except Exception:
        return False


def _has_16_bits(image: Any) -> bool:
    return image.mode.startswith("I") or any(
        ";16" in str(tile[3]) for tile in getattr(image, "tile", ())
    )


def _values(image: Any) -> Array:
    values = np.asarray(image)
    if values.min() < 0 or values.max() >= 2**16:
        raise PixelError("it has negative values, or more than 16 bits")
    return values


def _upper_bits(values: Array, bits: int) -> NDArray[np.uint8]:
    """The upper 8 bits of values with this number of bits.

    Raises
    ------
    DepthError
        If a value has more bits.
    """
    highest = int(values.max())
    if highest >= 2**bits:
        raise DepthError(
            f"it has the value {highest}; the run's images have {bits} bits, 0 to {2**bits - 1}"
        )
    upper: NDArray[np.uint8] = (values >> (bits - 8)).astype(np.uint8)
    return upper


def _orientation(image: Any) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # a complete image may have damaged EXIF data
        return 1


def _8_bit_pixels(image: Any) -> NDArray[np.uint8]:
    if image.mode == "F":
        raise PixelError("its pixels are not integers")
    is_grey = image.mode in GREY
    if image.mode in ("LA", "PA", "RGBA", "P"):
        transparent = np.array(image.convert("RGBA"))
        colours = transparent[..., :3]
        opacity = transparent[..., 3:]
        has_one_colour = not np.ptp(colours, axis=(0, 1)).any()
        if np.ptp(opacity) and has_one_colour:
            ground = 255 if colours[0, 0].mean() < 128 else 0
            shares = opacity / 255
            flat = np.rint(shares * colours + (1 - shares) * ground)
            pixels: NDArray[np.uint8] = flat.astype(np.uint8)
            return pixels[..., 0] if is_grey else pixels
    # Pillow warns of a direct conversion of palettes with transparency.
    image = image.convert("RGBA") if image.mode == "P" else image
    return np.array(image.convert("L" if is_grey else "RGB"))


LOGGED_IMAGES = 10_000
"""Reading more images is logged, as it takes a while."""


def _advice(error: Exception) -> str:
    """The way out of an error, in words; "" if the image is just damaged."""
    from PIL.Image import DecompressionBombError

    if isinstance(error, DepthError):
        return "; the run's key images.bits sets the bits of white"
    if isinstance(error, DecompressionBombError | MemoryError):
        return "; cut an image with too many pixels into tiles, or save it smaller"
    return ""


def read_images(
    where: str,
    name_of: Callable[[int], str],
    decode: Callable[[int], Tensor],
    indices: Integers,
    size: int,
    channels: int,
) -> Tensor:
    """Images that are decoded one by one, as `RawImages.read` returns them.

    Parameters
    ----------
    where : str
        The data in error texts.
    name_of, decode : callable
        The name and the pixels (1, c, h, w) of the image with a number.
    indices, size, channels
        As in `RawImages.read`.

    Raises
    ------
    DataError
        If images are damaged, or sizes differ and none is requested.
    """
    if len(indices) > LOGGED_IMAGES:
        log.info("reading %d images of %s", len(indices), where)
    images = torch.empty(0)
    failures: dict[str, Exception] = {}
    for place, index in enumerate(indices.tolist()):
        name = name_of(index)
        try:
            image = converted(decode(index), size, channels)
        except DataError:
            raise
        except Exception as error:  # each decoder has its own errors
            failures[name] = error
            continue
        if not len(images):
            images = torch.empty(len(indices), *image.shape[1:], dtype=torch.uint8)
        if image.shape[2:] != images.shape[2:]:
            height, width = image.shape[2:]
            first_height, first_width = images.shape[2:]
            raise DataError(
                f"{where}: image {name} is {height}x{width} (height x width), the images before it"
                f" are {first_height}x{first_width}; images must have one size, or be resized, such"
                " as by images.size=32",
                name,
                key="image-sizes",
            )
        # The first image in colour comes after grey images.
        if image.shape[1] > images.shape[1]:
            images = images.repeat(1, 3, 1, 1)
        images[place] = image[0]
    if failures:
        raise _unreadable(where, failures) from next(iter(failures.values()))
    return images


def _unreadable(where: str, failures: Mapping[str, Exception]) -> DataError:
    """The error for images that failed, by their names: all at once, as a user mends them."""
    name, *others = failures
    error = failures[name]
    # Pillow's text ends with the whole path in brackets.
    reason = getattr(error, "strerror", None) or str(error).partition(" <")[0]
    listed = names_listed(others)
    also = f", nor can {listed}" if others else ""
    return DataError(
        f"{where}: image {name} cannot be read ({type(error).__name__}: {reason}){also}; allowed"
        f" are complete images with 8 or 16 bits per channel{_advice(error)}",
        *filter(None, (name, reason, listed)),
        key="unreadable",
    )
