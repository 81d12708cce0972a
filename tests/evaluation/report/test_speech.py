"""Speech encoders in a report: the error is that of the nearest text, and what does not fit is refused."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

from hf_echo.evaluation import report as reports
from hf_echo.evaluation.report.models import open_models
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.modeling import EchoSpeechEncoder
from hf_echo.stages.speech_rows import new_config, new_extractor

from ...speech_toy import RATE, SHAPE, say
from .test_report import topic_rows, write

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("matplotlib")
TEXTS = ["Tom has 3 dogs.", "Mary did not open the door.", "He is not tired.", "She paid 20 dollars.", "I like tea."]


def wav(number: int) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, say("a b c d e"[: 2 * number + 1], seed=number), RATE, format="WAV", subtype="FLOAT")
    return file.getvalue()


def speech_rows() -> list[dict]:
    rows = [{"audio": {"bytes": wav(i), "path": f"{i}.wav"}, "text": text} for i, text in enumerate(TEXTS)]
    rows = [row | {"lang": "eng_Latn", "english": row["text"]} for row in rows]
    return rows + [row | {"text": f"bu {i}", "lang": "fra_Latn"} for i, row in enumerate(rows)]


def save_speech_encoder(folder, size: int):
    torch.manual_seed(0)
    model = EchoSpeechEncoder(new_config(SHAPE | {"embedding_size": size})).eval()
    model.save_pretrained(folder)
    extractor = new_extractor(SHAPE)
    extractor.save_pretrained(folder)
    return model, extractor


def test_rows_for_speech(toy, toy_folders, tmp_path):
    text_model = str(toy_folders["release"])
    folder = write(write(tmp_path / "data", "toys", topic_rows(toy)), "spoken", speech_rows())
    encode = any_encoder(text_model)
    english = encode(TEXTS, "eng_Latn")
    model, extractor = save_speech_encoder(tmp_path / "speech", english.shape[1])
    data = reports.read_folder(folder)
    assert list(data.tables) == ["toys"] and list(data.speech) == ["spoken"]
    models = open_models([text_model], data.texts)
    measured = reports.measure(models, data, tmp_path / "cache", speech=[str(tmp_path / "speech")], progress=False)
    with torch.no_grad():
        audio = [model(**extractor([wav(i)], return_tensors="pt")).sentence_embedding[0] for i in range(len(TEXTS))]
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (torch.stack(audio).numpy(), english)]
    wrong = 100 * np.mean((unit[0] @ unit[1].T).argmax(1) != np.arange(len(TEXTS)))
    table = measured["speech"]["spoken"][str(tmp_path / "speech")]
    assert [row["lang"] for row in table["rows"]] == ["eng_Latn", "fra_Latn"]
    assert [row["xsim"] for row in table["rows"]] == [wrong, wrong]  # the same audio for the same English
    assert table["rows"][0]["xsimpp"] >= wrong > 0 and table["rows"][0]["text_xsim"] == 0
    reports.write_report(measured, tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert f"<td>{wrong:.1f}</td>" in page.split("<h2>spoken: speech</h2>")[1]
    without = reports.measure(models, data, tmp_path / "cache", progress=False)
    assert any("spoken.parquet: no speech encoder" in line for line in without["skipped"])
    save_speech_encoder(tmp_path / "small", 8)
    with pytest.raises(ValueError, match=r"spoken.parquet.* embeddings of size 8 and .* of size"):
        reports.measure(models, data, tmp_path / "cache", speech=[str(tmp_path / "small")], progress=False)
    data.speech.clear()
    with pytest.raises(ValueError, match="add a Parquet file with audio, text, lang, english"):
        reports.measure(models, data, tmp_path / "cache", speech=[str(tmp_path / "speech")], progress=False)
