"""Encoded documents: caches against computing everything again, saving, scores, sentence by sentence, bad input."""

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model

from hf_echo.modeling.packing_spectrum import PackedDocument, Segment, pack

from .spectrum_toy import BOS, EOS, SIZE, VOCABULARY, embeddings, make_spectrum


@pytest.fixture(scope="module")
def model():
    return make_spectrum()


def written(model, vectors, prompt, tokens, *, prefix=None):
    """Greedy text without any cache: the whole model for each token."""
    ids = list(prompt)
    prefix = len(vectors) if prefix is None else prefix
    for _ in range(tokens):
        segment = Segment([*ids, EOS], 1, len(vectors) + 1)
        with torch.no_grad():
            logits = model(
                **pack([PackedDocument(vectors, prefix=prefix, segments=[segment])])
            ).logits
        ids.append(int(logits[0, -1].argmax()))
        if ids[-1] == EOS:
            break
    return ids


def test_greedy_text_with_caches_is_the_text_without(model):
    document = model.encode_document(embeddings(4))
    for prompt in ([BOS, 7], [BOS, 9, 11, 3]):
        got = model.generate(document, torch.tensor([prompt]), max_new_tokens=8, do_sample=False)[
            0
        ].tolist()
        assert got == written(model, embeddings(4), prompt, 8)


def test_many_prompts_of_one_document_equal_one_by_one(model):
    document = model.encode_document(embeddings(4))
    prompts = torch.tensor([[BOS, 7, 8], [0, BOS, 9]])
    mask = torch.tensor([[1, 1, 1], [0, 1, 1]])
    together = model.generate(document, prompts, mask, max_new_tokens=6, do_sample=False)
    first = model.generate(document, prompts[:1], max_new_tokens=6, do_sample=False)
    second = model.generate(document, prompts[1:, 1:], max_new_tokens=6, do_sample=False)
    assert together[0].tolist()[: first.shape[1]] == first[0].tolist()
    assert together[1, 1:].tolist()[: second.shape[1]] == second[0].tolist()


def test_generation_leaves_the_document_as_it_was(model):
    document = model.encode_document(embeddings(4))
    before = [keys.clone() for keys, _ in document.cross]
    prompts = torch.tensor([[BOS, 7, 8], [BOS, 4, 9]])
    model.generate(document, prompts, max_new_tokens=6, do_sample=False)
    assert all(torch.equal(was, keys) for was, (keys, _) in zip(before, document.cross))


def test_beams_find_the_most_likely_sequence(model):
    """The best of as many beams as there are sequences of two tokens."""
    document = model.encode_document(embeddings(3))
    prompt = torch.tensor([[BOS, 7]])
    options = [[i, j] for i in range(3, VOCABULARY) for j in range(3, VOCABULARY)]
    allowed = dict(suppress_tokens=[0, 1, 2], length_penalty=0.0)
    beam = model.generate(document, prompt, num_beams=VOCABULARY, max_new_tokens=2, **allowed)
    nll = model.score_options(document, [options], [[BOS, 7]])
    assert beam[0, 2:].tolist() == options[int(nll[0].argmin())]


def test_samples_follow_from_the_seed(model):
    document = model.encode_document(embeddings(3))
    prompt = torch.tensor([[BOS, 7]])
    options = dict(do_sample=True, num_return_sequences=4, max_new_tokens=5)
    samples = []
    for _ in range(2):
        torch.manual_seed(0)
        samples.append(model.generate(document, prompt, **options))
    assert torch.equal(*samples)
    assert samples[0].shape[0] == 4
    assert len({tuple(row) for row in samples[0].tolist()}) > 1


def test_documents_of_different_length_in_one_batch(model):
    both = model.encode_document([embeddings(4), embeddings(2, 9)])
    prompt = torch.tensor([[BOS, 5]])
    for number, vectors in enumerate((embeddings(4), embeddings(2, 9))):
        alone = model.encode_document(vectors)
        torch.testing.assert_close(
            both.next_embedding[number], alone.next_embedding[0], atol=1e-5, rtol=0
        )
        row = both.select(torch.tensor([number]))
        got = model.generate(row, prompt, max_new_tokens=6, do_sample=False)
        assert torch.equal(got, model.generate(alone, prompt, max_new_tokens=6, do_sample=False))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_appending_sentences_equals_reading_them_at_once(model, bidirectional):
    """Causal after what was encoded: the last slots of a document with a prefix."""
    vectors = embeddings(5)
    document = model.encode_document(vectors[:3], bidirectional=bidirectional)
    for vector in vectors[3:]:
        document = model.append_sentences(document, vector[None])
    packed = pack([PackedDocument(vectors, prefix=3 if bidirectional else 0)])
    with torch.no_grad():
        output = model.tower(**packed)
    states = model.memory(output.last_hidden_state)
    torch.testing.assert_close(document.states, states, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        document.next_embedding, output.next_embedding[:, -1], atol=1e-5, rtol=0
    )
    key = model.decoder.model.layers[1].cross_attn.k_proj(states)
    torch.testing.assert_close(
        document.cross[1][0].transpose(1, 2).flatten(2), key, atol=1e-5, rtol=0
    )


def test_scores_are_cross_entropies(model):
    documents = [embeddings(3), embeddings(2, 7)]
    prompts = [[BOS, 4], [BOS, 6, 8]]
    options = [[[5, 6, EOS], [9, EOS]], [[12, EOS], [10, 11, 12, EOS]]]
    got = model.score_options(model.encode_document(documents), options, prompts)
    for row in range(2):
        for column, option in enumerate(options[row]):
            segment = Segment([*prompts[row], *option], len(prompts[row]), len(documents[row]) + 1)
            packed = pack(
                [PackedDocument(documents[row], prefix=len(documents[row]), segments=[segment])]
            )
            with torch.no_grad():
                expected = model(**packed).loss
            torch.testing.assert_close(got[row, column], expected * len(option), atol=1e-4, rtol=0)


class Words:
    """Decodes ids as text; token 3 is a space, tokens from 4 letters."""

    def batch_decode(self, rows, skip_special_tokens):
        assert skip_special_tokens
        return [
            "".join(" " if i == 3 else chr(93 + i) for i in row if i > 2) for row in rows.tolist()
        ]


def encode(texts):
    return torch.stack([embeddings(1, seed=sum(map(ord, text)))[0] for text in texts])


def test_sentence_by_sentence_equals_writing_each_from_the_beginning(model):
    vectors = [embeddings(3), embeddings(1, 8)]
    document = model.encode_document(vectors, bidirectional=False)
    options = dict(max_new_tokens=6, do_sample=False)
    steps = list(model.generate_sentences(document, encode, Words(), max_sentences=3, **options))
    assert 1 <= len(steps) <= 3
    for row in range(2):
        own = vectors[row]
        for step in steps:
            ids = torch.tensor([written(model, own, [BOS], 6, prefix=0)[1:]])
            expected = Words().batch_decode(ids, skip_special_tokens=True)[0].strip() or None
            assert step[row] == expected
            if expected is None:
                break
            own = torch.cat([own, encode([expected])])


def test_a_document_ends_with_an_empty_sentence(model):
    """One of two documents ends at once: its row is None; the other continues."""
    ending = make_spectrum()
    document = ending.encode_document([embeddings(3), embeddings(3, 8)], bidirectional=False)
    calls = []

    def generate(document, **kwargs):
        calls.append(len(document))
        return torch.tensor([[BOS, 5, 6], [BOS, EOS, 0]][: len(document)])

    ending.generate = generate
    steps = list(ending.generate_sentences(document, encode, Words(), max_sentences=2))
    assert steps == [["bc", None], ["bc", None]]
    assert calls == [2, 1]
    stream = ending.generate_sentences(document, encode, Words(), max_sentences=50)
    next(stream)  # a stream: the second sentence is not written before it is asked for
    assert len(calls) == 3


def test_bad_documents_are_one_line(model):
    nan = torch.tensor([[0.0] * SIZE, [float("nan")] * SIZE])
    without_boe = make_spectrum()
    without_boe.tower.boe.zero_()
    with pytest.raises(ValueError, match="embedding of row 2 holds NaN"):
        model.encode_document(nan)
    with pytest.raises(ValueError, match="the tower has no BOE"):
        without_boe.encode_document(embeddings(1))
    with pytest.raises(ValueError, match="1 has 10,001 sentences, the limit is 10,000: split it"):
        model.encode_document(torch.ones(10_001, SIZE))


# LoRA

PROMPT = torch.tensor([[BOS, 7]])


def with_adapters():
    # self-attention of both, cross-attention of the decoder
    targets = [
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
    ]
    torch.manual_seed(3)
    return get_peft_model(make_spectrum(), LoraConfig(r=2, lora_alpha=8, target_modules=targets))


def train(model, steps: int = 3) -> list[float]:
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
    ids = torch.tensor([[BOS, 5, 6, 7, 8]])
    losses = []
    for _ in range(steps):
        loss = model(embeddings=embeddings(3)[None], input_ids=ids[:, :-1], labels=ids[:, 1:]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.trains
def test_adapters_of_both_parts_learn(tmp_path):
    model = with_adapters()
    before = {name: p.clone() for name, p in model.named_parameters()}
    losses = train(model)
    assert losses[-1] < losses[0]
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved
    assert all("lora_" in name for name in moved)
    assert {name.split(".")[2] for name in moved} == {"tower", "decoder"}

    model.eval()
    document = model.encode_document(embeddings(4))
    scores = model.score_options(document, [[[5, 6], [9, 9]]], [[BOS, 7]])
    text = model.generate(document, PROMPT, max_new_tokens=6, do_sample=False)
    model.save_pretrained(tmp_path)
    again = PeftModel.from_pretrained(make_spectrum(), tmp_path).eval()
    own = again.encode_document(embeddings(4))
    torch.testing.assert_close(again.score_options(own, [[[5, 6], [9, 9]]], [[BOS, 7]]), scores)
    merged = again.merge_and_unload()
    document = merged.encode_document(embeddings(4))
    found = merged.score_options(document, [[[5, 6], [9, 9]]], [[BOS, 7]])
    torch.testing.assert_close(found, scores, atol=1e-4, rtol=1e-4)
    assert (
        merged.generate(document, PROMPT, max_new_tokens=6, do_sample=False).tolist()
        == text.tolist()
    )
