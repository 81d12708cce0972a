"""Cosines of pairs against `encode`, one text at a time."""

import pickle

import numpy as np
import pytest

from hf_echo.inference import EchoScorer, encode, load_encoder
from hf_echo.inference import scorer as module

pytestmark = pytest.mark.trains


@pytest.fixture
def pairs(toy):
    """Columns of 30 rows, and five of them twice."""
    columns = toy.dataset()[[*range(30), *range(5)]]
    return [columns[name] for name in ("source", "target", "source_lang", "target_lang")]


def test_scores_are_cosines(toy_folders, pairs):
    """Also after a journey to another process."""
    folder = str(toy_folders["training"])
    scorer = pickle.loads(pickle.dumps(EchoScorer(folder, dtype="fp32", batch=8)))

    scores = scorer(*pairs)

    model, tokenizer = load_encoder(folder, dtype="fp32")
    expected = []
    for source, target, source_lang, target_lang in zip(*pairs, strict=True):
        x = encode(model, tokenizer, [source], source_lang, normalize=True)
        y = encode(model, tokenizer, [target], target_lang, normalize=True)
        expected.append(float(x[0] @ y[0]))
    np.testing.assert_allclose(scores, expected, atol=2e-5)


def test_no_pair_has_no_score(toy_folders):
    scores = EchoScorer(str(toy_folders["training"]))([], [], [], [])

    assert scores.shape == (0,)


def test_each_text_is_embedded_once(toy_folders, pairs, monkeypatch):
    seen = []
    open_encoder = module.open_encoder

    def open_counting_encoder(*args, **options):
        encoder = open_encoder(*args, **options)

        def encode_texts(texts, lang):
            seen.extend((text, lang) for text in texts)
            return encoder(texts, lang)

        return encode_texts

    monkeypatch.setattr(module, "open_encoder", open_counting_encoder)
    EchoScorer(str(toy_folders["training"]))(*pairs)

    sources, targets, source_langs, target_langs = pairs
    texts = {*zip(sources, source_langs), *zip(targets, target_langs)}
    assert sorted(seen) == sorted(texts)


def test_columns_of_different_lengths_are_refused(toy_folders):
    scorer = EchoScorer(str(toy_folders["training"]))
    with pytest.raises(ValueError, match="columns have 2, 1 rows"):
        scorer(["a", "b"], ["c"], "fra_Latn", ["eng_Latn"])


def test_a_folder_that_does_not_exist_is_refused():
    with pytest.raises(FileNotFoundError, match="no folder /no/model"):
        EchoScorer("/no/model")(["a"], ["b"], ["fra_Latn"], ["eng_Latn"])


def test_a_file_is_no_checkpoint(tmp_path):
    file = tmp_path / "model.txt"
    file.write_text("no model")
    with pytest.raises(FileNotFoundError, match="model.txt is a file; give a checkpoint's folder"):
        EchoScorer(str(file))(["a"], ["b"], ["fra_Latn"], ["eng_Latn"])


def test_a_folder_without_configuration_is_no_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no config.json: give the folder"):
        EchoScorer(str(tmp_path))(["a"], ["b"], ["fra_Latn"], ["eng_Latn"])
