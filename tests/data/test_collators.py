"""Collated batches: ids equal EchoTokenizer's, labels are shifted targets,
negatives are at their index."""

import pytest
import torch
from datasets import Dataset

from hf_echo.data.collators import IGNORE, TranslationCollator
from hf_echo.data.tokenized import tokenize_parallel

ROWS = [
    {
        "source": "un chat.",
        "source_lang": "fra_Latn",
        "target": "one cat.",
        "target_lang": "eng_Latn",
        "provenance": "mined",
        "hard_negatives": ["two cats.", "a <SEP> dog.", "nine"],
    },
    {
        "source": "кот </s> спит",
        "source_lang": "rus_Cyrl",
        "target": "one cat.",
        "target_lang": "eng_Latn",
        "provenance": "primary",
        "hard_negatives": [],
    },
    {
        "source": "x = 1",
        "source_lang": "python",
        "target": "neuf 猫 oiseaux",
        "target_lang": "fra_Latn",
        "provenance": "code",
        "hard_negatives": ["un"],
    },
]


@pytest.fixture
def rows(toy_tokenizer):
    tokenized = tokenize_parallel(Dataset.from_list(ROWS), toy_tokenizer, progress=False)
    return [tokenized[number] for number in range(len(ROWS))]


@pytest.fixture
def many_rows(rows):
    """The three rows a hundred times, each with a number of its own."""
    return [row | {"index": number} for number, row in enumerate(rows * 100)]


def ids_of_texts(batch) -> list[list[int]]:
    """The encoder's ids of each text, without padding."""
    texts = []
    for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
        texts.append(ids[mask.bool()].tolist())
    return texts


# What the encoder reads


def test_sources_come_first_then_targets_then_negatives(rows, toy_tokenizer):
    """The tokenizer, called with the texts in this order, is the truth."""
    first, second, third = ROWS
    texts = [
        first["source"],
        second["source"],
        third["source"],
        first["target"],
        second["target"],
        third["target"],
        *first["hard_negatives"][:2],
        *third["hard_negatives"],
    ]
    languages = [
        "fra_Latn",
        "rus_Cyrl",
        "python",
        "eng_Latn",
        "eng_Latn",
        "fra_Latn",
        "eng_Latn",
        "eng_Latn",
        "fra_Latn",
    ]
    expected = toy_tokenizer(texts, lang=languages, padding=True, return_tensors="pt")

    batch = TranslationCollator(toy_tokenizer, encode_targets=True, max_negatives=2)(rows)

    assert torch.equal(batch["input_ids"], expected["input_ids"])
    assert torch.equal(batch["attention_mask"], expected["attention_mask"])


def test_negative_index_is_the_row_of_each_negative(rows, toy_tokenizer):
    batch = TranslationCollator(toy_tokenizer, encode_targets=True, max_negatives=2)(rows)

    assert batch["negative_index"].tolist() == [[6, 7], [-1, -1], [8, -1]]


def test_keys_are_equal_for_equal_texts(rows, toy_tokenizer):
    batch = TranslationCollator(toy_tokenizer)(rows)

    first, second, third = batch["target_key"].tolist()
    assert first == second
    assert third != first
    assert len(set(batch["source_key"].tolist())) == 3


def test_index_is_the_row_of_the_dataset(rows, toy_tokenizer):
    batch = TranslationCollator(toy_tokenizer)([rows[2], rows[0]])

    assert batch["index"].tolist() == [2, 0]


# What the decoder reads and writes


@pytest.mark.parametrize("number", [0, 1, 2])
def test_labels_are_the_shifted_target_behind_its_prompt(rows, toy_tokenizer, number):
    """Position t predicts token t + 1; the prompt is given, so it is not counted."""
    row = ROWS[number]
    prompt = toy_tokenizer.decoder_prompt_ids(
        row["target_lang"], row["provenance"], row["source_lang"]
    )
    sentence = [*toy_tokenizer.text_ids([row["target"]])[0], toy_tokenizer.eos_token_id]
    length = len(prompt) + len(sentence) - 1

    batch = TranslationCollator(toy_tokenizer)(rows)

    decoder_input = batch["decoder_input_ids"][number].tolist()
    labels = batch["labels"][number].tolist()
    assert decoder_input[:length] == [*prompt, *sentence[:-1]]
    assert set(decoder_input[length:]) <= {toy_tokenizer.pad_token_id}
    assert labels[:length] == [IGNORE] * (len(prompt) - 1) + sentence
    assert set(labels[length:]) <= {IGNORE}


def test_prompt_of_the_decoder_names_provenance(rows, toy_tokenizer):
    """The prompts of OS Table 40."""
    batch = TranslationCollator(toy_tokenizer)(rows)

    mined = toy_tokenizer.decode(batch["decoder_input_ids"][0])
    code = toy_tokenizer.decode(batch["decoder_input_ids"][2])
    assert mined.startswith("<s> This is a possible mined translation in English:<SEP>")
    assert code.startswith("<s> This is a possible natural language explanation in French:<SEP>")


def test_code_is_known_by_its_source_language(rows, toy_tokenizer):
    collate = TranslationCollator(toy_tokenizer)

    as_primary = collate([rows[2] | {"provenance": "primary"}])

    assert torch.equal(as_primary["decoder_input_ids"], collate([rows[2]])["decoder_input_ids"])


@pytest.mark.parametrize(("decoder_fraction", "read"), [(0.1, 1), (0.6, 2), (1.0, 3)])
def test_decoder_reads_a_share_of_the_rows_or_one(rows, toy_tokenizer, decoder_fraction, read):
    batch = TranslationCollator(toy_tokenizer, decoder_fraction=decoder_fraction)(rows)

    assert len(batch["labels"]) == read


@pytest.fixture
def small_vocabulary(toy, toy_tokenizer):
    """(whole batch, batch of a decoder that knows the first ids alone, number of these ids);
    one target is Russian."""
    rows = [row | {"hard_negatives": []} for row in toy.parallel_rows()[:6]]
    rows[2]["target"] = "кот спит"
    rows[2]["target_lang"] = "rus_Cyrl"
    data = tokenize_parallel(Dataset.from_list(rows), toy_tokenizer, progress=False)
    batch = [data[number] for number in range(6)]
    whole = TranslationCollator(toy_tokenizer, encode_targets=True)(batch)
    size = min(number for number in whole["labels"].flatten().tolist() if number >= 330)
    small = TranslationCollator(toy_tokenizer, encode_targets=True, decoder_vocab_size=size)(batch)
    return whole, small, size


@pytest.mark.parametrize("name", ["labels", "decoder_input_ids"])
def test_ids_unknown_to_a_small_decoder_are_replaced(small_vocabulary, toy_tokenizer, name):
    whole, small, size = small_vocabulary
    replacement = IGNORE if name == "labels" else toy_tokenizer.sep_token_id
    # By hand, from the collator that knows the whole vocabulary.
    expected = whole[name].clone()
    expected[expected >= size] = replacement

    assert torch.equal(small[name], expected)
    assert not torch.equal(small[name], whole[name])


def test_encoder_of_a_small_decoder_reads_all_ids(small_vocabulary):
    whole, small, size = small_vocabulary

    assert whole["input_ids"].max() >= size
    for name in set(whole) - {"labels", "decoder_input_ids"}:
        assert torch.equal(small[name], whole[name]), name


# Texts without their language


def test_language_drop_of_one_names_no_language(rows, toy_tokenizer):
    batch = TranslationCollator(toy_tokenizer, language_drop=1.0)(rows)

    assert ids_of_texts(batch)[0] == toy_tokenizer(["un chat."], lang=None)["input_ids"][0]


def test_a_language_can_have_a_drop_of_its_own(rows, toy_tokenizer):
    batch = TranslationCollator(toy_tokenizer, language_drop=1.0, language_drops={"fra_Latn": 0.0})(
        rows
    )

    assert ids_of_texts(batch)[0] == toy_tokenizer(["un chat."], lang="fra_Latn")["input_ids"][0]


def test_language_drop_of_a_half_drops_about_half(many_rows, toy_tokenizer):
    """100 draws: 30 to 70 are four standard deviations."""
    without_language = toy_tokenizer(["un chat."], lang=None)["input_ids"][0]

    batch = TranslationCollator(toy_tokenizer, language_drop=0.5, seed=3)(many_rows)

    dropped = ids_of_texts(batch)[::3].count(without_language)
    assert 30 < dropped < 70


def test_the_same_rows_give_the_same_batch_in_any_process(many_rows, toy_tokenizer):
    first = TranslationCollator(toy_tokenizer, language_drop=0.5, seed=3)(many_rows)
    second = TranslationCollator(toy_tokenizer, language_drop=0.5, seed=3)(many_rows)

    torch.testing.assert_close(second, first, rtol=0, atol=0)


def test_another_seed_drops_other_languages(many_rows, toy_tokenizer):
    first = TranslationCollator(toy_tokenizer, language_drop=0.5, seed=3)(many_rows)
    second = TranslationCollator(toy_tokenizer, language_drop=0.5, seed=4)(many_rows)

    assert not torch.equal(first["attention_mask"].sum(1), second["attention_mask"].sum(1))


def test_another_epoch_of_the_same_rows_drops_other_languages(many_rows, toy_tokenizer):
    collate = TranslationCollator(toy_tokenizer, language_drop=0.5, seed=3)
    lengths = collate(many_rows)["attention_mask"].sum(1)

    collate.set_epoch(1)
    lengths_of_next_epoch = collate(many_rows)["attention_mask"].sum(1)

    assert not torch.equal(lengths_of_next_epoch, lengths)


def test_a_row_drops_its_language_beside_any_others(many_rows, toy_tokenizer):
    collate = TranslationCollator(toy_tokenizer, language_drop=0.5, seed=3)
    lengths = collate(many_rows)["attention_mask"].sum(1)

    shifted_lengths = collate([*many_rows[3:], *many_rows[:3]])["attention_mask"].sum(1)

    assert torch.equal(shifted_lengths[:-3], lengths[3:])


def test_the_decoder_is_always_told_the_language(rows, toy_tokenizer):
    dropped = TranslationCollator(toy_tokenizer, language_drop=1.0)(rows)
    named = TranslationCollator(toy_tokenizer)(rows)

    assert torch.equal(dropped["decoder_input_ids"], named["decoder_input_ids"])


# What prompts add to the length


@pytest.fixture
def with_a_long_name(toy_tokenizer):
    """Tokenized rows, one of them with a target in the language of the longest name."""
    kashmiri = ROWS[2] | {"target_lang": "kas_Arab"}
    return tokenize_parallel(Dataset.from_list([*ROWS, kashmiri]), toy_tokenizer, progress=False)


def test_overhead_is_the_longest_prefix(with_a_long_name, toy_tokenizer):
    overhead = TranslationCollator(toy_tokenizer, encode_targets=True).overhead(with_a_long_name)

    assert overhead["prefix"] == len(toy_tokenizer("", lang="kas_Arab")["input_ids"])


def test_lengths_with_overhead_bound_every_text(with_a_long_name, toy_tokenizer):
    collate = TranslationCollator(toy_tokenizer, encode_targets=True)
    lengths = with_a_long_name.lengths(encoder_sides=2, **collate.overhead(with_a_long_name))

    batch = collate([with_a_long_name[number] for number in range(4)])

    text_lengths = batch["attention_mask"].sum(1).numpy()
    label_lengths = (batch["labels"] != IGNORE).sum(1).numpy()
    assert (text_lengths[:4] <= lengths[:, 0]).all()
    assert (text_lengths[4:] <= lengths[:, 1]).all()
    assert (label_lengths <= lengths[:, 2]).all()
    assert batch["labels"].shape[1] <= lengths[:, 2].max()
