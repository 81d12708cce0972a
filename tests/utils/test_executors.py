"""The executors without a cluster; `tests/data/pipeline/test_ray.py` and `tests/search/test_ray.py`
start one."""

import logging
import pickle

import pandas as pd
import pytest

from hf_echo.utils.executors import LocalExecutor, _Call, executor_named


def test_the_local_executor_keeps_the_order():
    results = LocalExecutor(False).map(str, [3, 1, 2], "Working")
    assert list(results) == [(3, "3"), (1, "1"), (2, "2")]


def test_the_local_executor_stops_at_an_error():
    results = LocalExecutor(False).map(lambda number: 1 // number, [1, 0, 2], "Working")
    assert next(results) == (1, 1)
    with pytest.raises(ZeroDivisionError):
        next(results)


def run_as_task(function, item):
    """(failed, result or error, warnings) as a Ray task returns them."""
    batch = pd.DataFrame({"number": [7], "item": [pickle.dumps(item)]})
    row = _Call(function)(batch)
    assert row["number"].tolist() == [7]
    return pickle.loads(row["result"][0])


def log_and_add(item):
    logging.getLogger("hf_echo.inference.encode").warning("%d texts are long", item)
    logging.getLogger("hf_echo.inference").info("opened")
    logging.getLogger("torch").warning("of another package")
    return item + 1


def test_a_task_returns_its_result_with_the_warnings_of_the_package():
    assert run_as_task(log_and_add, 3) == (
        False,
        4,
        [("hf_echo.inference.encode", "3 texts are long")],
    )


def test_a_task_returns_its_error():
    failed, error, warnings = run_as_task(int, "no number")
    assert failed
    assert isinstance(error, ValueError)
    assert "no number" in str(error)
    assert warnings == []


def test_a_task_leaves_the_loggers_as_they_were():
    handlers = list(logging.getLogger("hf_echo").handlers)
    run_as_task(log_and_add, 3)
    assert logging.getLogger("hf_echo").handlers == handlers


def test_executors_have_names():
    assert executor_named("local").local
    with pytest.raises(ValueError, match="unknown --executor 'rey'; choose local or ray"):
        executor_named("rey")
