"""Principal components through a run's secure sum, against scikit-learn; and their use."""

import anndata
import numpy as np
import pandas
import pytest
from app_runs import run
from cell_files import SITES, write_parts
from errors import refuses
from guards import needs_privacy
from policies import with_policy
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from curvfed.deployments.commands.command import main
from curvfed.extensions.cells.expression import client_cells
from curvfed.extensions.cells.methods.pca import PcaClient, moments, reference
from curvfed.server_app.report.run_page import write_report
from curvfed.server_app.run import RoundError
from curvfed.strategies.base.one_shot import Setting, Site
from curvfed.strategies.base.statistics import Leaving, spread
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError

GENES = 60


def nodes_of(folder):
    node = {"state-path": str(folder)}
    return [
        node | {"partition-id": place, "data-path": str(folder / f"{name}.h5ad")}
        for place, name in enumerate(SITES)
    ]


@pytest.fixture(scope="module")
def pca_run(tmp_path_factory):
    """The folder of three sites' files, a run over them, and the expression of all their cells."""
    folder = tmp_path_factory.mktemp("sites")
    write_parts(folder)
    raw = [anndata.read_h5ad(folder / f"{name}.h5ad").raw.to_adata() for name in SITES]
    genes = [str(name) for name in raw[0].var_names[:GENES]]
    done = run(
        folder, nodes=nodes_of(folder), method="pca", pca__genes=",".join(genes), pca__components=20
    )
    return (
        folder,
        done,
        np.concatenate([site[:, genes].X.toarray() for site in raw]).astype(np.float64),
    )


def test_equal_to_the_components_of_all_cells(pca_run):
    _, done, values = pca_run
    assert done.summary["status"] == "completed"
    assert "class" not in " ".join(done.summary["warnings"])
    assert done.summary["metrics"]["points_summed"] == 450
    assert "principal components</th><td>20" in write_report(done.path).read_text()
    scaler = StandardScaler().fit(values)
    oracle = PCA(20, svd_solver="full").fit(scaler.transform(values))
    model = done.model
    np.testing.assert_allclose(model["mean"], scaler.mean_, atol=1e-8)
    np.testing.assert_allclose(model["deviation"], scaler.scale_, atol=1e-8)
    np.testing.assert_allclose(
        model["variances"] * 450 / 449, oracle.explained_variance_, rtol=1e-8
    )
    signs = np.sign((model["axes"].T * oracle.components_).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(model["axes"].T, signs * oracle.components_, atol=1e-8)


def test_every_site_embeds_by_the_run(pca_run, capsys):
    folder, done, values = pca_run
    pooled = []
    for name in SITES:
        out = folder / f"{name}.embedded.h5ad"
        cells = folder / f"{name}.h5ad"
        words = ["embed", str(cells), "--reference", str(done.path), "--out", str(out)]
        assert main(words) == 0
        site = anndata.read_h5ad(out)
        assert site.obs["curvfed_outside"].mean() < 0.25
        assert 0 < site.uns["curvfed_embed"]["distortion"] < 1
        pooled.append(site.obsm["X_poincare"])
    report = capsys.readouterr().err
    print(report)
    assert "distortion: " in report
    # One map for all: what one site gets from the run is what all cells in one place would get.
    standardised = np.clip(StandardScaler().fit_transform(values), -10, 10)
    z = standardised @ done.model["axes"][:, :2]
    half = z / np.sqrt(done.model["variances"][:2].sum())
    length = np.linalg.norm(half, axis=1, keepdims=True)
    np.testing.assert_allclose(np.concatenate(pooled), half * np.tanh(length) / length, atol=1e-8)


def test_directions_without_variance_are_no_components():
    varying = np.random.default_rng(0).uniform(0, 5, (50, 3))
    values = np.column_stack([varying, varying[:, 0], np.full(50, 2.0)])
    arrays, share = reference(moments(values), 50, 30)
    # one for each gene that varies
    np.testing.assert_allclose(arrays["variances"].sum(), 4, rtol=1e-12)
    assert arrays["axes"].shape == (5, 3)
    assert arrays["deviation"][4] == 1
    assert share == pytest.approx(1)


@pytest.mark.parametrize(
    "genes", ["", "a,b", "a,b,b", ",".join(f"g{number}" for number in range(1001))]
)
def test_a_number_of_genes_that_is_not_allowed(genes, pca_run, tmp_path):
    folder, *_ = pca_run
    with refuses("genes", "3 to 1,000", error=ConfigError):
        run(tmp_path, nodes=nodes_of(folder), method="pca", pca__genes=genes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_file_that_is_not_sparse(dtype, tmp_path):
    values = np.random.default_rng(0).uniform(0, 5, (5, 4)).astype(dtype)
    cells = anndata.AnnData(values, var=pandas.DataFrame(index=list("wxyz")))
    cells.write_h5ad(tmp_path / "dense.h5ad")
    selected = client_cells(tmp_path / "dense.h5ad", ["y", "w"])
    np.testing.assert_array_equal(selected.values, values[:, [2, 0]])
    assert selected.digest != client_cells(tmp_path / "dense.h5ad", ["w", "y"]).digest


def test_moments_of_few_cells_stay_at_their_nodes(tmp_path):
    values = np.random.default_rng(0).uniform(0, 5, (4, 3))
    cells = anndata.AnnData(values, var=pandas.DataFrame(index=list("xyz")))
    for name in SITES:
        cells.write_h5ad(tmp_path / f"{name}.h5ad")
    nodes = with_policy(tmp_path, nodes_of(tmp_path), "[sums]\nothers-examples = 0\n")
    with pytest.raises(RoundError, match=r"\[leaves\] hull-min-class-size = 5"):
        run(tmp_path, nodes=nodes, method="pca", pca__genes="x,y,z")


def test_a_smaller_weight_is_that_of_as_many_whole_cells(pca_run):
    folder, *_ = pca_run
    names = anndata.read_h5ad(folder / "one.h5ad").raw.var_names[:GENES]
    cells = client_cells(folder / "one.h5ad", list(map(str, names)))
    site = Site(cells, 0, True, Leaving(5, max_examples=40), 1.0, lambda revealed, own: None)
    config = parse({"method": "pca", "pca.genes": ",".join(names)})
    setting = Setting(config.own_keys, config, None, config.guard, ())
    contribution = PcaClient(setting, site).contribution(3, {})
    taken = spread(len(cells.values), 40)
    assert contribution.weight == taken.sum() == 40
    np.testing.assert_array_equal(contribution.arrays["sums"], moments(cells.values[taken]))


def test_nodes_without_the_genes_or_without_expression_are_refused(pca_run, tmp_path):
    folder, *_ = pca_run
    with pytest.raises(Exception, match=r"genes of pca\.genes: none such"):
        run(
            tmp_path,
            "lacking",
            nodes=nodes_of(folder),
            method="pca",
            pca__genes="HES4,TNFRSF4,SSU72,none such",
        )
    with pytest.raises(Exception, match="the data are not cells with their expression"):
        run(tmp_path, method="pca", dataset="uniform", points__num=100, pca__genes="a,b,c")


@needs_privacy
def test_no_noise_hides_a_record():
    private = {"dp.unit": "record", "dp.epsilon": 1.0, "secure-sum": True}
    with pytest.raises(ConfigError, match="whose sums a single record changes little"):
        parse({"method": "pca", "dataset": "own", "pca.genes": "a,b,c"} | private)


def test_a_folder_that_is_no_such_run(pca_run, capsys):
    folder, *_ = pca_run
    out = folder / "out.h5ad"
    assert (
        main(["embed", str(folder / "one.h5ad"), "--reference", str(folder), "--out", str(out)])
        == 2
    )
    assert "is no finished run of method=pca" in capsys.readouterr().err
