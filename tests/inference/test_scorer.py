"""Cosines of pairs against `encode`, one text at a time."""

import pickle

import numpy as np
import pytest

from hf_echo.inference import EchoScorer, encode, load_encoder
from hf_echo.inference import scorer as module

pytestmark = pytest.mark.trains


@pytest.fixture
def pairs(toy):
    table = toy.dataset()[:30]
    columns = [table[c] for c in ("source", "target", "source_lang", "target_lang")]
    return [column + column[:5] for column in columns]  # five rows twice


def test_scores_are_cosines(toy_folders, pairs):
    model, tokenizer = load_encoder(toy_folders["training"], dtype="fp32")
    sides = [(pairs[0], pairs[2]), (pairs[1], pairs[3])]
    x, y = ([encode(model, tokenizer, [t], lang)[0] for t, lang in zip(*side)] for side in sides)
    expected = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(x, y)]
    scorer = pickle.loads(
        pickle.dumps(EchoScorer(str(toy_folders["training"]), dtype="fp32", batch=8))
    )
    np.testing.assert_allclose(scorer(*pairs), expected, atol=2e-5)
    assert scorer([], [], [], []).shape == (0,)


def test_each_text_is_embedded_once(toy_folders, pairs, monkeypatch):
    seen = []
    original = module.open_encoder

    def counting(*args, **options):
        encoder = original(*args, **options)
        return lambda texts, lang: (seen.extend((t, lang) for t in texts), encoder(texts, lang))[1]

    monkeypatch.setattr(module, "open_encoder", counting)
    EchoScorer(str(toy_folders["training"]))(*pairs)
    assert len(seen) == len(set(seen)) == len({*zip(pairs[0], pairs[2]), *zip(pairs[1], pairs[3])})
    with pytest.raises(ValueError, match="columns have 2, 1 rows"):
        EchoScorer(str(toy_folders["training"]))(["a", "b"], ["c"], "fra_Latn", ["eng_Latn"])
    with pytest.raises(FileNotFoundError, match="no folder /no/model"):
        EchoScorer("/no/model")(["a"], ["b"], ["fra_Latn"], ["eng_Latn"])
