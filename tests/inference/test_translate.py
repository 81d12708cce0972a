"""`translate`: the text that transformers' `generate` writes, in the order of the input,
however it is batched."""

from importlib import import_module
from threading import Barrier, get_ident

import numpy as np
import pytest
import torch

from hf_echo.inference import encode, load_translator, translate

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def sentences(toy):
    """Columns of 64 held-out sentences of two languages, mixed, with their English."""
    return toy.dataset("dev")


@pytest.fixture(scope="module")
def texts(sentences):
    return sentences["source"][:]


@pytest.fixture(scope="module")
def langs(sentences):
    return sentences["source_lang"][:]


def generated(model, tokenizer, texts, langs, target="eng_Latn", **options):
    """What transformers' `generate` writes for one text at a time."""
    prompt = tokenizer.decoder_prompt_ids(target)
    translations = []
    for text, lang in zip(texts, langs, strict=True):
        batch = tokenizer(text, lang=lang, return_tensors="pt")
        start = torch.tensor([prompt])
        ids = model.generate(**batch, decoder_input_ids=start, do_sample=False, **options)
        translation = tokenizer.decode(ids[0, len(prompt) :], skip_special_tokens=True)
        translations.append(translation.strip())
    return translations


@pytest.mark.parametrize("batch_size", [7, 64])
def test_trained_greedy_is_generate(toy_trained, toy_tokenizer, texts, langs, batch_size):
    options = dict(max_new_tokens=30)

    translations = translate(
        toy_trained, toy_tokenizer, texts, langs, batch_size=batch_size, **options
    )

    assert translations == generated(toy_trained, toy_tokenizer, texts, langs, **options)


def test_a_trained_model_translates(toy_trained, toy_tokenizer, sentences, texts, langs):
    """Most of the held-out sentences, word for word."""
    translations = translate(toy_trained, toy_tokenizer, texts, langs, max_new_tokens=30)

    is_right = np.array(translations) == np.array(sentences["target"][:])
    assert is_right.mean() > 0.6


# `hf_echo.inference` has the function under this name
translate_module = import_module("hf_echo.inference.translate")


@pytest.fixture
def decoded(monkeypatch):
    """The number of texts of each batch that is decoded."""
    sizes = []
    decode = translate_module.decode_embeddings

    def noting(model, tokenizer, vectors, *args, **kwargs):
        sizes.append(len(vectors))
        return decode(model, tokenizer, vectors, *args, **kwargs)

    monkeypatch.setattr(translate_module, "decode_embeddings", noting)
    return sizes


@pytest.mark.parametrize(("batch_size", "texts_a_batch"), [(2, 1), (17, 4), (256, 12)])
def test_beams_are_rows(
    toy_trained, toy_tokenizer, texts, langs, decoded, batch_size, texts_a_batch
):
    """Three rows a text; a text is not divided."""
    arguments = (toy_trained, toy_tokenizer, texts[:12], langs[:12])
    options = dict(num_beams=3, max_new_tokens=20)

    translations = translate(*arguments, batch_size=batch_size, **options)

    assert max(decoded) == texts_a_batch
    assert sum(decoded) == 12
    assert translations == generated(*arguments, **options)


@pytest.fixture
def threads_of_batches(monkeypatch):
    """(thread, its number of cores) of each batch."""
    seen = set()
    decode = translate_module.decode_embeddings

    def noting(*args, **kwargs):
        seen.add((get_ident(), torch.get_num_threads()))
        return decode(*args, **kwargs)

    monkeypatch.setattr(translate_module, "decode_embeddings", noting)
    return seen


@pytest.fixture
def two_at_once(monkeypatch, threads_of_batches):
    """The first two batches wait for each other."""
    together = Barrier(2, timeout=60)
    decode = translate_module.decode_embeddings

    def waiting(*args, **kwargs):
        if not threads_of_batches:
            together.wait()
        return decode(*args, **kwargs)

    monkeypatch.setattr(translate_module, "decode_embeddings", waiting)


BEAMS = dict(num_beams=2, rerank_weight=1.0, max_new_tokens=20)


def test_batches_run_side_by_side_each_on_one_core(
    toy_trained, toy_tokenizer, texts, langs, two_threads, threads_of_batches, two_at_once
):
    arguments = (toy_trained, toy_tokenizer, texts[:24], langs[:24])

    translations = translate(*arguments, batch_size=8, **BEAMS)

    assert {cores for _, cores in threads_of_batches} == {1}
    assert torch.get_num_threads() == 2
    assert translations == translate(*arguments, **BEAMS)


def test_batches_of_a_model_with_hooks_run_one_after_the_other(
    toy_trained, toy_tokenizer, texts, langs, two_threads, threads_of_batches
):
    """As FSDP's, on all cores."""
    arguments = (toy_trained, toy_tokenizer, texts[:24], langs[:24])

    with toy_trained.register_forward_pre_hook(lambda *_: None):
        translations = translate(*arguments, batch_size=8, **BEAMS)

    assert threads_of_batches == {(get_ident(), 2)}
    assert translations == translate(*arguments, **BEAMS)


@pytest.mark.parametrize("container", [np.asarray, torch.from_numpy])
def test_embeddings_are_translated_as_their_texts(
    toy_trained, toy_tokenizer, texts, langs, container
):
    vectors = encode(toy_trained, toy_tokenizer, texts, langs)

    translations = translate(toy_trained, toy_tokenizer, container(vectors), batch_size=9)

    assert translations == translate(toy_trained, toy_tokenizer, texts, langs)


@pytest.fixture
def stage_one(toy, toy_tokenizer):
    """A model whose decoder reads the states of all tokens."""
    model = toy.make_model(toy_tokenizer, num_hidden_layers=2)
    model.bottleneck = False
    torch.manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    return model.eval()


@pytest.mark.parametrize("beams", [1, 2])
def test_a_decoder_of_token_states_reads_no_padding(stage_one, toy_tokenizer, texts, langs, beams):
    """Texts of different lengths stand in one batch; alone they have no padding."""
    lengthened = [text + " chat" * (number % 4) for number, text in enumerate(texts[:15])]
    arguments = (stage_one, toy_tokenizer, lengthened, langs[:15])
    options = dict(num_beams=beams, max_new_tokens=10)

    translations = translate(*arguments, batch_size=4, **options)

    assert translations == generated(*arguments, **options)
    assert len(set(translations)) > 5  # of 15: random weights still read their input; 15 over seeds


def test_a_decoder_of_token_states_reads_no_embeddings(stage_one, toy_tokenizer):
    with pytest.raises(ValueError, match="reads tokens, not sentence embeddings: give texts"):
        translate(stage_one, toy_tokenizer, np.ones((2, 32), np.float32))


def test_a_decoder_of_token_states_reads_no_split_texts(stage_one, toy_tokenizer):
    with pytest.raises(ValueError, match="needs a decoder of sentence embeddings"):
        translate(stage_one, toy_tokenizer, ["un"], on_long="split")


def test_long_texts_are_refused_on_request(stage_one, toy_tokenizer):
    with pytest.raises(ValueError, match="1 texts are longer than 64 tokens, the first is row 2"):
        translate(stage_one, toy_tokenizer, ["un", "un " * 80], on_long="error")


@pytest.mark.parametrize("nothing", [[], np.zeros((0, 32), np.float32)], ids=["texts", "vectors"])
def test_nothing_is_translated_to_nothing(toy_trained, toy_tokenizer, nothing):
    assert translate(toy_trained, toy_tokenizer, nothing) == []


def test_blank_texts_have_blank_translations(toy_trained, toy_tokenizer):
    translations = translate(toy_trained, toy_tokenizer, ["", " \u200b"], "fra_Latn")

    assert translations == ["", ""]


@pytest.mark.parametrize("kind", ["training", "release"])
def test_a_loaded_translator_translates_as_the_saved_one(
    toy_folders, toy_trained, toy_tokenizer, texts, langs, kind
):
    model, tokenizer = load_translator(toy_folders[kind], dtype="fp32")

    assert not model.training
    translations = translate(model, tokenizer, texts[:20], langs[:20])
    assert translations == translate(toy_trained, toy_tokenizer, texts[:20], langs[:20])
