"""The figures of runs on links."""

from curvfed.strategies.base.figure import faults, share

FIGURES = (
    share("reconstruction_map", "mean average precision of all links"),
    share("frequent_map", "mean average precision of the most frequent tails", better=""),
    share("global_mrr", "mean reciprocal rank, global", examples="global_examples"),
    share(
        "global_frequent_mrr",
        "mean reciprocal rank of the most frequent tails, global",
        better="",
    ),
    share("global_hits_10", "Hits@10, global"),
    share("global_link_auc", "AUC of links, global"),
    share(
        "mrr",
        "mean reciprocal rank",
        examples="personal_examples",
        short="MRR",
        accuracy="Hits@1",
    ),
    share("mrr_std", "mean reciprocal rank, standard deviation", better=""),
    share("mrr_before", "mean reciprocal rank of the model as received"),
    faults("mrr_clients_left_out", "clients without links to score"),
    share("hits_10", "Hits@10", is_sent=True, is_open=True),
    share("hits_10_before", "Hits@10 of the model as received", is_sent=True, is_open=True),
    share("link_auc", "AUC of links", is_sent=True, is_open=True),
    share("link_auc_before", "AUC of links of the model as received", is_sent=True, is_open=True),
    share("frequent_mrr", "mean reciprocal rank of the most frequent tails", better=""),
)
"""In the order of columns and tables."""
