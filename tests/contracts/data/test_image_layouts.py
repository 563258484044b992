"""Folders of images as people have them: which folders are the classes, what is left out, and what
is refused."""

import pytest
from errors import refuses
from image_fixtures import write_classes

from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.layout import TEST, TRAIN, read_layout

TWO = {"a": 3, "b": 2}


def roles(layout):
    return [role for _, _, role in layout.samples]


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("Training", "Testing"),
        ("TRAIN", "Valid"),
        ("train", "validation"),
        ("training_set", "test_set"),
        ("trainset", "dev"),
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


@pytest.mark.parametrize(
    "name",
    [
        "__MACOSX",
        "@eaDir",
        "#recycle",
        ".ipynb_checkpoints",
        "$RECYCLE.BIN",
        "lost+found",
        "__pycache__",
    ],
)
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
