"""A recipe gives the same bytes on a Ray cluster of two nodes."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_echo.data.pipeline import LocalExecutor, RayExecutor, read_recipe, run

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow  # half a minute to start a cluster

RECIPE = """
sources: [{path: %(a)s, label: a}, {path: %(b)s, label: b}]
steps:
  - filter: sanity
  - {filter: exact_duplicates, side: corpus}
  - filter: length_ratio
  - {filter: cap, limit: 100, order: random}
  - {drop: {provenance: mined}, only: {source_lang: deu_Latn}}
sampling: {method: temperature, exponent: 0.5, rows: 700}
out: {shards: 3}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        nodes.add_node(num_cpus=1)
        ray.init(address=nodes.address, log_to_driver=False)
        yield RayExecutor(False)
        ray.shutdown()
        nodes.shutdown()


@pytest.fixture
def recipe(tmp_path):
    """A data recipe on 3,000 pairs with repeated sources and targets."""
    langs = ("fra_Latn", "deu_Latn", "spa_Latn")
    rows = []
    # Sources and targets repeat with different periods; every fortieth target is longer.
    for i in range(3000):
        target = f"sentence number {i * 7 % 1201}{' and so on' * (i % 40 == 0)}"
        values = (
            f"une phrase numéro {i * i % 977}",
            langs[i % 3],
            target,
            "eng_Latn",
            ("primary", "mined")[i % 2],
        )
        rows.append(
            dict(zip(("source", "source_lang", "target", "target_lang", "provenance"), values))
        )
    # Two files, so that the workers get several units.
    paths = {name: str(tmp_path / f"{name}.parquet") for name in "ab"}
    pq.write_table(pa.Table.from_pylist(rows[:1800]), paths["a"])
    pq.write_table(pa.Table.from_pylist(rows[1800:]), paths["b"])
    (tmp_path / "r.yaml").write_text(RECIPE % paths)
    return read_recipe(tmp_path / "r.yaml")


def test_two_nodes_give_the_same_bytes(cluster, recipe, tmp_path):
    assert sum(node["Alive"] for node in ray.nodes()) == 2
    outs = {"local": LocalExecutor(False), "ray": cluster}
    outcomes = {
        name: run(recipe, tmp_path / name, executor=ex, block=300) for name, ex in outs.items()
    }
    files = {
        name: {p.name: p.read_bytes() for p in Path(tmp_path, name, "data").glob("*")}
        for name in outs
    }
    # The bytes of the local run.
    assert len(files["local"]) == 3
    assert files["local"] == files["ray"]
    # Each step drops some rows.
    assert outcomes["local"].rows == 700
    kept = [step["kept"] for step in outcomes["ray"].steps]
    assert kept[-1] == 700
    assert kept[0] == 3000 > kept[2] > kept[4] > kept[5]
    for name in ("counts.json", "stats.json", "fitted.json"):
        texts = [json.loads((tmp_path / out / name).read_text()) for out in outs]
        assert texts[0] == texts[1]


def test_an_error_in_a_worker_is_the_error_of_the_run(cluster, tmp_path):
    (tmp_path / "a.tsv").write_text(
        "source\ttarget\tsource_lang\ttarget_lang\ns\tt\tfra_Latn\teng_Latn\nbroken\n"
    )
    (tmp_path / "r.yaml").write_text(f"sources: [{tmp_path}/a.tsv]")
    with pytest.raises(ValueError, match=r"^.*a\.tsv:3: 1 fields instead of 4"):
        run(read_recipe(tmp_path / "r.yaml"), tmp_path / "out", executor=cluster)
