"""`curvfed embed`: what it writes and tells, and what it refuses."""

import shutil

import anndata
import h5py
import numpy as np
import pandas
import pytest
from cell_files import write_parts
from scipy.io import mmwrite
from scipy.sparse import csr_matrix

from curvfed.deployments.commands.command import main
from curvfed.extensions.cells.cell_files import add_to_copy
from curvfed.extensions.cells.expression import expression
from curvfed.tasks.errors import DataError

COUNTS = (
    np.random.default_rng(0).negative_binomial(1, 0.1, (40, 50))
    * np.linspace(1, 3, 40).astype(int)[:, None]
)
SHARES = COUNTS / COUNTS.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    write_parts(folder)
    assert run(folder / "atlas.h5ad", "--make-reference", "--out", folder / "reference.h5ad") == 0
    return folder


def run(*arguments) -> int:
    return main(["embed", *map(str, arguments)])


def small(path, values):
    values = np.asarray(values, dtype=np.float32)
    genes = [f"gene{number}" for number in range(values.shape[1])]
    cells = [f"cell{number}" for number in range(len(values))]
    anndata.AnnData(
        values, obs=pandas.DataFrame(index=cells), var=pandas.DataFrame(index=genes)
    ).write_h5ad(path)
    return path


def test_a_site_is_embedded_by_the_reference_alone(files, capsys):
    out = files / "one.embedded.h5ad"
    assert run(files / "one.h5ad", "--reference", files / "reference.h5ad", "--out", out) == 0
    report = capsys.readouterr().err
    assert "distortion: " in report
    assert "outside the reference's range: " in report
    site = anndata.read_h5ad(out)
    cells = anndata.read_h5ad(files / "one.h5ad")
    assert (site.obs_names == cells.obs_names).all()
    assert (site.obs["bulk_labels"] == cells.obs["bulk_labels"]).all()
    assert site.obsm["X_poincare"].shape == (150, 2)
    assert (np.linalg.norm(site.obsm["X_poincare"], axis=1) < 1).all()
    assert site.obs["curvfed_outside"].mean() == site.uns["curvfed_embed"]["outside"] < 0.1
    assert 0 < site.uns["curvfed_embed"]["distortion"] < 0.6
    # A cell's coordinates do not depend on which cells are beside it.
    cells[:10].copy().write_h5ad(files / "few.h5ad")
    assert run(files / "few.h5ad", "--reference", files / "reference.h5ad", "--out", out) == 0
    assert np.allclose(
        anndata.read_h5ad(out).obsm["X_poincare"], site.obsm["X_poincare"][:10], atol=1e-9
    )


def test_cells_of_another_kind_lie_outside(files):
    """Genes that have each other's values look like another tissue or a wrong annotation."""
    cells = anndata.read_h5ad(files / "three.h5ad").raw.to_adata()
    out = files / "foreign.embedded.h5ad"
    shares = []
    for mixed in (0, 30, 150):
        foreign = cells.copy()
        values = foreign.X.toarray()
        values[:mixed] = values[:mixed][:, np.random.default_rng(0).permutation(values.shape[1])]
        foreign.X = values
        foreign.write_h5ad(files / "foreign.h5ad")
        assert (
            run(files / "foreign.h5ad", "--reference", files / "reference.h5ad", "--out", out) == 0
        )
        outside = anndata.read_h5ad(out).obs["curvfed_outside"].to_numpy()
        assert outside[mixed:].sum() < 0.1 * len(outside)
        shares.append(outside[:mixed].sum() / max(mixed, 1))
    print(f"foreign cells told to be outside: {shares}")
    assert min(shares[1:]) > 0.9


def test_missing_genes_are_reported_and_too_few_refused(files, capsys):
    cells = anndata.read_h5ad(files / "two.h5ad").raw.to_adata()
    cells[:, 20:].copy().write_h5ad(files / "some.h5ad")
    out = files / "out.h5ad"
    assert run(files / "some.h5ad", "--reference", files / "reference.h5ad", "--out", out) == 0
    assert "of the reference's 764 are missing (HES4, TNFRSF4, SSU72" in capsys.readouterr().err
    out.unlink()
    cells[:, :100].copy().write_h5ad(files / "few.h5ad")
    assert run(files / "few.h5ad", "--reference", files / "reference.h5ad", "--out", out) == 2
    assert "genes; allowed is at least 50%" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.arange(200).reshape(40, 5) % 7, "whole numbers; allowed are logarithms"),
        (np.full((40, 5), -0.5), "from -0.5 to 0"),
        (np.full((40, 5), 1.5), "0 genes that vary"),
        (SHARES, "perhaps fractions"),
        (np.log1p(COUNTS), "not normalised"),
        (np.log2(1e4 * SHARES + 1), "base 2"),
    ],
)
def test_what_is_no_reference_is_refused(tmp_path, capsys, values, words):
    path = small(tmp_path / "a.h5ad", values)
    assert run(path, "--make-reference", "--out", tmp_path / "b.h5ad") == 2
    refusal = capsys.readouterr().err
    assert words in refusal
    assert str(path) in refusal


def test_entries_that_are_not_used_need_not_be_readable(files, tmp_path):
    site = tmp_path / "site.h5ad"
    shutil.copyfile(files / "one.h5ad", site)
    with h5py.File(site, "r+") as file:
        file["obsm/X/umap"] = np.ones((150, 2))
        file["obsm/short"] = np.ones(3)
        del file["obs"].attrs["_index"]
    outs = []
    for path in (files / "one.h5ad", site):
        outs.append(tmp_path / f"{path.stem}.embedded.h5ad")
        assert run(path, "--reference", files / "reference.h5ad", "--out", outs[-1]) == 0
    with h5py.File(outs[0]) as plain, h5py.File(outs[1]) as odd:
        assert (odd["obsm/X_poincare"][()] == plain["obsm/X_poincare"][()]).all()
        assert "umap" in odd["obsm/X"]


def test_faults_of_the_arguments(files, tmp_path, capsys):
    site = files / "one.h5ad"
    out = tmp_path / "b.h5ad"
    assert run(site, "--out", out) == 2
    assert run(site, "--reference", site, "--make-reference", "--out", out) == 2
    capsys.readouterr()
    for arguments, words in (
        ((site, "--reference", site), "is no reference"),
        ((tmp_path / "a.h5ad", "--make-reference"), "no file"),
        ((site, "--make-reference", "--layer", "logs"), "no layer logs; there are raw, X"),
    ):
        assert run(*arguments, "--out", out) == 2
        assert words in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("name", ["site.csv", "site.tsv.gz", "site.txt", "site.mtx"])
def test_another_file_is_named_with_the_way_to_an_h5ad(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    genes = [f"gene{number}" for number in range(LOGS.shape[1])]
    values = pandas.DataFrame(LOGS, columns=genes)
    if name == "site.mtx":
        mmwrite(name, csr_matrix(LOGS))
    else:
        values.to_csv(name, sep="," if name == "site.csv" else "\t")
    assert run(name, "--make-reference", "--out", "out.h5ad") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"error: {name} is not an .h5ad file, and cells with their expression are" in said
    recipe = said.partition("in Python: ")[2].replace(" (.T if its rows are genes)", "")
    exec(recipe.replace("the names of the genes", repr(genes)), {"anndata": anndata})
    made = anndata.read_h5ad("site.h5ad").to_df()
    assert made.columns.tolist() == genes
    np.testing.assert_allclose(made, values, rtol=1e-6)


@pytest.mark.parametrize("name", ["folder", "site.loom"])
def test_a_folder_and_a_file_without_a_recipe_are_named(name, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    (tmp_path / "site.loom").touch()
    assert run(tmp_path / name, "--make-reference", "--out", tmp_path / "out.h5ad") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{tmp_path / name} is not an .h5ad file" in said
    assert "write_h5ad" in said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere/b.h5ad", "there is no folder"),
        ("b.zarr", "allowed are files that end in .h5ad"),
        ("folder.h5ad", "a folder; allowed is a file"),
        ("one.h5ad", "a file that is read; allowed is any other"),
    ],
)
def test_the_output_is_checked_before_anything_is_read(tmp_path, capsys, name, words):
    for file in ("one.h5ad", "reference.h5ad"):
        (tmp_path / file).write_text("no file of cells")
    (tmp_path / "folder.h5ad").mkdir()
    (tmp_path / "link.h5ad").symlink_to(tmp_path / "one.h5ad")
    before = sorted(tmp_path.iterdir())
    reference = ("--reference", tmp_path / "reference.h5ad")
    assert run(tmp_path / "one.h5ad", *reference, "--out", tmp_path / name) == 2
    refusal = capsys.readouterr().err
    assert words in refusal
    assert str(tmp_path / name) in refusal
    assert sorted(tmp_path.iterdir()) == before


LOGS = np.log1p(1e4 * SHARES)


@pytest.mark.parametrize(
    ("places", "layer", "expected"),
    [
        ({"raw": COUNTS, "X": LOGS}, "", "X"),
        ({"raw": LOGS, "X": COUNTS}, "", "raw.X"),
        ({"raw": LOGS, "X": LOGS}, "", "raw.X"),
        ({"raw": LOGS, "X": LOGS}, "X", "X"),
        ({"X": COUNTS, "logs": LOGS, "spliced": COUNTS}, "", 'layers["logs"]'),
        ({"X": None, "logs": LOGS}, "logs", 'layers["logs"]'),
        ({"X": COUNTS, "logs": LOGS, "more": LOGS}, "", "logs, more; choose one by --layer"),
        (
            {"raw": COUNTS, "X": LOGS - 1},
            "",
            "raw.X are from 0 to .*, whole numbers, in X are from -1 to",
        ),
        ({"raw": COUNTS, "X": LOGS}, "raw", "raw.X are from 0 to"),
        ({"X": LOGS}, "raw", "no layer raw; there are X"),
    ],
)
def test_where_expression_is(tmp_path, places, layer, expected):
    from scipy.sparse import csr_matrix

    cells = anndata.AnnData(
        places.get("raw", places["X"] if places["X"] is not None else COUNTS).astype(np.float32)
    )
    if "raw" in places:
        cells.raw = cells
    cells.X = places["X"]
    for name in sorted(places.keys() - {"raw", "X"}):
        cells.layers[name] = csr_matrix(places[name])
    if "; " not in expected and " are " not in expected:
        logs = expression(cells, tmp_path / "a.h5ad", layer)
        assert logs.place == expected
        assert np.allclose(logs.dense(logs.genes), LOGS, rtol=1e-5)
        return
    with pytest.raises(DataError, match=expected):
        expression(cells, tmp_path / "a.h5ad", layer)


def test_nothing_else_in_the_file_is_written_anew(files, tmp_path):
    """AnnData reads and refuses to write nullable strings, and columns named `_index`."""
    import h5py

    cells = anndata.read_h5ad(files / "one.h5ad")
    cells.obs["note"] = pandas.array(["a", None, "c"] * 50, dtype="string")
    cells.obs.index = pandas.Index(cells.obs_names, dtype="string")
    site = tmp_path / "site.h5ad"
    out = tmp_path / "out.h5ad"
    with anndata.settings.override(allow_write_nullable_strings=True):
        cells.write_h5ad(site)
    with h5py.File(site, "r+") as file:
        table = file["raw/var"]
        table.move(table.attrs["_index"], "index")
        table.attrs["_index"] = "index"
        anndata.io.write_elem(table, "_index", np.arange(len(table["index"])))
        table.attrs["column-order"] = [*table.attrs["column-order"], "_index"]
        file["obs"].attrs["note of another program"] = "kept"
    with pytest.raises(Exception):  # noqa: B017, PT011 (versions differ in the class)
        anndata.read_h5ad(site).write_h5ad(out)
    for reference in (["--reference", files / "reference.h5ad"], ["--make-reference"]):
        for source in (site, tmp_path / "again.h5ad"):
            assert run(source, *reference, "--out", out) == 0
            embedded = anndata.read_h5ad(out)
            assert embedded.obsm["X_poincare"].shape == (150, 2)
            assert embedded.obs["note"].astype(object).tolist()[0] == "a"
            assert [*embedded.obs.columns].count("curvfed_outside") <= 1
            with h5py.File(out) as file:
                assert file["obs"].attrs["note of another program"] == "kept"
                assert "_index" in file["raw/var"]
            out.rename(tmp_path / "again.h5ad")


def test_hidden_files_beside_the_output_are_left_alone(files, tmp_path):
    (tmp_path / ".notes-2023").write_text("mine")
    add_to_copy(files / "one.h5ad", tmp_path / "out.h5ad", {"obsm/X_poincare": np.zeros((150, 2))})
    assert sorted(path.name for path in tmp_path.iterdir()) == [".notes-2023", "out.h5ad"]
