"""Features of a frozen network: values, cache, runs that train on them, and their use."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from app_runs import Recorder
from app_runs import run as run_app
from equal_runs import figures
from image_fixtures import write_classes
from secure_sums import watched_sums
from tiers import only
from torch import nn
from torchvision.models import get_model
from weights import SIZE, write_weights

import curvfed
from curvfed.client_app.clients_in_memory import forget_all
from curvfed.deployments.inprocess import simulate
from curvfed.server_app.directory.array_files import read_npz
from curvfed.strategies.base.run_keys import home
from curvfed.tasks.images import encoder
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset, read_digits

CLIENTS = 3

LEARNED = 0.4
"""An accuracy of a model that has learned: the most frequent class has .11 of the digits."""


@pytest.fixture(scope="module", autouse=True)
def own_home(tmp_path_factory):
    """A home of these tests, so that features are computed once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield
        forget_all()


@pytest.fixture(scope="module")
def name(own_home):
    """The name of random weights in the user's folder."""
    encoder.network_of.cache_clear()
    return write_weights(home() / "encoders")


def settings(name: str, folder) -> dict[str, object]:
    return {
        "dataset": "digits",
        "alpha": 10.0,
        "num_rounds": 5,
        "num_supernodes": CLIENTS,
        "results_dir": folder,
        "images": {"encoder": name, "size": SIZE, "train_subset": 900, "test_subset": 200},
        "quiet": True,
        "report": False,
    }


def test_sums_over_frozen_features_are_not_open_too(name, tmp_path):
    """No seed changes them: those of the open members, taken from the masked sum, would be the last
    member's."""
    nodes = []
    for site in range(CLIENTS):
        counts = {"a": 14 + site, "b": 16 - site}
        write_classes(tmp_path / f"data{site}", counts, shape=(32, 32), seed=site + 1)
        place = {"data-path": str(tmp_path / f"data{site}"), "state-path": str(tmp_path / "state")}
        nodes.append({"partition-id": site} | place)
    keys = {"method": "fedavg", "calibration": "ffc", "dataset": "own", "num_rounds": 0}
    keys |= {"embedding_dim": 0, "images__encoder": name, "images__size": SIZE}
    run_app(tmp_path, "masked", nodes=nodes, secure_sum=True, **keys)
    recorder = Recorder()
    keys |= {"share_statistics": True, "seed": 1}
    run_app(tmp_path, "open", nodes=nodes, intercept=recorder, **keys)
    errors = [reply["header"]["error"] for reply in recorder.replies("calibrate")]
    assert len(errors) == CLIENTS
    assert all("secure-sum = true, or more than [runs] configurations = 1" in e for e in errors)


def test_a_class_that_stays_changes_no_other_part_of_a_sum(name, tmp_path, monkeypatch):
    """The weight of a node with most of the examples was reduced to a fixed number, whichever were
    counted: by two seeds and two values of secure.min-holders its sums of a class were known, to
    1e-10."""
    sums = watched_sums(monkeypatch)
    few = {"a": 20, "b": 20}
    nodes = []
    for site, more in enumerate(({"a": 120, "b": 120, "c": 20}, {"c": 20}, {"c": 20}, {})):
        write_classes(tmp_path / f"data{site}", few | more, shape=(32, 32), seed=site + 1)
        place = {"data-path": str(tmp_path / f"data{site}"), "state-path": str(tmp_path / "state")}
        nodes.append({"partition-id": site} | place)
    keys = {"method": "fedavg", "calibration": "ffc", "dataset": "own", "num_rounds": 0}
    keys |= {"embedding_dim": 0, "images__encoder": name, "images__size": SIZE, "secure_sum": True}
    run_app(tmp_path, "three", nodes=nodes, **keys)
    run_app(tmp_path, "four", nodes=nodes, seed=1, secure__min_holders=4, **keys)
    with_c, without_c = (vectors["sums"] for vectors in sums if "sums" in vectors)
    targets = slice(-3 * (512 + 1), None)  # of the features of a resnet18 and a one
    changed = (with_c - without_c)[targets].reshape(-1, 3).any(axis=0)
    assert changed.tolist() == [False, False, True]


def direct_features(name: str, pixels: torch.Tensor) -> torch.Tensor:
    """The features of grey images (n, 1, h, w), uint8, by torch and torchvision alone."""
    net = get_model("resnet18", weights=None)
    net.load_state_dict(torch.load(home() / "encoders" / f"{name}.pth"))
    net.fc = nn.Identity()
    net.eval()
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    resized = F.interpolate(pixels, size=(SIZE, SIZE), mode="bilinear", antialias=True)
    with torch.no_grad():
        return net((resized.repeat(1, 3, 1, 1) / 255 - mean) / std)


def test_the_features_are_those_of_the_network(name, tmp_path):
    spec = ImageSpec("digits", tmp_path, size=SIZE, encoder=name)
    test = ImageDataset(spec).test()
    raw = read_digits()
    numbers = np.flatnonzero(raw.with_test() == 2)
    direct = direct_features(name, raw.read(numbers, 0, 0))
    assert test.shape == "512x1x1"
    assert test.images.dtype == torch.float32
    assert (test.mean, test.std, test.augments) == ((), (), False)
    torch.testing.assert_close(test.images[:, :, 0, 0], direct, rtol=1e-4, atol=1e-5)


def test_partition_and_split_are_those_of_the_pixels(name, tmp_path):
    pixels = ImageDataset(ImageSpec("digits", tmp_path, train_subset=90)).client(1, CLIENTS)
    spec = ImageSpec("digits", tmp_path, train_subset=90, size=SIZE, encoder=name)
    encoded = ImageDataset(spec).client(1, CLIENTS)
    assert encoded.partition_digest == pixels.partition_digest
    for mask in ("train", "val", "test", "labels"):
        assert torch.equal(getattr(encoded, mask), getattr(pixels, mask))


def test_prepared_features_are_computed_once(name, tmp_path, monkeypatch):
    spec = ImageSpec("digits", tmp_path, train_subset=90, size=SIZE, encoder=name)
    dataset = ImageDataset(spec, tmp_path / "cache")
    first = dataset.client(0, CLIENTS)
    other = write_weights(home() / "encoders", seed=1)
    counts = []
    monkeypatch.setattr(encoder, "network_of", lambda encoder: counts.append(encoder.name))
    again = ImageDataset(spec, tmp_path / "cache").client(0, CLIENTS)
    assert again.digest == first.digest
    assert torch.equal(again.images, first.images)
    assert not counts
    for changed in ({"encoder": other}, {"size": SIZE + 32}):
        values = {"size": SIZE, "encoder": name} | changed
        new = ImageDataset(ImageSpec("digits", tmp_path, train_subset=90, **values), dataset.cache)
        with pytest.raises(TypeError):  # the network of this test is None
            new.client(0, CLIENTS)
    assert counts == [other, name]


def test_images_of_several_sizes_and_colours(name, tmp_path):
    folder = tmp_path / "pictures"
    write_classes(folder, {"cat": 5}, (8, 8))
    write_classes(folder, {"dog": 5}, (12, 10, 3))
    own = ImageDataset(ImageSpec(str(folder), tmp_path, size=SIZE, encoder=name)).own(folder)
    assert own.shape == "512x1x1"
    assert own.num_blank == 0
    assert own.describe() == "10 images as 512 features of a frozen network"


@pytest.mark.parametrize(
    ("method", "keys"),
    only(
        [
            ("fedavg", {}),
            ("spherefed", {}),
            ("hyperfed", {"num_rounds": 20}),
            ("local", {}),
            ("fedavg", {"calibration": "ffc"}),
            ("afl", {"num_rounds": 0, "embedding_dim": 0}),
            ("ccvr", {}),
        ],
        lambda case: case[0] == "afl" or "calibration" in case[1],
    ),
)
def test_methods_learn_from_features(name, tmp_path, method, keys):
    run = curvfed.simulate(method, **settings(name, tmp_path) | keys)
    summary = run.summary
    accuracy = summary["global_accuracy"]
    if accuracy is None:
        accuracy = summary["personal_accuracy_mean"]
    assert accuracy > LEARNED
    assert run.config["images.encoder"] == name


def test_an_interrupted_run_goes_on_to_the_same_bits(name, tmp_path):
    keys = {
        "method": "fedavg",
        "dataset": "digits",
        "images__encoder": name,
        "images__size": SIZE,
        "images__train_subset": 90,
        "images__test_subset": 30,
    }
    whole = run_app(tmp_path / "whole", **keys)
    messages = iter(range(100))

    def stop(request, handle):
        if next(messages) == 2 * CLIENTS + 1:  # in the second round
            raise KeyboardInterrupt
        return handle(request)

    with pytest.raises(KeyboardInterrupt):
        run_app(tmp_path / "parts", intercept=stop, **keys)
    forget_all()
    parts = run_app(tmp_path / "parts", resume=True, **keys)
    assert figures(parts.path) == figures(whole.path)


def test_at_real_nodes_with_folders_of_their_own(name, tmp_path):
    nodes = []
    for number in range(2):
        folder = tmp_path / f"site{number}"
        write_classes(folder, {"cat": 30, "dog": 30}, seed=number)
        state = str(tmp_path / f"state{number}")
        nodes.append({"partition-id": number, "data-path": str(folder), "state-path": state})
    keys = {
        "method": "fedavg",
        "dataset": "own",
        "num-rounds": 1,
        "results-dir": str(tmp_path),
        "run-name": "run",
        "images.encoder": name,
        "images.size": SIZE,
    }
    forget_all()
    run = curvfed.load(simulate(keys, 2, nodes))
    assert run.summary["status"] == "completed"
    assert not run.summary["absences"]


def test_predictions_of_files_are_those_of_the_data_set(name, tmp_path):
    folder = tmp_path / "pictures"
    write_classes(folder, {"cat": 30, "dog": 30})
    keys = settings(name, tmp_path) | {"dataset": str(folder), "report": True}
    keys["images"] = {"encoder": name, "size": SIZE}
    run = curvfed.simulate("fedavg", **keys)
    copy = tmp_path / "copy"
    write_classes(copy, {"cat": 30, "dog": 30})
    table = run.predict(copy)
    one = run.predict(copy / "dog" / "0003.png")
    row = table[table[table.columns[0]] == "dog/0003.png"].iloc[0]
    assert one["class"].tolist() == [row["class"]]
    assert one["probability"].iloc[0] == pytest.approx(row["probability"], abs=1e-4)
    # There are no pixels to show.
    assert "images" not in read_npz(run.path / "global_test.npz")
    assert (run.path / "report.html").exists()


@pytest.mark.long  # torch compiles the network
def test_an_export_takes_images(name, tmp_path):
    run = curvfed.simulate("fedavg", **settings(name, tmp_path))
    pytest.importorskip("curvfed.extensions.exports")
    run.export(tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    raw = read_digits()
    images = raw.read(np.arange(5), SIZE, 3)
    classes, probabilities = program(images)
    expected = run.predict((images.numpy(), None))
    assert [str(number) for number in classes.tolist()] == expected["class"].astype(str).tolist()
    assert probabilities.amax(dim=1).tolist() == pytest.approx(
        expected["probability"].tolist(), abs=1e-4
    )
