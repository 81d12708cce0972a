"""`translate`: the text that transformers' `generate` writes, in the order of the input, however it is batched."""

from importlib import import_module
from threading import Barrier, get_ident

import numpy as np
import pytest
import torch

from hf_echo.inference import encode, load_translator, translate

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def sentences(toy):
    """(text, language, English) of 64 held-out sentences of two languages, mixed."""
    mixed = [(meaning, lang) for meaning in toy.split("dev") for lang in ("fra_Latn", "rus_Cyrl")]
    return [(toy.say(meaning, lang), lang, toy.say(meaning, "eng_Latn")) for meaning, lang in mixed]


def one_by_one(model, tokenizer, texts, langs, target="eng_Latn", **options):
    prompt = tokenizer.decoder_prompt_ids(target)
    out = []
    for text, lang in zip(texts, langs, strict=True):
        batch = tokenizer(text, lang=lang, return_tensors="pt")
        ids = model.generate(
            **batch, decoder_input_ids=torch.tensor([prompt]), do_sample=False, **options
        )
        out.append(tokenizer.decode(ids[0, len(prompt) :], skip_special_tokens=True).strip())
    return out


@pytest.mark.parametrize("batch_size", [7, 64])
def test_trained_greedy_is_generate(toy_trained, toy_tokenizer, sentences, batch_size):
    texts, langs, english = zip(*sentences, strict=True)
    have = translate(
        toy_trained, toy_tokenizer, texts, langs, max_new_tokens=30, batch_size=batch_size
    )
    assert have == one_by_one(toy_trained, toy_tokenizer, texts, langs, max_new_tokens=30)
    # and it is a translation
    assert np.mean([a == b for a, b in zip(have, english, strict=True)]) > 0.6


def test_untrained_greedy_is_generate(make_untrained, toy_tokenizer, sentences):
    model = make_untrained(0.3)  # so that the texts differ
    texts, langs, _ = zip(*sentences[:24], strict=True)
    have = translate(
        model, toy_tokenizer, texts, langs, "fra_Latn", max_new_tokens=15, batch_size=5
    )
    assert have == one_by_one(model, toy_tokenizer, texts, langs, "fra_Latn", max_new_tokens=15)
    assert len(set(have)) > 5  # of 24 texts; 13 and more over seeds


@pytest.mark.parametrize(("batch_size", "texts_a_batch"), [(2, 1), (17, 4), (256, 12)])
def test_beams_are_rows(
    toy_trained, toy_tokenizer, sentences, monkeypatch, batch_size, texts_a_batch
):
    texts, langs, _ = zip(*sentences[:12], strict=True)
    # `hf_echo.inference` has the function under this name
    module = import_module("hf_echo.inference.translate")
    options = dict(num_beams=3, max_new_tokens=20)
    seen = []
    decode = module.decode_embeddings

    def watched(model, tokenizer, vectors, *args, **kwargs):
        seen.append(len(vectors))
        return decode(model, tokenizer, vectors, *args, **kwargs)

    monkeypatch.setattr(module, "decode_embeddings", watched)
    have = translate(toy_trained, toy_tokenizer, texts, langs, batch_size=batch_size, **options)
    assert max(seen) == texts_a_batch
    assert sum(seen) == 12
    monkeypatch.undo()
    assert have == one_by_one(toy_trained, toy_tokenizer, texts, langs, **options)


def test_a_batch_a_core(toy_trained, toy_tokenizer, sentences, two_threads, monkeypatch):
    """Two batches at the same time, each on one core; a model with hooks (FSDP) runs one after the other."""
    texts, langs, _ = zip(*sentences[:24], strict=True)
    options = dict(num_beams=2, rerank_weight=1.0, max_new_tokens=20)
    module = import_module("hf_echo.inference.translate")
    decode = module.decode_embeddings
    seen = set()
    together = Barrier(2, timeout=60)
    one_batch = translate(toy_trained, toy_tokenizer, texts, langs, **options)

    def watched(*args, **kwargs):
        if not seen:
            together.wait()  # breaks unless two batches are under way at once
        seen.add((get_ident(), torch.get_num_threads()))
        return decode(*args, **kwargs)

    monkeypatch.setattr(module, "decode_embeddings", watched)
    assert translate(toy_trained, toy_tokenizer, texts, langs, batch_size=8, **options) == one_batch
    assert {threads for _, threads in seen} == {1}
    assert torch.get_num_threads() == 2
    seen.clear()
    together = Barrier(1)
    with toy_trained.register_forward_pre_hook(lambda *_: None):
        assert (
            translate(toy_trained, toy_tokenizer, texts, langs, batch_size=8, **options)
            == one_batch
        )
    assert seen == {(get_ident(), 2)}


def test_from_embeddings(toy_trained, toy_tokenizer, sentences):
    texts, langs, _ = zip(*sentences, strict=True)
    want = translate(toy_trained, toy_tokenizer, texts, langs)
    vectors = encode(toy_trained, toy_tokenizer, texts, langs)
    assert translate(toy_trained, toy_tokenizer, vectors, batch_size=9) == want
    assert translate(toy_trained, toy_tokenizer, torch.from_numpy(vectors)) == want


def test_stage_one(toy, toy_tokenizer, sentences):
    """Its decoder reads the states of all tokens: padding beside a short text must not be read."""
    model = toy.make_model(toy_tokenizer, num_hidden_layers=2)
    model.bottleneck = False
    torch.manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    model.eval()
    texts = [text + " chat" * (i % 4) for i, (text, _, _) in enumerate(sentences[:15])]
    langs = [lang for _, lang, _ in sentences[:15]]
    for beams in (1, 2):
        have = translate(
            model, toy_tokenizer, texts, langs, num_beams=beams, max_new_tokens=10, batch_size=4
        )
        assert have == one_by_one(
            model, toy_tokenizer, texts, langs, num_beams=beams, max_new_tokens=10
        )
    assert len(set(have)) > 5  # of 15: random weights still read their input; 15 over seeds
    with pytest.raises(ValueError, match="reads tokens, not sentence embeddings: give texts"):
        translate(model, toy_tokenizer, np.ones((2, 32), np.float32))
    with pytest.raises(ValueError, match="needs a decoder of sentence embeddings"):
        translate(model, toy_tokenizer, texts, langs, on_long="split")
    with pytest.raises(ValueError, match="1 texts are longer than 64 tokens, the first is row 2"):
        translate(model, toy_tokenizer, ["un", "un " * 80], on_long="error")


def test_empty_input(toy_trained, toy_tokenizer):
    assert translate(toy_trained, toy_tokenizer, []) == []
    assert translate(toy_trained, toy_tokenizer, np.zeros((0, 32), np.float32)) == []
    assert translate(toy_trained, toy_tokenizer, ["", " \u200b"], "fra_Latn", max_new_tokens=3) == [
        "",
        "",
    ]


@pytest.mark.parametrize("kind", ["training", "release"])
def test_load_translator(toy_folders, toy_trained, toy_tokenizer, sentences, kind):
    model, tokenizer = load_translator(toy_folders[kind], dtype="fp32")
    texts, langs, _ = zip(*sentences[:20], strict=True)
    assert not model.training
    assert translate(model, tokenizer, texts, langs) == translate(
        toy_trained, toy_tokenizer, texts, langs
    )
