"""Tables of classes: recalls, probabilities, votes on the names of groups; and the worst
clients."""

from collections.abc import Sequence

from curvfed.extensions.reports import class_scores
from curvfed.extensions.reports.array_files import global_test_of, hulls_of
from curvfed.extensions.reports.run_clients import class_names
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report.page import Cell, Table, number, percent, printable

HULL = ("client", "group", "class", "vertices")
"""Heads of the table of hulls."""


def class_tables(run: RunFiles) -> list[Table]:
    """How well each class is recognised; of a one-shot run its probabilities and the names of its
    groups, too."""
    file = hulls_of(run)
    if file is None:
        whose = "clients'" if global_test_of(run) is None else "server's"
        recalls = class_scores.recalls(class_scores.run_counts(run), class_names(run))
        legend = f"Shares of the {whose} test data of a class that get its name."
        return [share_table("Classes", recalls, "most often taken for", legend)]
    counts = class_scores.count_pairs(file.test.labels, file.predicted)
    recalls = class_scores.recalls(counts, file.class_names, "no name")
    votes = []
    for name, count, agree, names in class_scores.ballots(file):
        texts = [f"{count}", percent(agree), names or "–"]
        votes.append(([printable(name, class_scores.LONGEST) or "–"], list(map(Cell, texts))))
    hulls = []
    for place, hull in enumerate(file.hulls, 1):
        name = printable(file.names[hull.group], class_scores.LONGEST) or "–"
        texts = [f"{hull.client + 1}", f"{hull.group + 1}", name, f"{len(hull.corners)}"]
        hulls.append(([f"{place}"], list(map(Cell, texts))))
    anonymous = (
        "No number says which client has sent a hull. But who knows that a single client has a"
        " class knows that client's hulls; with hull.num-classes the names of classes stay at the"
        " clients."
    )
    calibrated = (
        "Where probabilities can be believed, as many answers are right as their mean says."
    )
    bands = class_scores.bands(file)
    heads = ["clients", "agree", "names they give"]
    return [
        share_table("Classes", recalls, "most often taken for", ""),
        share_table("Probabilities", bands, "mean probability", calibrated),
        Table("Names of the groups", ["name"], heads, votes, optional=heads[:2]),
        Table("Hulls", ["hull"], HULL, hulls, anonymous, "figures wide"),
    ]


def worst_clients(run: RunFiles) -> Table:
    """The clients with the lowest shares of right answers."""
    worst = class_scores.client_shares(run)[: class_scores.MOST_CLIENTS]
    return share_table("Clients, the worst first", worst, "least recognised class", "")


def share_table(title: str, shares: Sequence[class_scores.Share], last: str, legend: str) -> Table:
    """Shares that are right, with Wilson's 95% intervals, the worst first."""
    rows = []
    for row in shares:
        interval = f"{percent(row.low)} – {percent(row.high)}"
        texts = [
            number(row.total),
            percent(row.share),
            interval,
            printable(row.note, class_scores.LONGEST) or "–",
        ]
        rows.append(([printable(row.name, class_scores.LONGEST)], [Cell(text) for text in texts]))
    return Table(
        title, [""], ["tested", "right", "95% interval", last], rows, legend, "figures wide"
    )
