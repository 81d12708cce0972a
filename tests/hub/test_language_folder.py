"""Push and pull of one language, against a Hub on this machine; the model's weights are never read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hf_echo.hub.language_folder import push_language
from hf_echo.utils.fingerprint import fingerprint


def model(folder: Path, *languages: str, weights: bytes = b"backbone") -> Path:
    """A folder that looks like a modular encoder."""
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "config.json").write_text("{}")
    for language in languages:
        place = folder / "languages" / language
        (place / "language_adapter").mkdir(parents=True)
        (place / "language_adapter" / "adapter_model.safetensors").write_bytes(language.encode())
        notes = {"language": language, "backbone": fingerprint(folder / "model.safetensors")}
        (place / "language.json").write_text(json.dumps(notes))
    return folder


def test_one_language_goes_and_comes_alone(on_the_hub, tmp_path):
    mine = model(tmp_path / "mine", "deu_Latn", "fra_Latn")
    yours, other = model(tmp_path / "yours", "fra_Latn"), model(tmp_path / "other", weights=b"another")
    stale = mine / "languages" / "deu_Latn" / "added_tokens.json"
    stale.write_text("{}")
    found = on_the_hub(f"""
        import json, pathlib
        from huggingface_hub import HfApi
        from hf_echo.hub.language_folder import pull_language, push_language
        push_language({str(mine)!r}, "deu_Latn", "me/modular")
        pathlib.Path({str(stale)!r}).unlink()
        push_language({str(mine)!r}, "deu_Latn", "me/modular")
        names = HfApi().list_repo_files("me/modular")
        pull_language("me/modular", "deu_Latn", {str(yours)!r})
        errors = []
        yours, other = {str(yours)!r}, {str(other)!r}
        for language, folder in (("deu_Latn", yours), ("xho_Latn", yours), ("deu_Latn", other)):
            try:
                pull_language("me/modular", language, folder)
            except (ValueError, FileNotFoundError) as error:
                errors.append(str(error))
        print(json.dumps([names, errors]))
    """)
    names, errors = found
    inside = {name for name in names if name.startswith("languages/")}
    assert inside == {
        f"languages/deu_Latn/{n}" for n in ("language.json", "language_adapter/adapter_model.safetensors")
    }
    assert not {"config.json", "model.safetensors"} & set(names)
    for name in inside:
        assert (yours / name).read_bytes() == (mine / name).read_bytes()
    assert sorted(path.name for path in (yours / "languages").iterdir()) == ["deu_Latn", "fra_Latn"]
    assert "has deu_Latn already" in errors[0]
    assert "has no language 'xho_Latn'" in errors[1]
    assert "another backbone" in errors[2] and not any("\n" in error for error in errors)
    assert not (other / "languages" / "deu_Latn").exists()


def test_what_must_not_be_pushed_is_said_without_the_hub(tmp_path):
    mine = model(tmp_path / "mine", "deu_Latn")
    with pytest.raises(FileNotFoundError, match="has no language 'fra_Latn'"):
        push_language(mine, "fra_Latn", "me/modular")
    (mine / "languages" / "deu_Latn" / "a.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="languages/deu_Latn/a.bin: a pickle"):
        push_language(mine, "deu_Latn", "me/modular")
