"""Trimmed vocabularies: texts of kept tokens keep them, what cannot be left out stays,
and sizes are as asked."""

import json

import numpy as np
import pytest
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from hf_echo.vocabulary.trim import kept_tokens, token_scores, trimmed

from ..refusals import refusals

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
TEXTS = {
    "eng_Latn": ["the cat sleeps on the mat", "a cat and a dog sleep", "the dogs run in the garden"]
    * 3,
    "fra_Latn": [
        "le chat dort sur le tapis",
        "un chat et un chien dorment",
        "les chiens courent dans le jardin",
    ],
    "rus_Cyrl": ["кот спит на коврике", "собаки бегут в саду"],
}
ALL = [text for texts in TEXTS.values() for text in texts]


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=150, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(ALL, trainer)
    return with_template(tokenizer)


def bpe() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=160, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(ALL, trainer)
    return with_template(tokenizer)


def byte_level_bpe() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(ALL, trainer)
    return with_template(tokenizer)


def wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=160, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(ALL, trainer)
    tokenizer.post_processor = processors.BertProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def with_template(tokenizer: Tokenizer) -> Tokenizer:
    """The ids of the special tokens change: a token that is not kept stands in front of the
    last."""
    tokenizer.add_special_tokens(["<mask>"])
    ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>", "<mask>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> <mask> $A </s>", special_tokens=ids
    )
    return tokenizer


@pytest.fixture(scope="module", params=[unigram, bpe, byte_level_bpe, wordpiece])
def tokenizer(request):
    return request.param()


@pytest.fixture(scope="module", params=[0.5, 0.8])
def kept(request, tokenizer):
    """The ids of what cannot be left out, and of this share of the others."""
    scores = token_scores(tokenizer, TEXTS.items())
    least = smallest(tokenizer, scores)
    keep = least + round(request.param * (tokenizer.get_vocab_size() - least))
    ids = kept_tokens(tokenizer, scores, keep)
    assert len(ids) == keep
    return ids


def test_with_enough_room_all_tokens_stay(tokenizer):
    scores = np.zeros(tokenizer.get_vocab_size())
    assert len(kept_tokens(tokenizer, scores, 10_000)) == tokenizer.get_vocab_size()


def test_tokens_keep_their_order(tokenizer, kept):
    small = trimmed(tokenizer, kept)
    assert kept == sorted(set(kept))
    assert small.get_vocab_size() == len(kept)
    for new_id, old_id in enumerate(kept):
        assert small.id_to_token(new_id) == tokenizer.id_to_token(old_id)


def test_texts_of_kept_tokens_keep_them(tokenizer, kept):
    small = trimmed(tokenizer, kept)
    words = {word for text in ALL for word in text.split()}
    texts_with_kept_tokens = 0
    for text in [*words, *ALL, "zebra ☃", ""]:
        ids = tokenizer.encode(text).ids
        if set(ids) <= set(kept):
            texts_with_kept_tokens += 1
            assert [kept[new_id] for new_id in small.encode(text).ids] == ids
    assert texts_with_kept_tokens > 10


def test_no_text_is_lost(tokenizer, kept):
    small = trimmed(tokenizer, kept)
    for text in [*ALL, "zebra ☃", ""]:
        if "<unk>" not in tokenizer.encode(text).tokens:
            assert "<unk>" not in small.encode(text).tokens
    assert small.decode(small.encode(ALL[0]).ids) == tokenizer.decode(tokenizer.encode(ALL[0]).ids)


def smallest(tokenizer: Tokenizer, scores: np.ndarray) -> int:
    """The number of tokens that cannot be left out, as the error names it."""
    with pytest.raises(ValueError, match="alone are") as caught:
        kept_tokens(tokenizer, scores, 1)
    return int(str(caught.value).split("alone are ")[1].split()[0])


def test_scores_by_numpy():
    tokenizer = wordpiece()
    # The root of each token's share, summed over the languages.
    expected = np.zeros(tokenizer.get_vocab_size())
    for texts in TEXTS.values():
        ids = []
        for text in texts:
            ids += tokenizer.encode(text, add_special_tokens=False).ids
        expected += np.sqrt(np.bincount(ids, minlength=len(expected)) / len(ids))
    np.testing.assert_allclose(token_scores(tokenizer, TEXTS.items()), expected)


def test_tokens_of_the_highest_scores_come_first():
    """The only Cyrillic word of a language with few texts beats a frequent English one."""
    tokenizer = wordpiece()
    scores = token_scores(tokenizer, TEXTS.items())
    least = smallest(tokenizer, scores)
    needed = kept_tokens(tokenizer, scores, least)
    with_five = kept_tokens(tokenizer, scores, least + 5)
    others = [token_id for token_id in np.argsort(-scores, kind="stable") if token_id not in needed]
    assert set(with_five) - set(needed) == set(others[:5])


def test_tokens_of_prompts_stay_with_their_merges(tokenizer):
    scores = token_scores(tokenizer, [("eng_Latn", ["a"])])
    kept = kept_tokens(tokenizer, scores, smallest(tokenizer, scores) + 20, ["le chat dort"])
    assert set(tokenizer.encode("le chat dort").ids) <= set(kept)
    small = trimmed(tokenizer, kept)
    assert small.encode("le chat dort").tokens == tokenizer.encode("le chat dort").tokens


def with_suffix() -> Tokenizer:
    content = json.loads(bpe().to_str())
    content["model"]["end_of_word_suffix"] = "</w>"
    return Tokenizer.from_str(json.dumps(content))


WORDS = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
test_unfit_tokenizers_are_refused = refusals(
    (lambda: kept_tokens(WORDS, np.ones(1), 5), "kind WordLevel is not trimmed"),
    (lambda: kept_tokens(with_suffix(), np.ones(1), 5), "BPE with end_of_word_suffix"),
    (lambda: token_scores(WORDS, []), "no texts"),
)
