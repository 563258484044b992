"""Crops and flips: each image is one of the 162 that it may become, all alike often."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from curvfed.tasks.images.client_task import PADDING, crop_and_flip


def every_crop(image):
    """All crops (2, 9, 9, c, h, w) of one image (c, h, w), then the same mirrored, one by one."""
    _, height, width = image.shape
    padded = F.pad(image, (PADDING,) * 4)
    crops = [
        padded[:, top : top + height, column : column + width]
        for top in range(9)
        for column in range(9)
    ]
    plain = torch.stack(crops).reshape(9, 9, *image.shape)
    return torch.stack([plain, plain.flip(-1)])


@given(
    st.integers(0, 5),
    st.integers(1, 3),
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from([torch.uint8, torch.float32]),
    st.integers(0, 99),
)
def test_every_image_becomes_one_of_its_own_crops(num, channels, height, width, dtype, seed):
    torch.manual_seed(seed)
    images = torch.randint(1, 256, (num, channels, height, width)).to(dtype)
    given_images = images.clone()
    outputs = crop_and_flip(images)
    assert outputs.shape == images.shape
    assert outputs.dtype == dtype
    assert torch.equal(images, given_images)
    for image, crop in zip(images, outputs):
        assert (every_crop(image) == crop).flatten(3).all(dim=3).any()


def test_all_shifts_and_both_sides_are_alike_often():
    torch.manual_seed(0)
    image, num = torch.randint(1, 256, (2, 12, 12), dtype=torch.uint8), 8100
    outputs = crop_and_flip(image.expand(num, -1, -1, -1))
    crops = every_crop(image).flatten(0, 2).flatten(1)
    counts = torch.stack([(outputs.flatten(1) == crop).all(dim=1).sum() for crop in crops])
    assert counts.sum() == num
    assert stats.chisquare(counts.numpy()).pvalue > 0.001
    assert counts[:81].sum().item() == pytest.approx(num / 2, abs=4 * (num / 4) ** 0.5)


def test_equal_seeds_give_equal_crops():
    images = torch.randint(0, 256, (20, 3, 8, 8), dtype=torch.uint8)
    torch.manual_seed(1)
    first = crop_and_flip(images)
    second = crop_and_flip(images)
    torch.manual_seed(1)
    assert torch.equal(crop_and_flip(images), first)
    assert not torch.equal(first, second)
