"""Vocabularies of other kinds: one token under three spellings, the vectors of BERT and XLM-R,
whole checkpoints."""

import json
from itertools import permutations
from typing import NamedTuple

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from hf_echo.checkpoints import prune_checkpoint, swap_checkpoint
from hf_echo.checkpoints.swap_tokenizer import swap_vocabulary
from hf_echo.inference import encode, load_encoder
from hf_echo.modeling import EchoConfig, EchoEncoder, EchoTokenizer
from hf_echo.vocabulary import train_tokenizer
from hf_echo.vocabulary.match import TokenMatch, match_vocabularies

from ...modeling.test_backbones import backbone
from ...toy import unigram, word_pieces

KINDS = ("bert", "xlm-roberta", "qwen3")


@pytest.fixture(scope="module")
def words(toy) -> list[str]:
    return [toy.say(meaning, lang) for meaning in toy.MEANINGS for lang in ("eng_Latn", "fra_Latn")]


@pytest.fixture(scope="module")
def tokenizers(words) -> dict[str, EchoTokenizer]:
    """The tokenizer of each kind of backbone, trained on the words."""
    return {
        "bert": EchoTokenizer.around(word_pieces(words)),
        "xlm-roberta": EchoTokenizer.around(unigram(words)),
        "qwen3": train_tokenizer(words, 380, progress=False),
    }


def encoder(kind: str, tokenizer) -> EchoEncoder:
    torch.manual_seed(0)
    ids = {}
    for role in ("pad", "bos", "eos", "cls", "sep"):
        ids[f"{role}_token_id"] = getattr(tokenizer, f"{role}_token_id")
    config = EchoConfig(
        backbone=backbone(kind, vocab_size=len(tokenizer), max_position_embeddings=64, **ids),
        pooling="mean",
        embedding_size=None,
        prompts=tokenizer.prompts,
        cls_token_id=ids["cls_token_id"],
        sep_token_id=ids["sep_token_id"],
    )
    return EchoEncoder(config).eval()


def plain(kind: str, token: str) -> str:
    """A token as text, with the space in front of a word."""
    if kind == "bert":
        return token[2:] if token.startswith("##") else f" {token}"
    return token.replace("Ġ", " ").replace("▁", " ")


def spellings(kind: str, tokenizer) -> dict[int, str]:
    """Ids of tokens that are no special ones -> their texts."""
    texts = {}
    for token, number in tokenizer.get_vocab().items():
        if token not in tokenizer.all_special_tokens:
            texts[number] = plain(kind, token)
    return texts


class Swap(NamedTuple):
    """Of a tokenizer of one kind for one of another."""

    old: EchoTokenizer
    new: EchoTokenizer
    old_texts: dict[int, str]
    new_texts: dict[int, str]  # of letters of ASCII
    match: TokenMatch


@pytest.fixture(params=permutations(KINDS, 2), ids="-".join)
def swap(request, tokenizers) -> Swap:
    """Two tokenizers of different kinds, and the match of their tokens."""
    old_kind, new_kind = request.param
    old = tokenizers[old_kind]
    new = tokenizers[new_kind]
    texts = spellings(new_kind, new)
    letters = {number: text for number, text in texts.items() if text.isascii() and text.strip()}
    match, _ = match_vocabularies(old, new)
    return Swap(old, new, spellings(old_kind, old), letters, match)


def test_a_token_under_another_spelling_is_copied(swap):
    texts = set(swap.old_texts.values())
    shared = [number for number, text in swap.new_texts.items() if text in texts]
    assert len(shared) > 25
    for number in shared:
        assert swap.old_texts[swap.match.copied[number]] == swap.new_texts[number]


def test_a_new_token_is_the_text_of_its_pieces(swap):
    for number, pieces in swap.match.pieces.items():
        if number in swap.new_texts:
            text = "".join(swap.old_texts[piece] for piece in pieces)
            assert text.strip() == swap.new_texts[number].strip()


@pytest.mark.parametrize("role", ["cls", "sep", "pad"])
def test_special_tokens_are_copied_by_their_roles(swap, role):
    name = f"{role}_token_id"
    assert swap.match.copied[getattr(swap.new, name)] == getattr(swap.old, name)


def permuted(tokenizer: EchoTokenizer) -> EchoTokenizer:
    """The same unigram tokenizer, whose tokens have other ids: <pad> is 4."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    order = [2, 4, 3, 0, 1, *range(5, len(tokenizer))]  # new -> old
    model = content["model"]
    model["vocab"] = [model["vocab"][old] for old in order]
    model["unk_id"] = order.index(model["unk_id"])
    for token in content["added_tokens"]:
        token["id"] = order.index(token["id"])
    for token in content["post_processor"]["special_tokens"].values():
        token["ids"] = [order.index(number) for number in token["ids"]]
    names = {}
    for role in ("bos", "eos", "cls", "sep", "pad", "unk"):
        names[f"{role}_token"] = getattr(tokenizer, f"{role}_token")
    backend = Tokenizer.from_str(json.dumps(content))
    return EchoTokenizer.around(
        PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=128, **names)
    )


@pytest.fixture
def moved_padding(tokenizers, words):
    """(model whose padding token moved, its new tokenizer, the embeddings of words before)"""
    old = tokenizers["xlm-roberta"]
    new = permuted(old)
    assert new.pad_token_id == 4
    model = encoder("xlm-roberta", old)
    before = encode(model, old, words[:6])
    swap_vocabulary(model, old, new)
    return model, new, before


def test_positions_of_xlm_r_move_with_the_padding_token(moved_padding, words):
    model, new, before = moved_padding
    assert model.config.max_position_embeddings == 67
    np.testing.assert_allclose(encode(model, new, words[:6]), before, atol=1e-6)


def test_moved_positions_open_again(moved_padding, words, tmp_path):
    model, new, before = moved_padding
    model.save_pretrained(tmp_path)
    opened = EchoEncoder.from_pretrained(tmp_path)
    np.testing.assert_allclose(encode(opened, new, words[:6]), before, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new"), [("bert", "qwen3"), ("xlm-roberta", "bert"), ("qwen3", "xlm-roberta")]
)
@pytest.mark.parametrize("method", ["mean", "focus"])
def test_checkpoints_take_another_kind_of_tokenizer(
    toy, tokenizers, words, tmp_path, old, new, method
):
    model = toy.save(tmp_path / "model", encoder(old, tokenizers[old]), tokenizers[old])
    tokenizers[new].save_pretrained(tmp_path / "tokenizer")
    options = {"auxiliary": words * 3} if method == "focus" else {}

    counts = swap_checkpoint(
        model, tmp_path / "tokenizer", tmp_path / "out", method=method, **options
    )

    assert counts["copied"] > 10
    assert counts["new"] > 0
    assert counts["tokens"] == len(tokenizers[new])
    model, tokenizer = load_encoder(tmp_path / "out", dtype="fp32")
    assert model.config.prompts == tokenizer.prompts == tokenizers[new].prompts
    assert np.isfinite(encode(model, tokenizer, words[:3], "eng_Latn")).all()


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta"])
def test_a_pruned_checkpoint_keeps_its_kind_of_tokenizer(toy, tokenizers, words, tmp_path, kind):
    model = toy.save(tmp_path / "model", encoder(kind, tokenizers[kind]), tokenizers[kind])
    report = prune_checkpoint(
        model, tmp_path / "out", shape={"intermediate_size": 24, "num_hidden_layers": 1}
    )
    model, tokenizer = load_encoder(tmp_path / "out", dtype="fp32")
    assert model.num_parameters() == report["parameters"] < report["parameters_before"]
    assert encode(model, tokenizer, words[:3]).shape == (3, 32)
