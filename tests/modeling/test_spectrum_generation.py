"""Encoded documents: caches against computing everything again, saving, scores,
sentence by sentence, bad input."""

import copy
from itertools import product

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model

from hf_echo.modeling.packing_spectrum import PackedDocument, Segment, pack

from .spectrum_toy import BOS, EOS, SIZE, VOCABULARY, embeddings, make_spectrum


@pytest.fixture(scope="module")
def model():
    return make_spectrum()


PROMPT = torch.tensor([[BOS, 7]])
GREEDY = dict(max_new_tokens=6, do_sample=False)
CLOSE = dict(atol=1e-5, rtol=0)


@torch.no_grad()
def written(model, vectors, prompt: list[int], tokens: int, *, prefix: int) -> list[int]:
    """Greedy text without any cache: the whole model for each token;
    `prefix` sentences are read in both directions."""
    ids = list(prompt)
    for _ in range(tokens):
        segment = Segment([*ids, EOS], 1, len(vectors) + 1)
        document = PackedDocument(vectors, prefix=prefix, segments=[segment])
        logits = model(**pack([document])).logits
        ids.append(int(logits[0, -1].argmax()))
        if ids[-1] == EOS:
            break
    return ids


@pytest.fixture(scope="module")
def document(model):
    return model.encode_document(embeddings(4))


@pytest.mark.parametrize("prompt", [[BOS, 7], [BOS, 9, 11, 3]])
def test_greedy_text_with_caches_is_the_text_without(model, document, prompt):
    ids = model.generate(document, torch.tensor([prompt]), **GREEDY)
    assert ids[0].tolist() == written(model, embeddings(4), prompt, 6, prefix=4)


def test_many_prompts_of_one_document_equal_one_by_one(model, document):
    """The second prompt is padded on the left."""
    prompts = torch.tensor([[BOS, 7, 8], [0, BOS, 9]])
    mask = torch.tensor([[1, 1, 1], [0, 1, 1]])

    together = model.generate(document, prompts, mask, **GREEDY)

    first = model.generate(document, prompts[:1], **GREEDY)[0]
    second = model.generate(document, prompts[1:, 1:], **GREEDY)[0]
    assert torch.equal(together[0, : len(first)], first)
    assert torch.equal(together[1, 1 : 1 + len(second)], second)


def test_generation_leaves_the_document_as_it_was(model, document):
    before = [keys.clone() for keys, _ in document.cross]

    model.generate(document, torch.tensor([[BOS, 7, 8], [BOS, 4, 9]]), **GREEDY)

    for keys, (keys_after, _) in zip(before, document.cross, strict=True):
        assert torch.equal(keys, keys_after)


def test_beams_find_the_most_likely_sequence(model, document):
    """The best of as many beams as there are sequences of two tokens."""
    words = range(3, VOCABULARY)
    options = [list(pair) for pair in product(words, words)]
    allowed = dict(suppress_tokens=[0, 1, 2], length_penalty=0.0, max_new_tokens=2)

    beam = model.generate(document, PROMPT, num_beams=VOCABULARY, **allowed)

    nll = model.score_options(document, [options], [[BOS, 7]])
    assert beam[0, 2:].tolist() == options[int(nll[0].argmin())]


def sampled(model, document) -> torch.Tensor:
    torch.manual_seed(0)
    options = dict(do_sample=True, num_return_sequences=4, max_new_tokens=5)
    return model.generate(document, PROMPT, **options)


def test_samples_follow_from_the_seed(model, document):
    samples = sampled(model, document)
    assert torch.equal(samples, sampled(model, document))
    assert len({tuple(row) for row in samples.tolist()}) > 1


@pytest.mark.parametrize("number", [0, 1])
def test_documents_of_different_length_in_one_batch(model, number):
    documents = [embeddings(4), embeddings(2, 9)]
    both = model.encode_document(documents)
    # The document by itself.
    alone = model.encode_document(documents[number])

    row = both.select(torch.tensor([number]))

    torch.testing.assert_close(row.next_embedding, alone.next_embedding, **CLOSE)
    ids = model.generate(row, PROMPT, **GREEDY)
    assert torch.equal(ids, model.generate(alone, PROMPT, **GREEDY))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_appending_sentences_equals_reading_them_at_once(model, bidirectional):
    """Causal after what was encoded: the last slots of a document with a prefix."""
    vectors = embeddings(5)

    document = model.encode_document(vectors[:3], bidirectional=bidirectional)
    for vector in vectors[3:]:
        document = model.append_sentences(document, vector[None])

    whole = PackedDocument(vectors, prefix=3 if bidirectional else 0)
    with torch.no_grad():
        output = model.tower(**pack([whole]))
        states = model.memory(output.last_hidden_state)
        keys = model.decoder.model.layers[1].cross_attn.k_proj(states)
    torch.testing.assert_close(document.states, states, **CLOSE)
    torch.testing.assert_close(document.next_embedding, output.next_embedding[:, -1], **CLOSE)
    kept_keys, _ = document.cross[1]  # (batch, heads, sentences, width of a head)
    torch.testing.assert_close(kept_keys.transpose(1, 2).flatten(2), keys, **CLOSE)


@torch.no_grad()
def cross_entropy(model, vectors, prompt: list[int], option: list[int]) -> torch.Tensor:
    """Sum over the tokens of an option, by the model's own loss."""
    segment = Segment([*prompt, *option], len(prompt), len(vectors) + 1)
    document = PackedDocument(vectors, prefix=len(vectors), segments=[segment])
    return model(**pack([document])).loss * len(option)


def test_scores_are_cross_entropies(model):
    documents = [embeddings(3), embeddings(2, 7)]
    prompts = [[BOS, 4], [BOS, 6, 8]]
    options = [[[5, 6, EOS], [9, EOS]], [[12, EOS], [10, 11, 12, EOS]]]

    scores = model.score_options(model.encode_document(documents), options, prompts)

    # Cross-entropy of each option, by the whole model without a cache.
    for row, column in np.ndindex(2, 2):
        expected = cross_entropy(model, documents[row], prompts[row], options[row][column])
        torch.testing.assert_close(scores[row, column], expected, atol=1e-4, rtol=0)


class Words:
    """Decodes ids as text; token 3 is a space, tokens from 4 letters."""

    def batch_decode(self, rows, skip_special_tokens):
        assert skip_special_tokens
        texts = []
        for row in rows.tolist():
            letters = [" " if number == 3 else chr(93 + number) for number in row if number > 2]
            texts.append("".join(letters))
        return texts


def encode(texts: list[str]) -> torch.Tensor:
    """A vector of each text, drawn by its letters."""
    return torch.cat([embeddings(1, seed=sum(map(ord, text))) for text in texts])


@pytest.mark.parametrize("row", [0, 1])
def test_sentence_by_sentence_equals_writing_each_from_the_beginning(model, row):
    documents = [embeddings(3), embeddings(1, 8)]
    encoded = model.encode_document(documents, bidirectional=False)

    steps = list(model.generate_sentences(encoded, encode, Words(), max_sentences=3, **GREEDY))

    assert 1 <= len(steps) <= 3
    # Every sentence is written by the whole model, from the beginning of the document.
    vectors = documents[row]
    for step in steps:
        ids = written(model, vectors, [BOS], 6, prefix=0)
        (text,) = Words().batch_decode(torch.tensor([ids[1:]]), skip_special_tokens=True)
        expected = text.strip() or None
        assert step[row] == expected
        if expected is None:
            break
        vectors = torch.cat([vectors, encode([expected])])


@pytest.fixture
def ending():
    """(model that ends the second of two documents at once, the documents,
    numbers of rows of its calls)"""
    model = make_spectrum()
    documents = model.encode_document([embeddings(3), embeddings(3, 8)], bidirectional=False)
    calls = []

    def generate(document, **options):
        calls.append(len(document))
        return torch.tensor([[BOS, 5, 6], [BOS, EOS, 0]])[: len(document)]

    model.generate = generate
    return model, documents, calls


def test_a_document_ends_with_an_empty_sentence(ending):
    """Its row is None; the other document continues."""
    model, documents, calls = ending
    steps = list(model.generate_sentences(documents, encode, Words(), max_sentences=2))
    assert steps == [["bc", None], ["bc", None]]
    assert calls == [2, 1]


def test_a_sentence_is_not_written_before_it_is_asked_for(ending):
    model, documents, calls = ending
    next(model.generate_sentences(documents, encode, Words(), max_sentences=50))
    assert calls == [2]


def test_an_embedding_that_is_no_number_is_refused(model):
    vectors = torch.zeros(2, SIZE)
    vectors[1, 0] = torch.nan
    with pytest.raises(ValueError, match="embedding of row 2 holds NaN"):
        model.encode_document(vectors)


def test_a_tower_without_boe_is_refused():
    model = make_spectrum()
    model.tower.boe.zero_()
    with pytest.raises(ValueError, match="the tower has no BOE"):
        model.encode_document(embeddings(1))


def test_a_document_that_is_too_long_is_refused(model):
    with pytest.raises(ValueError, match="1 has 10,001 sentences, the limit is 10,000: split it"):
        model.encode_document(torch.ones(10_001, SIZE))


# LoRA


@pytest.fixture(scope="module")
def trained():
    """(model with adapters in both parts after three steps, weights before them, losses)"""
    # self-attention of both, cross-attention of the decoder
    targets = ["q_proj", "k_proj", "v_proj", "o_proj"]
    torch.manual_seed(3)
    config = LoraConfig(r=2, lora_alpha=8, target_modules=targets)
    model = get_peft_model(make_spectrum(), config)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    ids = torch.tensor([[BOS, 5, 6, 7, 8]])
    inputs = dict(embeddings=embeddings(3)[None], input_ids=ids[:, :-1], labels=ids[:, 1:])
    losses = []
    for _ in range(3):
        loss = model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model.eval(), before, losses


@pytest.mark.trains
def test_adapters_of_both_parts_learn(trained):
    model, before, losses = trained
    assert losses[-1] < losses[0]
    weights = model.named_parameters()
    moved = [name for name, weight in weights if not torch.equal(weight, before[name])]
    assert all("lora_" in name for name in moved)
    assert {name.split(".")[2] for name in moved} == {"tower", "decoder"}


def scores_of(model) -> torch.Tensor:
    document = model.encode_document(embeddings(4))
    return model.score_options(document, [[[5, 6], [9, 9]]], [[BOS, 7]])


@pytest.mark.trains
def test_saved_adapters_score_as_before(trained, tmp_path):
    model, _, _ = trained
    model.save_pretrained(tmp_path)
    opened = PeftModel.from_pretrained(make_spectrum(), tmp_path).eval()
    torch.testing.assert_close(scores_of(opened), scores_of(model))


@pytest.mark.trains
def test_merged_adapters_score_as_before(trained):
    model = copy.deepcopy(trained[0])
    expected = scores_of(model)
    merged = model.merge_and_unload()
    torch.testing.assert_close(scores_of(merged), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.trains
def test_merged_adapters_write_as_before(trained):
    model = copy.deepcopy(trained[0])
    document = model.encode_document(embeddings(4))
    expected = model.generate(document, PROMPT, **GREEDY)
    merged = model.merge_and_unload()
    assert torch.equal(merged.generate(document, PROMPT, **GREEDY), expected)
