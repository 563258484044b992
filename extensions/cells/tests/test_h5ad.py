"""An `.h5ad` of cells: points that are read, faults that are named, predictions in a copy."""

import anndata
import numpy as np
import pandas
import pytest
from errors import refuses
from predictions import ask

import curvfed
from curvfed.deployments.commands.command import main
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec
from curvfed.tasks.points.readers import read_points

POINTS = np.array([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.25], [0.0, 0.0]])
CLASSES = np.array(["b", "a", "b", "c"])


def read(path, embedding_key="X_poincare", label_key="label"):
    return read_points(path, -1.0, embedding_key, label_key)


def named(raw):
    return [raw.class_names[label] if label >= 0 else None for label in raw.labels]


@pytest.fixture
def h5ad(tmp_path):
    def write(coordinates=POINTS, classes=None, **entries):
        obs = pandas.DataFrame(
            {
                "cell": pandas.Categorical(CLASSES if classes is None else classes),
                "batch": [1, 2, 1, 2],
            }
            | entries,
            index=[f"cell{number}" for number in range(4)],
        )
        path = tmp_path / "a.h5ad"
        expression = np.ones((4, 3), dtype=np.float32)
        anndata.AnnData(
            expression, obs=obs, obsm={"X_disc": coordinates, "X_pca": np.ones((4, 5))}
        ).write_h5ad(path)
        return path

    return write


def test_h5ad(h5ad):
    path = h5ad(POINTS.astype(np.float32))
    raw = read(path, embedding_key="X_disc", label_key="cell")
    assert (raw.points == POINTS.astype(np.float32)).all()
    assert named(raw) == CLASSES.tolist()
    assert raw.test is None
    assert named(read(path, embedding_key="X_disc", label_key="batch")) == ["1", "2", "1", "2"]


@pytest.mark.parametrize(
    ("embedding", "label", "facts"),
    [
        ("X_umap", "cell", ("no-column", "points.embedding-key", "X_disc", "X_pca")),
        ("X_disc", "type", ("no-column", "points.label-key")),
        ("X_pca", "cell", ("coordinates", "float64", "(4, 5)")),
        ("X_disc", "score", ("labels", "float64")),
    ],
)
def test_faults_of_an_h5ad(h5ad, embedding, label, facts):
    path = h5ad(score=[0.5, 1.5, 2.5, 3.5])
    with refuses(*facts):
        read(path, embedding_key=embedding, label_key=label)


def odd_table(file):
    """Another table of obsm has other names of cells, as scVI and anndataR write."""
    import pandas
    from anndata.io import write_elem

    write_elem(file["obsm"], "protein", pandas.DataFrame({"ER": np.ones(4)}, index=list("abcd")))


def no_index(file):
    """As SeuratDisk writes it."""
    index = file["obs"].attrs["_index"]
    file["obs"].move(index, "index")
    del file["obs"].attrs["_index"]


def categories_apart(file):
    """As AnnData 0.7 and SeuratDisk write them."""
    codes = file["obs/cell/codes"][()]
    categories = file["obs/cell/categories"][()]
    del file["obs/cell"]
    file["obs/cell"] = codes
    file["obs/__categories/cell"] = categories
    file["obs"].attrs["encoding-version"] = "0.1.0"


def slash(file):
    """Columns with a slash are groups in the file."""
    file["obs/quality/score"] = np.ones(4)
    file["obsm/X/umap"] = np.ones((4, 2))


def other_compression(file):
    """A matrix that is not used has a compression that HDF5 does not know here."""
    write_compressed(file, "X", np.ones((4, 3)))


def write_compressed(file, place, values):
    """Replace a matrix by bytes that zstd, which HDF5 does not have, is said to have written."""
    import h5py

    del file[place]
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_chunk(values.shape)
    settings.set_filter(32015, h5py.h5z.FLAG_OPTIONAL)
    space = h5py.h5s.create_simple(values.shape)
    stored = h5py.h5d.create(file.id, place.encode(), h5py.h5t.NATIVE_DOUBLE, space, dcpl=settings)
    stored.write_direct_chunk((0, 0), values.tobytes())
    file[place].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})


@pytest.mark.parametrize(
    "change", [odd_table, no_index, categories_apart, slash, other_compression]
)
def test_entries_that_are_not_used_need_not_be_readable(h5ad, change):
    import h5py

    path = h5ad()
    with h5py.File(path, "r+") as file:
        change(file)
    raw = read(path, embedding_key="X_disc", label_key="cell")
    assert (raw.points == POINTS).all()
    assert named(raw) == CLASSES.tolist()
    assert raw.names == [f"cell{number}" for number in range(4)]


def test_keys_with_a_slash(h5ad):
    import h5py

    path = h5ad()
    with h5py.File(path, "r+") as file:
        file["obsm/disc/1"] = POINTS / 2
        file.copy("obs/cell", "obs/kind/type")
    raw = read(path, embedding_key="disc/1", label_key="kind/type")
    assert (raw.points == POINTS / 2).all()
    assert named(raw) == CLASSES.tolist()


@pytest.mark.parametrize("compression", ["Zstd", "LZ4", "Blosc2"])
def test_entries_that_hdf5plugin_compresses_are_read_with_it(compression, h5ad):
    hdf5plugin = pytest.importorskip("hdf5plugin")
    import h5py

    path = h5ad()
    with h5py.File(path, "r+") as file:
        options = getattr(hdf5plugin, compression)()
        file["obsm"].create_dataset("packed", data=POINTS / 2, chunks=POINTS.shape, **options)
    assert (read(path, embedding_key="packed", label_key="cell").points == POINTS / 2).all()


def test_an_entry_that_cannot_be_read_is_named(h5ad):
    import h5py
    import pandas
    from anndata.io import write_elem

    path = h5ad()
    with h5py.File(path, "r+") as file:
        table = pandas.DataFrame(POINTS, columns=["x", "y"], index=list("abcd"))
        write_elem(file["obsm"], "table", table)
        write_compressed(file, "obsm/X_disc", POINTS)
    with refuses("unreadable-entry", "obsm/X_disc", "pip install hdf5plugin") as caught:
        read(path, embedding_key="X_disc", label_key="cell")
    assert "damaged" not in str(caught.value)
    with refuses("other-cells", 'obsm["table"]'):
        read(path, embedding_key="table", label_key="cell")


def test_a_file_in_use_is_not_damaged(h5ad):
    import fcntl

    path = h5ad()
    with path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as HDF5 does where it writes
        with refuses("unreadable", "another program") as caught:
            read(path)
    assert "damaged" not in str(caught.value)
    assert caught.value.names == (str(caught.value.__cause__),)


LABELS = [
    (pandas.Series([0.0, 1.0, np.nan, 1.0]), ["0", "1", None, "1"]),
    (pandas.Series([0, 1, None, 1], dtype="Int64"), ["0", "1", None, "1"]),
    (pandas.Series([True, None, False, True], dtype="boolean"), ["True", None, "False", "True"]),
    (pandas.Series(["NA", "b", "#N/A", "b"], dtype="category"), [None, "b", None, "b"]),
    (pandas.Series(["T cell", "B  cell ", " T cell", "B cell"]), 2 * ["T cell", "B cell"]),
]


@pytest.mark.parametrize(("labels", "names"), LABELS)
def test_a_class_has_its_usual_name(h5ad, labels, names):
    table = labels.set_axis([f"cell{number}" for number in range(4)])
    assert named(read(h5ad(kind=table), "X_disc", "kind")) == names


@pytest.mark.parametrize("gaps", [["a", None, "b", ""], [1, None, 2, None]])
def test_cells_of_unknown_class_are_neither_trained_on_nor_scored(h5ad, tmp_path, gaps):
    path = h5ad(classes=gaps)
    raw = read(path, embedding_key="X_disc", label_key="cell")
    assert raw.labels.tolist() == [0, -1, 1, -1]
    client = PointDataset(
        PointSpec("uniform", tmp_path, embedding_key="X_disc", label_key="cell")
    ).own(path)
    assert (client.points == POINTS[[0, 2]]).all()
    assert client.labels.tolist() == [0, 1]


def clouds(seed, number):
    """Points around the corners of a triangle, and their classes."""
    labels = np.arange(number) % 3
    turns = 2 * np.pi * labels / 3
    centres = 0.5 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    noise = np.random.default_rng(seed).standard_normal((number, 2))
    return centres + 0.12 * noise, np.array(["ant", "bee", "cat"])[labels]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on the cells of two clients."""
    folder = tmp_path_factory.mktemp("cells")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        data = [clouds(seed, 60) for seed in range(2)]
        yield curvfed.simulate("hull", data=data, results_dir=folder, quiet=True, report=False)


@pytest.mark.parametrize("gaps", [False, True])
def test_cells_need_no_classes(trained, capsys, tmp_path, gaps):
    points, _ = clouds(6, 12)
    pandas.DataFrame(points).to_csv(tmp_path / "bare.csv", index=False, header=False)
    expected, _ = ask(capsys, trained.path, tmp_path / "bare.csv")
    cells = anndata.AnnData(np.zeros((len(points), 1), np.float32), obsm={"X_poincare": points})
    if gaps:  # a column of types, of which none is known
        cells.obs["label"] = pandas.Categorical([None] * len(points), categories=["ant"])
    cells.write_h5ad(tmp_path / "bare.h5ad")
    rows, said = ask(capsys, trained.path, tmp_path / "bare.h5ad")
    assert rows == expected
    assert said["points"] == "12"
    assert not any(name.startswith("accuracy") for name in said)


def test_a_column_of_classes_that_a_policy_named_is_named_again(trained, capsys, tmp_path):
    points, labels = clouds(6, 12)
    cells = anndata.AnnData(np.zeros((len(points), 1), np.float32), obsm={"X_poincare": points})
    cells.obs["celltype"] = pandas.Categorical(labels)
    cells.write_h5ad(tmp_path / "cells.h5ad")
    rows, said = ask(capsys, trained.path, tmp_path / "cells.h5ad")
    assert 'none in cells.h5ad; an accuracy needs them in obs["label"]' in said["classes"]
    assert "--label-key" in said["classes"]
    named_rows, said = ask(capsys, trained.path, tmp_path / "cells.h5ad", "--label-key", "celltype")
    assert float(said["accuracy on all points"].split()[0].rstrip(",")) > 0.9
    assert [row["class"] for row in named_rows] == [row["class"] for row in rows]


def test_cells_keep_their_names_and_take_the_answer_into_their_file(trained, capsys, tmp_path):
    points, _ = clouds(6, 12)
    points = np.concatenate([points, [[-0.9, 0.0]]])  # far from all three clouds
    cells = anndata.AnnData(np.zeros((len(points), 1), np.float32), obsm={"X_poincare": points})
    cells.obs_names = [f"cell{number}" for number in range(len(points))]
    cells.obs["batch"] = "b1"
    cells.write_h5ad(tmp_path / "cells.h5ad")
    rows, _ = ask(capsys, trained.path, tmp_path / "cells.h5ad")
    assert [row["point"] for row in rows] == [*cells.obs_names]
    assert rows[-1]["unknown"] == "True"
    assert [row["unknown"] for row in rows].count("True") <= 2
    ask(capsys, trained.path, tmp_path / "cells.h5ad", "--out", tmp_path / "out.h5ad")
    predicted = anndata.read_h5ad(tmp_path / "out.h5ad")
    assert [*predicted.obs["curvfed_label"]] == [row["class"] for row in rows]
    np.testing.assert_allclose(
        predicted.obs["curvfed_probability"], [float(row["probability"]) for row in rows], atol=1e-6
    )
    assert [*predicted.obs["curvfed_unknown"]] == [row["unknown"] == "True" for row in rows]
    assert [*predicted.obs["batch"]] == ["b1"] * len(points)
    assert np.array_equal(predicted.obsm["X_poincare"], points)


def test_a_copy_is_of_cells_alone(trained, capsys, tmp_path):
    points, _ = clouds(6, 12)
    pandas.DataFrame(points).to_csv(tmp_path / "bare.csv", index=False, header=False)
    words = [trained.path, tmp_path / "bare.csv", "--out", tmp_path / "out.h5ad"]
    assert main(["predict", *map(str, words)]) == 2
    assert "allowed are .csv, .tsv and .json" in capsys.readouterr().err
