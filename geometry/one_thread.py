"""Small matrices on one thread."""

from contextlib import AbstractContextManager, nullcontext


def one_thread() -> AbstractContextManager[object]:
    """Keep the matrix library to one thread, where threadpoolctl is installed, as it is beside
    scikit-learn.

    On a busy machine threads that wait for each other over small matrices take 20 times as long.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits
