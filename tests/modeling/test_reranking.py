"""Reranked beams are what `generate`, the encoder and a cosine give by hand;
defaults of the generation config."""

import numpy as np
import pytest
import torch
from transformers import pipeline

from hf_echo.hub.release import set_generation
from hf_echo.inference import load_translator, translate
from hf_echo.modeling import EchoForTranslation
from hf_echo.modeling.reranking_echo import decode_embeddings, rerank_weight_of

BEAMS, LENGTH = 4, 8


@pytest.fixture
def double(make_model):
    return make_model().double()


@pytest.fixture
def embeddings(double, batch):
    with torch.no_grad():
        return double.encoder(**batch).sentence_embedding


def by_hand(model, tokenizer, embeddings, weight: float) -> list[list[int]]:
    """Beams and their scores of transformers' `generate`; each text is embedded alone."""
    prompt = tokenizer.decoder_prompt_ids("fra_Latn")
    options = dict(
        num_beams=BEAMS, num_return_sequences=BEAMS, max_new_tokens=LENGTH, do_sample=False
    )
    options |= dict(output_scores=True, return_dict_in_generate=True)
    prompts = torch.tensor([prompt] * len(embeddings))
    generated = model.generate(sentence_embedding=embeddings, decoder_input_ids=prompts, **options)
    ends = model.config.decoder.eos_token_id
    rows = []
    # Each beam is embedded as text, and its cosine joins its score.
    for number, ids in enumerate(generated.sequences[:, len(prompt) :].tolist()):
        if ends in ids:
            ids = ids[: ids.index(ends)]
        text = tokenizer.decode(ids, skip_special_tokens=True).strip()
        cosine = 0.0  # of an empty text
        if text:
            inputs = tokenizer([text], lang="fra_Latn", return_tensors="pt")
            with torch.no_grad():
                vector = model.encoder(**inputs).sentence_embedding[0].numpy()
            source_vector = embeddings[number // BEAMS].numpy()
            lengths = np.linalg.norm(vector) * np.linalg.norm(source_vector)
            cosine = vector @ source_vector / lengths
        rows.append((generated.sequences_scores[number].item() + weight * cosine, -number, ids))
    # The best of each sentence's beams; of equal ones the first.
    return [max(rows[start : start + BEAMS])[2] for start in range(0, len(rows), BEAMS)]


@pytest.mark.parametrize("weight", [0.0, 0.5, 20.0])
def test_the_beam_that_is_chosen(double, tokenizer, embeddings, weight):
    options = dict(num_beams=BEAMS, max_new_tokens=LENGTH)
    ids = decode_embeddings(
        double, tokenizer, embeddings, "fra_Latn", rerank_weight=weight, **options
    )
    assert ids == by_hand(double, tokenizer, embeddings, weight)
    if weight == 20:
        assert ids != decode_embeddings(
            double, tokenizer, embeddings, "fra_Latn", rerank_weight=0, **options
        )


def test_beams_do_not_depend_on_the_default_dtype(double, tokenizer, embeddings):
    options = dict(num_beams=BEAMS, max_new_tokens=LENGTH, rerank_weight=0.5)
    expected = decode_embeddings(double, tokenizer, embeddings, "fra_Latn", **options)

    torch.set_default_dtype(torch.bfloat16)
    try:
        ids = decode_embeddings(double, tokenizer, embeddings, "fra_Latn", **options)
    finally:
        torch.set_default_dtype(torch.float32)

    # The same call under the usual dtype.
    assert ids == expected


TO_FRENCH = (["Le chat dort.", "Die Katze", "carpet"], None, "fra_Latn")


@pytest.fixture
def with_defaults(model, tokenizer, tmp_path):
    """(translations of TO_FRENCH with beams, and greedy; a checkpoint that has the beams as its
    default; its tokenizer)"""
    model.save_release(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    plain, tokenizer = load_translator(str(tmp_path), dtype="fp32")
    options = dict(num_beams=BEAMS, rerank_weight=20.0)
    beams = translate(plain, tokenizer, *TO_FRENCH, max_new_tokens=LENGTH, **options)
    greedy = translate(plain, tokenizer, *TO_FRENCH, max_new_tokens=LENGTH)
    assert beams != greedy
    set_generation(plain.generation_config, options)
    plain.save_release(tmp_path)
    return beams, greedy, *load_translator(str(tmp_path), dtype="fp32")


def test_settings_are_saved_with_the_model(with_defaults):
    _, _, model, _ = with_defaults
    assert isinstance(model, EchoForTranslation)
    assert model.generation_config.rerank_weight == 20


def test_the_library_reads_the_settings_of_the_model(with_defaults):
    beams, _, model, tokenizer = with_defaults
    assert translate(model, tokenizer, *TO_FRENCH, max_new_tokens=LENGTH) == beams


def test_a_call_may_ask_for_greedy_decoding(with_defaults):
    """It has nothing to rerank."""
    _, greedy, model, tokenizer = with_defaults
    options = dict(num_beams=1, max_new_tokens=LENGTH)
    assert translate(model, tokenizer, *TO_FRENCH, **options) == greedy


@pytest.fixture
def by_pipeline(with_defaults):
    """by_pipeline(**options): the texts of TO_FRENCH, translated by the pipeline."""
    _, _, model, tokenizer = with_defaults
    texts, _, target = TO_FRENCH
    pipe = pipeline("sonar-translation", model=model, tokenizer=tokenizer)

    def call(**options):
        rows = pipe(texts, tgt_lang=target, max_new_tokens=LENGTH, **options)
        return [row["translation_text"] for row in rows]

    return call


def test_the_pipeline_reads_the_settings_of_the_model(with_defaults, by_pipeline):
    beams, _, _, _ = with_defaults
    assert by_pipeline() == beams


def test_a_call_of_the_pipeline_changes_the_settings(with_defaults, by_pipeline):
    _, greedy, _, _ = with_defaults
    assert by_pipeline(num_beams=1, rerank_weight=5.0) == greedy


def test_sampling_cannot_be_reranked(by_pipeline):
    with pytest.raises(ValueError, match="rerank_weight belongs to an Echo decoder.*got do_sample"):
        by_pipeline(rerank_weight=1.0, do_sample=True)


def test_wrong_weights(model):
    with pytest.raises(
        ValueError, match="rerank_weight is -1.0; it must be a number of at least 0"
    ):
        rerank_weight_of(model, -1.0)
    model.input_modalities = ("audio",)
    model.generation_config.rerank_weight = 3.0
    # a speech encoder cannot embed text: the default is left out
    assert rerank_weight_of(model, None) == 0
    with pytest.raises(ValueError, match="this model has a speech encoder"):
        rerank_weight_of(model, 1.0)
