"""`curvfed embed`: what it writes and tells, and what it refuses."""

import subprocess
import sys

import anndata
import numpy as np
import pandas
import pytest
from cell_files import write_parts

from curvfed.deployments.commands.command import main
from curvfed.tasks.points.expression import write_cells


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    write_parts(folder)
    assert run(folder / "atlas.h5ad", "--make-reference", "--out", folder / "reference.h5ad") == 0
    return folder


def run(*arguments) -> int:
    return main(["embed", *map(str, arguments)])


def small(path, values, genes=None):
    values = np.asarray(values, dtype=np.float32)
    genes = genes or [f"gene{number}" for number in range(values.shape[1])]
    cells = [f"cell{number}" for number in range(len(values))]
    anndata.AnnData(values, obs=pandas.DataFrame(index=cells), var=pandas.DataFrame(index=genes)).write_h5ad(path)
    return path


def test_a_site_is_embedded_by_the_reference_alone(files, capsys):
    out = files / "one.embedded.h5ad"
    assert run(files / "one.h5ad", "--reference", files / "reference.h5ad", "--out", out) == 0
    told = capsys.readouterr().err
    assert "distortion: " in told
    assert "outside the reference's range: " in told
    site, given = anndata.read_h5ad(out), anndata.read_h5ad(files / "one.h5ad")
    assert (site.obs_names == given.obs_names).all()
    assert (site.obs["bulk_labels"] == given.obs["bulk_labels"]).all()
    assert site.obsm["X_poincare"].shape == (150, 2)
    assert (np.linalg.norm(site.obsm["X_poincare"], axis=1) < 1).all()
    assert site.obs["curvfed_outside"].mean() == site.uns["curvfed_embed"]["outside"] < 0.1
    assert 0 < site.uns["curvfed_embed"]["distortion"] < 0.6
    # A cell's coordinates do not depend on which cells are beside it.
    given[:10].copy().write_h5ad(files / "few.h5ad")
    assert run(files / "few.h5ad", "--reference", files / "reference.h5ad", "--out", out) == 0
    assert np.allclose(anndata.read_h5ad(out).obsm["X_poincare"], site.obsm["X_poincare"][:10], atol=1e-9)


def test_cells_of_another_kind_lie_outside(files):
    """Genes that have each other's values are what another tissue, or a wrong annotation, looks like."""
    cells = anndata.read_h5ad(files / "three.h5ad").raw.to_adata()
    out = files / "foreign.embedded.h5ad"
    shares = []
    for mixed in (0, 30, 75, 150):
        foreign = cells.copy()
        values = foreign.X.toarray()
        values[:mixed] = values[:mixed][:, np.random.default_rng(0).permutation(values.shape[1])]
        foreign.X = values
        foreign.write_h5ad(files / "foreign.h5ad")
        assert run(files / "foreign.h5ad", "--reference", files / "reference.h5ad", "--out", out) == 0
        outside = anndata.read_h5ad(out).obs["curvfed_outside"].to_numpy()
        assert outside[mixed:].sum() < 0.1 * len(outside)
        shares.append(outside[:mixed].sum() / max(mixed, 1))
    print(f"foreign cells told to be outside: {shares}")
    assert min(shares[1:]) > 0.9


def test_missing_genes_are_told_and_too_few_refused(files, capsys):
    cells = anndata.read_h5ad(files / "two.h5ad").raw.to_adata()
    cells[:, 20:].copy().write_h5ad(files / "some.h5ad")
    out = files / "out.h5ad"
    assert run(files / "some.h5ad", "--reference", files / "reference.h5ad", "--out", out) == 0
    assert "of the reference's 764 are missing (HES4, TNFRSF4, SSU72" in capsys.readouterr().err
    out.unlink()
    cells[:, :100].copy().write_h5ad(files / "few.h5ad")
    assert run(files / "few.h5ad", "--reference", files / "reference.h5ad", "--out", out) == 1
    assert "genes; allowed is at least 50%" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("values", "genes", "message"),
    [
        (np.arange(200).reshape(40, 5) % 7, None, "whole numbers; allowed are logarithms"),
        (np.full((40, 5), -0.5), None, "are from -0.5 to 0; allowed are logarithms"),
        (np.full((40, 5), np.nan), None, "are not finite; allowed are logarithms"),
        (np.full((40, 3), 0.5), ["a", "a", "b"], "1 genes have the name of another"),
        (np.full((40, 5), 0.5), None, "40 cells and 0 genes that vary; allowed are more than 30 cells"),
        (np.random.default_rng(0).random((30, 5)), None, "30 cells and 5 genes that vary"),
    ],
)
@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_what_is_no_reference_is_refused(tmp_path, capsys, values, genes, message):
    path = small(tmp_path / "a.h5ad", values, genes)
    assert run(path, "--make-reference", "--out", tmp_path / "b.h5ad") == 1
    told = capsys.readouterr().err
    assert message in told
    assert str(path) in told


def test_faults_of_the_arguments(files, tmp_path, capsys):
    one, out = files / "one.h5ad", tmp_path / "b.h5ad"
    assert run(one, "--out", out) == 2
    assert run(one, "--reference", one, "--make-reference", "--out", out) == 2
    capsys.readouterr()
    for arguments, message in (
        ((one, "--reference", one, "--out", out), "is no reference; one is made by curvfed embed"),
        ((one, "--make-reference", "--out", one), "the file that is read"),
        ((tmp_path / "a.h5ad", "--make-reference", "--out", out), "no file"),
        ((one, "--make-reference", "--layer", "logs", "--out", out), "has no layer logs; there are none"),
    ):
        assert run(*arguments) == 1
        assert message in capsys.readouterr().err
    assert not out.exists()


def test_help_imports_no_anndata():
    code = (
        "import sys; from curvfed.deployments.commands.command import main; main(['embed', '--help'])\n"
        "assert not {'torch', 'flwr', 'anndata', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_hidden_files_beside_the_output_are_left_alone(files, tmp_path):
    (tmp_path / ".notes-2023").write_text("mine")
    write_cells(anndata.read_h5ad(files / "one.h5ad"), tmp_path / "out.h5ad")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".notes-2023", "out.h5ad"]
