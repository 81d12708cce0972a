"""Vocabularies of other kinds: one token under three spellings, the vectors of BERT and XLM-R, whole checkpoints."""

import json

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
from hf_echo.vocabulary.match import match_vocabularies

from ...modeling.test_backbones import backbone
from ...toy import unigram, word_pieces

KINDS = {
    "bert": word_pieces,
    "xlm-roberta": unigram,
    "qwen3": lambda texts: train_tokenizer(texts, 380, progress=False),
}


@pytest.fixture(scope="module")
def words(toy) -> list[str]:
    return [toy.say(meaning, lang) for meaning in toy.MEANINGS for lang in ("eng_Latn", "fra_Latn")]


@pytest.fixture(scope="module")
def tokenizers(words) -> dict:
    made = {kind: make(words) for kind, make in KINDS.items()}
    return {
        kind: each if kind == "qwen3" else EchoTokenizer.around(each) for kind, each in made.items()
    }


def encoder(kind: str, tokenizer) -> EchoEncoder:
    torch.manual_seed(0)
    ids = {
        f"{role}_token_id": getattr(tokenizer, f"{role}_token_id")
        for role in ("pad", "bos", "eos", "cls", "sep")
    }
    config = backbone(kind, vocab_size=len(tokenizer), max_position_embeddings=64, **ids)
    ids = {name: ids[name] for name in ("cls_token_id", "sep_token_id")}
    options = dict(pooling="mean", embedding_size=None, prompts=tokenizer.prompts, **ids)
    return EchoEncoder(EchoConfig(backbone=config, **options)).eval()


def plain(kind: str, token: str) -> str:
    """A token as text, with the space in front of a word."""
    if kind == "bert":
        return token[2:] if token.startswith("##") else f" {token}"
    return token.replace("Ġ", " ").replace("▁", " ")


@pytest.mark.parametrize(
    ("old", "new"), [(old, new) for old in KINDS for new in KINDS if old != new]
)
def test_one_token_under_three_spellings(tokenizers, old, new):
    match, _ = match_vocabularies(tokenizers[old], tokenizers[new])
    special = {*tokenizers[old].all_special_tokens, *tokenizers[new].all_special_tokens}
    before, after = (
        {
            number: plain(kind, token)
            for token, number in tokenizers[kind].get_vocab().items()
            if token not in special
        }
        for kind in (old, new)
    )
    ascii = {number: text for number, text in after.items() if text.isascii() and text.strip()}
    for number, text in ascii.items():
        if text in before.values():
            assert before[match.copied[number]] == text
        elif number in match.pieces:
            assert "".join(before[i] for i in match.pieces[number]).strip() == text.strip(), text
    assert sum(number in match.copied for number in ascii) > 25
    for role in ("cls", "sep", "pad"):
        number = getattr(tokenizers[new], f"{role}_token_id")
        assert match.copied[number] == getattr(tokenizers[old], f"{role}_token_id")


def permuted(tokenizer: EchoTokenizer) -> EchoTokenizer:
    """The same unigram tokenizer, whose tokens have other ids: <pad> is 4."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    order = [2, 4, 3, 0, 1, *range(5, len(tokenizer))]  # new -> old
    content["model"]["vocab"] = [content["model"]["vocab"][old] for old in order]
    content["model"]["unk_id"] = order.index(content["model"]["unk_id"])
    for token in content["added_tokens"]:
        token["id"] = order.index(token["id"])
    for token in content["post_processor"]["special_tokens"].values():
        token["ids"] = [order.index(number) for number in token["ids"]]
    names = {
        f"{role}_token": getattr(tokenizer, f"{role}_token")
        for role in ("bos", "eos", "cls", "sep", "pad", "unk")
    }
    backend = Tokenizer.from_str(json.dumps(content))
    return EchoTokenizer.around(
        PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=128, **names)
    )


def test_positions_of_xlm_r_move_with_the_padding_token(tokenizers, words, tmp_path):
    old = tokenizers["xlm-roberta"]
    new = permuted(tokenizers["xlm-roberta"])
    model = encoder("xlm-roberta", old)
    want = encode(model, old, words[:6])
    swap_vocabulary(model, old, new)
    assert new.pad_token_id == 4
    assert model.config.max_position_embeddings == 67
    np.testing.assert_allclose(encode(model, new, words[:6]), want, atol=1e-6)
    model.save_pretrained(tmp_path)
    np.testing.assert_allclose(
        encode(EchoEncoder.from_pretrained(tmp_path), new, words[:6]), want, atol=1e-6
    )


@pytest.mark.parametrize(
    ("old", "new"), [("bert", "qwen3"), ("xlm-roberta", "bert"), ("qwen3", "xlm-roberta")]
)
@pytest.mark.parametrize("method", ["mean", "focus"])
def test_checkpoints_take_another_kind_of_tokenizer(
    toy, tokenizers, words, tmp_path, old, new, method
):
    toy.save(tmp_path / "model", encoder(old, tokenizers[old]), tokenizers[old])
    tokenizers[new].save_pretrained(tmp_path / "tokenizer")
    options = {"auxiliary": words * 3} if method == "focus" else {}
    counts = swap_checkpoint(
        tmp_path / "model", tmp_path / "tokenizer", tmp_path / "out", method=method, **options
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
