"""Moving a model: what stays must stay exactly, what is new must be what a loop written out gives."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from hf_echo.checkpoints.swap_tokenizer import match_vocabularies, swap_checkpoint, swap_vocabulary
from hf_echo.data.collators import TranslationCollator
from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.inference import encode, translate
from hf_echo.modeling import EchoDecoder, EchoEncoder, EchoForTranslation, EchoTokenizer
from hf_echo.vocabulary import train_tokenizer
from hf_echo.vocabulary.initialise import sparsemax

pytestmark = pytest.mark.trains

ROLES = ("cls", "sep", "bos", "eos", "pad")


def content_of(tokenizer) -> dict:
    return json.loads(tokenizer.backend_tokenizer.to_str())


def rebuilt(tokenizer, content: dict) -> EchoTokenizer:
    names = {f"{role}_token": getattr(tokenizer, f"{role}_token") for role in ROLES}
    # Special tokens stand in the vocabulary too, or they would be numbered after all others.
    content["model"]["vocab"] |= {token["content"]: token["id"] for token in content["added_tokens"]}
    backend = Tokenizer.from_str(json.dumps(content))
    return EchoTokenizer(tokenizer_object=backend, model_max_length=64, split_special_tokens=True, **names)


def permuted(tokenizer) -> tuple[EchoTokenizer, np.ndarray]:
    """The same tokenizer under other ids; `order[old id]` is the new one."""
    content, order = content_of(tokenizer), np.random.default_rng(3).permutation(len(tokenizer))
    content["model"]["vocab"] = {token: int(order[i]) for token, i in content["model"]["vocab"].items()}
    for token in content["added_tokens"]:
        token["id"] = int(order[token["id"]])
    for special in content["post_processor"]["special_tokens"].values():
        special["ids"] = [int(order[i]) for i in special["ids"]]
    return rebuilt(tokenizer, content), order


def extended(tokenizer, merges: list[tuple[str, str]]) -> EchoTokenizer:
    content = content_of(tokenizer)
    content["model"]["merges"] += [list(merge) for merge in merges]
    for number, merge in enumerate(merges, len(tokenizer)):
        content["model"]["vocab"]["".join(merge)] = number
    return rebuilt(tokenizer, content)


def visible(text: str) -> str:
    """A text as byte-level tokens spell it."""
    return "".join(piece for piece, _ in pre_tokenizers.ByteLevel(False, use_regex=False).pre_tokenize_str(text))


def translation_loss(model, tokenizer, rows) -> float:
    """Nats a target token, on rows of the toy world."""
    data = tokenize_parallel(rows, tokenizer, progress=False)
    batch = TranslationCollator(tokenizer, language_drop=0.0)([data[i] for i in range(len(data))])
    names = ("input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask", "labels")
    with torch.no_grad():
        return float(model(**{name: batch[name] for name in names if name in batch}).loss)


def assert_same(have, want) -> None:
    have, want = have.state_dict(), want.state_dict()
    assert have.keys() == want.keys()
    assert all(torch.equal(have[name], want[name]) for name in want)


@pytest.fixture
def model(toy_trained):
    return copy.deepcopy(toy_trained)


@pytest.fixture(scope="module")
def texts(toy):
    return [row["text"] for row in toy.nway_rows()], [row["lang"] for row in toy.nway_rows()]


@pytest.fixture(scope="module")
def other_tokenizer(toy):
    """Trained on other text and smaller, under other names of bos and eos: most of its words are new."""
    texts = [f"{word} {word[::-1]}" for groups in toy.WORDS.values() for g in groups for word in g.split()] * 3
    backend = train_tokenizer(texts, 480, progress=False).backend_tokenizer
    content = json.loads(backend.to_str())
    content["added_tokens"], content["normalizer"], content["post_processor"] = [], None, None
    return EchoTokenizer.from_backend(
        Tokenizer.from_str(json.dumps(content)), max_length=64, bos="<|begin|>", eos="<|end|>"
    )


@pytest.mark.parametrize("method", ["mean", "sum", "focus", "random"])
def test_same_tokenizer_is_the_identity(model, toy_trained, toy_tokenizer, method):
    options = {"auxiliary": np.eye(len(toy_tokenizer))} if method == "focus" else {}
    before = model.config.to_dict()
    assert swap_vocabulary(model, toy_tokenizer, toy_tokenizer, method=method, **options) is model
    assert_same(model, toy_trained)
    assert model.config.to_dict() == before


def test_permuted_vocabulary_changes_nothing_that_is_seen(model, toy_trained, toy_tokenizer, texts):
    tokenizer, order = permuted(toy_tokenizer)
    swap_vocabulary(model, toy_tokenizer, tokenizer)
    assert not torch.equal(model.encoder.embed_tokens.weight, toy_trained.encoder.embed_tokens.weight)
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
    assert model.encoder.embed_tokens.padding_idx == tokenizer.pad_token_id


@pytest.mark.parametrize("method", ["mean", "sum"])
def test_mean_and_sum_equal_a_loop(model, toy_trained, toy_tokenizer, other_tokenizer, method):
    swap_vocabulary(model, toy_tokenizer, other_tokenizer, method=method)
    old_vocabulary, special = toy_tokenizer.get_vocab(), set(toy_tokenizer.all_special_tokens)
    spelt = {"<|begin|>": "<s>", "<|end|>": "</s>"} | {name: name for name in ("<CLS>", "<SEP>", "<pad>")}
    old_model, new = toy_tokenizer.backend_tokenizer.model, 0
    for have, old in (
        (model.encoder.embed_tokens.weight, toy_trained.encoder.embed_tokens.weight),
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
                want, new = getattr(np, method)([old[i] for i in ids], axis=0), new + 1
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
        (model.encoder.embed_tokens, toy_trained.encoder.embed_tokens),
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
    weight = model.encoder.embed_tokens.weight.detach()
    assert len(toy_tokenizer) == 400 and len(tokenizer) == 401 and len(weight) == 408
    torch.testing.assert_close(weight[401:], weight[:400].mean(0).expand(7, -1))
    swap_vocabulary(model, tokenizer, toy_tokenizer)
    assert len(model.decoder.lm_head.weight) == model.config.vocab_size == 400
    odd = toy.make_model(tokenizer)
    swap_vocabulary(odd, tokenizer, other_tokenizer)
    assert len(odd.encoder.embed_tokens.weight) == len(other_tokenizer) == odd.config.decoder.vocab_size


def test_random_draws_have_the_old_spread(model, toy_trained, toy_tokenizer, other_tokenizer):
    again = copy.deepcopy(model)
    for swapped, seed in ((model, 0), (again, 1)):
        swap_vocabulary(swapped, toy_tokenizer, other_tokenizer, method="random", seed=seed)
    match, _ = match_vocabularies(toy_tokenizer, other_tokenizer)
    old, have = (m.encoder.embed_tokens.weight.detach() for m in (toy_trained, model))
    new, shared = list(match.pieces), list(match.copied)
    assert len(new) > 100
    assert torch.equal(have[shared], old[list(match.copied.values())])
    assert not torch.equal(have[new], again.encoder.embed_tokens.weight.detach()[new])
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
    old, have = (m.encoder.embed_tokens.weight.detach().numpy() for m in (toy_trained, model))
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


def test_dtype_and_frozen_parts_stay(model, toy_tokenizer, other_tokenizer):
    model = model.to(torch.bfloat16)
    model.encoder.requires_grad_(False)
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert not model.encoder.embed_tokens.weight.requires_grad and model.decoder.lm_head.weight.requires_grad


def test_generation_stops_at_the_end(model, toy, toy_trained, toy_tokenizer, texts):
    """Words are spelt otherwise, so that the decoder is told all of its ids anew; it still ends its sentences."""
    tokenizer, _ = permuted(extended(toy_tokenizer, [(visible(" cat")[:2], "z")]))
    tokenizer.backend_tokenizer.no_padding()
    swap_vocabulary(model, toy_tokenizer, tokenizer)
    embeddings = torch.from_numpy(encode(toy_trained, toy_tokenizer, *texts))[:8]
    prompt = torch.tensor([tokenizer.decoder_prompt_ids("eng_Latn")] * 8)
    ids = model.generate(sentence_embedding=embeddings, decoder_input_ids=prompt, max_new_tokens=40)
    ended = ids == tokenizer.eos_token_id
    assert ended.any(1).all() and ids.shape[1] < prompt.shape[1] + 40
    want = translate(toy_trained, toy_tokenizer, embeddings)
    new = tokenizer.batch_decode(ids[:, prompt.shape[1] :], skip_special_tokens=True)
    assert [text.strip() for text in new] == want


def test_mean_starts_far_below_random(toy, toy_trained, toy_tokenizer):
    """The same text with longer tokens: 80 that the model has never seen."""
    texts = [toy.say(meaning, lang) for meaning in toy.MEANINGS for lang in toy.LANGUAGES]
    longer = train_tokenizer(texts, 480, max_length=64, progress=False)
    losses = {}
    for method in ("mean", "random"):
        model = swap_vocabulary(copy.deepcopy(toy_trained), toy_tokenizer, longer, method=method)
        losses[method] = translation_loss(model, longer, toy.dataset("dev"))
    before = translation_loss(toy_trained, toy_tokenizer, toy.dataset("dev"))
    assert before < losses["mean"] < 0.6 * losses["random"], (before, losses)


def test_ids_in_configurations(model, toy_tokenizer):
    tokenizer, order = permuted(toy_tokenizer)
    eos, colon = toy_tokenizer.eos_token_id, toy_tokenizer.get_vocab()[":"]
    settings = model.decoder.generation_config
    settings.eos_token_id, settings.suppress_tokens = [colon, eos], [5, 6]
    settings.forced_bos_token_id = 9
    model.config.decoder.eos_token_id = [eos, colon]
    swap_vocabulary(model, toy_tokenizer, tokenizer)
    assert model.generation_config.eos_token_id == [order[eos], order[colon]]
    assert model.config.decoder.eos_token_id == [order[eos], order[colon]]
    assert settings.suppress_tokens == [order[5], order[6]]
    assert settings.forced_bos_token_id == order[9]


def test_ids_without_a_counterpart(model, toy_trained, toy_tokenizer, other_tokenizer):
    lost = next(i for t, i in toy_tokenizer.get_vocab().items() if t not in other_tokenizer.get_vocab() and i > 256)
    model.decoder.generation_config.eos_token_id = [toy_tokenizer.eos_token_id, lost]
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    assert model.generation_config.eos_token_id == [other_tokenizer.eos_token_id]
    for name, value, message in (
        ("forced_bos_token_id", lost, rf"GenerationConfig.forced_bos_token_id is token {lost}, which"),
        ("bad_words_ids", [[3, 4]], "GenerationConfig.bad_words_ids spells words in the old vocabulary"),
    ):
        model = copy.deepcopy(toy_trained)
        model.generation_config = model.decoder.generation_config
        setattr(model.generation_config, name, value)
        with pytest.raises(ValueError, match=message):
            swap_vocabulary(model, toy_tokenizer, other_tokenizer)
        assert_same(model, toy_trained)  # refused before anything is changed


@pytest.mark.parametrize("kind", ["training", "release"])
def test_checkpoint_keeps_its_layout_and_its_ways_in(
    kind, toy_folders, toy_tokenizer, other_tokenizer, texts, tmp_path
):
    from sentence_transformers import SentenceTransformer

    other_tokenizer.save_pretrained(tmp_path / "tokenizer")
    counts = swap_checkpoint(toy_folders[kind], tmp_path / "tokenizer", out := tmp_path / "out")
    assert counts["tokens"] == len(other_tokenizer) and counts["old_tokens"] == len(toy_tokenizer)
    assert counts["copied"] + counts["new"] + counts["unknown"] == counts["tokens"]
    assert (out / "decoder").is_dir() == (kind == "release")
    tokenizer, encoder = AutoTokenizer.from_pretrained(out), AutoModel.from_pretrained(out)
    assert isinstance(tokenizer, EchoTokenizer) and tokenizer.get_vocab() == other_tokenizer.get_vocab()
    want = encode(encoder, tokenizer, texts[0][:3], "eng_Latn")
    have = SentenceTransformer(str(out), device="cpu").encode(texts[0][:3], prompt_name="eng_Latn")
    np.testing.assert_allclose(have, want, atol=1e-5)
    memory = swap_vocabulary(EchoForTranslation.from_pretrained(toy_folders[kind]), toy_tokenizer, tokenizer)
    assert_same(AutoModelForSeq2SeqLM.from_pretrained(out), memory)
    said = pipeline("sonar-translation", model=str(out), device="cpu")(want, tgt_lang="eng_Latn")
    assert [row["translation_text"] for row in said] == translate(memory, tokenizer, want)


def test_checkpoint_of_an_encoder_and_a_bare_tokenizer(toy_trained, toy_tokenizer, tmp_path):
    toy_trained.encoder.save_pretrained(tmp_path / "encoder")
    toy_tokenizer.save_pretrained(tmp_path / "encoder")
    backend = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.save(str(tmp_path / "tokenizer.json"))
    counts = swap_checkpoint(tmp_path / "encoder", tmp_path / "tokenizer.json", tmp_path / "out")
    assert (counts["tokens"], counts["copied"], counts["new"]) == (261, 261, 0)
    tokenizer = EchoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.model_max_length == 64 and tokenizer.eos_token == toy_tokenizer.eos_token
    encoder = AutoModel.from_pretrained(tmp_path / "out")
    assert encoder.config.decoder is None and encoder.config.vocab_size == 264
    assert np.isfinite(encode(encoder, tokenizer, ["un vieux chat"], "fra_Latn")).all()


def test_checkpoint_refuses(toy_folders, tmp_path):
    folder = toy_folders["training"]
    with pytest.raises(ValueError, match="is the checkpoint itself"):
        swap_checkpoint(folder, folder, folder)
    with pytest.raises(FileNotFoundError, match="holds no config.json"):
        swap_checkpoint(tmp_path, folder, tmp_path / "out")
    with pytest.raises(FileNotFoundError, match="no tokenizer at"):
        swap_checkpoint(folder, tmp_path / "none", tmp_path / "out")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="tokenizer.json is not a tokenizer.json: "):
        swap_checkpoint(folder, tmp_path / "tokenizer.json", tmp_path / "out")


def test_swap_refuses(model, toy_trained, toy_tokenizer, other_tokenizer):
    def refuses(message, *, old=toy_tokenizer, new=other_tokenizer, subject=model, **options):
        with pytest.raises(ValueError, match=message) as error:
            swap_vocabulary(subject, old, new, **options)
        assert "\n" not in str(error.value)

    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    characters = Tokenizer(models.BPE(vocab={"a": 0, "▁": 1}, merges=[]))
    characters.pre_tokenizer = pre_tokenizers.Metaspace()
    refuses("new tokenizer is WordLevel.*only byte-level BPE", new=EchoTokenizer.from_backend(words))
    refuses("old tokenizer is BPE without byte level", old=EchoTokenizer.from_backend(characters))
    bare = EchoTokenizer(tokenizer_object=toy_tokenizer.backend_tokenizer, cls_token="<CLS>")
    refuses("new tokenizer has no sep token", new=bare)
    refuses("the new tokenizer is a Tokenizer; wrap it", new=toy_tokenizer.backend_tokenizer)
    wrong = rf"encoder.embed_tokens has 400 rows, but the old tokenizer {len(other_tokenizer)} tokens"
    refuses(wrong, old=other_tokenizer)
    refuses("cannot swap the vocabulary of a Linear", subject=torch.nn.Linear(2, 2))
    refuses("method is 'zett'; it must be one of mean, sum, focus, random", method="zett")
    refuses("'focus' needs auxiliary", method="focus")
    refuses("auxiliary is for method 'focus', not 'mean'", method="mean", auxiliary=["a"])
    empty = np.zeros((len(other_tokenizer), 3))
    refuses("none of the .* shared tokens has an auxiliary vector", method="focus", auxiliary=empty)
    refuses(r"auxiliary has shape \(3, 3\); it must have", method="focus", auxiliary=np.eye(3))
    assert_same(model, toy_trained)
