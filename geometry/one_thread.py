"""Small matrices on one thread."""

from contextlib import AbstractContextManager, nullcontext


def one_thread() -> AbstractContextManager[object]:
    """Limit the matrix library to one thread if threadpoolctl is installed; scikit-learn brings it.

    On a busy machine, threads that wait for each other over small matrices take up to 50 times as
    long.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits
