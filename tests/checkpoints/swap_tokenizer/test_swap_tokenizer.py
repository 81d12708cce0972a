"""A model with another tokenizer: what stays is the same, new vectors equal a loop that is written out."""

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


def test_permuted_vocabulary_changes_nothing_that_is_seen(model, toy_trained, toy_tokenizer, texts):
    tokenizer, order = permuted(toy_tokenizer)
    swap_vocabulary(model, toy_tokenizer, tokenizer)
    assert not torch.equal(model.encoder.backbone.embed_tokens.weight, toy_trained.encoder.backbone.embed_tokens.weight)
    have, want = encode(model, tokenizer, *texts), encode(toy_trained, toy_tokenizer, *texts)
    assert np.array_equal(have, want)
    assert translate(model, tokenizer, want) == translate(toy_trained, toy_tokenizer, want)
    for config in (model.config, model.encoder.config, model.decoder.config, model.config.decoder):
        for role in ROLES:
            old = getattr(toy_tokenizer, f"{role}_token_id")
            assert getattr(config, f"{role}_token_id") == getattr(tokenizer, f"{role}_token_id") == order[old]
    start = model.decoder.generation_config.decoder_start_token_id
    assert start == model.config.decoder.decoder_start_token_id == tokenizer.bos_token_id
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.encoder.backbone.embed_tokens.padding_idx == tokenizer.pad_token_id


def test_mean_equals_a_loop(model, toy_trained, toy_tokenizer, other_tokenizer):
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    old_vocabulary, special = toy_tokenizer.get_vocab(), set(toy_tokenizer.all_special_tokens)
    spelt = {"<|begin|>": "<s>", "<|end|>": "</s>"} | {name: name for name in ("<CLS>", "<SEP>", "<pad>")}
    old_model, new = toy_tokenizer.backend_tokenizer.model, 0
    for have, old in (
        (model.encoder.backbone.embed_tokens.weight, toy_trained.encoder.backbone.embed_tokens.weight),
        (model.decoder.model.embed_tokens.weight, toy_trained.decoder.model.embed_tokens.weight),
    ):
        have, old = have.detach().numpy(), old.detach().numpy()
        for token, number in other_tokenizer.get_vocab().items():
            if token in spelt:
                want = old[old_vocabulary[spelt[token]]]
            elif token in old_vocabulary and token not in special:
                want = old[old_vocabulary[token]]
            else:
                ids = [piece.id for piece in old_model.tokenize(token)]
                assert len(ids) > 1
                want, new = np.mean([old[i] for i in ids], axis=0), new + 1
            np.testing.assert_allclose(have[number], want, atol=1e-6)
    assert new > 100
    rows = -(-len(other_tokenizer) // 8) * 8  # the old matrix had 400
    assert len(have) == rows == model.config.vocab_size == model.decoder.lm_head.out_features


def test_extended_tokenizer_keeps_what_it_segments_as_before(model, toy_trained, toy_tokenizer, texts):
    alpha, beta = visible("α"), visible("β")
    merges = [(alpha[0], alpha[1]), (alpha, beta[0])]  # a letter, and a letter with half of the next one
    tokenizer = extended(toy_tokenizer, merges)
    swap_vocabulary(model, toy_tokenizer, tokenizer)
    rows = len(toy_tokenizer)
    for have, old in (
        (model.encoder.backbone.embed_tokens, toy_trained.encoder.backbone.embed_tokens),
        (model.decoder.lm_head, toy_trained.decoder.lm_head),
    ):
        have, old = have.weight.detach(), old.weight.detach()
        assert torch.equal(have[:rows], old)
        letter, half = (old[[toy_tokenizer.get_vocab()[c] for c in text]] for text in (alpha, alpha + beta[0]))
        torch.testing.assert_close(have[rows : rows + 2], torch.stack([letter.mean(0), half.mean(0)]))
    assert np.array_equal(encode(model, tokenizer, *texts), encode(toy_trained, toy_tokenizer, *texts))


def test_half_a_character_is_spelt_by_the_old_merges(toy_tokenizer):
    """Not decoded to text on the way: " к", a token of old, and the first byte of another letter."""
    tokenizer = extended(toy_tokenizer, [(visible(" к"), visible("α")[0])])
    match, _ = match_vocabularies(toy_tokenizer, tokenizer)
    vocabulary = toy_tokenizer.get_vocab()
    assert match.pieces == {len(toy_tokenizer): [vocabulary[visible(" к")], vocabulary[visible("α")[0]]]}


def test_rows_beyond_the_tokenizer(toy, toy_tokenizer, other_tokenizer):
    """A converted model rounds its rows up to 8; the new ones are rounded too, and are the mean of the old."""
    tokenizer = extended(toy_tokenizer, [("a", "z")])
    model = toy.make_model(toy_tokenizer, vocab_size=len(toy_tokenizer))
    swap_vocabulary(model, toy_tokenizer, tokenizer)
    weight = model.encoder.backbone.embed_tokens.weight.detach()
    assert len(toy_tokenizer) == 400 and len(tokenizer) == 401 and len(weight) == 408
    torch.testing.assert_close(weight[401:], weight[:400].mean(0).expand(7, -1))
    swap_vocabulary(model, tokenizer, toy_tokenizer)
    assert len(model.decoder.lm_head.weight) == model.config.vocab_size == 400
    odd = toy.make_model(tokenizer)
    swap_vocabulary(odd, tokenizer, other_tokenizer)
    assert len(odd.encoder.backbone.embed_tokens.weight) == len(other_tokenizer) == odd.config.decoder.vocab_size


def test_random_draws_have_the_old_spread(model, toy_trained, toy_tokenizer, other_tokenizer):
    again = copy.deepcopy(model)
    for swapped, seed in ((model, 0), (again, 1)):
        swap_vocabulary(swapped, toy_tokenizer, other_tokenizer, method="random", seed=seed)
    match, _ = match_vocabularies(toy_tokenizer, other_tokenizer)
    old, have = (m.encoder.backbone.embed_tokens.weight.detach() for m in (toy_trained, model))
    new, shared = list(match.pieces), list(match.copied)
    assert len(new) > 100
    assert torch.equal(have[shared], old[list(match.copied.values())])
    assert not torch.equal(have[new], again.encoder.backbone.embed_tokens.weight.detach()[new])
    z = (have[new] - old.mean(0)) / old.std(0)
    assert abs(z.mean()) < 0.05 and abs(z.std() - 1) < 0.05


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
    have = torch.zeros(40, 60, dtype=torch.float64).scatter(1, index, weights).numpy()
    np.testing.assert_allclose(have, [simplex_by_sorting(row) for row in scores], atol=1e-12)
    np.testing.assert_allclose(have.sum(1), 1)
    assert np.allclose(sparsemax(torch.zeros(2, 5))[0].numpy(), 0.2)


def test_focus_equals_a_loop(model, toy_trained, toy_tokenizer, other_tokenizer):
    """Shared tokens copied, new ones a convex combination of them, those without a vector averaged."""
    rng = np.random.default_rng(4)
    auxiliary = rng.normal(size=(len(other_tokenizer), 6)).astype(np.float32)
    match, _ = match_vocabularies(toy_tokenizer, other_tokenizer)
    bare_new, bare_shared = list(match.pieces)[5], list(match.copied)[7]
    auxiliary[[bare_new, bare_shared]] = 0
    swap_vocabulary(model, toy_tokenizer, other_tokenizer, method="focus", auxiliary=auxiliary)
    old, have = (m.encoder.backbone.embed_tokens.weight.detach().numpy() for m in (toy_trained, model))
    shared = [i for i in match.copied if i != bare_shared]
    unit = auxiliary / np.maximum(np.linalg.norm(auxiliary, axis=1, keepdims=True), 1e-9)
    for new in match.pieces:
        weights = simplex_by_sorting(np.array([unit[new] @ unit[i] for i in shared], np.float64))
        want = sum(w * old[match.copied[i]] for w, i in zip(weights, shared, strict=True))
        if new == bare_new:
            want = np.mean([old[i] for i in match.pieces[new]], axis=0)
        np.testing.assert_allclose(have[new], want, atol=1e-5)
    for new, before in match.copied.items():
        assert np.array_equal(have[new], old[before])


@pytest.mark.parametrize("tied", [True, False])
def test_head_after_save_and_load(toy, toy_tokenizer, other_tokenizer, tmp_path, tied):
    model = toy.make_model(toy_tokenizer, decoder={"tie_word_embeddings": tied})
    old = model.decoder.lm_head.weight.detach().clone()
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    model.save_pretrained(tmp_path)
    again = EchoForTranslation.from_pretrained(tmp_path)
    assert_same(again, model)
    for decoder in (model.decoder, again.decoder):
        assert (decoder.lm_head.weight is decoder.model.embed_tokens.weight) == tied
    token, before = other_tokenizer.eos_token_id, toy_tokenizer.eos_token_id
    assert torch.equal(again.decoder.lm_head.weight[token], old[before])


def test_parts_alone(model, toy_tokenizer, other_tokenizer):
    encoder, decoder = copy.deepcopy(model.encoder), copy.deepcopy(model.decoder)
    for whole in (model, encoder, decoder):
        swap_vocabulary(whole, toy_tokenizer, other_tokenizer)
    assert isinstance(encoder, EchoEncoder) and isinstance(decoder, EchoDecoder)
    assert_same(encoder, model.encoder)
    assert_same(decoder, model.decoder)
    assert decoder.config.to_dict() == model.decoder.config.to_dict()
