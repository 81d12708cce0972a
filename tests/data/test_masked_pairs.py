"""Masked pairs: only text is masked, by 80/10/10, the same in every run; with and without prompts."""

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
def world(request, toy, echo_tokenizer):
    tokenizer = (
        echo_tokenizer if request.param == "echo" else EchoTokenizer.around(toy.plain_tokenizer())
    )
    return tokenizer, tokenize_parallel(toy.dataset(), tokenizer, progress=False)


def test_rows_are_the_texts_as_the_tokenizer_writes_them(world, toy):
    tokenizer, data = world
    rows = [0, 5, 17]
    batch = MaskedPairCollator(tokenizer)([data[i] for i in rows])
    given = [toy.dataset()[i] for i in rows]
    texts = [(row[side], row[f"{side}_lang"]) for side in ("source", "target") for row in given]
    for ids, mask, (text, lang) in zip(
        batch["input_ids"], batch["attention_mask"], texts, strict=True
    ):
        assert ids[mask.bool()].tolist() == tokenizer(text, lang=lang)["input_ids"]
    changed = batch["masked_ids"] != batch["input_ids"]
    assert changed.any()
    assert (batch["labels"][changed] == batch["input_ids"][changed]).all()


def test_shares_of_masked_tokens(world):
    """400 rows of about 10 tokens: binomial errors are below one percent, the bounds are four of them."""
    tokenizer, data = world
    batch = MaskedPairCollator(tokenizer)([data[i] for i in range(400)])  # MEXMA's 40 %
    chosen = batch["labels"] != -100
    tokens = [len(data[i][side]) for i in range(400) for side in ("source", "target")]
    special = torch.isin(batch["input_ids"], torch.tensor(tokenizer.all_special_ids))
    assert not (chosen & special).any()
    share = chosen.sum().item() / sum(tokens)
    masked = batch["masked_ids"][chosen]
    n = len(masked)
    assert abs(share - 0.4) < 4 * (0.24 / sum(tokens)) ** 0.5
    kept = (masked == batch["input_ids"][chosen]).float().mean().item()
    hidden = (masked == tokenizer.mask_token_id).float().mean().item()
    # A random token is sometimes the mask or the token itself.
    slack = 0.1 * 2 / len(tokenizer)
    assert abs(hidden - 0.8) < 4 * (0.16 / n) ** 0.5 + slack
    assert abs(kept - 0.1) < 4 * (0.09 / n) ** 0.5 + slack


def test_each_text_has_a_masked_token(toy):
    tokenizer = EchoTokenizer.around(toy.plain_tokenizer())
    row = {
        "source": np.array([7], np.int32),
        "source_lang": None,
        "target": np.array([8], np.int32),
    }
    rows = [
        row | {"target_lang": None, "source_key": i, "target_key": i, "index": i}
        for i in range(200)
    ]
    batch = MaskedPairCollator(tokenizer, mask_probability=0.4)(rows)
    assert (batch["labels"] != -100).sum(1).tolist() == [1] * 400
    empty = MaskedPairCollator(tokenizer)([rows[0] | {"source": np.array([], np.int32)}])
    assert (empty["labels"] != -100).sum(1).tolist() == [0, 1]


def test_prompts_are_never_masked(echo_tokenizer, toy):
    data = tokenize_parallel(toy.dataset(), echo_tokenizer, progress=False)
    rows = [data[i] for i in range(50)]
    batch = MaskedPairCollator(echo_tokenizer, mask_probability=0.9)(rows)
    texts = [row[side] for side in ("source", "target") for row in rows]
    for ids, mask, labels, text in zip(
        *(batch[name] for name in ("input_ids", "attention_mask", "labels")), texts
    ):
        end = int(mask.sum()) - 1
        outside = torch.cat([labels[: end - len(text)], labels[end:]])
        assert (outside == -100).all()
        assert ids[end - len(text) : end].tolist() == text.tolist()


def test_lots_do_not_depend_on_the_state_of_torch(world):
    tokenizer, data = world
    rows = [data[i] for i in range(20)]
    batches = []
    for state in (0, 1):
        torch.manual_seed(state)
        batches.append(MaskedPairCollator(tokenizer, seed=3)(rows))
    one, other = batches
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_another_seed_masks_other_tokens(world):
    tokenizer, data = world
    rows = [data[i] for i in range(20)]
    one, other = (MaskedPairCollator(tokenizer, seed=seed)(rows) for seed in (3, 4))
    assert not torch.equal(one["masked_ids"], other["masked_ids"])


def test_lots_of_a_row_do_not_depend_on_the_rows_beside_it(world):
    tokenizer, data = world
    rows = [data[i] for i in range(20)]
    collator = MaskedPairCollator(tokenizer, seed=3)
    whole = collator(rows)["masked_ids"]
    rest = collator(rows[1:])["masked_ids"]
    assert torch.equal(rest[0], whole[1])
