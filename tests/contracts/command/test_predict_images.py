"""Predictions on images, against the run's figures and parameters put together by hand."""

import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from absent_extensions import skip_without
from app_runs import Run, newest, parameters_in, run
from image_fixtures import write_classes, write_idx
from PIL import Image
from predictions import ask, refused

from curvfed.deployments.commands.command import main
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.base.statistics import named_state
from curvfed.strategies.config.build_method import build_model, model_spec
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset

pytestmark = pytest.mark.usefixtures("module_home")
CLIENTS = 3
DIGITS = {"dataset": "digits", "images__train_subset": 200, "num_rounds": 1, "local_epochs": 2}
MEAN, STD = 0.5, 0.25
"""How digits are normalised, and folders that no data set is named for."""

RUNS = {
    "spherefed": {},
    "ccvr": {"ccvr__per_class": 20, "ccvr__learning_rate": 0.5},
    "hyperfed": {"hyperfed__radius": 10},
    "hyperfed-fixed": {},
    "lg-fedavg": {"fine_tune_epochs": 0},
    "fedavg": {"fine_tune_epochs": 0},
    "local": {},
}


@pytest.fixture(scope="module")
def runs(module_home, tmp_path_factory):
    """A run directory on digits per method, made when it is first asked for."""
    folder, result = tmp_path_factory.mktemp("runs"), {}

    def of(method: str) -> Run:
        if method not in result:
            result[method] = run(
                folder, method, method=method, clients=CLIENTS, **DIGITS | RUNS[method]
            )
        return result[method]

    return of


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Digits that no client has, and these as files: in one folder, and in one per class."""
    folder = tmp_path_factory.mktemp("pictures")
    test = ImageDataset(ImageSpec("digits", folder, test_subset=40), folder / "cache").test()
    for number, (image, label) in enumerate(zip(test.images, test.labels.tolist(), strict=True)):
        for place in (folder / "flat", folder / "classes" / str(label)):
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[0].numpy()).save(place / f"{number:03d}.png")
    return folder, test.images, test.labels


def shared(result: Run, calibrated: bool = True) -> dict[str, np.ndarray]:
    """What `model.safetensors` holds of the model, with the one or the other classifier."""
    own = {
        name: array for name, array in result.model.items() if not name.startswith("calibrated/")
    }
    new = {name: array for name, array in result.model.items() if name.startswith("calibrated/")}
    return own | {
        name.removeprefix("calibrated/"): array for name, array in new.items() if calibrated
    }


def kept(result: Run, client: int, part: str = ".") -> dict[str, np.ndarray]:
    return parameters_in(newest(result.path / "checkpoint" / "clients" / f"{client:05d}" / part))


def logits_of(result: Run, arrays, pixels, mean=MEAN, std=STD) -> torch.Tensor:
    """Of the model with these parameters, on images (n, c, h, w), uint8."""
    config = resolve_defaults(
        parse(dotted(tomllib.loads((result.path / "config.toml").read_text()))), "images"
    )
    facts = result.described["facts"]
    model = build_model(
        model_spec(config, Facts(**facts | {"class_names": tuple(facts["class_names"])})), 0
    )
    tensors = named_state(model)
    assert tensors.keys() == arrays.keys()
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(torch.from_numpy(arrays[name]))
        return model.eval()((pixels.float() / 255 - mean) / std)


def agree(rows, logits, class_names) -> None:
    """The file says what these logits do, within float32 and six digits."""
    chances = logits.double().softmax(dim=1)
    classes = logits.argmax(dim=1)
    assert [row["class"] for row in rows] == [class_names[index] for index in classes.tolist()]
    expected = chances.max(dim=1).values.numpy()
    bound = 1000 * np.finfo(np.float32).eps * max(1.0, float(logits.abs().max())) + 5e-7
    np.testing.assert_allclose(
        [float(row["probability"]) for row in rows], expected, rtol=0, atol=bound
    )


NAMES = [str(digit) for digit in range(10)]


# The run's own data set


@pytest.mark.parametrize("method", ["hyperfed", "fedavg", "spherefed", "ccvr"])
def test_the_global_test_set_scores_as_in_the_summary(method, runs, capsys):
    result = runs(method)
    rows, notes = ask(capsys, result.path, "Digits")
    assert notes["accuracy on the global test images"] == f"{result.summary['global_accuracy']:.4f}"
    assert notes["images"] == f"{len(rows)}, {len(rows)} to score on"
    assert [row["image"] for row in rows] == [str(number) for number in range(len(rows))]


@pytest.mark.parametrize(
    ("method", "phase"),
    [("spherefed", "fine-tune"), ("hyperfed-fixed", "fine-tune"), ("local", "train")],
)
def test_a_clients_own_model_scores_as_in_the_run(method, phase, runs, capsys):
    result = runs(method)
    scored = {
        row["partition"]: float(row["score"]) for row in result.clients if row["phase"] == phase
    }
    assert len(scored) == CLIENTS
    for client in range(CLIENTS):
        _, notes = ask(capsys, result.path, "digits", "--client", client)
        assert notes["accuracy on the test images"] == f"{scored[str(client)]:.4f}"


def test_a_part_is_predicted_whole_and_scored_on_its_test_images(runs, capsys):
    result = runs("fedavg")
    part = ImageDataset(
        ImageSpec("digits", Path(), train_subset=200), Path.home() / "test-cache"
    ).client(1, CLIENTS)
    rows, notes = ask(capsys, result.path, "digits", "--client", 1)
    logits = logits_of(result, shared(result), part.images)
    agree(rows, logits, NAMES)
    right = (logits.argmax(dim=1) == part.labels)[part.test].double().mean()
    assert 0 < len(part.test[part.test]) < len(rows)
    assert notes["accuracy on the test images"] == f"{right:.4f}"
    assert notes["model"] == "global"


def test_the_images_of_the_runs_own_folder_have_their_files_names(pictures, tmp_path, capsys):
    folder = tmp_path / "pictures"
    shutil.copytree(pictures[0] / "classes", folder)
    settings = {"clients": 2, "num_rounds": 1, "fine_tune_epochs": 0, "dataset": str(folder)}
    result = run(tmp_path / "results", method="fedavg", **settings)
    shutil.copytree(folder, tmp_path / "copy")
    rows, _ = ask(capsys, result.path, tmp_path / "copy")
    by_file = {row["image"]: row["class"] for row in rows}
    parts: list[tuple[object, ...]] = [(), ("--client", 0), ("--client", 1)]
    of_parts = [row for part in parts for row in ask(capsys, result.path, folder, *part)[0]]
    assert sorted(row["image"] for row in of_parts) == sorted(by_file)
    assert {row["image"]: row["class"] for row in of_parts} == by_file


# The user's own images


@pytest.mark.parametrize("method", ["hyperfed", "spherefed", "ccvr"])
def test_a_flat_folder_gets_the_global_models_classes(method, runs, pictures, capsys):
    result, (folder, pixels, _) = runs(method), pictures
    rows, notes = ask(capsys, result.path, folder / "flat")
    assert list(rows[0]) == ["image", "class", "probability"]
    assert [row["image"] for row in rows] == [f"{number:03d}.png" for number in range(40)]
    agree(rows, logits_of(result, shared(result), pixels), NAMES)
    assert notes["images"] == "40"
    assert not any("accuracy" in name for name in notes)
    if method != "hyperfed":
        plain, _ = ask(capsys, result.path, folder / "flat", "--uncalibrated")
        agree(plain, logits_of(result, shared(result, calibrated=False), pixels), NAMES)
        assert plain != rows


def test_all_damaged_images_are_named(runs, tmp_path, capsys):
    write_classes(tmp_path / "new", {"3": 3, "8": 2})
    for name in ("3/0000.png", "8/0001.png"):
        (tmp_path / "new" / name).write_bytes(b"none")
    text = refused(capsys, runs("fedavg").path, tmp_path / "new", status=2)
    assert "image 3/0000.png cannot be read" in text
    assert "nor can 8/0001.png" in text


def test_the_fine_tuned_model_is_used_where_the_client_has_one(runs, pictures, capsys):
    result, (folder, pixels, _) = runs("hyperfed-fixed"), pictures
    rows, notes = ask(capsys, result.path, folder / "flat", "--client", 2)
    agree(rows, logits_of(result, kept(result, 2, "tuned"), pixels), NAMES)
    assert notes["model"] == "client 2's own, fine-tuned after round 1"


@pytest.mark.parametrize("method", ["lg-fedavg", "local"])
def test_else_shared_and_personal_parameters_make_the_model(method, runs, pictures, capsys):
    result, (folder, pixels, _) = runs(method), pictures
    answers = []
    for client in range(2):
        rows, _ = ask(capsys, result.path, folder / "flat", "--client", client)
        agree(rows, logits_of(result, shared(result) | kept(result, client), pixels), NAMES)
        answers.append(rows)
    assert answers[0] != answers[1]


def test_new_images_are_normalised_as_the_runs_were(capsys, tmp_path):
    skip_without("mnist")
    truth = write_idx(tmp_path / "data", num_train=40, num_test=20)
    settings = {
        "dataset": "mnist",
        "data_dir": str(tmp_path / "data"),
        "num_rounds": 1,
        "min_client_size": 2,
    }
    result = run(tmp_path, method="hyperfed", clients=2, **settings)
    images = truth["test"][0]
    (tmp_path / "new").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / "new" / f"{number:02d}.png")
    rows, _ = ask(capsys, result.path, tmp_path / "new")
    agree(
        rows,
        logits_of(result, shared(result), torch.from_numpy(images)[:, None], 0.1307, 0.3081),
        NAMES,
    )


# Real nodes


def test_a_real_node_uses_its_own_model_and_its_own_split(capsys, tmp_path):
    nodes = []
    for number in range(2):
        write_classes(tmp_path / f"data{number}", {"dark": 20, "light": 20}, seed=number)
        data = str(tmp_path / f"data{number}")
        nodes.append({"partition-id": number, "data-path": data, "state-path": str(tmp_path)})
    result = run(
        tmp_path / "results", "own", nodes=nodes, method="spherefed", num_rounds=1, dataset="digits"
    )
    tested = {
        row["partition"]: row["score"] for row in result.clients if row["phase"] == "fine-tune"
    }
    for number in range(2):
        where = ("--client", number, "--state-path", tmp_path)
        _, notes = ask(capsys, result.path, tmp_path / f"data{number}", *where)
        assert 0 < int(notes["images"].removeprefix("40, ").removesuffix(" to score on")) < 25
        assert notes["accuracy on the test images"] == f"{float(tested[str(number)]):.4f}"
    write_classes(tmp_path / "new", {"dark": 3, "light": 4}, seed=9)
    rows, notes = ask(
        capsys, result.path, tmp_path / "new", "--client", 1, "--state-path", tmp_path
    )
    truth = np.array(["dark"] * 3 + ["light"] * 4)
    assert (
        notes["accuracy on all images"] == f"{np.mean(truth == [row['class'] for row in rows]):.4f}"
    )
    assert "no fine-tuned model of client 1" in refused(
        capsys, result.path, tmp_path / "new", "--client", 1
    )
    notes = refused(capsys, result.path, "digits", "--client", 1, status=2)
    assert 'DATA is "digits", where there is no image' in notes
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    notes = refused(capsys, result.path, tmp_path / "table.csv", "--client", 1, status=2)
    assert 'table.csv", where there is no image; allowed is' in notes
    assert "trained on its own data" in refused(capsys, result.path, "own", "--client", 1)


def test_images_of_another_class_are_predicted_and_not_scored(runs, pictures, capsys, tmp_path):
    result, (folder, _, _) = runs("fedavg"), pictures
    known, before = ask(capsys, result.path, folder / "classes")
    shutil.copytree(folder / "classes", tmp_path / "more")
    shutil.copytree(folder / "flat", tmp_path / "more/fox")
    rows, notes = ask(capsys, result.path, tmp_path / "more")
    assert len(rows) == 2 * len(known) == 80
    assert [row for row in rows if not row["image"].startswith("fox/")] == known
    assert notes["accuracy on all images of known class"] == before["accuracy on all images"]
    assert notes["images"] == "80, 40 to score on"
    assert notes["classes"] == "40 images are not scored, of fox, which the run lacks"


@pytest.mark.parametrize("level", [0, 2])
def test_the_classes_of_a_new_folder_may_lie_at_another_level(level, tmp_path, capsys):
    sites = {f"{site}/{name}": 20 for site in ("east", "west") for name in ("dark", "light")}
    flat = {"dark": 20, "light": 20}
    write_classes(tmp_path / "own", sites if level else flat)
    result = run(
        tmp_path / "results",
        clients=2,
        method="fedavg",
        dataset=str(tmp_path / "own"),
        num_rounds=1,
        images__classes_at=level or None,
    )
    for name, counts in {"flat": flat, "sites": sites, "parts": {"new/east/dark": 20}}.items():
        write_classes(tmp_path / name, counts, seed=9)
        rows, notes = ask(capsys, result.path, tmp_path / name)
        truth = [Path(row["image"]).parent.name for row in rows]
        right = np.mean([row["class"] == label for row, label in zip(rows, truth, strict=True)])
        assert notes["accuracy on all images"] == f"{right:.4f}"
        assert notes["images"] == f"{sum(counts.values())}, {sum(counts.values())} to score on"
    write_classes(tmp_path / "domains", {"x/a": 2, "x/b": 2, "y/a": 2, "y/b": 2})
    assert "the classes are ambiguous" in refused(
        capsys, result.path, tmp_path / "domains", status=2
    )


def write_16_bits(folder: Path, classes: dict[str, int], num: int = 12) -> None:
    """Grey images of 16 bits per channel, with the highest value of each class."""
    for number, (name, highest) in enumerate(classes.items()):
        (folder / name).mkdir(parents=True)
        rng = np.random.default_rng(number)
        for index in range(num):
            pixels = rng.integers(highest // 2, highest, (8, 8), dtype=np.uint16)
            pixels[0, 0] = highest
            Image.fromarray(pixels).save(folder / name / f"{index:02d}.png")


def test_a_dark_image_alone_is_read_in_the_bits_of_the_run(tmp_path, capsys):
    write_16_bits(tmp_path / "deep", {"bright": 60000, "dark": 3000})
    keys = {"method": "fedavg", "clients": 2, "num_rounds": 1}
    result = run(tmp_path / "results", dataset=str(tmp_path / "deep"), **keys)
    assert result.described["facts"]["bits"] == 16
    shutil.copytree(tmp_path / "deep", tmp_path / "copy")
    together, _ = ask(capsys, result.path, tmp_path / "copy")
    rows = {row["image"]: row for row in together}
    [alone], notes = ask(capsys, result.path, tmp_path / "deep/dark/03.png")
    assert alone["probability"] == rows["dark/03.png"]["probability"]
    assert "bits" not in notes
    dark, _ = ask(capsys, result.path, tmp_path / "deep/dark")
    assert [row["probability"] for row in dark] == [
        rows[f"dark/{row['image']}"]["probability"] for row in dark
    ]


def test_an_image_above_the_bits_of_the_run_is_refused(tmp_path, capsys):
    write_16_bits(tmp_path / "deep", {"bright": 4000, "dark": 3000})
    keys = {"method": "fedavg", "clients": 2, "num_rounds": 1}
    result = run(tmp_path / "results", dataset=str(tmp_path / "deep"), **keys)
    write_16_bits(tmp_path / "new", {"bright": 60000}, num=1)
    text = refused(capsys, result.path, tmp_path / "new/bright/00.png", status=2)
    for words in ("00.png", "60000", "12 bits", "images.bits"):
        assert words in text


def test_the_bits_of_new_images_are_noted_if_the_run_had_none(runs, tmp_path, capsys):
    write_16_bits(tmp_path / "new", {"0": 3000}, num=1)
    _, notes = ask(capsys, runs("fedavg").path, tmp_path / "new/0")
    assert "12 bits" in notes["bits"]


# What cannot be done


def test_a_run_on_pooled_images_has_no_global_test_set(tmp_path, capsys):
    made = run(tmp_path, method="fedavg", clients=CLIENTS, images__pooled=True, **DIGITS)
    assert made.summary["global_accuracy"] is None
    assert made.summary["personal_accuracy_mean"] > 0
    assert main(["predict", str(made.path), "digits"]) == 1
    assert "images.pooled" in capsys.readouterr().err
    assert main(["predict", str(made.path), "digits", "--client", "1"]) == 0
