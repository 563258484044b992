"""FedRep: the classifier first, then the body."""

from app_runs import QUICK, run

from curvfed.extensions.baselines.methods import fedrep
from curvfed.strategies.base import learner as learner_side


def test_fedrep_trains_the_head_before_the_body(tmp_path, monkeypatch):
    trained, train = [], learner_side.train

    def watched(model, task, optimizer, epochs, *rest, **more):
        trained.append(
            (
                epochs,
                {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad},
            )
        )
        return train(model, task, optimizer, epochs, *rest, **more)

    for module in (learner_side, fedrep):
        monkeypatch.setattr(module, "train", watched)
    settings = {"method": "fedrep", "num_rounds": 1, "fine_tune_epochs": 0, **QUICK["images"]}
    run(tmp_path, fedrep__head_epochs=3, **settings)
    assert trained == [(3, {"head"}), (2, {"body"})] * 3
