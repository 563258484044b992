"""Folders of images as people have them: which are classes, left out, or refused."""

import os

import numpy as np
import pytest
from errors import refuses
from image_fixtures import write_classes
from PIL import Image

from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.label_partition import PartitionSpec
from curvfed.tasks.images.layout import TEST, TRAIN, read_layout

TWO = {"a": 3, "b": 2}


def roles(layout):
    return [role for _, _, role in layout.samples]


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("Training", "Testing"),
        ("TRAIN", "Valid"),
        ("training_set", "test_set"),
        ("asl_train", "asl_test"),
        ("seg_train/seg_train", "seg_test/seg_test"),
    ],
)
def test_parts_by_their_usual_names(tmp_path, train, test):
    write_classes(tmp_path / "own" / train, TWO)
    write_classes(tmp_path / "own" / test, {"a": 1, "b": 1}, seed=1)
    layout = read_layout(tmp_path / "own")
    assert layout.class_names == ("a", "b")
    assert roles(layout) == [TRAIN] * 5 + [TEST] * 2
    assert layout.notes == ()


def test_several_training_folders_are_refused(tmp_path):
    for part in ("train_1", "train_2"):
        write_classes(tmp_path / "own" / part, TWO)
    with refuses("several-parts", "train_1", "train_2"):
        read_layout(tmp_path / "own")
    (tmp_path / "own/train_1").rename(tmp_path / "own/train")  # the exact name goes first
    assert read_layout(tmp_path / "own").class_names == ("a", "b")


@pytest.mark.parametrize("name", ["__MACOSX", "@eaDir", ".ipynb_checkpoints", "lost+found"])
def test_what_systems_leave_is_no_class(tmp_path, name):
    write_classes(tmp_path / "own", TWO)
    write_classes(tmp_path / "own" / name, {"a": 1})
    write_classes(tmp_path / "own/a", {name: 1})
    for file in (".DS_Store", "Thumbs.db", "desktop.ini", "._0.png"):
        (tmp_path / "own/a" / file).touch()
    layout = read_layout(tmp_path / "own")
    assert layout.class_names == ("a", "b")
    assert len(layout.samples) == 5
    assert layout.notes == ()


def test_a_class_none_of_whose_files_is_read_is_refused(tmp_path):
    write_classes(tmp_path / "own", TWO)
    (tmp_path / "own/c").mkdir()
    assert read_layout(tmp_path / "own").notes == (
        f"{tmp_path / 'own'}: classes without images: c",
    )
    for number in range(3):
        (tmp_path / f"own/c/{number}.HEIC").touch()
    with refuses("no-images", "3 .heic"):
        ImageDataset(ImageSpec("trees", tmp_path)).own(tmp_path / "own")


def test_a_class_of_the_test_part_alone(tmp_path):
    write_classes(tmp_path / "own/train", TWO)
    write_classes(tmp_path / "own/test", {"a": 1, "c": 1})
    spec = ImageSpec(str(tmp_path / "own"), tmp_path)
    for load in (
        lambda: ImageDataset(spec, tmp_path / "cache").client(0, 1),
        lambda: ImageDataset(spec, tmp_path / "cache").test(),
    ):
        with refuses("untrained-classes"):
            load()
    # Another site may have images to train it on.
    assert ImageDataset(spec).own(tmp_path / "own").class_names == ("a", "b", "c")
    assert "classes without training images: c" in read_layout(tmp_path / "own").notes[0]


def test_unlabelled_test_images_are_no_test_part(tmp_path):
    write_classes(tmp_path / "own/train", TWO)
    write_classes(tmp_path / "own", {"test": 4})
    layout = read_layout(tmp_path / "own")
    assert (layout.has_test, layout.class_names) == (False, ("a", "b"))
    assert layout.notes == (f"{tmp_path / 'own'}: folders that are not read: test",)


def test_classes_that_hold_the_same_folders_are_refused(tmp_path):
    for part in ("first half", "second half"):
        write_classes(tmp_path / "own" / part, TWO)
    with refuses("ambiguous-classes", "first half", "second half"):
        read_layout(tmp_path / "own")
    write_classes(
        tmp_path / "patients", {"a/001": 1, "a/002": 1, "b/001": 1, "b/003": 1, "b/002": 1}
    )
    assert read_layout(tmp_path / "patients").class_names == ("a", "b")


FLAT = {
    "labels in the names": ({"train": 6, "test1": 4}, ("train", "names of the files")),
    "train alone": ({"train": 6}, ("train", "names of the files")),
    "train in train": ({"train/train": 6, "test/test": 4}, ("train/train",)),
    "numbered parts": ({"images_001/images": 3, "images_002/images": 3}, ("images_001",)),
}


@pytest.mark.parametrize("case", FLAT)
def test_parts_with_images_of_unknown_classes_are_refused(tmp_path, case):
    counts, fragments = FLAT[case]
    write_classes(tmp_path / "own", counts)
    spec = ImageSpec(str(tmp_path / "own"), tmp_path)
    with refuses("ambiguous-classes", "images.classes-at to 1", *fragments):
        ImageDataset(spec, tmp_path / "cache").client(0, 1)
    as_classes = ImageDataset(ImageSpec(str(tmp_path / "own"), tmp_path, classes_at=1))
    raw = as_classes.locate().read()
    assert raw.class_names == tuple(sorted({name.partition("/")[0] for name in counts}))


REPEATED = {
    "domains": ({f"{site}/images/{name}": 2 for site in ("dslr", "webcam") for name in "ab"}, 3),
    "sites": ({"north/covid": 3, "north/normal": 2, "south/covid": 3}, 2),
    "sites with a sheet each": (
        {"north": 1, "north/covid": 3, "north/normal": 2, "south": 1, "south/covid": 3},
        2,
    ),
    "parts within train": ({"train/x/a": 2, "train/x/b": 2, "train/y/a": 1, "test/x/a": 1}, 3),
}


@pytest.mark.parametrize("case", REPEATED)
def test_sites_and_domains_are_refused_unless_the_level_is_given(tmp_path, case):
    counts, level = REPEATED[case]
    write_classes(tmp_path / "own", counts)
    with refuses("ambiguous-classes", "images.classes-at to ", f"are, {level}"):
        read_layout(tmp_path / "own")
    layout = read_layout(tmp_path / "own", level=level)
    names = {name.rpartition("/")[2] for name in counts if name.count("/") == level - 1}
    assert layout.class_names == tuple(sorted(names))
    inner = {name: count for name, count in counts.items() if name.count("/") == level - 1}
    assert len(layout.samples) == sum(inner.values())
    assert layout.has_test == ("within" in case)
    assert roles(layout).count(TEST) == ("within" in case)
    with refuses("no-classes", "level 7"):
        read_layout(tmp_path / "own", level=7)


SITES = {"west/covid": 6, "west/normal": 5, "east/covid": 4, "east/normal": 4}


def test_each_site_is_a_client_of_the_partition_by_users(tmp_path):
    write_classes(tmp_path / "own", SITES)
    with refuses("ambiguous-classes", "partition=users makes each a client"):
        read_layout(tmp_path / "own")
    by_site = ImageSpec(str(tmp_path / "own"), tmp_path, PartitionSpec("users"), classes_at=2)
    dataset = ImageDataset(by_site, tmp_path / "cache")
    raw = dataset.locate().read()
    assert np.bincount(raw.users).tolist() == [8, 11]
    east, west = (dataset.client(number, 2) for number in range(2))
    for client, site in ((east, "east"), (west, "west")):
        files = sorted((tmp_path / "own" / site).rglob("*.png"))
        pixels = {np.asarray(Image.open(file)).tobytes() for file in files}
        held = [image.numpy().tobytes() for image in client.images]
        assert pixels.issuperset(held)
    assert len(east.labels) + len(west.labels) + len(dataset.test().labels) == 19
    with refuses("too-many-clients", "3 clients", "2 users"):
        dataset.client(0, 3)
    assert dataset.places()[0].text.splitlines()[1] == "users: east, west"
    assert dataset.places()[0].notes == ()


def test_sites_that_the_partition_pools_are_noted(tmp_path):
    write_classes(tmp_path / "own", SITES)
    dataset = ImageDataset(ImageSpec(str(tmp_path / "own"), tmp_path, classes_at=2))
    note = (
        "sites east, west are pooled and parted anew by dirichlet; partition=users makes each a"
        " client"
    )
    assert dataset.places()[0].notes == (note,)
    write_classes(tmp_path / "flat", TWO)
    flat = ImageDataset(ImageSpec(str(tmp_path / "flat"), tmp_path, classes_at=1))
    assert flat.places()[0].notes == ()


def test_parts_of_the_data_are_no_sites(tmp_path):
    for part in ("train", "test"):
        write_classes(tmp_path / "parts" / part, TWO)
        write_classes(tmp_path / "sites/north" / part, TWO)
        write_classes(tmp_path / "sites/south" / part, {"a": 4})
    parts = ImageSpec(str(tmp_path / "parts"), tmp_path, PartitionSpec("users"), classes_at=2)
    with refuses("partition", "images.classes-at=2"):
        ImageDataset(parts, tmp_path / "cache").client(0, 1)
    sites = ImageSpec(str(tmp_path / "sites"), tmp_path, PartitionSpec("users"), classes_at=3)
    clients = [ImageDataset(sites, tmp_path / "cache").client(number, 2) for number in range(2)]
    assert [int(client.train.sum()) for client in clients] == [5, 4]
    assert [int(client.test.sum()) for client in clients] == [5, 4]


TABLES = {
    "of parts": ("image_id,dx\n0000,mel\n0001,nv\n0002,nv\n", False),
    "of parts, with their paths": ("file,dx\nnear/0000.png,mel\nfar/0001.png,nv\n", False),
    "of other facts": ("site,beds\nnorth,20\nsouth,30\n", True),
    "of the same classes": ("file,label\nnear/0000.png,near\nfar/0001.png,far\n", True),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_of_other_labels_beside_the_folders(tmp_path, case):
    text, is_read = TABLES[case]
    write_classes(tmp_path / "own", {"far": 3, "near": 3})
    (tmp_path / "own/labels.csv").write_text(text)
    if is_read:
        assert read_layout(tmp_path / "own").class_names == ("far", "near")
        return
    with refuses("ambiguous-classes", "labels.csv", "images.classes-at to 1"):
        read_layout(tmp_path / "own")
    assert read_layout(tmp_path / "own", level=1).class_names == ("far", "near")


def test_a_table_of_the_images_in_one_folder(tmp_path):
    write_classes(tmp_path / "own", {"images": 4})
    rows = "".join(f"{number:04d},cat\n" for number in range(4))
    (tmp_path / "own/labels.csv").write_text("image,label\n" + rows)
    with refuses("ambiguous-classes", "labels.csv"):
        read_layout(tmp_path / "own")


def test_more_images_beside_the_folders_than_in_them(tmp_path):
    write_classes(tmp_path / "pictures", {"own": 6, "own/a": 2, "own/b": 1})
    with refuses("ambiguous-classes", "6 images lie beside the folders, 3 in them"):
        read_layout(tmp_path / "pictures/own")


def test_an_archive_in_an_archive(tmp_path):
    inner = tmp_path / "fruits/fruits-360_dataset/fruits-360"
    write_classes(inner / "Training", TWO)
    write_classes(inner / "Test", {"a": 1, "b": 1}, seed=1)
    write_classes(inner, {"test-multiple_fruits": 2})
    layout = read_layout(tmp_path / "fruits")
    assert layout.class_names == ("a", "b")
    assert roles(layout) == [TRAIN] * 5 + [TEST] * 2
    assert "folders that are not read: test-multiple_fruits" in " ".join(layout.notes)


@pytest.mark.parametrize("place", ["x_test/x_test", "test", "test/images", "test/unknown"])
def test_a_flat_test_folder_is_left_out(tmp_path, place):
    write_classes(tmp_path / "own/x_train/x_train", TWO)
    write_classes(tmp_path / "own", {place: 3})
    layout = read_layout(tmp_path / "own")
    assert layout.class_names == ("a", "b")
    assert not layout.has_test
    top = place.partition("/")[0]
    assert layout.notes == (f"{tmp_path / 'own'}: folders that are not read: {top}",)


def test_images_beside_masks(tmp_path):
    for name, count in TWO.items():
        write_classes(tmp_path / "own" / name, {"images": count, "masks": count})
    layout = read_layout(tmp_path / "own")
    assert layout.class_names == ("a", "b")
    assert len(layout.samples) == 5
    assert layout.notes == (f"{tmp_path / 'own'}: folders that are not read: a/masks, b/masks",)


@pytest.mark.parametrize("suffix", [".tif", ".png", ".webp"])
def test_files_of_several_images_are_counted(tmp_path, suffix):
    write_classes(tmp_path / "own", TWO, suffix=suffix)
    assert read_layout(tmp_path / "own").notes == ()
    pages = [Image.fromarray(np.full((8, 8), 50 * page, np.uint8)) for page in range(3)]
    for name in ("a", "b"):
        path = tmp_path / "own" / name / f"pages{suffix}"
        pages[0].save(path, save_all=True, append_images=pages[1:])
    os.mkfifo(tmp_path / "own/a/pipe.tif")  # is not waited for
    assert read_layout(tmp_path / "own").notes == (
        f"{tmp_path / 'own'}: files of several images, of which the first is read: 2",
    )
