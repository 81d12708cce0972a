"""What a command finds in the place of its output:
an equal result stays, another one is refused or replaced."""

import json

import pytest

TEXT = "Le chat dort. Le chien mange.\n"


@pytest.fixture
def segment(run, tmp_path):
    """segment(*options) -> (exit code, standard output, standard error) of a command that writes
    out.txt."""
    pytest.importorskip("sentencex")
    (tmp_path / "in.txt").write_text(TEXT, encoding="utf-8")
    fixed = ("--lang", "fra_Latn", "--out", tmp_path / "out.txt")
    return lambda *options: run("data", "segment", tmp_path / "in.txt", *fixed, *options)


@pytest.fixture
def segment_refused(segment):
    """segment_refused(message, *options): exit code 2, and the message among the errors."""

    def call(message: str, *options):
        code, _, err = segment(*options)
        assert code == 2
        assert message in err

    return call


def test_the_same_command_does_nothing_the_second_time(segment, tmp_path):
    _, first_report, _ = segment()
    time = (tmp_path / "out.txt").stat().st_mtime_ns

    code, report, err = segment()

    assert code == 0
    assert "is made already" in err
    assert json.loads(report) == json.loads(first_report)
    assert (tmp_path / "out.txt").stat().st_mtime_ns == time


def test_another_input_is_refused(segment, segment_refused, tmp_path):
    segment()
    (tmp_path / "in.txt").write_text(TEXT * 2, encoding="utf-8")

    segment_refused("in.txt has changed since: name another output, or replace it with --overwrite")


def test_another_setting_is_refused(segment, segment_refused):
    segment()

    segment_refused("made with lang=fra_Latn, not eng_Latn", "--lang", "eng_Latn")


def test_a_file_of_another_origin_is_refused(segment_refused, tmp_path):
    (tmp_path / "out.txt").write_text("mine\n")

    segment_refused("not as a run of this command has left it")

    assert (tmp_path / "out.txt").read_text() == "mine\n"


def test_an_empty_file_is_filled(segment, tmp_path):
    (tmp_path / "out.txt").touch()

    code, _, err = segment()

    assert code == 0, err
    assert (tmp_path / "out.txt").stat().st_size


def test_overwrite_replaces_a_file(segment, tmp_path):
    (tmp_path / "out.txt").write_text("mine\n")

    code, _, _ = segment("--overwrite")

    assert code == 0
    assert (tmp_path / "out.txt").read_text().splitlines() == ["Le chat dort.", "Le chien mange."]


def test_standard_input_is_never_taken_for_the_same(run, tmp_path):
    command = ("data", "segment", "-", "--lang", "fra_Latn", "--out", tmp_path / "out.txt")
    run(*command, stdin=TEXT.encode())

    code, _, err = run(*command, stdin=TEXT.encode())

    assert code == 2
    assert "standard input" in err


def test_both_files_of_a_moses_pair_are_looked_for(tmp_path):
    from hf_echo.cli.pairs import Mine
    from hf_echo.utils.outputs import output_files

    settings = Mine(
        source=tmp_path / "a", target=tmp_path / "b", out=tmp_path / "pairs.fr-en.gz", model="m"
    )
    names = [file.name for file in output_files(settings)]
    assert names == ["pairs.fr-en.fr.gz", "pairs.fr-en.en.gz"]


def test_a_folder_of_metrics_is_not_replaced(run, tmp_path):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "notes.txt").write_text("mine")

    code, _, err = run("metrics", tmp_path / "metrics")

    assert code == 2
    assert "--overwrite" in err


def test_an_equal_operation_does_nothing(run, toy_folders, tmp_path):
    command = ("release", toy_folders["training"], tmp_path / "out")
    run(*command)
    time = (tmp_path / "out" / "model.safetensors").stat().st_mtime_ns

    code, out, err = run(*command)

    assert code == 0
    assert "is made already" in err
    assert json.loads(out)["output_dir"] == str(tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").stat().st_mtime_ns == time


def test_a_release_of_another_model_is_refused(run, toy_folders, tmp_path):
    command = ("release", toy_folders["training"], tmp_path / "out")
    run(*command)

    code, _, err = run(*command, "--dtype", "bf16")

    assert code == 2
    assert "dtype was 'fp32', now 'bf16'; name another output, or replace it" in err


def test_an_export_does_not_replace_a_release(run, toy_folders, tmp_path):
    run("release", toy_folders["training"], tmp_path / "out")

    code, _, err = run("export", toy_folders["training"], tmp_path / "out")

    assert code == 2
    assert "was made in another way: by release, not export" in err


def test_overwrite_replaces_a_folder_that_the_command_has_written(run, tmp_path):
    run("metrics", tmp_path / "out")

    code, _, _ = run("metrics", tmp_path / "out", "--overwrite")

    assert code == 0


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda:7", "device is 'cuda:7', and this machine has"),
        ("gpu", "device is 'gpu'; it must be a name such as"),
    ],
)
def test_a_device_that_is_not_there_is_refused(refused, tmp_path, device, message):
    texts = tmp_path / "in.txt"
    texts.write_text("Le chat dort.\n", encoding="utf-8")
    command = ("encode", texts, tmp_path / "out.npy", "-m", "echo-nano", "--device", device)

    refused(message, *command)


def test_a_threshold_is_a_number_or_a_file(refused):
    message = "--threshold is 'abc'; give a number, or the JSON file"
    refused(message, "score", "-", "-m", "echo-nano", "--threshold", "abc")


@pytest.mark.parametrize(
    ("start", "data", "problem"),
    [
        ("model_name_or_path", "none.tsv", "none.tsv"),
        ("backbone", "builtin", "is an Echo checkpoint already: name it as model_name_or_path"),
    ],
)
def test_a_dry_run_with_problems_names_them_with_exit_code_1(run, tmp_path, start, data, problem):
    recipe = tmp_path / "1_lost.yaml"
    recipe.write_text(
        f"stage: contrastive\n{start}: echo-nano\ntrain_data: {data}\noutput_dir: {tmp_path}/o\n"
    )
    code, out, _ = run("train", recipe, "--dry-run")
    assert code == 1
    assert problem in " ".join(json.loads(out)["problems"])
