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
    made = model.generate(sentence_embedding=embeddings, decoder_input_ids=prompts, **options)
    ends = model.config.decoder.eos_token_id
    rows = []
    # Each beam is embedded as text, and its cosine joins its score.
    for number, ids in enumerate(made.sequences[:, len(prompt) :].tolist()):
        ids = ids[: ids.index(ends)] if ends in ids else ids
        text = tokenizer.decode(ids, skip_special_tokens=True).strip()
        with torch.no_grad():
            inputs = tokenizer([text], lang="fra_Latn", return_tensors="pt")
            vector = (
                model.encoder(**inputs).sentence_embedding[0].numpy()
                if text
                else np.zeros(embeddings.shape[1])
            )
        own = embeddings[number // BEAMS].numpy()
        cosine = vector @ own / max(np.linalg.norm(vector) * np.linalg.norm(own), 1e-8)
        rows.append((made.sequences_scores[number].item() + weight * cosine, -number, ids))
    # The best of each sentence's beams; of equal ones the first.
    return [max(rows[start : start + BEAMS])[2] for start in range(0, len(rows), BEAMS)]


@pytest.mark.parametrize("weight", [0.0, 0.5, 20.0])
def test_the_beam_that_is_chosen(double, tokenizer, embeddings, weight):
    options = dict(num_beams=BEAMS, max_new_tokens=LENGTH)
    have = decode_embeddings(
        double, tokenizer, embeddings, "fra_Latn", rerank_weight=weight, **options
    )
    assert have == by_hand(double, tokenizer, embeddings, weight)
    if weight == 20:
        assert have != decode_embeddings(
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


def test_defaults_come_from_the_generation_config(model, tokenizer, batch, tmp_path):
    """They survive saving; a call can ask for others; greedy decoding has nothing to rerank."""
    model.save_release(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    folder = str(tmp_path)
    plain, tokenizer = load_translator(folder, dtype="fp32")
    texts = ["Le chat dort.", "Die Katze", "carpet"]
    # What the library writes with and without beams.
    greedy = translate(plain, tokenizer, texts, None, "fra_Latn", max_new_tokens=LENGTH)
    asked = dict(num_beams=BEAMS, rerank_weight=20.0, max_new_tokens=LENGTH)
    want = translate(plain, tokenizer, texts, None, "fra_Latn", **asked)
    assert want != greedy

    # The same settings in the configuration of the checkpoint.
    set_generation(plain.generation_config, {"num_beams": BEAMS, "rerank_weight": 20.0})
    plain.save_release(tmp_path)
    model, tokenizer = load_translator(folder, dtype="fp32")
    assert isinstance(model, EchoForTranslation)
    assert model.generation_config.rerank_weight == 20
    assert translate(model, tokenizer, texts, None, "fra_Latn", max_new_tokens=LENGTH) == want
    assert (
        translate(model, tokenizer, texts, None, "fra_Latn", num_beams=1, max_new_tokens=LENGTH)
        == greedy
    )
    # The pipeline reads them, too, and a call changes them.
    pipe = pipeline("sonar-translation", model=model, tokenizer=tokenizer)
    made = pipe(texts, tgt_lang="fra_Latn", max_new_tokens=LENGTH)
    assert [row["translation_text"] for row in made] == want
    made = pipe(texts, tgt_lang="fra_Latn", num_beams=1, rerank_weight=5.0, max_new_tokens=LENGTH)
    assert [row["translation_text"] for row in made] == greedy
    with pytest.raises(ValueError, match="rerank_weight belongs to an Echo decoder.*got do_sample"):
        pipe(texts, tgt_lang="fra_Latn", rerank_weight=1.0, do_sample=True)


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
