"""One thread for NumPy's linear algebra, as long as anybody asks for it."""

import pytest
from threadpoolctl import threadpool_info

from inference.blas import one_blas_thread


def num_threads():
    return [x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"]


@pytest.mark.skipif(max(num_threads(), default=1) == 1, reason="BLAS has no threads here")
def test_blas_has_one_thread_until_the_last_context_closes():
    before, first, second = num_threads(), one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    assert set(num_threads()) == {1}
    first.__exit__(None, None, None)
    assert set(num_threads()) == {1}
    second.__exit__(None, None, None)
    assert num_threads() == before
