"""Personal state lost at a node, by each `lost-state`; names of runs that never began."""

import json
from pathlib import Path

import pytest
from app_runs import Run, phase_of, real_nodes, run
from graph_fixtures import user_fields
from policies import with_policy
from tiers import only

from curvfed.client_app.clients_in_memory import forget_all
from curvfed.server_app.report.run_page import write_report
from curvfed.server_app.run import RoundError
from curvfed.strategies.errors import ConfigError

ROUNDS = 4


def lose(folder: Path, how: str) -> None:
    """Damage the newest personal state in a client's folder."""
    *earlier, newest = sorted(folder.glob("0*.safetensors"))
    if how == "deleted":
        newest.unlink()
    elif how == "truncated":
        newest.write_bytes(newest.read_bytes()[:-100])
    elif how == "older":
        newest.write_bytes(earlier[-1].read_bytes())
    else:
        for path in (*earlier, newest):
            path.unlink()


class Loss:
    """Damages client 1's state before round 3; from then on no process remembers anything."""

    def __init__(self, folder: Path, how: str) -> None:
        self.folder, self.how = folder, how

    def __call__(self, request, handle):
        forget_all()  # a real node starts a process per message
        header = request.content.config_records["header"]
        if (phase_of(request.content), header["round"]) == ("train", 3) and self.how:
            lose(next(self.folder.rglob("00001")), self.how)
            self.how = ""
        return handle(request)


def nodes(folder: Path, **keys):
    made = real_nodes(folder, [user_fields(seed=seed) for seed in range(3)])
    return [node | {key.replace("_", "-"): value for key, value in keys.items()} for node in made]


def lossy(folder: Path, how: str, made, **settings) -> Run:
    intercept = Loss(folder / "nodes" / "state1", how)
    return run(
        folder, nodes=made, intercept=intercept, num_rounds=ROUNDS, method="flatland", **settings
    )


@pytest.mark.parametrize(
    ("how", "choice"),
    only(
        [
            ("deleted", "previous"),
            ("truncated", "previous"),
            ("older", "fresh"),
            ("all", "previous"),
        ],
        {("truncated", "previous"), ("older", "fresh")}.__contains__,
    ),
)
def test_a_node_goes_on_from_what_it_chooses_and_says_so(how, choice, tmp_path, caplog):
    result = lossy(tmp_path, how, nodes(tmp_path / "nodes", lost_state=choice), min_replies=3)
    assert result.summary["status"] == "completed"
    assert result.summary["absences"] == []
    since = (
        "went on from those of round 1"
        if choice == "previous" and how != "all"
        else "started afresh"
    )
    notes = f"client 1 lost its personal parameters of round 2 and {since}"
    assert notes in caplog.text
    assert all(not row["dropped"] for row in result.clients)


@pytest.mark.parametrize("how", only(["deleted", "truncated", "older", "all"], "older".__eq__))
def test_a_node_that_refuses_is_out_and_the_run_is_not_plainly_completed(how, tmp_path):
    result = lossy(tmp_path, how, nodes(tmp_path / "nodes"))
    (absent,) = result.summary["absences"]
    assert (absent["partition"], absent["asked"], absent["rounds"]) == (1, ROUNDS, 2)
    assert "lost-state = refuse" in absent["reason"]
    assert str(tmp_path) not in json.dumps(result.summary)
    assert result.summary["status"] == "completed"  # two of four are not most of them
    assert (
        run(
            tmp_path, nodes=nodes(tmp_path / "nodes"), method="flatland", resume=True, num_rounds=5
        ).summary["status"]
        == "completed with absences"
    )
    page = write_report(tmp_path / "run").read_text()
    assert "completed with absences" in page


def test_where_all_must_reply_the_run_ends_with_the_client_and_the_choice(tmp_path):
    text = r"round 3, train: 2 good replies of 3, .*partition 1: .*lost-state = refuse .*previous .*fresh"
    with pytest.raises(RoundError, match=text):
        lossy(tmp_path, "all", nodes(tmp_path / "nodes"), min_replies=3)
    made = nodes(tmp_path / "nodes", lost_state="fresh")
    result = run(
        tmp_path, nodes=made, method="flatland", num_rounds=ROUNDS, min_replies=3, resume=True
    )
    assert result.summary["status"] == "completed"


def test_the_policy_decides_too_and_contradicts_nothing(tmp_path):
    made = nodes(tmp_path / "nodes")
    ruled = with_policy(tmp_path, made, '[runs]\nlost-state = "fresh"\n')
    assert lossy(tmp_path, "all", ruled, min_replies=3).summary["status"] == "completed"
    with pytest.raises(
        Exception, match=r"lost-state in this node's --node-config and in \[runs\] .* differ"
    ):
        run(
            tmp_path,
            "other",
            nodes=[node | {"lost-state": "refuse"} for node in ruled],
            num_rounds=1,
        )
    with pytest.raises(
        Exception,
        match="lost-state is 'any' in this node's --node-config; allowed are refuse, previous",
    ):
        run(tmp_path, "third", nodes=nodes(tmp_path / "nodes", lost_state="any"), num_rounds=1)


@pytest.mark.parametrize("where", ["server", "clients/00001"])
def test_a_flipped_bit_in_a_simulation_costs_a_round_and_no_bit(where, tmp_path):
    settings = {"method": "flatland", "num_rounds": 3}
    whole = run(tmp_path, "whole", **settings | {"num_rounds": 4})
    run(tmp_path, **settings)
    path = sorted((tmp_path / "run" / "checkpoint" / where).glob("0*.safetensors"))[-1]
    content = bytearray(path.read_bytes())
    content[-7] ^= 4
    path.write_bytes(content)
    forget_all()
    assert run(tmp_path, resume=True, **settings | {"num_rounds": 4}).figures == whole.figures


@pytest.mark.parametrize("left", ["nothing", "lock", "temporary", "refusal"])
@pytest.mark.parametrize("resume", [False, True])
def test_a_name_whose_run_never_began_is_not_dead(left, resume, tmp_path):
    folder = tmp_path / "run"
    (folder / "checkpoint").mkdir(parents=True)
    if left != "nothing":
        (folder / "checkpoint" / "lock").touch()
    if left == "temporary":
        (folder / ".config.toml-1234567").write_text("# form")
    if left == "refusal":
        (folder / "summary.json").write_text('{"status": "failed"}')
    result = run(tmp_path, resume=resume, num_rounds=1, method="fedavg")
    assert result.summary["status"] == "completed"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert not list(folder.glob(".*"))


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="exists; allowed is a new name"):
        run(tmp_path, num_rounds=1)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]
