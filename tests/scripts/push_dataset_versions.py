"""Push a dataset, change it by hand, and push it again.

    python push_dataset_versions.py FOLDER

Prints what the Hub shows of both versions as JSON: {version: {"rows", "columns", "total", "card"}}.
"""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
from datasets import load_dataset
from huggingface_hub import hf_hub_download

from hf_echo.hub.dataset_card import push_dataset

REPO = "tester/splits"
folder = Path(sys.argv[1])


def read(name: str, tag: str) -> str:
    return Path(hf_hub_download(REPO, name, repo_type="dataset", revision=tag)).read_text()


def state(tag: str) -> dict:
    splits = load_dataset(REPO, revision=tag)
    return {
        "rows": {name: sorted(split["source"]) for name, split in splits.items()},
        "columns": splits["train"].column_names,
        "total": json.loads(read("stats.json", tag))["table"][-1]["pairs"],
        "card": read("README.md", tag),
    }


push_dataset(folder, REPO, version="1.0", license="mit")
# A split, a row and a column go; a column comes.
(folder / "data/fra/dev-0.parquet").unlink()
train_file = folder / "data/fra/train-0.parquet"
table = pq.read_table(train_file).slice(1)
lengths = table["quality"].cast("int32", safe=False)
pq.write_table(table.drop_columns("quality").append_column("length", lengths), train_file)
push_dataset(folder, REPO, version="1.1", license="mit")
print(json.dumps({"1.0": state("v1.0"), "1.1": state("v1.1")}))
