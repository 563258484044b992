"""Names for methods and models that a Python program gives as objects."""

from functools import partial
from importlib.metadata import EntryPoint
from typing import Any

from curvfed.deployments.arguments import UsageError
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import GRAPHS, IMAGES, POINTS, Method
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.methods import foreign_methods, is_built_in
from curvfed.tasks import plugins


def method_name(method: object) -> str:
    """The name of a method; a row or a learner is registered under the name of its keys or class.

    Raises
    ------
    UsageError
        If it is no method, or has the name of a method of curvfed.
    """
    if isinstance(method, str):
        return method
    row = method
    if isinstance(method, type) and issubclass(method, Learner):
        summary = (method.__doc__ or method.__name__).splitlines()[0]
        row = Method(summary, space="flat", client=method, tasks=(*GRAPHS, *IMAGES, *POINTS))
    if not isinstance(row, Method):
        raise UsageError(
            f"method is {method!r}; allowed is a name, a {Method.__module__}.Method, or a subclass"
            f" of {Learner.__module__}.Learner",
            key="method",
        )
    client_name = row.client.__name__.lower() if isinstance(row.client, type) else "own"
    name = next(iter(row.keys), row.aggregation if row.server else client_name)
    if is_built_in(name):
        raise UsageError(
            f'method has the name "{name}" of a method of curvfed\'s; allowed are keys in a table'
            " of another name",
            key="method",
        )
    place = plugins.register_object(row, f"{type(row).__module__}:{name}")
    plugins.registered("methods")[name] = [EntryPoint(name, place, "curvfed.methods")]
    foreign_methods.cache_clear()
    defaults.cache_clear()
    resolve_defaults.cache_clear()
    return name


def model_name(model: Any) -> str | None:
    """The import path of a class or function that makes a network, with the keywords of a
    `functools.partial`.

    Raises
    ------
    UsageError
        If it makes no network.
    """
    if model is None or isinstance(model, str):
        return model
    keywords: dict[str, Any] = {}
    factory = model
    if isinstance(model, partial) and not model.args:
        factory = model.func
        keywords = model.keywords
    if hasattr(model, "state_dict") and not isinstance(model, type):
        raise UsageError(
            f"model is a network of the class {type(model).__name__}; allowed is the class, or"
            " another factory",
            key="model",
        )
    if not callable(factory) or not hasattr(factory, "__qualname__"):
        raise UsageError(
            f"model is {model!r}; allowed is a name, a class or a function that makes a network",
            key="model",
        )
    settings = ", ".join(f"{name}={value!r}" for name, value in keywords.items())
    place = plugins.register_object(factory, f"{factory.__module__}:{factory.__qualname__}")
    return f"{place}({settings})" if settings else place
