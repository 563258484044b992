"""Images that Python holds: Pillow's, in lists, in pairs, of several sizes."""

import numpy as np
import pytest
import torch
from errors import refuses
from image_fixtures import made
from PIL import Image

from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.in_memory import check_data

PIXELS, LABELS = made(6, (8, 8), 2, 0)
PICTURES = [Image.fromarray(image) for image in PIXELS]

FORMS = {
    "a tuple of lists": (PICTURES, LABELS.tolist()),
    "a list of lists": [PICTURES, LABELS.tolist()],
    "a list of arrays": [PIXELS, LABELS],
    "lists of numbers": (PIXELS.tolist(), LABELS.tolist()),
    "a tuple of tuples": (tuple(PICTURES), tuple(LABELS.tolist())),
    "pairs": list(zip(PICTURES, LABELS.tolist(), strict=True)),
    "pairs of arrays": list(zip(PIXELS, LABELS.tolist(), strict=True)),
    "pairs of fractions": [
        (torch.from_numpy(image[None] / np.float32(255)), int(label))
        for image, label in zip(PIXELS, LABELS, strict=True)
    ],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same(form):
    raw = check_data("data[0]", FORMS[form])
    assert raw.class_names == ("0", "1")
    assert raw.labels.tolist() == LABELS.tolist()
    assert raw.read(np.arange(6), 0, 0)[:, 0].tolist() == PIXELS.tolist()


def test_pictures_without_classes_to_predict():
    raw = check_data("the data", PICTURES, ("a", "b"))
    assert raw.class_names == ("a",)
    assert len(raw.labels) == 6


def test_pictures_of_several_sizes_need_a_size(tmp_path):
    raw = check_data("data[0]", ([*PICTURES, Image.new("L", (9, 9))], [*LABELS, 1]))
    with refuses("image-sizes", "data[0]", "9x9", "images.size"):
        ImageDataset(ImageSpec("own", tmp_path)).in_memory(raw)
    assert ImageDataset(ImageSpec("own", tmp_path, size=8)).in_memory(raw).shape == "1x8x8"


def test_a_single_colour_image_is_not_read_as_many_narrow_grey_ones():
    image = np.zeros((12, 12, 3), np.uint8)
    with refuses("single-image", "data[0]", "(12, 12, 3)", "images[None]"):
        check_data("data[0]", image, stand_in=("cat", "dog"))
    check_data("data[0]", image[None], stand_in=("cat", "dog"))


def test_flat_images_are_reported_from_points():
    with refuses("flat-images", "data[0]", "64 values", "reshape(-1, 8, 8)"):
        check_data("data[0]", (PIXELS.reshape(6, 64), LABELS))


def test_a_client_without_images(tmp_path):
    raw = check_data("data[0]", (PIXELS[:0], LABELS[:0]))
    with refuses("no-images", "there are no images"):
        ImageDataset(ImageSpec("own", tmp_path)).in_memory(raw)
