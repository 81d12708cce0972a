"""Tokenized pairs: ids equal the tokenizer's, independent of its earlier calls;
saving, loading, selecting."""

import numpy as np
import pytest
from datasets import Dataset

from hf_echo.data.tokenized import TokenizedParallel, tokenize_parallel


def row(source, source_lang, target, target_lang, provenance, hard_negatives) -> dict:
    return {
        "source": source,
        "source_lang": source_lang,
        "target": target,
        "target_lang": target_lang,
        "provenance": provenance,
        "hard_negatives": hard_negatives,
    }


ROWS = [
    row("un chat.", "fra_Latn", "one cat.", "eng_Latn", "primary", ["two cats.", "a dog."]),
    row("кот </s> <SEP>", "rus_Cyrl", "one cat.", "eng_Latn", "mined", []),
    row("один", "rus_Cyrl", "un", "fra_Latn", "dictionary", None),
    row("x = 1", "python", "neuf 猫 oiseaux", "fra_Latn", "code", ["neuf"]),
]


@pytest.fixture
def dataset():
    return Dataset.from_list(ROWS)


def body(tokenizer, text):
    """The text's ids by the tokenizer's own call, without CLS, <s>, language and </s>."""
    ids = tokenizer(text, lang="fra_Latn")["input_ids"]
    return ids[ids.index(tokenizer.sep_token_id) + 1 : -1]


def tokenize(dataset, tokenizer, **options) -> TokenizedParallel:
    return tokenize_parallel(dataset, tokenizer, progress=False, **options)


def assert_tokenized(tokenized, tokenizer, cut=10**6):
    """Each row holds the ids of its texts, cut to so many, and its other columns."""
    assert len(tokenized) == len(ROWS)
    for number, row in enumerate(ROWS):
        pair = tokenized[number]
        assert pair["index"] == number
        assert pair["provenance"] == row["provenance"]
        for side in ("source", "target"):
            assert pair[side].tolist() == body(tokenizer, row[side])[:cut]
            assert pair[f"{side}_lang"] == row[f"{side}_lang"]
        negatives = [negative.tolist() for negative in pair["negatives"]]
        texts = row["hard_negatives"] or []
        assert negatives == [body(tokenizer, text)[:cut] for text in texts]


def test_ids_are_the_tokenizers(dataset, toy_tokenizer):
    assert_tokenized(tokenize(dataset, toy_tokenizer), toy_tokenizer)


def test_equal_texts_have_equal_keys(dataset, toy_tokenizer):
    keys = [pair["target_key"] for pair in tokenize(dataset, toy_tokenizer)]

    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_a_text_has_the_same_key_on_either_side(toy_tokenizer):
    turned = row("one cat.", "eng_Latn", "un chat.", "fra_Latn", "primary", None)
    first, second = tokenize(Dataset.from_list([ROWS[0], turned]), toy_tokenizer)

    assert second["source_key"] == first["target_key"]
    assert second["target_key"] == first["source_key"]


def test_lengths_have_the_overhead_of_each_side(dataset, toy_tokenizer):
    """Three texts for the encoder with a prefix, one for the decoder with a prompt."""
    tokenized = tokenize(dataset, toy_tokenizer)

    lengths = tokenized.lengths(encoder_sides=3, prefix=5, prompt=9)

    source = [len(pair["source"]) + 5 for pair in tokenized]
    target = [len(pair["target"]) + 5 for pair in tokenized]
    decoder = [len(pair["target"]) + 9 for pair in tokenized]
    np.testing.assert_array_equal(lengths.T, [source, target, target, decoder])
    assert tokenized.lengths().shape == (4, 2)


@pytest.mark.parametrize("side", ["source", "target"])
def test_texts_of_one_normal_form_have_one_key(toy_tokenizer, side):
    """Spaces and case do not count, a full stop does; the ids are those of each text."""
    texts = ["Un chat.", "un\u00a0CHAT.", "un chat"]
    dataset = Dataset.from_list([ROWS[0] | {side: text} for text in texts])

    tokenized = tokenize(dataset, toy_tokenizer)

    first, same, other = [pair[f"{side}_key"] for pair in tokenized]
    assert first == same
    assert first != other
    ids = [pair[side].tolist() for pair in tokenized]
    assert ids == [body(toy_tokenizer, text) for text in texts]


@pytest.mark.parametrize(
    "call",
    [
        dict(text=["a", "a b c d"], padding=True),
        dict(text=["a " * 100], padding="max_length", truncation=True, max_length=40),
        dict(text="<SEP>", split_special_tokens=False),
    ],
    ids=["padded", "truncated", "special"],
)
def test_what_the_tokenizer_did_before_does_not_matter(dataset, toy, tmp_path, call):
    """Ids and cache folder are those of a new tokenizer."""
    tokenize(dataset, toy.make_tokenizer(), cache_dir=tmp_path)
    tokenizer = toy.make_tokenizer()
    tokenizer(**call)

    tokenized = tokenize(dataset, tokenizer, cache_dir=tmp_path)

    assert_tokenized(tokenized, tokenizer)
    assert len(list(tmp_path.iterdir())) == 1


def test_saved_pairs_are_the_same(dataset, toy_tokenizer, tmp_path):
    tokenize(dataset, toy_tokenizer).save(tmp_path)

    loaded = TokenizedParallel.load(tmp_path)

    assert_tokenized(loaded, toy_tokenizer)
    assert isinstance(loaded.source.values, np.memmap)  # a million pairs stay on disk


def test_saved_pairs_without_negatives(dataset, toy_tokenizer, tmp_path):
    tokenize(dataset.remove_columns("hard_negatives"), toy_tokenizer).save(tmp_path)

    loaded = TokenizedParallel.load(tmp_path)

    assert loaded.negatives is None
    assert "negatives" not in loaded[0]


@pytest.fixture
def tokenized_texts(toy_tokenizer, monkeypatch):
    """The texts that the tokenizer is asked for."""
    texts = []
    text_ids = type(toy_tokenizer).text_ids

    def noting(self, new_texts):
        texts.extend(new_texts)
        return text_ids(self, new_texts)

    monkeypatch.setattr(type(toy_tokenizer), "text_ids", noting)
    return texts


def test_the_cache_is_read_instead_of_tokenizing(dataset, toy_tokenizer, tmp_path, tokenized_texts):
    tokenize(dataset, toy_tokenizer, cache_dir=tmp_path)
    tokenized_texts.clear()

    again = tokenize(dataset, toy_tokenizer, cache_dir=tmp_path)

    assert tokenized_texts == []
    assert_tokenized(again, toy_tokenizer)


def test_a_text_is_tokenized_once(dataset, toy_tokenizer, tokenized_texts):
    """Of eight sides two are equal; there are three negatives."""
    tokenize(dataset, toy_tokenizer)

    assert len(tokenized_texts) == 10


@pytest.mark.parametrize("rows, options", [(range(4), {"max_length": 2}), ([1], {})])
def test_other_pairs_have_a_folder_of_their_own(dataset, toy_tokenizer, tmp_path, rows, options):
    tokenize(dataset, toy_tokenizer, cache_dir=tmp_path)

    tokenize(dataset.select(rows), toy_tokenizer, cache_dir=tmp_path, **options)

    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_a_killed_process_left_is_written_again(dataset, toy_tokenizer, tmp_path):
    tokenize(dataset, toy_tokenizer, cache_dir=tmp_path)
    (folder,) = tmp_path.iterdir()
    (folder / "names.json").unlink()
    (folder / "source_values.npy").write_bytes(b"half")

    again = tokenize(dataset, toy_tokenizer, cache_dir=tmp_path)

    assert_tokenized(again, toy_tokenizer)


def test_long_texts_are_cut_with_one_warning(dataset, toy_tokenizer, caplog):
    tokenized = tokenize(dataset, toy_tokenizer, max_length=2)

    assert_tokenized(tokenized, toy_tokenizer, cut=2)
    texts = set()
    for row in ROWS:
        texts.update([row["source"], row["target"], *(row["hard_negatives"] or [])])
    long = sum(len(body(toy_tokenizer, text)) > 2 for text in texts)
    assert caplog.messages == [f"{long} texts are longer than 2 tokens and were cut (max_length)"]
    assert 0 < long < len(texts)
