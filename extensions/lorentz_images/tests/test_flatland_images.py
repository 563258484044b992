"""FlatLand on images: its classifier against the operations of the hyperboloid, what a client
keeps, and what a run leaves."""

import pytest
import torch
import torch.nn.functional as F
from app_runs import QUICK, run

from curvfed.deployments.inputs import RequestError
from curvfed.deployments.predict import TrainedRun, predict
from curvfed.extensions.lorentz_images.lorentz_head import LorentzHead
from curvfed.geometry import lorentz
from curvfed.strategies.base.training import make_optimizer
from curvfed.strategies.config.build_method import build_model, model_spec
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.wire.messages import Facts

IMAGES = QUICK["images"] | {"method": "flatland-images"}
SIGMOID = (-2.0, -2 / 3)
"""The range of the published map."""


def classifier(curvature: float | None) -> LorentzHead:
    torch.manual_seed(3)
    head = LorentzHead(4, 3, "sigmoid", curvature).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(std=0.5)
    return head


@pytest.mark.parametrize("curvature", [None, -1.0, -0.3, -2.5])
def test_it_is_exp0_a_lorentz_layer_and_distances(curvature):
    """Eqs. 1 and 4 on features of unit norm and points of the hyperboloid; its columns m multiply times of radius 1/√|c|."""
    head = classifier(curvature)
    c = torch.as_tensor(head.curvature, dtype=torch.float64).detach()
    root = (-c).sqrt()
    features = torch.randn(6, 4, dtype=torch.float64)
    points = lorentz.exp0(F.normalize(features), c)
    matrix = torch.cat([root * head.layer.time[:, None], head.layer.weight], dim=1)
    space = torch.relu(points @ matrix.T + head.layer.bias)
    centres = lorentz.lift(head.readout.weight, c)
    inner = lorentz.inner(lorentz.lift(space, c)[:, None], centres)
    assert torch.allclose(head(features), -2 / c + 2 * inner + head.readout.bias, rtol=1e-9)


def test_features_at_the_origin_have_finite_gradients():
    head = classifier(None)
    features = torch.zeros(2, 4, dtype=torch.float64, requires_grad=True)
    head(features).sum().backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()


def built(**settings):
    raw = {"method": "flatland-images", "dataset": "digits", **settings}
    config = resolve_defaults(parse(raw), "images")
    facts = Facts("images", 0, ("a", "b", "c"), shape="1x8x8")
    return config, build_model(model_spec(config, facts), 0)


def test_the_body_is_fedavgs_and_the_head_differs_from_it():
    """The same seed gives the same body; the head's layers are no copies of the body's numbers."""
    _, flat = built(method="fedavg")
    _, curved = built()
    for name, value in flat.body.state_dict().items():
        assert torch.equal(curved.body.state_dict()[name], value)
    layer = curved.head.layer.weight
    assert not torch.equal(layer.flatten()[:8], next(flat.body.parameters()).flatten()[:8])


def test_the_decay_of_weights_leaves_the_curvature_alone():
    config, model = built(**{"optimizer": "adamw", "weight-decay": 0.5, "learning-rate": 0.1})
    with torch.no_grad():
        model.head.k.fill_(2.0)
    parameters = dict(model.named_parameters())
    optimizer = make_optimizer(parameters, config)
    before = model.head.layer.weight.clone()
    for parameter in parameters.values():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert model.head.k.item() == 2.0
    assert not torch.equal(model.head.layer.weight, before)


def of_round(done, number):
    rows = [row for row in done.clients if (row["round"], row["phase"]) == (str(number), "train")]
    return [float(row["curvature"]) for row in rows]


def test_each_client_learns_a_curvature_and_columns_of_its_own(tmp_path):
    done = run(tmp_path, learning_rate=0.1, **IMAGES)
    assert done.summary["status"] == "completed"
    curvatures = of_round(done, 2)
    assert len(set(curvatures)) == 3
    assert all(SIGMOID[0] < value < SIGMOID[1] for value in curvatures)
    columns = [done.personal(client)["parameter/head.layer.time"] for client in range(3)]
    assert all((columns[0] != other).any() for other in columns[1:])
    assert not {"head.layer.time", "head.k"} & done.model.keys()
    assert done.summary["global_accuracy"] is None


def test_without_decoupling_all_share_one_curvature(tmp_path):
    done = run(tmp_path, **IMAGES | {"method": "flatland-images-shared"})
    assert {"head.layer.time", "head.k"} <= done.model.keys()
    assert done.summary["global_accuracy"] is not None


@pytest.mark.parametrize("curvature", [0.0, -0.5])
def test_a_given_curvature_is_not_learned(curvature, tmp_path):
    done = run(tmp_path, flatland_images__curvature=curvature, **IMAGES)
    assert set(of_round(done, 2)) == {curvature}
    assert "parameter/head.k" not in done.personal(0)
    assert "parameter/head.layer.time" in done.personal(0)


def test_gradients_of_single_images_add_up():
    """Private steps take them by `torch.func`."""
    head = classifier(None)
    features = torch.randn(5, 4, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 1, 0])
    parameters = {name: value.detach() for name, value in head.named_parameters()}

    def loss(values, row, label):
        logits = torch.func.functional_call(head, values, (row[None],))
        return F.cross_entropy(logits, label[None])

    single = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    gradients = single(parameters, features, labels)
    F.cross_entropy(head(features), labels, reduction="sum").backward()
    for name, parameter in head.named_parameters():
        assert torch.allclose(gradients[name].sum(0), parameter.grad, rtol=1e-9, atol=1e-12), name


def test_a_client_predicts_with_its_own_model(tmp_path):
    """Its test images have the score that the run has for it; no model is for all clients."""
    done = run(tmp_path, **IMAGES)
    trained = TrainedRun.read(done.path)
    tuned = {row["partition"]: row for row in done.clients if row["phase"] == "fine-tune"}
    for client in (0, 1):
        notes = predict(trained, "digits", client=client).notes
        score = float(notes["accuracy on the test images"])
        assert score == pytest.approx(float(tuned[str(client)]["score"]), abs=1e-4)
    with pytest.raises(RequestError, match="client"):
        predict(trained, "digits")


def test_another_packages_model_is_refused(tmp_path):
    with pytest.raises(Exception, match="a model of curvfed's"):
        run(tmp_path, model="torchvision.models:resnet18", **IMAGES)
