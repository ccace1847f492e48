"""One thread for NumPy's linear algebra, as long as anybody asks for it."""

from threadpoolctl import threadpool_info, threadpool_limits

from inference.runtime.blas_threads import one_blas_thread


def num_threads():
    return {x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"}


def test_blas_has_one_thread_until_the_last_context_closes():
    with threadpool_limits(2, user_api="blas"):
        assert num_threads() == {2}
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        assert num_threads() == {1}
        first.__exit__(None, None, None)
        assert num_threads() == {1}
        second.__exit__(None, None, None)
        assert num_threads() == {2}
