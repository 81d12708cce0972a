"""Spectrum: masks against a worked example, packing against documents apart, saving, remote code,
bad input."""

import math

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM

from hf_echo.modeling import SpectrumConfig, SpectrumForCausalLM, SpectrumModel
from hf_echo.modeling.masks_spectrum import reading_mask, token_mask, tower_mask
from hf_echo.modeling.packing_spectrum import PackedDocument, Segment, pack, sentence_segments

from ..processes import SCRIPTS, WITHOUT_PACKAGE, python
from .spectrum_toy import BOS, EOS, embeddings, make_decoder, make_spectrum, make_tower


@pytest.fixture(scope="module")
def model():
    return make_spectrum()


def document(vectors, sentences: list[list[int]], **options) -> PackedDocument:
    """A document whose sentences are written one by one."""
    segments = sentence_segments(sentences, [BOS], EOS)
    return PackedDocument(vectors, segments=segments, **options)


def three_sentences() -> PackedDocument:
    """Sentences of 2, 1 and 2 tokens."""
    return document(embeddings(3), [[5, 6], [7], [8, 9]])


def mask_of_tower(packed) -> list[list[int]]:
    mask = tower_mask(packed["document_ids"], packed["positions"], packed["prefix"])
    return mask[0].int().tolist()


def mask_of_reading(packed) -> list[list[int]]:
    """Of each token: BOE, then the sentences."""
    mask = reading_mask(
        packed["token_documents"], packed["reads"], packed["document_ids"], packed["positions"]
    )
    return mask[0].int().tolist()


@pytest.fixture
def packed():
    return pack([three_sentences()])


def test_tokens_of_three_sentences_follow_each_other(packed):
    """The last label is the document's end."""
    assert packed["input_ids"].tolist() == [[BOS, 5, 6, BOS, 7, BOS, 8, 9, BOS]]
    assert packed["labels"].tolist() == [[5, 6, EOS, 7, EOS, 8, 9, EOS, EOS]]
    assert packed["position_ids"].tolist() == [[0, 1, 2, 0, 1, 0, 1, 2, 0]]


# As in the figures of OS 9.1


def test_the_tower_reads_what_stands_before(packed):
    assert mask_of_tower(packed) == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_a_token_reads_its_own_sentence(packed):
    mask = token_mask(packed["token_documents"], packed["segment_ids"])
    assert mask[0].int().tolist() == [
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


def test_a_token_reads_the_sentences_before_its_own(packed):
    first = [1, 0, 0, 0]
    second = [1, 1, 0, 0]
    third = [1, 1, 1, 0]
    end = [1, 1, 1, 1]
    assert mask_of_reading(packed) == [first] * 3 + [second] * 2 + [third] * 3 + [end]


@pytest.fixture
def with_prefix():
    """Two sentences to read in both directions, a prompt of two tokens, and a text."""
    segment = Segment([BOS, 4, 5, EOS], 2, 3)
    return pack([PackedDocument(embeddings(3), prefix=2, segments=[segment])])


def test_a_prefix_is_read_in_both_directions(with_prefix):
    assert mask_of_tower(with_prefix) == [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_a_text_reads_its_prefix(with_prefix):
    assert mask_of_reading(with_prefix) == [[1, 1, 1, 0]] * 3


def test_a_prompt_has_no_loss(with_prefix):
    assert with_prefix["labels"].tolist() == [[-100, 5, EOS]]


@pytest.mark.parametrize(("token", "sentences"), [(0, 0), (3, 1), (5, 2), (8, 3)])
def test_a_sentence_depends_on_what_it_may_read_alone(model, packed, token, sentences):
    """Of the first token of each sentence: the gradient of its output by each sentence's embedding,
    end to end."""
    vectors = packed.pop("embeddings").requires_grad_()
    del packed["labels"]
    hidden = model(vectors, **packed).decoder_hidden_state[0]

    hidden[token].square().sum().backward()

    is_read = vectors.grad[0, 1:].abs().sum(-1) > 1e-7
    assert is_read.tolist() == [True] * sentences + [False] * (3 - sentences)


CLOSE = dict(atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("prefix", [0, 2])
def test_two_documents_packed_are_two_documents_apart(model, prefix):
    first = three_sentences()
    first.prefix = prefix
    second = document(embeddings(2, seed=5), [[11], [12, 13, 14]])
    packed = pack([first, second], row_length=100)
    assert len(packed["input_ids"]) == 1

    both = model(**packed)

    # Each document in a row of its own; the loss is a mean over the tokens of both.
    apart = [model(**pack([alone])) for alone in (first, second)]
    for name in ("decoder_hidden_state", "tower_hidden_state"):
        expected = torch.cat([output[name][0] for output in apart])
        torch.testing.assert_close(both[name][0], expected, **CLOSE)
    counts = [(pack([alone])["labels"] != -100).sum() for alone in (first, second)]
    mean = (apart[0].loss * counts[0] + apart[1].loss * counts[1]) / sum(counts)
    torch.testing.assert_close(both.loss, mean, **CLOSE)


@torch.no_grad()
def test_rows_padded_to_the_longest_change_nothing(model):
    short = document(embeddings(1, 3), [[4]])
    packed = pack([three_sentences(), short])
    assert packed["input_ids"].shape == (2, 9)

    rows = model(**packed)

    # The short document without the other row.
    alone = model(**pack([short]))
    states = rows.decoder_hidden_state[1, :3]
    torch.testing.assert_close(states, alone.decoder_hidden_state[0], **CLOSE)
    assert rows.loss.isfinite()


@pytest.fixture
def eager():
    model = make_spectrum()
    model.config._attn_implementation = "eager"
    model.decoder.config._attn_implementation = "eager"
    return model


@torch.no_grad()
def test_attention_implementations_agree(model, eager, packed):
    """Eager attention takes an additive mask, SDPA a boolean one."""
    torch.testing.assert_close(eager(**packed).loss, model(**packed).loss, **CLOSE)


@torch.no_grad()
def test_boe_reads_itself_only(eager):
    weights = eager.tower(embeddings(3)[None], output_attentions=True).attentions
    assert len(weights) == 3
    assert weights[0][0, 0, 0].tolist() == [1, 0, 0, 0]


def test_a_saved_model_is_the_same(model, packed, tmp_path):
    model.save_pretrained(tmp_path)

    opened = AutoModelForCausalLM.from_pretrained(tmp_path)

    assert isinstance(opened, SpectrumForCausalLM)
    assert opened.config.embedding_scale == model.config.embedding_scale
    with torch.no_grad():
        assert torch.equal(opened(**packed).logits, model(**packed).logits)


def test_the_tower_of_a_saved_model_opens_alone(model, tmp_path):
    model.save_pretrained(tmp_path)

    tower = AutoModel.from_pretrained(tmp_path)

    assert isinstance(tower, SpectrumModel)
    # The tower inside of the whole model.
    assert torch.equal(tower.boe, model.tower.boe)
    with torch.no_grad():
        states = tower(embeddings(3)[None]).last_hidden_state
        torch.testing.assert_close(states, model.tower(embeddings(3)[None]).last_hidden_state)


@pytest.mark.slow
def test_opens_without_the_package(model, tmp_path, monkeypatch):
    model.save_pretrained(tmp_path / "model")
    file = tmp_path / "vectors.pt"
    torch.save(embeddings(3), file)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))

    script = SCRIPTS / "open_spectrum.py"
    python(WITHOUT_PACKAGE, script, tmp_path / "model", file, cwd=tmp_path)

    # The model in this process.
    with torch.no_grad():
        expected = model(embeddings(3)[None], torch.tensor([[1, 4, 6]])).logits
    torch.testing.assert_close(torch.load(file), expected, atol=1e-6, rtol=0)


def refuses_decoder(message: str, **changes) -> None:
    with pytest.raises(ValueError, match=message):
        SpectrumForCausalLM.from_parts(make_tower(), make_decoder(**changes))


def test_a_decoder_of_one_vector_is_refused():
    refuses_decoder("attention to all tower states: set bottleneck=False", bottleneck=True)


def test_a_decoder_of_other_states_is_refused():
    refuses_decoder("reads states of size 20, the tower's have 16", embedding_size=20)


def test_a_configuration_without_a_decoder_is_refused():
    with pytest.raises(ValueError, match="needs config.decoder"):
        SpectrumForCausalLM(make_tower().config)


@pytest.mark.parametrize("size", [0, math.inf])
def test_a_size_that_is_no_positive_integer_is_refused(size):
    message = f"embedding_size must be a positive integer, not {size}"
    with pytest.raises(ValueError, match=message):
        SpectrumConfig(embedding_size=size)
