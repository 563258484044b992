"""Files of images: read as by torchvision; absent, damaged or unfit ones are named."""

import os
from dataclasses import replace

import numpy as np
import pytest
from errors import refuses
from image_fixtures import rows_of, write_classes
from PIL import Image

from curvfed.tasks.images import EXTENSIONS
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset

# Named data sets


# Absent and damaged


# A user's folder


def test_extensions_and_order_are_torchvisions(tmp_path):
    from torchvision.datasets import ImageFolder
    from torchvision.datasets.folder import IMG_EXTENSIONS

    assert set(EXTENSIONS) == {*IMG_EXTENSIONS, ".jfif"}
    write_classes(tmp_path / "own", {"b": 3, "A": 2, "c/inner": 2, "10": 1, "9": 1})
    write_classes(tmp_path / "own", {"b": 2}, seed=1, suffix=".PPM")
    expected = ImageFolder(tmp_path / "own")
    client = ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    assert client.class_names == tuple(expected.classes)
    assert client.labels.tolist() == expected.targets
    assert rows_of(client.images) == [
        np.array(image.convert("L")).tobytes() for image, _ in expected
    ]


def test_a_pipe_among_the_images_is_named_and_not_waited_for(tmp_path):
    write_classes(tmp_path / "own", {"a": 2, "b": 3})
    os.mkfifo(tmp_path / "own" / "a" / "9.png")
    with refuses("unreadable", "a/9.png", "(OSError"):
        ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")


@pytest.mark.parametrize("colours", ["train", "test"])
def test_one_file_in_colour_makes_all_parts_colour(tmp_path, colours):
    """Also a part whose own files are grey, such as the test part of a few files in colour."""
    for part in ("train", "test"):
        write_classes(tmp_path / "own" / part, {"a": 12, "b": 12})
    path = tmp_path / "own" / colours / "a" / "0000.png"
    Image.open(path).convert("RGB").save(path)
    dataset = ImageDataset(ImageSpec(str(tmp_path / "own"), tmp_path), tmp_path / "cache")
    assert dataset.client(0, 2).shape == dataset.client(1, 2).shape == dataset.test().shape
    assert dataset.test().shape.startswith("3x")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_modes_of_pictures(tmp_path, mode):
    (tmp_path / "own/a").mkdir(parents=True)
    ramp = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    if mode == "I;16":
        image = Image.fromarray(ramp.astype(np.uint16) * 257)
    elif mode == "P":
        image = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8), "P")
        image.putpalette([value for step in range(64) for value in (4 * step, 255 - step, 7)])
    else:
        image = (
            Image.fromarray(ramp).convert("RGB" if mode in ("RGBA", "CMYK") else "L").convert(mode)
        )
    path = tmp_path / ("own/a/0.tif" if mode == "CMYK" else "own/a/0.png")
    options = {"transparency": bytes(range(64))} if mode == "P" else {}
    image.save(path, **options)
    client = ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    result = client.images[0].numpy()
    if mode == "P":
        assert np.array_equal(result, np.stack([ramp, 255 - ramp // 4, np.full_like(ramp, 7)]))
    elif mode == "1":
        assert np.array_equal(result[0], np.array(image).astype(np.uint8) * 255)
    elif mode in ("RGBA", "CMYK"):
        assert np.array_equal(result, np.stack([ramp] * 3))
    else:
        assert np.array_equal(result, ramp[None])


def test_sizes(tmp_path):
    write_classes(tmp_path / "own", {"a": 2}, (8, 12, 3))
    spec = ImageSpec("trees", tmp_path)
    assert ImageDataset(spec).own(tmp_path / "own").shape == "3x8x12"
    write_classes(tmp_path / "own", {"b": 1}, (12, 8, 3))
    with refuses("image-sizes", "b/0000.png", "12x8", "8x12", "images.size=32"):
        ImageDataset(spec).own(tmp_path / "own")
    client = ImageDataset(replace(spec, size=8)).own(tmp_path / "own")
    assert client.shape == "3x8x8"
    file = Image.open(tmp_path / "own/b/0000.png")
    expected = np.array(file.resize((8, 8), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.abs(client.images[2].numpy().astype(int) - expected).max() <= 1


DAMAGES = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-60]),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("no image"),
    "broken link": lambda path: path.unlink() or path.symlink_to("nowhere"),
}


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_image_is_named(tmp_path, damage, suffix):
    write_classes(tmp_path / "own", {"cat": 3, "dog": 3}, (16, 16, 3), suffix=suffix)
    DAMAGES[damage](tmp_path / f"own/dog/0001{suffix}")
    with refuses("unreadable", f"own: image dog/0001{suffix}") as caught:
        ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    assert "tiles" not in str(caught.value)


def test_all_damaged_images_are_named_at_once(tmp_path):
    write_classes(tmp_path / "own", {"cat": 3, "dog": 9})
    damaged = ["cat/0000.png", *(f"dog/000{number}.png" for number in range(8))]
    for name in damaged:
        (tmp_path / "own" / name).write_text("no image")
    with refuses(
        "unreadable", "image cat/0000.png", "nor can dog/0000.png, dog/0001.png"
    ) as caught:
        ImageDataset(ImageSpec("mnist", tmp_path)).own(tmp_path / "own")
    assert "and 2 more; allowed" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (lambda path: None, ("no-file", "CLASS/", "train/CLASS")),
        (lambda path: path.write_text(""), ("no-file",)),
        (lambda path: path.mkdir(), ("no-classes", "CLASS/")),
        (lambda path: (path / "a").mkdir(parents=True), ("no-images", "CLASS/")),
        (lambda path: Image.new("L", (8, 8)).save(path.mkdir() or path / "0.png"), ("no-classes",)),
    ],
    ids=["absent", "file", "empty", "no images", "no classes"],
)
def test_an_unfit_folder(tmp_path, make, facts):
    make(tmp_path / "own")
    with refuses(*facts):
        ImageDataset(ImageSpec("mnist", tmp_path), tmp_path / "cache").own(tmp_path / "own")
