"""Push and pull by version, against a Hub on this machine:
killed after every request in turn, refused, unchanged."""

import re
from pathlib import Path
from typing import Any

import pytest

from hf_echo.cards.stamp import set_license, stamp
from hf_echo.hub.push import push
from hf_echo.hub.upload_checks import contents_of, kind_of
from hf_echo.utils.fingerprint import write_checksums

CARD = "---\nlicense: mit\nlanguage:\n- fra\n---\n# Model\n"
SPACE = "---\nsdk: gradio\napp_file: main.py\nlicense: mit\n---\n"


def write(folder: Path, name: str, content: bytes | str = b"x") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def write_model(folder: Path) -> Path:
    """A folder that looks like a release; nothing opens it."""
    write(folder, "tokenizer_config.json", "{}")
    write(folder, "config.json", "{}")
    write(folder, "decoder/config.json", "{}")
    write(folder, "model.safetensors", "model.safetensors" * 9)
    write(folder, "decoder/model.safetensors", "decoder/model.safetensors" * 9)
    write(folder, "modules.json", "[]")
    write(folder, "README.md", CARD)
    return folder


@pytest.fixture
def model(tmp_path) -> Path:
    return write_model(tmp_path / "model")


# What the second version changes beside the card.
CHANGED_FILES = {
    "model": "model.safetensors",
    "dataset": "data/train-0.parquet",
    "space": "main.py",
}


@pytest.fixture(scope="module", params=CHANGED_FILES)
def killed_pushes(request, on_the_hub, tmp_path_factory) -> tuple[list[dict], list[str]]:
    """Pushes of which each dies one request later than the one before, but for the last; and the
    files in which the two versions differ."""
    kind = request.param
    changed_file = CHANGED_FILES[kind]
    folder = tmp_path_factory.mktemp("killed") / "a folder"
    if kind == "model":
        write_model(folder)
    else:
        write(folder, "README.md", SPACE if kind == "space" else CARD)
        write(folder, changed_file)
    attempts = on_the_hub("push_killed.py", folder, kind, changed_file)
    return attempts, sorted(["README.md", changed_file])


@pytest.mark.slow  # a push for every request of a push
def test_a_push_was_killed_after_every_request(killed_pushes):
    attempts, _ = killed_pushes
    killed = [attempt["killed"] for attempt in attempts]
    assert len(killed) > 5
    assert killed == [True] * (len(killed) - 1) + [False]


@pytest.mark.slow
def test_main_is_the_old_version_or_the_new_one_at_any_time(killed_pushes):
    attempts, changed_files = killed_pushes
    for attempt in attempts:
        assert attempt["differences_at_main"] in ([], changed_files)


@pytest.mark.slow
def test_the_same_push_again_completes_it(killed_pushes):
    attempts, changed_files = killed_pushes
    for attempt in attempts:
        differences = attempt["differences_after_repeat"]
        assert differences["v1.1"] == []
        assert differences["main"] == []
        # The first version stays as it was.
        assert differences["v1.0"] == changed_files
        assert attempt["third_push"] == "unchanged"


@pytest.fixture(scope="module")
def outcomes(on_the_hub, tmp_path_factory) -> dict[str, Any]:
    """What several pushes of one model said, and what the Hub holds."""
    folder = write_model(tmp_path_factory.mktemp("versions") / "model")
    return on_the_hub("push_versions.py", folder)


@pytest.mark.slow
def test_a_version_that_is_pushed_again_is_unchanged(outcomes):
    assert outcomes["first"] == "pushed"
    assert outcomes["again"] == "unchanged"


@pytest.mark.slow
def test_a_version_does_not_get_other_content(outcomes):
    assert outcomes["same version, other files"].startswith(
        "tester/versions has version 1.0 with other content (decoder/config.json)"
    )


@pytest.mark.slow
def test_a_further_version_deletes_what_the_folder_lacks_on_main_alone(outcomes):
    assert outcomes["second"] == "pushed"
    assert "decoder/model.safetensors" in outcomes["files of v1.0"]
    assert "decoder/model.safetensors" not in outcomes["files of main"]
    assert "decoder/config.json" not in outcomes["files of main"]


@pytest.mark.slow
def test_a_push_beside_another_is_refused(outcomes):
    assert outcomes["beside another"] == (
        "tester/versions: somebody else changed main during the push; run it again"
    )


@pytest.mark.slow
def test_the_hub_judges_the_card_before_a_push(outcomes):
    assert '"license" must be one of' in outcomes["unknown license"]


@pytest.mark.slow
def test_a_dry_run_asks_the_hub_about_the_card(outcomes):
    refusal = outcomes["dry run, unknown license"]
    assert refusal.startswith('README.md: "license" must be one of')


@pytest.mark.slow
def test_a_dry_run_judges_the_license_that_is_given(outcomes):
    assert outcomes["dry run, license given"] is None


HUGGING_FACE = "hf_" + "aB3" * 11
OPENAI = "sk-proj-" + "x1" * 12
SECRETS = (
    HUGGING_FACE,
    OPENAI,
    "AKIA" + "A1B2" * 4,
    "ghp_" + "a1" * 18,
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    "api_key: " + "0a1b" * 8,
    "https://me:secret-word@host/x",
    "Authorization: Bearer " + "a" * 30,
)
PROBLEMS = {
    "model": [
        ("old/model.pt", "x", "old/model.pt: a pickle can run code"),
        ("pytorch_model.bin", "x", "pytorch_model.bin: a pickle"),
        (
            "checkpoint-50/model.safetensors",
            "x",
            "checkpoint-50/model.safetensors: state of a training",
        ),
        ("optimizer.pt", "x", "optimizer.pt: state of a training run"),
        (
            "recipe.json",
            '{"data": "/home/me/pairs.tsv"}',
            "recipe.json: '/home/me' is a path of this machine",
        ),
        ("recipe.json", '{"data": "C:\\\\Users\\\\me"}', "is a path of this machine"),
        ("tokenizer_config.json", None, "tokenizer_config.json is missing"),
        ("modules.json", None, "modules.json is missing"),
        ("model.safetensors", None, "model.safetensors is missing"),
        (
            "config.json",
            '{"auto_map": {"AutoModel": "modeling_x.X"}}',
            "modeling_x.py is missing: config.json names",
        ),
        (
            "config.json",
            '{"custom_pipelines": {"t": {"impl": "pipe.P"}}}',
            "pipe.py is missing: config.json names it",
        ),
        (
            "modules.json",
            '[{"type": "my_code.Module"}]',
            "my_code.py is missing: modules.json names it",
        ),
        ("README.md", None, "README.md is missing"),
        ("README.md", "# no header", "license is missing"),
        (
            "README.md",
            "---\nlicense: mit\nlanguage: noinfo\n---\n",
            "language 'noinfo' is not an ISO",
        ),
        ("README.md", "---\nlicense: [\n---\n", "the metadata is not YAML"),
        (".env", "x", ".env: hidden files are not pushed"),
        (".ssh/id", "x", ".ssh: hidden files are not pushed"),
        (
            "notes.md",
            f"my token is {HUGGING_FACE}",
            "notes.md: 'hf_aB3a'... looks like an access token",
        ),
        (
            "decoder/config.json",
            f'{{"x": "{OPENAI}"}}',
            "decoder/config.json: 'sk-proj'... looks like an access token",
        ),
        *(
            ("README.md", f"{CARD}\n{secret}\n", "looks like an access token or password")
            for secret in SECRETS
        ),
    ],
    "space": [
        ("main.py", None, "main.py is missing: the Space starts with it"),
        (
            "README.md",
            SPACE.replace("app_file: main.py\n", ""),
            "app.py is missing: the Space starts",
        ),
        ("README.md", "---\nlicense: mit\n---\n", "README.md: sdk is missing"),
        ("voices.pkl", "x", "voices.pkl: a pickle"),
        ("main.py", "open('/home/me/x')", "main.py: '/home/me' is a path of this machine"),
    ],
}


@pytest.fixture
def space(tmp_path) -> Path:
    write(tmp_path / "space", "README.md", SPACE)
    write(tmp_path / "space", "main.py")
    return tmp_path / "space"


@pytest.mark.parametrize(
    "kind, name, content, problem", [(kind, *row) for kind in PROBLEMS for row in PROBLEMS[kind]]
)
def test_refused_before_anything_is_uploaded(model, space, kind, name, content, problem):
    folder = {"model": model, "space": space}[kind]
    assert contents_of(folder).problems == []
    (folder / name).unlink() if content is None else write(folder, name, content)
    problems = contents_of(folder, kind).problems
    assert any(problem in line for line in problems)
    assert not [line for line in problems if "\n" in line]
    pytest.raises(ValueError, push, folder, "tester/refused", version="1.0", kind=kind).match(
        re.escape(str(folder))
    )


@pytest.fixture
def linked(model, tmp_path):
    """A model with links to a file, to a folder, and to nothing."""
    write(tmp_path, "secret/key.json", "private")
    (model / "secret.txt").symlink_to("/etc/hostname")
    (model / "languages").symlink_to(tmp_path / "secret")
    (model / "decoder" / "vocab.txt").symlink_to("missing")
    return contents_of(model)


def test_links_are_refused(linked):
    reason = "a link; a push follows no links"
    links = {line.split(":")[0] for line in linked.problems if reason in line}
    assert links == {"secret.txt", "languages", "decoder/vocab.txt"}


def test_links_are_not_followed(linked):
    files = {str(file) for file in linked.files}
    assert not {"secret.txt", "languages/key.json", "decoder/vocab.txt"} & files


def test_only_what_a_model_consists_of_goes_up(model):
    """Notes, data and code that nothing names stay here."""
    write(model, "config.json", '{"auto_map": {"AutoModel": "modeling_x.X"}}')
    write(model, "modeling_x.py", "from .part_x import f\n")
    # What the configurations name or import goes up.
    for name in (
        "part_x.py",
        "1_Pooling/config.json",
        "languages/fra_Latn/language_adapter/adapter_config.json",
    ):
        write(model, name, "{}")
    # What nothing names stays.
    mine = (
        "notes.txt",
        "pairs.tsv",
        "upload.py",
        "figures/config.json",
        ".git/config",
        "__pycache__/a.pyc",
    )
    for name in mine:
        write(model, name)
    contents = contents_of(model)
    assert sorted(map(str, contents.left_out)) == [
        "figures/config.json",
        "notes.txt",
        "pairs.tsv",
        "upload.py",
    ]
    assert not contents.problems
    assert not {str(file) for file in contents.files} & set(mine)
    assert {"part_x.py", "1_Pooling/config.json"} <= {file.as_posix() for file in contents.files}


def test_addresses_are_no_paths_of_this_machine(model):
    paths = "https://example.org/home/me and ../tmp/x and docs/data/x and a/home/b"
    write(model, "README.md", CARD + paths)
    write_checksums(model)
    assert contents_of(model).problems == []


def test_changed_weights_are_refused(model):
    write_checksums(model)
    write(model, "decoder/model.safetensors", b"changed")
    (problem,) = contents_of(model).problems
    assert "decoder/model.safetensors: not the file that checksums.json names" in problem


def test_kinds(model, space, tmp_path):
    write(tmp_path / "set", "data/a.parquet")
    assert [kind_of(folder) for folder in (model, space, tmp_path / "set")] == [
        "model",
        "space",
        "dataset",
    ]
    pytest.raises(ValueError, kind_of, tmp_path).match("no config.json")
    pytest.raises(FileNotFoundError, contents_of, tmp_path / "none").match("no folder")


@pytest.mark.parametrize(
    "repo, version",
    [
        *(("me/x", version) for version in ("one", "1.0 ", "", "../1", "١.٢", "1.٢")),
        *(
            (repo, "1.0")
            for repo in ("me", "me/x/y", "me/my model", "mé/x", "me/", "/x", "me/x--y", "../x")
        ),
    ],
)
def test_bad_names_are_refused(model, repo, version):
    pytest.raises(ValueError, push, model, repo, version=version).match(
        "is not (a version|the name of a repository)"
    )


@pytest.fixture
def dry_run(model, hf_echo_cli):
    """dry_run(repository, *options) -> (exit code, standard output, standard error)"""

    def call(repo, *options):
        return hf_echo_cli("push", str(model), repo, "--version", "1.2.0", "--dry-run", *options)

    return call


def test_dry_run_lists_files(model, dry_run):
    write(model, "notes.txt")
    code, out, err = dry_run("me/x")
    assert code == 0
    assert err == ""
    assert "decoder/model.safetensors" in out
    assert "model me/x, v1.2.0" in out
    assert "left out: notes.txt" in out


def test_dry_run_names_a_missing_card(model, dry_run):
    (model / "README.md").unlink()
    code, _, err = dry_run("me/x")
    assert code == 2
    assert "problem: README.md is missing" in err


def test_dry_run_names_a_bad_repository(dry_run):
    assert "problem: 'me/my model' is not the name of a repository" in dry_run("me/my model")[2]


def test_dry_run_writes_no_license(model, dry_run):
    """An option gives the one that the card lacks; the card stays as it was."""
    card = "---\nlanguage: fra\n---\n# Model\n"
    write(model, "README.md", card)
    assert "license is missing" in dry_run("me/x")[2]
    code, _, err = dry_run("me/x", "--license", "mit")
    assert (code, err) == (0, "")
    assert (model / "README.md").read_text() == card


UNSTAMPED = (
    '# M\n\nTHIS_REPO by hand, "v1.0"\n\n```python\nf("THIS_REPO", revision="THIS_VERSION")\n```\n'
)


def test_a_stamp_names_the_repository_in_code(model):
    once = stamp(UNSTAMPED, "me/a", "v1.0")
    assert 'f("me/a", revision="v1.0")' in once
    assert 'THIS_REPO by hand, "v1.0"' in once


def test_a_second_stamp_replaces_the_first():
    once = stamp(UNSTAMPED, "me/a", "v1.0")
    assert stamp(once, "me/a", "v1.0") == once
    assert stamp(once, "me/b", "v2.0") == stamp(UNSTAMPED, "me/b", "v2.0")


def test_a_card_without_places_for_a_stamp_stays():
    assert stamp(CARD, "me/a", "v1.0") == CARD


@pytest.fixture
def without_license(model):
    """The card of a model that is not licensed yet."""
    card = model / "README.md"
    card.write_text("---\nlanguage:\n- fra\n---\n# Model\n\nText.\n")
    return card


def test_a_missing_license_is_a_problem(model, without_license):
    assert "--license apache-2.0" in str(contents_of(model).problems)


def test_a_license_is_written_at_the_push(model, without_license):
    set_license(without_license, "mit")

    assert "license: mit" in without_license.read_text()
    assert contents_of(model).problems == []


def test_a_new_license_leaves_the_rest_of_the_card(without_license):
    set_license(without_license, "mit")

    text = without_license.read_text()
    assert "- fra" in text
    assert "# Model\n\nText." in text


@pytest.mark.parametrize("file", ["config.json", "modules.json", "tokenizer_config.json"])
def test_a_broken_configuration_is_named(model, file):
    write(model, file, '{"model_type": "echo",')
    pytest.raises(ValueError, push, model, "me/x", version="1.0", kind="model").match(
        rf"{file}:1: not valid JSON"
    )
