"""Push three repositories with code of their own, and open the configurations of some names.

    python open_foreign_code.py NAME...

tester/foreign and tester/other hold their code, tester/borrows names that of tester/other.
"""

import json
import sys

from huggingface_hub import HfApi
from transformers import AutoConfig

from hf_echo.inference.encode import opening

CODE = """
from transformers import PretrainedConfig
class C(PretrainedConfig):
    model_type = 'foreign'
"""
CODE_OF = {"foreign": "code.C", "other": "code.C", "borrows": "tester/other--code.C"}
api = HfApi()


def upload(repo: str, path: str, text: str) -> None:
    api.upload_file(path_or_fileobj=text.encode(), path_in_repo=path, repo_id=repo)


for repo_name, config_class in CODE_OF.items():
    repo = f"tester/{repo_name}"
    config = {"model_type": "foreign", "auto_map": {"AutoConfig": config_class}}
    api.create_repo(repo, exist_ok=True)
    upload(repo, "code.py", CODE)
    upload(repo, "config.json", json.dumps(config))
    api.create_tag(repo, tag="v1.0.0", exist_ok=True)
for name in sys.argv[1:]:
    with opening(name) as place:
        assert AutoConfig.from_pretrained(place).model_type == "foreign"
