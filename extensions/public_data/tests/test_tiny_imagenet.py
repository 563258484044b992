"""TinyImageNet as a script sorts it."""

import pytest
from image_fixtures import write_tiny

from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.layout import TEST


def roles(layout):
    return [role for _, _, role in layout.samples]


@pytest.mark.parametrize("leaves", ["images", "nothing"])
@pytest.mark.parametrize("dataset", ["tinyimagenet", "./own"])
def test_tiny_imagenet_sorted_by_a_script_that_leaves_the_table(tmp_path, leaves, dataset):
    """As the scripts do that move each image of val/images to val/CLASS."""
    write_tiny(tmp_path)
    folder = tmp_path / "tiny-imagenet-200"
    for row in (folder / "val/val_annotations.txt").read_text().splitlines():
        file, wnid = row.split("\t")[:2]
        (folder / "val" / wnid / "images").mkdir(parents=True, exist_ok=True)
        (folder / "val/images" / file).rename(folder / "val" / wnid / "images" / file)
    if leaves == "nothing":
        (folder / "val/images").rmdir()
    if dataset == "./own":
        dataset = str(folder)
    images = ImageDataset(ImageSpec(dataset, tmp_path, classes_at=0), tmp_path / "cache")
    raw = images.locate().read()
    assert raw.class_names == tuple(f"n{number:08d}" for number in range(3))
    assert (raw.roles == TEST).sum() == 12
    assert len(images.test().labels) == 12
