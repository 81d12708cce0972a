"""Trimmed vocabularies: texts of kept tokens keep them, what cannot be left out stays, and sizes are as asked."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from hf_echo.vocabulary.trim import kept_tokens, token_scores, trimmed

from ..refusals import refusals

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
TEXTS = {
    "eng_Latn": ["the cat sleeps on the mat", "a cat and a dog sleep", "the dogs run in the garden"] * 3,
    "fra_Latn": ["le chat dort sur le tapis", "un chat et un chien dorment", "les chiens courent dans le jardin"],
    "rus_Cyrl": ["кот спит на коврике", "собаки бегут в саду"],
}
ALL = [text for texts in TEXTS.values() for text in texts]


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    options = dict(vocab_size=150, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(ALL, trainers.UnigramTrainer(**options))
    return with_template(tokenizer)


def bpe(byte_level: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token=None if byte_level else "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel() if byte_level else pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.ByteLevel() if byte_level else decoders.Metaspace()
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
    options = dict(vocab_size=420 if byte_level else 160, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(ALL, trainers.BpeTrainer(initial_alphabet=alphabet, **options))
    return with_template(tokenizer)


def wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.NFC(), pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=160, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(ALL, trainer)
    tokenizer.post_processor = processors.BertProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def with_template(tokenizer: Tokenizer) -> Tokenizer:
    """The ids of the special tokens change: a token that is not kept stands in front of the last."""
    tokenizer.add_special_tokens(["<mask>"])
    ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>", "<mask>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> <mask> $A </s>", special_tokens=ids)
    return tokenizer


KINDS = {"unigram": unigram, "bpe": lambda: bpe(False), "byte-level": lambda: bpe(True), "wordpiece": wordpiece}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request):
    return KINDS[request.param]()


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_texts_of_kept_tokens_keep_them(tokenizer, share):
    scores, whole = token_scores(tokenizer, TEXTS.items()), tokenizer.get_vocab_size()
    assert len(kept_tokens(tokenizer, scores * 0, 10_000, [])) == whole  # enough room for all
    least = smallest(tokenizer, scores)
    kept = kept_tokens(tokenizer, scores, keep := least + round(share * (whole - least)))
    small = trimmed(tokenizer, kept)
    assert len(kept) == keep == small.get_vocab_size() and kept == sorted(set(kept))
    assert [small.id_to_token(new) for new in range(keep)] == [tokenizer.id_to_token(old) for old in kept]
    same, words = 0, {word for text in ALL for word in text.split()}
    for text in [*words, *ALL, "zebra ☃", ""]:
        before, after = tokenizer.encode(text), small.encode(text)
        if set(before.ids) <= set(kept):
            assert [kept[number] for number in after.ids] == before.ids
            same += 1
        assert "<unk>" in before.tokens or "<unk>" not in after.tokens  # no text is lost
    assert same > 10
    assert small.decode(small.encode(ALL[0]).ids) == tokenizer.decode(tokenizer.encode(ALL[0]).ids)


def smallest(tokenizer: Tokenizer, scores: np.ndarray) -> int:
    """The number of tokens that cannot be left out, as the error names it."""
    with pytest.raises(ValueError, match="alone are") as caught:
        kept_tokens(tokenizer, scores, 1)
    return int(str(caught.value).split("alone are ")[1].split()[0])


def test_frequent_tokens_of_each_language_come_first():
    """Scores by NumPy; the only Cyrillic word of a language with few texts beats a frequent English one."""
    tokenizer = wordpiece()
    scores = token_scores(tokenizer, TEXTS.items())
    wanted = np.zeros(tokenizer.get_vocab_size())
    for texts in TEXTS.values():
        ids = [number for text in texts for number in tokenizer.encode(text, add_special_tokens=False).ids]
        wanted += np.sqrt(np.bincount(ids, minlength=len(wanted)) / len(ids))
    np.testing.assert_allclose(scores, wanted)
    least = smallest(tokenizer, scores)
    needed, longer = (set(kept_tokens(tokenizer, scores, size)) for size in (least, least + 5))
    best = [number for number in np.argsort(-wanted, kind="stable") if number not in needed]
    assert longer - needed == set(best[:5])


def test_tokens_of_prompts_and_of_merges_stay(tokenizer):
    scores = token_scores(tokenizer, [("eng_Latn", ["a"])])
    kept = kept_tokens(tokenizer, scores, smallest(tokenizer, scores) + 20, ["le chat dort"])
    assert set(tokenizer.encode("le chat dort").ids) <= set(kept)
    small = trimmed(tokenizer, kept)
    assert small.encode("le chat dort").tokens == tokenizer.encode("le chat dort").tokens


def with_suffix() -> Tokenizer:
    content = json.loads(bpe(False).to_str())
    content["model"]["end_of_word_suffix"] = "</w>"
    return Tokenizer.from_str(json.dumps(content))


WORDS = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
test_unfit_tokenizers_are_refused = refusals(
    (lambda: kept_tokens(WORDS, np.ones(1), 5), "kind WordLevel is not trimmed"),
    (lambda: kept_tokens(with_suffix(), np.ones(1), 5), "BPE with end_of_word_suffix"),
    (lambda: token_scores(WORDS, []), "no texts"),
)
