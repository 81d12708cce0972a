"""Ids in configurations and whole checkpoints after a change of the tokenizer; what is refused."""

import copy

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from hf_echo.checkpoints.swap_tokenizer import swap_checkpoint, swap_vocabulary
from hf_echo.inference import encode, translate
from hf_echo.modeling import EchoForTranslation, EchoTokenizer

from ...toy import assert_same
from .tokenizers_of_tests import permuted

pytestmark = pytest.mark.trains


def test_ids_in_configurations(model, toy_tokenizer):
    tokenizer, order = permuted(toy_tokenizer)
    eos = toy_tokenizer.eos_token_id
    colon = toy_tokenizer.get_vocab()[":"]
    settings = model.decoder.generation_config
    settings.eos_token_id = [colon, eos]
    settings.suppress_tokens = [5, 6]
    settings.forced_bos_token_id = 9
    model.config.decoder.eos_token_id = [eos, colon]
    swap_vocabulary(model, toy_tokenizer, tokenizer)
    for config in (model.generation_config, model.config.decoder):
        assert config.eos_token_id == [order[eos], order[colon]]
    assert settings.suppress_tokens == [order[5], order[6]]
    assert settings.forced_bos_token_id == order[9]


def test_ids_without_a_counterpart(model, toy_trained, toy_tokenizer, other_tokenizer):
    lost = next(
        i
        for t, i in toy_tokenizer.get_vocab().items()
        if t not in other_tokenizer.get_vocab() and i > 256
    )
    model.decoder.generation_config.eos_token_id = [toy_tokenizer.eos_token_id, lost]
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    assert model.generation_config.eos_token_id == [other_tokenizer.eos_token_id]
    for name, value, message in (
        (
            "forced_bos_token_id",
            lost,
            rf"GenerationConfig.forced_bos_token_id is token {lost}, which",
        ),
        ("bad_words_ids", [[3, 4]], "GenerationConfig.bad_words_ids spells old words"),
    ):
        model = copy.deepcopy(toy_trained)
        model.generation_config = model.decoder.generation_config
        setattr(model.generation_config, name, value)
        pytest.raises(ValueError, swap_vocabulary, model, toy_tokenizer, other_tokenizer).match(
            message
        )
        assert_same(model, toy_trained)  # refused before anything is changed


@pytest.mark.parametrize("kind", ["training", "release"])
def test_checkpoint_keeps_its_ways_in(
    kind, toy_folders, toy_tokenizer, other_tokenizer, texts, tmp_path
):
    other_tokenizer.save_pretrained(tmp_path / "tokenizer")
    counts = swap_checkpoint(toy_folders[kind], tmp_path / "tokenizer", out := tmp_path / "out")
    assert counts["tokens"] == len(other_tokenizer)
    assert counts["old_tokens"] == len(toy_tokenizer)
    assert counts["copied"] + counts["new"] + counts["unknown"] == counts["tokens"]
    assert (out / "decoder").is_dir() == (kind == "release")
    tokenizer = AutoTokenizer.from_pretrained(out)
    encoder = AutoModel.from_pretrained(out)
    assert isinstance(tokenizer, EchoTokenizer)
    assert tokenizer.get_vocab() == other_tokenizer.get_vocab()
    want = encode(encoder, tokenizer, texts[0][:3], "eng_Latn")
    have = SentenceTransformer(str(out), device="cpu").encode(texts[0][:3], prompt_name="eng_Latn")
    np.testing.assert_allclose(have, want, atol=1e-5)
    memory = swap_vocabulary(
        EchoForTranslation.from_pretrained(toy_folders[kind]), toy_tokenizer, tokenizer
    )
    assert_same(AutoModelForSeq2SeqLM.from_pretrained(out), memory)
    said = pipeline("sonar-translation", model=str(out), device="cpu")(want, tgt_lang="eng_Latn")
    assert [row["translation_text"] for row in said] == translate(memory, tokenizer, want)


def test_checkpoint_of_an_encoder_and_a_bare_tokenizer(toy, toy_trained, toy_tokenizer, tmp_path):
    toy.save(tmp_path / "encoder", toy_trained.encoder, toy_tokenizer)
    letters = {
        letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))
    }
    backend = Tokenizer(models.BPE(vocab=letters, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.save(str(tmp_path / "tokenizer.json"))
    counts = swap_checkpoint(tmp_path / "encoder", tmp_path / "tokenizer.json", tmp_path / "out")
    assert (counts["tokens"], counts["copied"], counts["new"]) == (261, 261, 0)
    tokenizer = EchoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.model_max_length == 64
    assert tokenizer.eos_token == toy_tokenizer.eos_token
    encoder = AutoModel.from_pretrained(tmp_path / "out")
    assert encoder.config.decoder is None
    assert encoder.config.vocab_size == 264
    assert np.isfinite(encode(encoder, tokenizer, ["un vieux chat"], "fra_Latn")).all()


def test_shortened_decoder_is_named(toy, toy_tokenizer, other_tokenizer):
    """And the advice works: the encoder alone can be swapped."""
    model = toy.make_model(toy_tokenizer, decoder={"vocab_size": 320})
    with pytest.raises(
        ValueError, match=r"the decoder knows only the first 320 of 400 tokens.* --decoder drop\)$"
    ):
        swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    swap_vocabulary(model.encoder, toy_tokenizer, other_tokenizer)


def test_checkpoint_refuses(toy_folders, tmp_path):
    folder = toy_folders["training"]
    pytest.raises(ValueError, swap_checkpoint, folder, folder, folder).match(
        "is the checkpoint itself"
    )
    pytest.raises(ValueError, swap_checkpoint, tmp_path, folder, tmp_path / "out").match(
        "Unrecognized model in"
    )
    with pytest.raises(FileNotFoundError, match="no tokenizer at"):
        swap_checkpoint(folder, tmp_path / "none", tmp_path / "out")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="tokenizer.json is not a tokenizer.json: "):
        swap_checkpoint(folder, tmp_path / "tokenizer.json", tmp_path / "out")


def test_swap_refuses(model, toy_trained, toy_tokenizer, other_tokenizer):
    def refuses(message, *, old=toy_tokenizer, new=other_tokenizer, subject=model, **options):
        pytest.raises(ValueError, swap_vocabulary, subject, old, new, **options).match(message)

    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    refuses(
        "new tokenizer is WordLevel without marks of words", new=EchoTokenizer.from_backend(words)
    )
    bare = EchoTokenizer(tokenizer_object=toy_tokenizer.backend_tokenizer, cls_token="<CLS>")
    refuses("new tokenizer has no sep token", new=bare)
    wrong = (
        rf"encoder.embed_tokens has 400 rows, but the old tokenizer {len(other_tokenizer)} tokens"
    )
    refuses(wrong, old=other_tokenizer)
    refuses("'focus' needs auxiliary", method="focus")
    refuses("auxiliary is for method 'focus', not 'mean'", method="mean", auxiliary=["a"])
    empty = np.zeros((len(other_tokenizer), 3))
    refuses("none of the .* shared tokens has an auxiliary vector", method="focus", auxiliary=empty)
    refuses(r"auxiliary has shape \(3, 3\); it must have", method="focus", auxiliary=np.eye(3))
    assert_same(model, toy_trained)
