"""Masked pairs: only text is masked, by 80/10/10, the same in every run;
with and without prompts."""

import numpy as np
import pytest
import torch

from hf_echo.data.collators import MaskedPairCollator
from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.modeling import EchoTokenizer


@pytest.fixture
def echo_tokenizer(toy):
    tokenizer = toy.make_tokenizer()
    tokenizer.add_special_tokens({"mask_token": "<mask>"})
    return tokenizer


@pytest.fixture(params=["echo", "plain"])
def tokenizer(request, toy, echo_tokenizer):
    if request.param == "echo":
        return echo_tokenizer
    return EchoTokenizer.around(toy.plain_tokenizer())


@pytest.fixture
def data(toy, tokenizer):
    return tokenize_parallel(toy.dataset(), tokenizer, progress=False)


def first_rows(data, count: int) -> list[dict]:
    return [data[number] for number in range(count)]


def test_rows_are_the_texts_as_the_tokenizer_writes_them(tokenizer, data, toy):
    """The sources, then the targets."""
    batch = MaskedPairCollator(tokenizer)(first_rows(data, 6))

    columns = toy.dataset()[:6]
    texts = columns["source"] + columns["target"]
    langs = columns["source_lang"] + columns["target_lang"]
    expected = tokenizer(texts, lang=langs, padding=True, return_tensors="pt")
    assert torch.equal(batch["input_ids"], expected["input_ids"])
    assert torch.equal(batch["attention_mask"], expected["attention_mask"])


def test_labels_are_the_tokens_that_were_there(tokenizer, data):
    batch = MaskedPairCollator(tokenizer)(first_rows(data, 6))

    is_changed = batch["masked_ids"] != batch["input_ids"]
    assert is_changed.any()
    assert torch.equal(batch["labels"][is_changed], batch["input_ids"][is_changed])


class Masked:
    """What MEXMA's 40 % choose of 400 rows of about 10 tokens."""

    def __init__(self, tokenizer, data):
        rows = first_rows(data, 400)
        batch = MaskedPairCollator(tokenizer)(rows)
        self.is_chosen = batch["labels"] != -100
        self.is_special = torch.isin(batch["input_ids"], torch.tensor(tokenizer.all_special_ids))
        self.tokens = sum(len(row["source"]) + len(row["target"]) for row in rows)
        self.before = batch["input_ids"][self.is_chosen]
        self.after = batch["masked_ids"][self.is_chosen]
        # a random token is sometimes the mask or the token itself
        self.slack = 0.2 / len(tokenizer)


@pytest.fixture
def masked(tokenizer, data):
    return Masked(tokenizer, data)


def assert_share(count, total: int, share: float, slack: float = 0.0):
    """Within four standard deviations of a binomial share, which are below one percent each
    here."""
    deviation = (share * (1 - share) / total) ** 0.5
    assert abs(int(count) / total - share) < 4 * deviation + slack


def test_40_percent_of_tokens_are_chosen(masked):
    assert_share(masked.is_chosen.sum(), masked.tokens, 0.4)


def test_special_tokens_are_not_chosen(masked):
    assert not (masked.is_chosen & masked.is_special).any()


def test_80_percent_of_chosen_tokens_are_masks(masked, tokenizer):
    masks = (masked.after == tokenizer.mask_token_id).sum()
    assert_share(masks, len(masked.after), 0.8, masked.slack)


def test_10_percent_of_chosen_tokens_stay(masked):
    same = (masked.after == masked.before).sum()
    assert_share(same, len(masked.after), 0.1, masked.slack)


def pair(source: list[int], target: list[int], index: int) -> dict:
    return {
        "source": np.array(source, np.int32),
        "source_lang": None,
        "source_key": index,
        "target": np.array(target, np.int32),
        "target_lang": None,
        "target_key": index,
        "index": index,
    }


@pytest.fixture
def plain_collator(toy):
    return MaskedPairCollator(EchoTokenizer.around(toy.plain_tokenizer()), mask_probability=0.4)


def test_each_text_has_a_masked_token(plain_collator):
    """Texts of one token."""
    batch = plain_collator([pair([7], [8], number) for number in range(200)])

    assert (batch["labels"] != -100).sum(1).tolist() == [1] * 400


def test_an_empty_text_has_no_masked_token(plain_collator):
    batch = plain_collator([pair([], [8], 0)])

    assert (batch["labels"] != -100).sum(1).tolist() == [0, 1]


def test_prompts_are_never_masked(echo_tokenizer, toy):
    """Nor what stands behind a text; 90 % of the text are."""
    data = tokenize_parallel(toy.dataset(), echo_tokenizer, progress=False)
    rows = first_rows(data, 50)

    batch = MaskedPairCollator(echo_tokenizer, mask_probability=0.9)(rows)

    texts = [row["source"] for row in rows] + [row["target"] for row in rows]
    for number, text in enumerate(texts):
        end = int(batch["attention_mask"][number].sum()) - 1  # where </s> stands
        start = end - len(text)
        labels = batch["labels"][number]
        assert batch["input_ids"][number, start:end].tolist() == text.tolist()
        assert (labels[:start] == -100).all()
        assert (labels[end:] == -100).all()


def test_lots_do_not_depend_on_the_state_of_torch(tokenizer, data):
    collate = MaskedPairCollator(tokenizer, seed=3)
    torch.manual_seed(0)
    first = collate(first_rows(data, 20))
    torch.manual_seed(1)

    second = collate(first_rows(data, 20))

    torch.testing.assert_close(second, first, rtol=0, atol=0)


def test_another_seed_masks_other_tokens(tokenizer, data):
    rows = first_rows(data, 20)

    first = MaskedPairCollator(tokenizer, seed=3)(rows)
    second = MaskedPairCollator(tokenizer, seed=4)(rows)

    assert not torch.equal(first["masked_ids"], second["masked_ids"])


def test_lots_of_a_row_do_not_depend_on_the_rows_beside_it(tokenizer, data):
    rows = first_rows(data, 20)
    collate = MaskedPairCollator(tokenizer, seed=3)

    whole = collate(rows)["masked_ids"]
    rest = collate(rows[1:])["masked_ids"]

    assert torch.equal(rest[0], whole[1])
