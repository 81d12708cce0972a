"""Spectrum: masks against a worked example, packing against documents apart, saving, remote code, bad input."""

import math
import subprocess
import sys

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM

from hf_echo.modeling import SpectrumConfig, SpectrumForCausalLM, SpectrumModel
from hf_echo.modeling.masks_spectrum import reading_mask, token_mask, tower_mask
from hf_echo.modeling.packing_spectrum import PackedDocument, Segment, pack, sentence_segments

from .spectrum_toy import BOS, EOS, embeddings, make_decoder, make_spectrum, make_tower


@pytest.fixture(scope="module")
def model():
    return make_spectrum()


def three_sentences() -> PackedDocument:
    """Sentences of 2, 1 and 2 tokens."""
    return PackedDocument(
        embeddings(3), segments=sentence_segments([[5, 6], [7], [8, 9]], [BOS], EOS)
    )


def test_three_sentences_read_as_in_the_figures():
    packed = pack([three_sentences()])
    assert packed["input_ids"].tolist() == [[BOS, 5, 6, BOS, 7, BOS, 8, 9, BOS]]
    # the last: the document's end
    assert packed["labels"].tolist() == [[5, 6, EOS, 7, EOS, 8, 9, EOS, EOS]]
    assert packed["position_ids"].tolist() == [[0, 1, 2, 0, 1, 0, 1, 2, 0]]
    tower = tower_mask(packed["document_ids"], packed["positions"], packed["prefix"])
    assert tower[0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    tokens = token_mask(packed["token_documents"], packed["segment_ids"])
    assert tokens[0].int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 1, 1, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 1],
    ]
    cross = reading_mask(
        packed["token_documents"], packed["reads"], packed["document_ids"], packed["positions"]
    )
    # BOE, then the sentences before
    one = [1, 0, 0, 0]
    two = [1, 1, 0, 0]
    three = [1, 1, 1, 0]
    end = [1, 1, 1, 1]
    assert cross[0].int().tolist() == [one, one, one, two, two, three, three, three, end]


def test_a_prefix_is_read_in_both_directions():
    packed = pack(
        [PackedDocument(embeddings(3), prefix=2, segments=[Segment([BOS, 4, 5, EOS], 2, 3)])]
    )
    tower = tower_mask(packed["document_ids"], packed["positions"], packed["prefix"])
    assert tower[0].int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert packed["labels"].tolist() == [[-100, 5, EOS]]  # no loss on the prompt
    cross = reading_mask(
        packed["token_documents"], packed["reads"], packed["document_ids"], packed["positions"]
    )
    assert cross[0].int().tolist() == [[1, 1, 1, 0]] * 3


def test_a_sentence_depends_on_what_it_may_read_alone(model):
    """The gradient of each token's output by each sentence's embedding is the mask, end to end."""
    packed = pack([three_sentences()])
    vectors = packed.pop("embeddings").requires_grad_()
    packed.pop("labels")
    hidden = model(vectors, **packed).decoder_hidden_state[0]
    reach = []
    for token in (0, 3, 5, 8):  # the first token of each segment
        (gradient,) = torch.autograd.grad(hidden[token].square().sum(), vectors, retain_graph=True)
        reach.append((gradient[0, 1:].abs().sum(-1) > 1e-7).int().tolist())
    assert reach == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize("prefix", [0, 2])
def test_two_documents_packed_are_two_documents_apart(model, prefix):
    first = three_sentences()
    first.prefix = prefix
    second = PackedDocument(
        embeddings(2, seed=5), segments=sentence_segments([[11], [12, 13, 14]], [BOS, 3], EOS)
    )
    together = pack([first, second], row_length=100)
    assert len(together["input_ids"]) == 1
    with torch.no_grad():
        both = model(**together)
        apart = [model(**pack([document])) for document in (first, second)]
    expected = torch.cat([output.decoder_hidden_state[0] for output in apart])
    torch.testing.assert_close(both.decoder_hidden_state[0], expected, atol=1e-5, rtol=0)
    states = torch.cat([output.tower_hidden_state[0] for output in apart])
    torch.testing.assert_close(both.tower_hidden_state[0], states, atol=1e-5, rtol=0)
    tokens = [int((pack([d])["labels"] != -100).sum()) for d in (first, second)]
    mean = sum(output.loss * n for output, n in zip(apart, tokens)) / sum(tokens)
    torch.testing.assert_close(both.loss, mean, atol=1e-5, rtol=0)


def test_rows_padded_to_the_longest_change_nothing(model):
    documents = [
        three_sentences(),
        PackedDocument(embeddings(1, 3), segments=sentence_segments([[4]], [BOS], EOS)),
    ]
    packed = pack(documents)
    assert packed["input_ids"].shape == (2, 9)
    with torch.no_grad():
        rows = model(**packed)
        alone = model(**pack(documents[1:]))
    assert rows.loss.isfinite()
    torch.testing.assert_close(
        rows.decoder_hidden_state[1, :3], alone.decoder_hidden_state[0], atol=1e-5, rtol=0
    )


def test_attention_implementations_agree(model):
    """Eager attention takes an additive mask, SDPA a boolean one."""
    packed = pack([three_sentences()])
    eager = make_spectrum()
    eager.config._attn_implementation = eager.decoder.config._attn_implementation = "eager"
    with torch.no_grad():
        torch.testing.assert_close(eager(**packed).loss, model(**packed).loss, atol=1e-5, rtol=0)
        weights = eager.tower(embeddings(3)[None], output_attentions=True).attentions
    # BOE reads itself only
    assert len(weights) == 3
    assert weights[0][0, 0, 0].tolist() == [
        1,
        0,
        0,
        0,
    ]


def test_a_saved_model_is_the_same(model, tmp_path):
    model.save_pretrained(tmp_path)
    packed = pack([three_sentences()])

    opened = AutoModelForCausalLM.from_pretrained(tmp_path)

    assert isinstance(opened, SpectrumForCausalLM)
    assert opened.config.embedding_scale == model.config.embedding_scale
    with torch.no_grad():
        assert torch.equal(opened(**packed).logits, model(**packed).logits)


def test_the_tower_of_a_saved_model_opens_alone(model, tmp_path):
    model.save_pretrained(tmp_path)

    tower = AutoModel.from_pretrained(tmp_path)

    assert isinstance(tower, SpectrumModel)
    assert torch.equal(tower.boe, model.tower.boe)
    with torch.no_grad():
        states = tower(embeddings(3)[None]).last_hidden_state
        torch.testing.assert_close(states, model.tower(embeddings(3)[None]).last_hidden_state)


REMOTE = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoModel
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], trust_remote_code=True)
AutoModel.from_pretrained(sys.argv[1], trust_remote_code=True)
assert type(model).__module__.startswith("transformers_modules")
vectors = torch.load(sys.argv[2])
with torch.no_grad():
    document = model.encode_document(vectors)
    torch.save(model(vectors[None], torch.tensor([[1, 4, 6]])).logits, sys.argv[2])
assert len(model.generate(document, max_new_tokens=3)) == 1
"""


@pytest.mark.slow
def test_opens_without_the_package(model, tmp_path, monkeypatch):
    model.save_pretrained(tmp_path / "model")
    torch.save(embeddings(3), tmp_path / "vectors.pt")
    code = "import sys; sys.modules['hf_echo'] = None\n" + REMOTE
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    command = [sys.executable, "-c", code, str(tmp_path / "model"), str(tmp_path / "vectors.pt")]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr[-2000:]
    with torch.no_grad():
        expected = model(embeddings(3)[None], torch.tensor([[1, 4, 6]])).logits
    torch.testing.assert_close(torch.load(tmp_path / "vectors.pt"), expected, atol=1e-6, rtol=0)


def test_wrong_parts_are_one_line():
    tower = make_tower()
    join = SpectrumForCausalLM.from_parts
    for call, message in (
        (
            lambda: join(make_tower(), make_decoder(bottleneck=True)),
            "attention to all tower states: set bottleneck=False",
        ),
        (
            lambda: join(make_tower(), make_decoder(embedding_size=20)),
            "reads states of size 20, the tower's have 16",
        ),
        (lambda: SpectrumForCausalLM(tower.config), "needs config.decoder"),
        (
            lambda: SpectrumConfig(embedding_size=0),
            "embedding_size must be a positive integer, not 0",
        ),
        (
            lambda: SpectrumConfig(embedding_size=math.inf),
            "embedding_size must be a positive integer, not inf",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
