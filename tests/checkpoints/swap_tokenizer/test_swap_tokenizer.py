"""A model with another tokenizer: what stays is the same, new vectors equal a loop that is written
out."""

import copy

import numpy as np
import pytest
import torch

from hf_echo.checkpoints.swap_tokenizer import swap_vocabulary
from hf_echo.inference import encode, translate
from hf_echo.modeling import EchoDecoder, EchoEncoder, EchoForTranslation
from hf_echo.vocabulary.initialise import sparsemax
from hf_echo.vocabulary.match import match_vocabularies

from ...toy import assert_same
from .tokenizers_of_tests import ROLES, extended, permuted, visible

pytestmark = pytest.mark.trains


@pytest.mark.parametrize("method", ["mean", "focus", "random"])
def test_same_tokenizer_is_the_identity(model, toy_trained, toy_tokenizer, method):
    options = {"auxiliary": np.eye(len(toy_tokenizer))} if method == "focus" else {}
    before = model.config.to_dict()
    assert swap_vocabulary(model, toy_tokenizer, toy_tokenizer, method=method, **options) is model
    assert_same(model, toy_trained)
    assert model.config.to_dict() == before


@pytest.fixture
def reordered(model, toy_tokenizer):
    """(model, tokenizer, {old id: new id}): the same tokens in another order."""
    tokenizer, order = permuted(toy_tokenizer)
    swap_vocabulary(model, toy_tokenizer, tokenizer)
    return model, tokenizer, order


def test_another_order_of_tokens_moves_rows(reordered, toy_trained):
    model, _, _ = reordered
    assert not torch.equal(encoder_rows(model), encoder_rows(toy_trained))


def test_another_order_of_tokens_changes_no_embedding(reordered, toy_trained, toy_tokenizer, texts):
    model, tokenizer, _ = reordered
    assert np.array_equal(
        encode(model, tokenizer, *texts), encode(toy_trained, toy_tokenizer, *texts)
    )


def test_another_order_of_tokens_changes_no_translation(
    reordered, toy_trained, toy_tokenizer, texts
):
    model, tokenizer, _ = reordered
    vectors = encode(toy_trained, toy_tokenizer, *texts)
    assert translate(model, tokenizer, vectors) == translate(toy_trained, toy_tokenizer, vectors)


@pytest.mark.parametrize("role", ROLES)
def test_special_ids_move_in_every_configuration(reordered, toy_tokenizer, role):
    model, tokenizer, order = reordered
    new_id = order[getattr(toy_tokenizer, f"{role}_token_id")]
    assert getattr(tokenizer, f"{role}_token_id") == new_id
    for config in (model.config, model.encoder.config, model.decoder.config, model.config.decoder):
        assert getattr(config, f"{role}_token_id") == new_id


def test_generation_starts_from_the_new_ids(reordered):
    model, tokenizer, _ = reordered
    assert model.config.decoder.decoder_start_token_id == tokenizer.bos_token_id
    assert model.decoder.generation_config.decoder_start_token_id == tokenizer.bos_token_id
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.encoder.backbone.embed_tokens.padding_idx == tokenizer.pad_token_id


def encoder_rows(model) -> torch.Tensor:
    return model.encoder.backbone.embed_tokens.weight.detach()


def decoder_rows(model) -> torch.Tensor:
    return model.decoder.model.embed_tokens.weight.detach()


@pytest.mark.parametrize("rows_of", [encoder_rows, decoder_rows])
def test_mean_equals_a_loop(model, toy_trained, toy_tokenizer, other_tokenizer, rows_of):
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    new_rows = rows_of(model).numpy()
    old_rows = rows_of(toy_trained).numpy()
    old_ids = toy_tokenizer.get_vocab()
    old_special = set(toy_tokenizer.all_special_tokens)
    old_names = {
        "<|begin|>": "<s>",
        "<|end|>": "</s>",
        "<CLS>": "<CLS>",
        "<SEP>": "<SEP>",
        "<pad>": "<pad>",
    }
    # Token by token: the old row where the old vocabulary has it, else the mean of its pieces.
    new_tokens = 0
    for token, new_id in other_tokenizer.get_vocab().items():
        if token in old_names:
            expected = old_rows[old_ids[old_names[token]]]
        elif token in old_ids and token not in old_special:
            expected = old_rows[old_ids[token]]
        else:
            pieces = [piece.id for piece in toy_tokenizer.backend_tokenizer.model.tokenize(token)]
            assert len(pieces) > 1
            expected = old_rows[pieces].mean(0)
            new_tokens += 1
        np.testing.assert_allclose(new_rows[new_id], expected, atol=1e-6)
    assert new_tokens > 50


def test_rows_are_rounded_up_as_before(model, toy_tokenizer, other_tokenizer):
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    rows = -(-len(other_tokenizer) // 8) * 8  # the old matrix had 400
    assert len(encoder_rows(model)) == rows
    assert model.config.vocab_size == rows
    assert model.decoder.lm_head.out_features == rows


ALPHA = visible("α")
BETA = visible("β")


@pytest.fixture
def with_greek(model, toy_tokenizer):
    """(model, tokenizer) with two more tokens: a letter, and a letter with half of the next one."""
    tokenizer = extended(toy_tokenizer, [(ALPHA[0], ALPHA[1]), (ALPHA, BETA[0])])
    swap_vocabulary(model, toy_tokenizer, tokenizer)
    return model, tokenizer


@pytest.mark.parametrize(
    "rows_of", [encoder_rows, lambda model: model.decoder.lm_head.weight.detach()]
)
def test_an_extension_keeps_old_rows_before_means_of_bytes(
    with_greek, toy_trained, toy_tokenizer, rows_of
):
    model, _ = with_greek
    old_rows = rows_of(toy_trained)
    old_ids = toy_tokenizer.get_vocab()
    letter = old_rows[[old_ids[byte] for byte in ALPHA]].mean(0)
    letter_with_half = old_rows[[old_ids[byte] for byte in ALPHA + BETA[0]]].mean(0)

    new_rows = rows_of(model)

    size = len(toy_tokenizer)
    assert torch.equal(new_rows[:size], old_rows)
    torch.testing.assert_close(new_rows[size : size + 2], torch.stack([letter, letter_with_half]))


def test_an_extension_keeps_embeddings_of_texts_without_new_tokens(
    with_greek, toy_trained, toy_tokenizer, texts
):
    model, tokenizer = with_greek
    assert np.array_equal(
        encode(model, tokenizer, *texts), encode(toy_trained, toy_tokenizer, *texts)
    )


def test_half_a_character_is_spelt_by_the_old_merges(toy_tokenizer):
    """Not decoded to text on the way: " к", a token of old, and the first byte of another
    letter."""
    tokenizer = extended(toy_tokenizer, [(visible(" к"), visible("α")[0])])
    match, _ = match_vocabularies(toy_tokenizer, tokenizer)
    vocabulary = toy_tokenizer.get_vocab()
    assert match.pieces == {
        len(toy_tokenizer): [vocabulary[visible(" к")], vocabulary[visible("α")[0]]]
    }


@pytest.fixture
def with_one_token_more(toy, toy_tokenizer):
    """(model of 400 rows swapped onto 401 tokens, tokenizer)"""
    tokenizer = extended(toy_tokenizer, [("a", "z")])
    model = toy.make_model(toy_tokenizer, vocab_size=len(toy_tokenizer))
    swap_vocabulary(model, toy_tokenizer, tokenizer)
    return model, tokenizer


def test_rows_beyond_the_tokenizer_are_the_mean_of_the_old(with_one_token_more):
    """A converted model rounds its rows up to 8; the new ones are rounded too."""
    model, tokenizer = with_one_token_more
    weight = encoder_rows(model)
    assert (len(tokenizer), len(weight)) == (401, 408)
    torch.testing.assert_close(weight[401:], weight[:400].mean(0).expand(7, -1))


def test_rows_beyond_the_tokenizer_go_again(with_one_token_more, toy_tokenizer):
    model, tokenizer = with_one_token_more
    swap_vocabulary(model, tokenizer, toy_tokenizer)
    assert len(model.decoder.lm_head.weight) == model.config.vocab_size == 400


def test_an_odd_number_of_rows_is_not_rounded(toy, with_one_token_more, other_tokenizer):
    _, tokenizer = with_one_token_more
    model = toy.make_model(tokenizer)  # 401 rows
    swap_vocabulary(model, tokenizer, other_tokenizer)
    assert len(encoder_rows(model)) == model.config.decoder.vocab_size == len(other_tokenizer)


@pytest.fixture
def random_rows(model, toy_trained, toy_tokenizer, other_tokenizer):
    """(rows by seed 0, rows by seed 1, old rows, match)"""
    again = copy.deepcopy(model)
    swap_vocabulary(model, toy_tokenizer, other_tokenizer, method="random", seed=0)
    swap_vocabulary(again, toy_tokenizer, other_tokenizer, method="random", seed=1)
    match, _ = match_vocabularies(toy_tokenizer, other_tokenizer)
    return encoder_rows(model), encoder_rows(again), encoder_rows(toy_trained), match


def test_random_draws_keep_shared_tokens(random_rows):
    rows, _, old_rows, match = random_rows
    assert torch.equal(rows[list(match.copied)], old_rows[list(match.copied.values())])


def test_random_draws_follow_the_seed(random_rows):
    rows, rows_of_another_seed, _, match = random_rows
    new = list(match.pieces)
    assert not torch.equal(rows[new], rows_of_another_seed[new])


def test_random_draws_have_the_old_spread(random_rows):
    rows, _, old_rows, match = random_rows
    new = list(match.pieces)
    assert len(new) > 100
    z = (rows[new] - old_rows.mean(0)) / old_rows.std(0)
    assert abs(z.mean()) < 0.05
    assert abs(z.std() - 1) < 0.05


def simplex_by_sorting(z: np.ndarray) -> np.ndarray:
    """Martins and Astudillo 2016, algorithm 1."""
    ordered = np.sort(z)[::-1]
    k = max(k for k in range(1, len(z) + 1) if 1 + k * ordered[k - 1] > ordered[:k].sum())
    return np.maximum(z - (ordered[:k].sum() - 1) / k, 0)


@pytest.mark.parametrize("guess", [1, 4, 256])
@pytest.mark.parametrize("scale", [0.01, 0.3, 5.0])
def test_sparsemax(scale, guess):
    scores = np.random.default_rng(1).normal(size=(40, 60)) * scale
    weights, index = sparsemax(torch.from_numpy(scores), guess=guess)
    dense = torch.zeros(40, 60, dtype=torch.float64).scatter(1, index, weights).numpy()
    np.testing.assert_allclose(dense, [simplex_by_sorting(row) for row in scores], atol=1e-12)
    np.testing.assert_allclose(dense.sum(1), 1)


def test_sparsemax_of_equal_scores_is_uniform():
    weights, _ = sparsemax(torch.zeros(2, 5))
    assert np.allclose(weights.numpy(), 0.2)


@pytest.fixture
def focus_swap(model, toy_tokenizer, other_tokenizer):
    """(rows, auxiliary vectors, match): the sixth new and the eighth shared token have no
    vector."""
    rng = np.random.default_rng(4)
    auxiliary = rng.normal(size=(len(other_tokenizer), 6)).astype(np.float32)
    match, _ = match_vocabularies(toy_tokenizer, other_tokenizer)
    auxiliary[list(match.pieces)[5]] = 0
    auxiliary[list(match.copied)[7]] = 0
    swap_vocabulary(model, toy_tokenizer, other_tokenizer, method="focus", auxiliary=auxiliary)
    return encoder_rows(model).numpy(), auxiliary, match


def test_focus_copies_shared_tokens(focus_swap, toy_trained):
    rows, _, match = focus_swap
    old_rows = encoder_rows(toy_trained).numpy()
    assert np.array_equal(rows[list(match.copied)], old_rows[list(match.copied.values())])


def test_focus_equals_a_loop(focus_swap, toy_trained):
    """New tokens are a convex combination of shared ones;
    without a vector the mean of their pieces."""
    rows, auxiliary, match = focus_swap
    old_rows = encoder_rows(toy_trained).numpy()
    shared = [token_id for token_id in match.copied if auxiliary[token_id].any()]
    shared_rows = old_rows[[match.copied[token_id] for token_id in shared]]
    unit = auxiliary / np.maximum(np.linalg.norm(auxiliary, axis=1, keepdims=True), 1e-9)
    for new, pieces in match.pieces.items():
        if auxiliary[new].any():
            cosines = (unit[shared] @ unit[new]).astype(np.float64)
            expected = simplex_by_sorting(cosines) @ shared_rows
        else:
            expected = old_rows[pieces].mean(0)
        np.testing.assert_allclose(rows[new], expected, atol=1e-5)


@pytest.mark.parametrize("tied", [True, False])
def test_a_head_is_tied_after_the_swap_as_before(
    toy, toy_tokenizer, other_tokenizer, tmp_path, tied
):
    model = toy.make_model(toy_tokenizer, decoder={"tie_word_embeddings": tied})
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    model.save_pretrained(tmp_path)
    again = EchoForTranslation.from_pretrained(tmp_path)
    assert_same(again, model)
    for decoder in (model.decoder, again.decoder):
        assert (decoder.lm_head.weight is decoder.model.embed_tokens.weight) == tied


@pytest.mark.parametrize("tied", [True, False])
def test_a_head_has_the_row_of_the_old_end(toy, toy_tokenizer, other_tokenizer, tied):
    model = toy.make_model(toy_tokenizer, decoder={"tie_word_embeddings": tied})
    old_head = model.decoder.lm_head.weight.detach().clone()
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    row = model.decoder.lm_head.weight[other_tokenizer.eos_token_id]
    assert torch.equal(row, old_head[toy_tokenizer.eos_token_id])


@pytest.mark.parametrize(("part", "kind"), [("encoder", EchoEncoder), ("decoder", EchoDecoder)])
def test_a_part_alone_is_swapped_as_in_the_whole(model, toy_tokenizer, other_tokenizer, part, kind):
    alone = copy.deepcopy(getattr(model, part))
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    swap_vocabulary(alone, toy_tokenizer, other_tokenizer)
    assert isinstance(alone, kind)
    assert_same(alone, getattr(model, part))


def test_the_configuration_of_a_decoder_alone_is_that_of_the_whole(
    model, toy_tokenizer, other_tokenizer
):
    decoder = copy.deepcopy(model.decoder)
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    swap_vocabulary(decoder, toy_tokenizer, other_tokenizer)
    assert decoder.config.to_dict() == model.decoder.config.to_dict()
