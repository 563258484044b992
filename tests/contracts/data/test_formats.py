"""Every format of another tool, from its files through a check and a run to predictions."""

import pytest
from format_fixtures import write_cifar100, write_leaf, write_medmnist, write_tiny_folder

import curvfed
from curvfed.deployments.commands.command import main
from curvfed.tasks.registry import kind_of_path, tasks_of

TESTED = 21
EXAMPLES = 96

WRITERS = {
    "MedMNIST's .npz": write_medmnist,
    "LEAF's JSON": write_leaf,
    "CIFAR's pickled batches": write_cifar100,
    "TinyImageNet's folder": write_tiny_folder,
}


@pytest.mark.parametrize("title", WRITERS)
def test_check_run_and_prediction(title, own_home, tmp_path, capsys):
    path = WRITERS[title](tmp_path)
    assert tasks_of(str(path)) == (kind_of_path(path),)
    keys = {"num_rounds": 1, "local_epochs": 1, "num_supernodes": 2, "quiet": True}
    main(["check", "method=fedavg", f"dataset={path}", "num-supernodes=2"])
    assert f"{title}, " in capsys.readouterr().out
    run = curvfed.simulate("fedavg", dataset=path, min_client_size=1, **keys)
    assert run.summary["global_accuracy"] is not None
    assert len(run.predict(path)) == TESTED
    copy = path.rename(path.with_name(f"new{path.suffix}"))
    assert len(run.predict(copy)) == EXAMPLES
    # The same files as the own data of two nodes.
    own = curvfed.simulate("fedavg", data=[copy, copy], **keys | {"num_supernodes": 2})
    assert own.summary["personal_accuracy_mean"] is not None
