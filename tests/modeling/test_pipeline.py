"""pipeline("sonar-translation"): texts or embeddings in,
translations out (without hf_echo: test_ways_in.py)."""

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
def by_library(toy_trained, toy_tokenizer):
    """The translations of `hf_echo.inference`, which other tests compare with `generate`."""

    def of(langs, target="eng_Latn", **options):
        return translate(toy_trained, toy_tokenizer, TEXTS, langs, target, **options)

    return of


def texts_of(rows):
    assert all(set(row) == {"translation_text"} for row in rows)
    return [row["translation_text"] for row in rows]


BEAMS = dict(num_beams=2, max_new_tokens=15)


@pytest.fixture(params=["training", "release"])
def pipe_of_kind(request, toy_folders):
    folder = str(toy_folders[request.param])
    return pipeline("sonar-translation", model=folder, device="cpu")


def test_one_text_gives_one_translation(pipe_of_kind):
    translation = texts_of(pipe_of_kind(TEXTS[0], src_lang="fra_Latn", tgt_lang="eng_Latn"))
    assert translation == ["one red cat sleeps."]


@pytest.mark.parametrize(
    "langs, options",
    [
        ("fra_Latn", {}),
        (LANGUAGES, {}),
        (LANGUAGES, {"batch_size": 3}),
        ("fra_Latn", BEAMS),
    ],
)
def test_texts_are_translated_as_by_the_library(pipe_of_kind, by_library, langs, options):
    translations = texts_of(pipe_of_kind(TEXTS, src_lang=langs, **options))
    assert translations == by_library(langs, **options)


def test_another_target_language(pipe_of_kind, by_library):
    rows = pipe_of_kind(TEXTS, src_lang=LANGUAGES, tgt_lang="fra_Latn", **BEAMS)
    assert texts_of(rows) == by_library(LANGUAGES, "fra_Latn", **BEAMS)


def test_a_generator_of_texts(pipe_of_kind, by_library):
    rows = pipe_of_kind((text for text in TEXTS), src_lang="fra_Latn")
    assert texts_of(list(rows)) == by_library("fra_Latn")


def test_embeddings_are_translated_as_by_the_library(pipe_of_kind, toy_trained, toy_tokenizer):
    vectors = encode(toy_trained, toy_tokenizer, TEXTS, LANGUAGES)
    translations = texts_of(pipe_of_kind(vectors))
    assert translations == translate(toy_trained, toy_tokenizer, vectors)


@pytest.fixture
def new_encoder(toy, toy_tokenizer, toy_trained, tmp_path):
    """OS 4.7: (a release of a new encoder with a new vocabulary and the decoder of the old one with
    its own, what this decoder says to the encoder's vectors)"""
    sentences = [toy.say(meaning, "eng_Latn") for meaning in toy.split("train")]
    new_tokenizer = train_tokenizer(sentences, 330, max_length=64, progress=False)
    assert len(new_tokenizer) != len(toy_tokenizer)
    encoder = toy.make_model(new_tokenizer, seed=3).encoder.eval()
    model = EchoForTranslation.from_parts(encoder, toy_trained.decoder)
    model.save_release(tmp_path)
    new_tokenizer.save_pretrained(tmp_path)
    toy_tokenizer.save_pretrained(tmp_path / "decoder")

    # The old model translates the vectors of the new encoder; an empty text stays empty.
    with torch.no_grad():
        batch = new_tokenizer(TEXTS, lang=LANGUAGES, padding=True, return_tensors="pt")
        vectors = encoder(**batch).sentence_embedding
    expected = translate(toy_trained, toy_tokenizer, vectors)
    for row, text in enumerate(TEXTS):
        if not text:
            expected[row] = ""
    assert any(expected)
    return tmp_path, expected


def test_the_library_opens_a_decoder_with_a_tokenizer_of_its_own(new_encoder):
    folder, expected = new_encoder

    model, tokenizer = load_translator(folder, device="cpu", dtype="fp32")

    assert translate(model, tokenizer, TEXTS, LANGUAGES) == expected


def test_the_pipeline_opens_a_decoder_with_a_tokenizer_of_its_own(new_encoder):
    folder, expected = new_encoder

    pipe = pipeline("sonar-translation", model=str(folder), device="cpu", dtype=torch.float32)

    assert texts_of(pipe(TEXTS, src_lang=LANGUAGES)) == expected


@pytest.fixture(scope="module")
def many(toy, toy_trained, toy_tokenizer) -> tuple[list[str], list[str | None], list[str]]:
    """(texts, their languages, translations by the library in one call)"""
    texts = []
    for meaning in toy.split("dev"):
        texts += [toy.say(meaning, "fra_Latn"), toy.say(meaning, "rus_Cyrl")]
    langs = ["fra_Latn", "rus_Cyrl"] * (len(texts) // 2)
    texts += ["", "un"]
    langs += [None, "fra_Latn"]
    translations = translate(toy_trained, toy_tokenizer, texts, langs)
    assert len(set(translations)) > 20
    return texts, langs, translations


@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_many_texts_keep_their_order(pipe, many, batch_size):
    texts, langs, expected = many
    assert texts_of(pipe(texts, src_lang=langs, batch_size=batch_size)) == expected


@pytest.mark.parametrize(
    "container", [np.asarray, torch.from_numpy, lambda vectors: vectors.astype(np.float64)]
)
def test_many_embeddings_keep_their_order(pipe, many, toy_trained, toy_tokenizer, container):
    texts, langs, _ = many
    vectors = encode(toy_trained, toy_tokenizer, texts, langs)
    expected = translate(toy_trained, toy_tokenizer, vectors)
    assert texts_of(pipe(container(vectors), batch_size=9)) == expected


def test_one_embedding_gives_one_translation(pipe, many, toy_trained, toy_tokenizer):
    texts, langs, expected = many
    vectors = encode(toy_trained, toy_tokenizer, texts[:4], langs[:4])
    assert texts_of(pipe(vectors[3])) == [expected[3]]


def test_texts_may_name_their_language_themselves(pipe, many):
    texts, langs, expected = many
    rows = ({"text": text, "lang": lang} for text, lang in zip(texts, langs, strict=True))
    assert texts_of(list(pipe(rows))) == expected


def test_defaults_at_construction(toy_folders, by_library):
    pipe = pipeline(
        "sonar-translation",
        model=str(toy_folders["release"]),
        src_lang="fra_Latn",
        tgt_lang="fra_Latn",
    )
    assert texts_of(pipe(TEXTS)) == by_library("fra_Latn", "fra_Latn")
    assert texts_of(pipe(TEXTS, tgt_lang="eng_Latn")) == by_library("fra_Latn")


def test_sampling_goes_through_generate(pipe):
    torch.manual_seed(0)
    translations = [
        texts_of(pipe(TEXTS[0], src_lang="fra_Latn", do_sample=True, temperature=5.0))[0]
        for _ in range(4)
    ]
    assert len(set(translations)) > 1


def written(pipe, **options) -> list[str]:
    return texts_of(pipe(TEXTS, src_lang=LANGUAGES, **options))


def test_max_new_tokens_shorten_what_is_written(pipe):
    assert written(pipe, max_new_tokens=3) != written(pipe)


def test_max_length_counts_the_prompt(pipe, toy_tokenizer):
    prompt = len(toy_tokenizer.decoder_prompt_ids("eng_Latn"))
    assert written(pipe, max_length=prompt + 3) == written(pipe, max_new_tokens=3)


def test_texts_may_be_a_tuple(pipe):
    assert texts_of(pipe(tuple(TEXTS), src_lang=LANGUAGES)) == written(pipe)


def test_a_generation_config_replaces_the_models(pipe):
    config = copy.deepcopy(pipe.model.generation_config)
    config.max_new_tokens = 3
    assert written(pipe, generation_config=config) == written(pipe, max_new_tokens=3)


def test_nothing_is_translated_as_nothing(pipe, toy_trained, toy_tokenizer):
    texts = ["", TEXTS[0], " \u200b\ufeff \n"]
    translations = texts_of(pipe(texts, src_lang="fra_Latn"))
    assert translations == ["", texts_of(pipe(TEXTS[0], src_lang="fra_Latn"))[0], ""]
    assert translate(toy_trained, toy_tokenizer, texts, "fra_Latn") == translations
    assert texts_of(pipe("")) == [""]
    assert pipe([]) == []
    assert pipe([], src_lang=[]) == []
    assert pipe(np.zeros((0, 32))) == []


@pytest.fixture
def stage_one(toy, toy_tokenizer):
    """A model of stage 1, whose decoder reads the states of all tokens."""
    model = toy.make_model(toy_tokenizer).eval()
    model.bottleneck = False
    return model


@pytest.fixture
def stage_one_pipe(stage_one, toy_tokenizer):
    return pipeline("sonar-translation", model=stage_one, tokenizer=toy_tokenizer, device="cpu")


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_model_of_stage_one_translates_as_by_the_library(
    stage_one, stage_one_pipe, toy_tokenizer, batch_size
):
    expected = translate(stage_one, toy_tokenizer, TEXTS, LANGUAGES, max_new_tokens=6)

    rows = stage_one_pipe(TEXTS, src_lang=LANGUAGES, batch_size=batch_size, max_new_tokens=6)

    assert texts_of(rows) == expected


def test_an_empty_text_stays_empty_in_stage_one(stage_one, toy_tokenizer):
    expected = translate(stage_one, toy_tokenizer, TEXTS, LANGUAGES, max_new_tokens=6)

    translations = translate(
        stage_one, toy_tokenizer, [" ", *TEXTS], [None, *LANGUAGES], max_new_tokens=6
    )

    assert translations == ["", *expected]


def test_a_model_of_stage_one_reads_no_embeddings(stage_one_pipe):
    with pytest.raises(ValueError, match="its decoder reads tokens, not sentence embeddings"):
        stage_one_pipe(np.ones((2, 32), np.float32))


def test_long_texts(pipe, toy_trained, toy_tokenizer, caplog):
    texts = ["un chat rouge dort. " * 20, "deux chien"]
    with caplog.at_level("WARNING"):
        assert len(pipe(texts, src_lang="fra_Latn")) == 2
    assert "texts are longer than 64 tokens and were cut" in caplog.text
    with pytest.raises(ValueError, match="longer than 64 tokens"):
        pipe(texts, src_lang="fra_Latn", on_long="error")
    for batch_size in (1, 2):
        translations = texts_of(
            pipe(texts, src_lang="fra_Latn", on_long="split", batch_size=batch_size)
        )
        assert translations == translate(
            toy_trained, toy_tokenizer, texts, "fra_Latn", on_long="split"
        )
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
