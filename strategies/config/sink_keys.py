"""The table of the run configuration for the sinks that have keys of their own."""

from typing import Annotated

from pydantic import Field

from curvfed.strategies.base.keys import Form, Table

Experiment = Annotated[str, Form(pattern=r"^.+$", words="a line of text, not empty")]


class MLflow(Table):
    """Keys of the sink mlflow."""

    tracking_uri: str = Field(
        default="",
        description="address of MLflow's server or database, without a password; empty: that of the variable "
        "MLFLOW_TRACKING_URI where the server runs, or else mlflow.db in results-dir",
    )
    experiment: Experiment = Field(
        default="curvfed",
        description="the experiment that the run belongs to; made if it is not there",
    )
