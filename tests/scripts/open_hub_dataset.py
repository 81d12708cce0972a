"""open_hub_dataset.py NAME FOLDER: the pairs of a dataset in the layout of BUCC, downloaded into the
folder at the newest commit, as JSON."""

import json
import sys
from pathlib import Path

from huggingface_hub import HfApi

from hf_echo.data.sources.bucc import read_bucc
from hf_echo.data.sources.origins import HubDataset

name, folder = sys.argv[1:]
commit = HfApi().dataset_info(name).sha
dataset = HubDataset(name, commit, "test").open(Path(folder))
print(json.dumps(list(read_bucc([dataset]))))
