"""pipeline("sonar-translation"): texts or embeddings in, translations out (without hf_echo:
test_ways_in.py)."""

import copy

import numpy as np
import pytest
import torch
from transformers import pipeline

import hf_echo  # noqa: F401  (registers the pipeline)
from hf_echo.inference import encode, load_translator, translate
from hf_echo.modeling import EchoForTranslation
from hf_echo.vocabulary import train_tokenizer

TEXTS = ["un chat rouge dort.", "deux chien bleu mange.", "", "quatre poisson vieux attend."]
LANGUAGES = ["fra_Latn", None, "rus_Cyrl", "fra_Latn"]


@pytest.fixture(scope="module")
def pipe(toy_folders):
    return pipeline("sonar-translation", model=str(toy_folders["release"]), device="cpu")


@pytest.fixture(scope="module")
def want(toy_trained, toy_tokenizer):
    """The translations of `hf_echo.inference`, which other tests compare with `generate`."""

    def of(langs, target="eng_Latn", **options):
        return translate(toy_trained, toy_tokenizer, TEXTS, langs, target, **options)

    return of


def texts_of(rows):
    assert all(set(row) == {"translation_text"} for row in rows)
    return [row["translation_text"] for row in rows]


@pytest.mark.parametrize("kind", ["training", "release"])
def test_all_forms(toy_folders, toy_trained, toy_tokenizer, want, kind):
    pipe = pipeline("sonar-translation", model=str(toy_folders[kind]), device="cpu")
    french = want("fra_Latn")
    vectors = encode(toy_trained, toy_tokenizer, TEXTS, LANGUAGES)
    beams = dict(num_beams=2, max_new_tokens=15)
    # Each way to call, and the library's translation of the same texts.
    for have, expected in (
        (pipe(TEXTS[0], src_lang="fra_Latn", tgt_lang="eng_Latn"), french[:1]),
        (pipe(TEXTS, src_lang="fra_Latn", tgt_lang="eng_Latn"), french),
        (list(pipe((text for text in TEXTS), src_lang="fra_Latn")), french),
        (pipe(TEXTS, src_lang=LANGUAGES), want(LANGUAGES)),
        (pipe(TEXTS, src_lang=LANGUAGES, batch_size=3), want(LANGUAGES)),
        (pipe(vectors), translate(toy_trained, toy_tokenizer, vectors)),
        (pipe(TEXTS, src_lang="fra_Latn", **beams), want("fra_Latn", **beams)),
        (
            pipe(TEXTS, src_lang=LANGUAGES, tgt_lang="fra_Latn", **beams),
            want(LANGUAGES, "fra_Latn", **beams),
        ),
    ):
        assert texts_of(have) == expected
    assert french[0] == "one red cat sleeps."


def test_a_decoder_with_a_tokenizer_of_its_own(toy, toy_tokenizer, toy_trained, tmp_path):
    """OS 4.7: a new encoder with a new vocabulary, and the decoder of the old one with its own."""
    other = train_tokenizer(
        [toy.say(m, "eng_Latn") for m in toy.split("train")], 330, max_length=64, progress=False
    )
    encoder = toy.make_model(other, seed=3).encoder.eval()
    model = EchoForTranslation.from_parts(encoder, toy_trained.decoder)
    model.save_release(tmp_path)
    other.save_pretrained(tmp_path)
    toy_tokenizer.save_pretrained(tmp_path / "decoder")
    # The old model translates the vectors of the new encoder; an empty text stays empty.
    with torch.no_grad():
        batch = other(TEXTS, lang=LANGUAGES, padding=True, return_tensors="pt")
        vectors = encoder(**batch).sentence_embedding
    want = [
        text and said
        for text, said in zip(TEXTS, translate(toy_trained, toy_tokenizer, vectors), strict=True)
    ]
    assert len(other) != len(toy_tokenizer)
    assert any(want)
    opened, tokenizer = load_translator(tmp_path, device="cpu", dtype="fp32")
    # The saved release, by the library and by the pipeline.
    assert translate(opened, tokenizer, TEXTS, LANGUAGES) == want
    by_name = pipeline("sonar-translation", model=str(tmp_path), device="cpu", dtype=torch.float32)
    assert texts_of(by_name(TEXTS, src_lang=LANGUAGES)) == want


def test_many_rows_keep_their_order(pipe, toy, toy_trained, toy_tokenizer):
    sentences = [
        toy.say(m, lang) for m in toy.split("dev") for lang in ("fra_Latn", "rus_Cyrl")
    ] + ["", "un"]
    langs = ["fra_Latn", "rus_Cyrl"] * 32 + [None, "fra_Latn"]
    expected = translate(toy_trained, toy_tokenizer, sentences, langs)
    assert len(set(expected)) > 20
    # The library translates all rows in one call.
    for batch_size in (1, 5, 64):
        assert texts_of(pipe(sentences, src_lang=langs, batch_size=batch_size)) == expected
    vectors = encode(toy_trained, toy_tokenizer, sentences, langs)
    for rows in (vectors, torch.from_numpy(vectors), vectors.astype(np.float64)):
        assert texts_of(pipe(rows, batch_size=9)) == translate(toy_trained, toy_tokenizer, vectors)
    assert texts_of(pipe(vectors[3])) == expected[3:4]
    dicts = [{"text": text, "lang": lang} for text, lang in zip(sentences, langs, strict=True)]
    assert texts_of(list(pipe(row for row in dicts))) == expected


def test_defaults_at_construction(toy_folders, want):
    pipe = pipeline(
        "sonar-translation",
        model=str(toy_folders["release"]),
        src_lang="fra_Latn",
        tgt_lang="fra_Latn",
    )
    assert texts_of(pipe(TEXTS)) == want("fra_Latn", "fra_Latn")
    assert texts_of(pipe(TEXTS, tgt_lang="eng_Latn")) == want("fra_Latn")


def test_sampling_goes_through_generate(pipe):
    torch.manual_seed(0)
    found = [
        texts_of(pipe(TEXTS[0], src_lang="fra_Latn", do_sample=True, temperature=5.0))[0]
        for _ in range(4)
    ]
    assert len(set(found)) > 1


def test_lengths_of_generate(pipe, toy_tokenizer):
    """`max_length` counts the prompt; a generation config replaces the model's."""
    prompt = len(toy_tokenizer.decoder_prompt_ids("eng_Latn"))
    want = texts_of(pipe(TEXTS, src_lang=LANGUAGES, max_new_tokens=3))
    assert want != texts_of(pipe(TEXTS, src_lang=LANGUAGES))
    assert texts_of(pipe(tuple(TEXTS), src_lang=LANGUAGES, max_length=prompt + 3)) == want
    config = copy.deepcopy(pipe.model.generation_config)
    config.max_new_tokens = 3
    assert texts_of(pipe(TEXTS, src_lang=LANGUAGES, generation_config=config)) == want


def test_nothing_is_translated_as_nothing(pipe, toy_trained, toy_tokenizer):
    texts = ["", TEXTS[0], " \u200b\ufeff \n"]
    have = texts_of(pipe(texts, src_lang="fra_Latn"))
    assert have == ["", texts_of(pipe(TEXTS[0], src_lang="fra_Latn"))[0], ""]
    assert translate(toy_trained, toy_tokenizer, texts, "fra_Latn") == have
    assert texts_of(pipe("")) == [""]
    assert pipe([]) == []
    assert pipe([], src_lang=[]) == []
    assert pipe(np.zeros((0, 32))) == []


def test_stage_one(toy, toy_tokenizer):
    model = toy.make_model(toy_tokenizer).eval()
    model.bottleneck = False
    pipe = pipeline("sonar-translation", model=model, tokenizer=toy_tokenizer, device="cpu")
    options = dict(max_new_tokens=6)
    for batch_size in (1, 3):
        have = texts_of(pipe(TEXTS, src_lang=LANGUAGES, batch_size=batch_size, **options))
        assert have == translate(model, toy_tokenizer, TEXTS, LANGUAGES, **options)
    assert translate(model, toy_tokenizer, [" ", *TEXTS], [None, *LANGUAGES], **options) == [
        "",
        *have,
    ]
    with pytest.raises(ValueError, match="its decoder reads tokens, not sentence embeddings"):
        pipe(np.ones((2, 32), np.float32))


def test_long_texts(pipe, toy_trained, toy_tokenizer, caplog):
    texts = ["un chat rouge dort. " * 20, "deux chien"]
    with caplog.at_level("WARNING"):
        assert len(pipe(texts, src_lang="fra_Latn")) == 2
    assert "texts are longer than 64 tokens and were cut" in caplog.text
    with pytest.raises(ValueError, match="longer than 64 tokens"):
        pipe(texts, src_lang="fra_Latn", on_long="error")
    for batch_size in (1, 2):
        have = texts_of(pipe(texts, src_lang="fra_Latn", on_long="split", batch_size=batch_size))
        assert have == translate(toy_trained, toy_tokenizer, texts, "fra_Latn", on_long="split")
    assert pipe.tokenizer.on_long == "warn"


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        (["un", "deux"], {"src_lang": ["fra_Latn"]}, "2 texts but 1 languages"),
        (["un"], {"tgt_lang": ["fra_Latn"]}, "tgt_lang is one code for all"),
        (
            ["un"],
            {"source_lang": "fra_Latn", "target_lang": "eng_Latn"},
            "calls its languages src_lang and tgt_lang",
        ),
        (["un"], {"num_return_sequences": 2, "num_beams": 2}, "one translation per text"),
        (["ok", None], {}, "text in row 2 is NoneType"),
        ([{"text": 3}], {}, "takes texts or embeddings, not int"),
        (np.ones((1, 31), np.float32), {}, r"was given \(1, 1, 31\)"),
    ],
)
def test_wrong_arguments(pipe, inputs, options, message):
    with pytest.raises(ValueError, match=message):
        pipe(inputs, **options)
