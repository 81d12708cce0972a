"""The executors without a cluster; `tests/data/pipeline/test_ray.py` and `tests/search/test_ray.py` start one."""

import logging
import pickle

import pandas as pd
import pytest

from hf_echo.utils.executors import LocalExecutor, _Call, executor_named


def test_the_local_executor_keeps_the_order_and_stops_at_an_error():
    executor = LocalExecutor(False)
    assert list(executor.map(str, [3, 1, 2], "Working")) == [(3, "3"), (1, "1"), (2, "2")]
    done = executor.map(lambda n: 1 // n, [1, 0, 2], "Working")
    assert next(done) == (1, 1)
    pytest.raises(ZeroDivisionError, next, done)


def answer(function, item):
    batch = pd.DataFrame({"number": [7], "item": [pickle.dumps(item)]})
    row = _Call(function)(batch)
    assert row["number"].tolist() == [7]
    return pickle.loads(row["result"][0])


def test_a_task_returns_its_result_its_error_and_the_warnings_of_the_package():
    def warns(item):
        logging.getLogger("hf_echo.inference.encode").warning("%d texts are long", item)
        logging.getLogger("hf_echo.inference").info("opened")
        logging.getLogger("torch").warning("of another package")
        return item + 1

    handlers = list(logging.getLogger("hf_echo").handlers)
    assert answer(warns, 3) == (False, 4, [("hf_echo.inference.encode", "3 texts are long")])
    failed, error, warnings = answer(int, "no number")
    assert failed and isinstance(error, ValueError) and "no number" in str(error) and warnings == []
    assert logging.getLogger("hf_echo").handlers == handlers
    assert executor_named("local").local
    pytest.raises(ValueError, executor_named, "rey").match("unknown --executor 'rey'; choose local or ray")
