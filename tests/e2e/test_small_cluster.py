"""A cluster of two nodes on loopback: a run, gone on with; the ledger; all down."""

import numpy as np
import psutil
import pytest
import torch
from graph_fixtures import user_fields
from local_cluster import SERVER, cluster, shares, signed

from curvfed.client_app.node.ledger import Ledger
from curvfed.deployments.flower_version import flower_and_transport
from curvfed.deployments.processes import wait_until


@pytest.mark.long
def test_a_run_is_gone_on_with_and_all_is_on_record(tmp_path):
    pairs = ["method=flatland", "dataset=trees", "embedding-dim=8", "min-replies=2", "run-name=one"]
    with cluster(tmp_path, shares(2)) as nodes:
        family = [each for host in (SERVER, *nodes.node_configs) for each in nodes.family(host)]
        for more in (["num-rounds=1"], ["num-rounds=2", "resume=true"]):
            code, output = nodes.run(*pairs, *more)
            assert code == 0, output
        assert nodes.rounds_done("one") == 2
        said = nodes.call(SERVER, "doctor", "--results", str(nodes.results))
        assert f"ok     flower       {flower_and_transport()}" in said
        assert "found wrong: 0" in said
        assert "rounds 1, 2" in said
        lines = Ledger(nodes.files.path / "ledger-server.jsonl").lines()
        assert [(line["kind"], line["run"]) for line in lines] == [
            ("registered", "n0"),
            ("registered", "n1"),
            ("run", "one"),
            ("resumed", "one"),
        ]
        assert "by " in nodes.call(SERVER, "ledger", str(nodes.files.path))
    assert wait_until(
        lambda: (
            not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family)
        ),
        120,
    )


@pytest.mark.long
def test_three_nodes_sum_masked_and_without_their_ledgers_sign_nothing(tmp_path):
    """With the keys of a roster; each message reaches a new process."""
    states = [tmp_path / "state" / str(number) for number in range(3)]
    pairs = ["method=fedavg", "secure-sum=true", "dataset=trees", "embedding-dim=8", "num-rounds=1"]
    configs = [
        f'{share} state-path="{state}"' for share, state in zip(shares(3), states, strict=True)
    ]
    with cluster(tmp_path / "files", signed(tmp_path / "keys", configs)) as nodes:
        code, output = nodes.run(*pairs, "run-name=one")
        assert code == 0, output
        summary = nodes.summary("one")
        assert (summary["status"], summary["num_clients"]) == ("completed", 3)
        for number, state in enumerate(states):
            (state / f"ledger-{number:05d}.jsonl").unlink()
        code, output = nodes.run(*pairs, "run-name=two")
    assert code == 1
    assert "ledger-00000.jsonl has not the" in output
    assert "that signing-key.ledger records" in output


@pytest.mark.long
def test_own_graphs_at_default_settings(tmp_path):
    paths = [tmp_path / f"{num_nodes}.pt" for num_nodes in (129, 500)]
    for path in paths:
        torch.save(user_fields(int(path.stem)), path)
    configs = [f'partition-id={number} data-path="{path}"' for number, path in enumerate(paths)]
    with cluster(tmp_path / "files", configs) as nodes:
        code, output = nodes.run("dataset=own", "num-rounds=1", "run-name=one")
        assert code == 0, output
        summary = nodes.summary("one")
    assert (summary["status"], summary["num_clients"], summary["absences"]) == ("completed", 2, [])


@pytest.mark.long
def test_hulls_of_points_in_own_files_are_summed_once(tmp_path):
    """A masked method without rounds: its phases follow each other, each once."""
    rng = np.random.default_rng(0)
    configs = []
    for number in range(3):
        lines = ["x,y,label"]
        for label, centre in enumerate(((0.4, 0.0), (-0.3, 0.4), (-0.2, -0.5))):
            lines += [f"{x:.4f},{y:.4f},type {label}" for x, y in rng.normal(centre, 0.1, (40, 2))]
        path = tmp_path / f"{number}.csv"
        path.write_text("\n".join(lines) + "\n")
        state = tmp_path / "state" / str(number)
        configs.append(f'partition-id={number} data-path="{path}" state-path="{state}"')
    with cluster(tmp_path / "files", configs) as nodes:
        code, output = nodes.run("method=hull", "min-replies=3", "run-name=one")
        assert code == 0, output
        summary = nodes.summary("one")
    assert (summary["status"], summary["num_clients"], summary["rounds"]) == ("completed", 3, 0)
    metrics = summary["metrics"]
    assert (metrics["clients_summed"], metrics["dropouts"], metrics["hull_count"]) == (3, 0, 9)
    assert summary["personal_accuracy_mean"] > 0.9
