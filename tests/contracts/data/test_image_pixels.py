"""What a pixel is: turned upright, of 8 bits, and never black without a word."""

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from errors import refuses
from image_fixtures import write_classes
from PIL import Image

from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.label_partition import PartitionSpec

RAMP = np.arange(96, dtype=np.uint8).reshape(8, 12) * 2


def write(folder, name, pixels, **options):
    (folder / "a").mkdir(parents=True, exist_ok=True)
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(folder / "a" / name, **options)


def read(folder, **settings):
    return ImageDataset(replace(ImageSpec("trees", folder), **settings)).own(folder).images.numpy()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "tif", "jpg"])
def test_exif_orientation(tmp_path, suffix, orientation):
    turned = {
        1: RAMP,
        2: np.fliplr(RAMP),
        3: RAMP[::-1, ::-1],
        4: np.flipud(RAMP),
        5: RAMP.T,
        6: np.rot90(RAMP),
        7: RAMP[::-1, ::-1].T,
        8: np.rot90(RAMP, -1),
    }
    stored = np.ascontiguousarray(turned[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    write(
        tmp_path / "own",
        f"0.{suffix}",
        stored,
        exif=exif,
        **({"quality": 100} if suffix == "jpg" else {}),
    )
    pixels = read(tmp_path / "own")[0, 0]
    assert pixels.shape == RAMP.shape
    assert np.abs(pixels.astype(int) - RAMP).max() <= (4 if suffix == "jpg" else 0)


@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize(("bits", "factor"), [(8, 1), (12, 16), (16, 257)])
def test_values_in_16_bits(tmp_path, caplog, suffix, bits, factor):
    write(tmp_path / "own", f"0.{suffix}", RAMP.astype(np.uint16) * factor)
    # darker, of the same depth
    write(tmp_path / "own", f"1.{suffix}", (RAMP.astype(np.uint16) * factor) // 8)
    bright, dark = read(tmp_path / "own")[:, 0]
    assert np.array_equal(bright, RAMP)
    assert np.abs(dark.astype(int) - RAMP // 8).max() <= 1
    assert (f"are read as {bits} bits" in caplog.text) == (bits < 16)


@pytest.mark.parametrize("bits", [8, 16])
def test_a_negative_is_turned_whatever_its_depth(tmp_path, bits):
    """Of TIFF files in which white is zero, Pillow turns those of 8 bits alone."""
    pixels = RAMP if bits == 8 else RAMP.astype(np.uint16) * 257
    write(tmp_path / "own", "0.tif", pixels)
    path = tmp_path / "own/a/0.tif"
    content = bytearray(path.read_bytes())
    entry = content.index(struct.pack("<HHI", 262, 3, 1))
    content[entry + 8 : entry + 10] = struct.pack("<H", 0)
    path.write_bytes(bytes(content))
    assert np.array_equal(read(tmp_path / "own")[0, 0], 255 - RAMP)


def test_both_parts_are_read_with_one_depth(tmp_path):
    for part, factor in (("train", 16), ("test", 1)):
        for number in range(4):
            write(tmp_path / "own" / part, f"{number}.png", RAMP.astype(np.uint16) * factor)
    spec = ImageSpec(str(tmp_path / "own"), tmp_path, partition=PartitionSpec(min_client_size=0))
    train, test = (
        ImageDataset(spec, tmp_path / "cache").client(0, 1),
        ImageDataset(spec, tmp_path / "cache").test(),
    )
    assert np.array_equal(train.images[0, 0], RAMP)
    assert np.array_equal(test.images[0, 0], RAMP // 16)


@pytest.mark.parametrize("highest", [1, 100, 300, 1500])
def test_a_depth_that_cannot_be_reported_is_refused(tmp_path, highest):
    pixels = np.zeros((8, 8), dtype=np.uint16)
    pixels[0, 0] = highest
    write(tmp_path / "own", "0.png", pixels)
    with refuses("unreadable", "image a/0.png", highest, "images.bits") as caught:
        read(tmp_path / "own")
    assert "tiles" not in str(caught.value)


@pytest.mark.parametrize("bits", [8, 10, 14, 16])
def test_given_bits_are_used_whatever_the_values(tmp_path, bits):
    values = RAMP.astype(np.uint16) << (bits - 8)
    write(tmp_path / "own", "0.png", values // 8)
    assert np.array_equal(read(tmp_path / "own", bits=bits)[0, 0], RAMP // 8)
    write(tmp_path / "own", "1.png", values + np.uint16(2**bits - 1 - values.max()))
    assert read(tmp_path / "own", bits=bits).max() == 255


def test_a_value_above_the_given_bits_is_refused(tmp_path):
    write(tmp_path / "own", "0.png", RAMP.astype(np.uint16))
    write(tmp_path / "own", "1.png", np.full_like(RAMP, 4096, dtype=np.uint16))
    with refuses("unreadable", "image a/1.png", "4096", "12 bits", "4095", "images.bits"):
        read(tmp_path / "own", bits=12)


def test_colours_of_16_bits_that_come_out_black_are_refused(tmp_path):
    rows = b"".join(b"\x00" + bytes([0, value, 0, value, 0, value]) * 8 for value in range(8))
    write_png_16(tmp_path / "own/a/0.png", rows)
    with refuses("unreadable", "a/0.png", "16"):
        read(tmp_path / "own")
    write_png_16(tmp_path / "own/a/0.png", rows.replace(b"\x00\x07", b"\xff\x07"))
    assert read(tmp_path / "own").max() == 255


def write_png_16(path, rows):
    """A PNG of 8x8 pixels in colour with 16 bits per channel, which Pillow does not write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(">IIBBBBB", 8, 8, 16, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        content += (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )
    path.write_bytes(content)


@pytest.mark.parametrize(("ink", "expected"), [(0, 255 - RAMP), (255, RAMP)])
@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_a_picture_in_the_opacity_alone(tmp_path, mode, ink, expected):
    channels = [np.full_like(RAMP, ink)] * (3 if mode == "RGBA" else 1)
    write(tmp_path / "own", "0.png", Image.fromarray(np.dstack([*channels, RAMP]), mode))
    pixels = read(tmp_path / "own")
    assert pixels.shape[1] == len(channels)
    assert (pixels[0] == expected).all()


def test_a_huge_image_is_named_with_the_limit(tmp_path, monkeypatch):
    write_classes(tmp_path / "own", {"a": 1})
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 31)
    with refuses("unreadable", "a/0000.png", "64", "62", "tiles"):
        read(tmp_path / "own")
