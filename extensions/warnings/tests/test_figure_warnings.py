"""What makes figures mean less than they seem is said once in log, summary and page."""

import html
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from app_runs import QUICK, forged, partition_of, real_nodes, rows, run
from graph_fixtures import user_fields
from guards import needs_privacy

from curvfed.extensions.warnings.data_warnings import data_warnings
from curvfed.extensions.warnings.figure_warnings import FigureWarnings
from curvfed.server_app.answer import Answer
from curvfed.server_app.client_history import note_training
from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.federation import Federation
from curvfed.server_app.report.run_page import write_report
from curvfed.strategies.config.parse import parse
from curvfed.strategies.wire.messages import TRAIN, Description, Facts, Header, Reply
from curvfed.tasks.kinds import GLOBAL_TRIVIAL


def graph(classes: int = 2, train: bool = True) -> dict[str, torch.Tensor]:
    """A user's graph with the first so many classes, and with training nodes or without."""
    fields = user_fields()
    count = len(fields["y"])
    nodes = torch.arange(count)
    masks = {
        "train_mask": (nodes % 3 == 0) if train else torch.zeros(count, dtype=torch.bool),
        "val_mask": nodes % 3 == 1,
        "test_mask": nodes % 3 == 2,
    }
    return fields | masks | {"y": fields["y"] % classes}


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Without the last line: these tests draw no report."""
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    return [text for text in said if not text.startswith("done, without a report")]


def about(result: list[str], word: str) -> list[str]:
    return [sentence for sentence in result if word in sentence]


@pytest.mark.parametrize("shares", [True, False])
def test_a_client_of_one_class_and_one_without_training_nodes(shares, tmp_path, caplog):
    """Counts where they are shared, else class names, and the weights of the replies."""
    nodes = real_nodes(tmp_path / "nodes", [graph(), graph(classes=1), graph(train=False)])
    result = run(
        tmp_path, nodes=nodes, method="fedavg", share_statistics=shares, num_rounds=3
    ).summary["warnings"]
    assert [sentence.partition(":")[0] for sentence in result] == [
        "client 1 has examples of one class alone",
        "client 2 has no training examples",
    ]
    for sentence in result:
        assert about(logged(caplog), sentence) == [sentence]


@pytest.mark.parametrize(
    ("partition", "digest", "remedies"),
    [
        ("dirichlet", "public", {"another partition", "larger alpha"}),
        ("metis", "public", {"another partition"}),
        ("metis", "", set()),
    ],
)
def test_the_remedy_for_clients_of_one_class_is_one_that_their_data_have(
    partition, digest, remedies
):
    described = {
        client: Description("nodes", "", "accuracy", 2, names, "", digest)
        for client, names in enumerate((("a",), ("a", "b")))
    }
    federation = Federation({0: 2, 1: 3}, described, Facts("nodes", 2, ("a", "b")), {})
    config = parse({"method": "fedavg", "partition": partition})
    text = data_warnings(config, federation)["classes"]
    assert {words for words in ("another partition", "larger alpha") if words in text} == remedies


@pytest.mark.parametrize(("factor", "number"), [(0.0, 1), (1.0, 0)])
def test_models_that_answer_one_class_alone_are_named(factor, number, tmp_path, caplog):
    graphs = [graph() | {"x": factor * graph()["x"]}] * 2
    nodes, settings = (
        real_nodes(tmp_path / "nodes", graphs),
        {"share_statistics": True, "num_rounds": 10},
    )
    result = run(tmp_path, nodes=nodes, method="fedavg", **settings)
    answers = {(row["partition"], row["predicted"]) for row in rows(result.path / "confusion.csv")}
    assert (len(answers) == 2) == bool(number)
    notes = about(result.summary["warnings"], "answers a single class for all test examples")
    assert len(notes) == len(about(logged(caplog), "answers a single class")) == number
    resumed = run(tmp_path, nodes=nodes, method="fedavg", resume=True, **settings)
    assert resumed.summary["warnings"] == result.summary["warnings"]


def test_fedprox_with_one_local_step_equals_fedavg_and_says_so(tmp_path, caplog):
    for epochs, number in ((1, 1), (2, 0)):
        settings = {"local_epochs": epochs, "num_rounds": 3}
        term = run(tmp_path, f"prox-{epochs}", method="fedprox", fedprox__mu=1.0, **settings)
        without = run(tmp_path, f"avg-{epochs}", method="fedavg", **settings)
        same = [np.array_equal(array, without.model[name]) for name, array in term.model.items()]
        assert all(same) == bool(number)
        assert (
            len(about(term.summary["warnings"], "fedprox equals fedavg here; raise local-epochs"))
            == number
        )
        assert about(without.summary["warnings"], "fedprox") == []
    assert len(about(logged(caplog), "(fedprox.mu = 1.0) has no effect")) == 1


def test_rounds_that_train_nothing_and_calibrations_after_the_last_are_named(tmp_path, caplog):
    settings = QUICK["images"] | {"method": "fedavg", "calibration": "ffc", "calibration_every": 5}
    settled = run(tmp_path, "settled", learning_rate=0.0, **settings)
    assert {"calibrations", "zero-rate"} <= set(settled.summary["warning_keys"])
    assert len(about(logged(caplog), "calibration-every = 5 has no effect: the run has 2")) == 1
    assert len(about(logged(caplog), "no trained parameter of a client changes in 2 rounds")) == 1
    settings |= {"calibration_every": 1, "num_rounds": 1, "learning_rate": 0.01}
    trained = run(tmp_path, "trained", **settings)
    assert not {"calibrations", "zero-rate", "burn-in"} & set(trained.summary["warning_keys"])
    early = run(tmp_path, "early", burn_in=1, **settings)
    assert "burn-in" in early.summary["warning_keys"]


def falling(courses: dict[int, list[float]]):
    """Clients whose accuracies after training are these, round by round."""
    names: dict[int, int] = {}

    def intercept(request, handle):
        header = request.content.config_records["header"]
        node = request.metadata.dst_node_id
        if header["phase"] == "describe":
            names[node] = partition_of(handle(request).content)
        course = courses.get(names[node]) if header["phase"] == TRAIN else None
        if course is None:
            return handle(request)
        score = course[int(header["round"]) - 1]
        return forged(lambda reply: replace(reply, metrics={**reply.metrics, "score": score}))(
            request, handle
        )

    return intercept


COURSES = {
    0: [0.9, 0.9, 0.5, 0.5, 0.86, 0.5],
    1: [0.8, 0.4, 0.4, 0.77, 0.8, 0.8],
    2: [0.9, 0.61, 0.32, 0.3, 0.3, 0.3],
}
FELL = (
    "2 of 3 clients fell by more than 30 points from one of their rounds to the next, and 1 came"
    " back (client 0 fell from 90.0% to 50.0% in round 3, not back; client 1 fell from 80.0% to"
    " 40.0% in round 2, back in round 4)"
)


def test_falls_are_logged_when_they_happen_and_reported_at_the_end(tmp_path, caplog):
    settings = {"method": "fedavg", "num_rounds": 6}
    (sentence,) = run(tmp_path, intercept=falling(COURSES), **settings).summary["warnings"]
    assert sentence.partition(":")[0] == FELL
    said = about(logged(caplog), " fell from ")
    assert [text.partition(":")[0] for text in said] == [
        "client 1 fell from 80.0% to 40.0% in round 2",
        "client 0 fell from 90.0% to 50.0% in round 3",
    ]


def described(num_test: int) -> Federation:
    description = Description(
        "nodes", "", "accuracy", 2, ("a", "b"), "", "", {"num_test": num_test}
    )
    return Federation({0: 1}, {0: description}, Facts("nodes", 2, ("a", "b")), {})


@pytest.mark.parametrize(("num_test", "is_warned"), [(9, False), (10, True)])
def test_a_fall_among_a_handful_of_test_examples_is_chance(num_test, is_warned):
    state = State()
    for number, score in enumerate((0.9, 0.1), 1):
        reply = Reply(Header("run", TRAIN, number), 0, metrics={"score": score})
        answer = Answer(reply.header, {0: reply}, {}, {}, {}, {})
        note_training(state, [0], answer, described(num_test))
    result = FigureWarnings(parse({"method": "fedavg"}), described(num_test)).so_far(state)
    assert bool(result) == is_warned


@pytest.mark.parametrize(("score", "is_warned"), [(0.5, False), (0.4996, False), (0.499, True)])
def test_a_score_is_below_the_trivial_one_only_if_their_words_show_it(score, is_warned):
    state = State()
    state.scored = {"calibrated": score, "figures": {GLOBAL_TRIVIAL: 0.5}}
    warnings = FigureWarnings(parse({"method": "fedavg"}), described(100))
    assert ("trivial" in warnings.at_the_end(state)) == is_warned


@pytest.mark.parametrize(("points", "sent"), [(40, 3), (1000, 0)])
def test_hulls_with_most_points_as_corners_are_reported(points, sent, tmp_path):
    result = run(
        tmp_path, clients=3, method="hull", dataset="uniform", points__num=points, hull__cap=64
    )
    notes = [
        text for text in result.summary["warnings"] if "sent most of their training points" in text
    ]
    assert [text.split()[0] for text in notes] == [str(sent)] * bool(sent)
    assert result.summary["metrics"]["clients_mostly_sent"] == sent


def test_a_refused_node_stands_with_its_reason_in_the_warnings_and_on_the_page(tmp_path, caplog):
    """A run without a client of the federation is not the run that was asked for."""
    other = graph() | {"x": graph()["x"][:, :2]}
    result = run(
        tmp_path, nodes=real_nodes(tmp_path / "nodes", [graph(), graph(), other]), method="fedavg"
    )
    (sentence,) = about(result.summary["warnings"], "1 of 3 nodes are refused")
    assert "partition-id 2: its data are nodes of 2 features" in sentence
    assert sentence in html.unescape(write_report(result.path).read_text())
    assert len(about(logged(caplog), "2 features")) == 1


@pytest.mark.parametrize("shares", [True, False])
def test_a_run_that_measures_nothing_says_so(shares, tmp_path, caplog):
    nothing = graph() | {"test_mask": torch.zeros(len(graph()["y"]), dtype=torch.bool)}
    nodes = real_nodes(tmp_path / "nodes", [nothing, nothing])
    result = run(tmp_path, nodes=nodes, method="fedavg", share_statistics=shares)
    (sentence,) = about(result.summary["warnings"], "nothing measures this run")
    assert about(logged(caplog), "nothing measures") == [sentence]
    half = run(
        tmp_path,
        "half",
        nodes=real_nodes(tmp_path / "more", [nothing, graph()]),
        method="fedavg",
        share_statistics=shares,
    ).summary["warnings"]
    assert not about(half, "nothing measures")
    assert len(about(half, "client 0 has no test examples")) == shares


@needs_privacy
def test_a_private_run_without_a_score_does_not_blame_the_clients_test_examples(tmp_path):
    keys = {"method": "fedavg", "dp__unit": "record", "dp__epsilon": 8.0, "batch_size": 0}
    own_tests = {"dataset": "digits", "images__pooled": True, "num_rounds": 1}
    result = run(tmp_path, **keys | own_tests)
    (sentence,) = about(result.summary["warnings"], "nothing measures this run")
    assert "in a private run scores stay at the clients" in sentence
    assert "give the clients" not in sentence


@pytest.mark.parametrize("shares", [True, False])
def test_features_too_large_for_the_lorentz_space_are_named_with_their_norm(
    shares, tmp_path, caplog
):
    fields = graph() | {"x": graph()["x"] / graph()["x"].norm(dim=1).max()}
    nodes = real_nodes(tmp_path / "nodes", [fields, fields | {"x": 500 * fields["x"]}])
    settings = {"nodes": nodes, "method": "flatland", "share_statistics": shares}
    result = run(tmp_path, normalize="none", num_rounds=3, **settings).summary["warnings"]
    assert len(about(result, "client 1 has features of a norm up to 500")) == shares
    assert len(about(logged(caplog), "features of a norm up to 500: ")) == 1
    (sentence,) = about(result, "the training loss is ")
    assert float(sentence.split()[4].strip(":")) > 1000
    scaled = run(tmp_path, "scaled", normalize="l2", num_rounds=3, **settings).summary["warnings"]
    assert not about(scaled, "norm") + about(scaled, "loss")
