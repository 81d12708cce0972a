"""Ids in configurations and whole checkpoints after a change of the tokenizer; what is refused."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

from hf_echo.checkpoints.swap_tokenizer import swap_checkpoint, swap_vocabulary
from hf_echo.modeling import EchoForTranslation, EchoTokenizer

from ...toy import assert_same
from .tokenizers_of_tests import permuted

pytestmark = pytest.mark.trains


@pytest.fixture
def with_own_ids(model, toy_tokenizer):
    """(model whose settings of generation hold ids, new tokenizer, {old id: new id})"""
    eos = toy_tokenizer.eos_token_id
    colon = toy_tokenizer.get_vocab()[":"]
    settings = model.decoder.generation_config
    settings.eos_token_id = [colon, eos]
    settings.suppress_tokens = [5, 6]
    settings.forced_bos_token_id = 9
    model.config.decoder.eos_token_id = [eos, colon]
    tokenizer, order = permuted(toy_tokenizer)
    swap_vocabulary(model, toy_tokenizer, tokenizer)
    return model, order


def test_several_ends_of_a_sentence_move(with_own_ids, toy_tokenizer):
    model, order = with_own_ids
    ends = [order[toy_tokenizer.eos_token_id], order[toy_tokenizer.get_vocab()[":"]]]
    assert model.generation_config.eos_token_id == ends
    assert model.config.decoder.eos_token_id == ends


def test_ids_of_generation_move(with_own_ids):
    model, order = with_own_ids
    settings = model.decoder.generation_config
    assert settings.suppress_tokens == [order[5], order[6]]
    assert settings.forced_bos_token_id == order[9]


@pytest.fixture
def lost(toy_tokenizer, other_tokenizer) -> int:
    """The id of a token that the new tokenizer does not have."""
    new = other_tokenizer.get_vocab()
    vocabulary = toy_tokenizer.get_vocab().items()
    return min(number for token, number in vocabulary if token not in new and number > 256)


def test_an_end_without_a_counterpart_is_left_out(model, toy_tokenizer, other_tokenizer, lost):
    model.decoder.generation_config.eos_token_id = [toy_tokenizer.eos_token_id, lost]
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    assert model.generation_config.eos_token_id == [other_tokenizer.eos_token_id]


@pytest.fixture
def refuses(model, toy_trained, toy_tokenizer, other_tokenizer):
    """refuses(message, **options): a swap of `model` is refused before anything is changed."""

    def call(message: str, *, old=toy_tokenizer, new=other_tokenizer, **options) -> None:
        with pytest.raises(ValueError, match=message):
            swap_vocabulary(model, old, new, **options)
        assert_same(model, toy_trained)

    return call


def test_a_first_token_without_a_counterpart_is_refused(model, refuses, lost):
    model.decoder.generation_config.forced_bos_token_id = lost
    refuses(f"GenerationConfig.forced_bos_token_id is token {lost}, which")


def test_bad_words_are_refused(model, refuses):
    model.decoder.generation_config.bad_words_ids = [[3, 4]]
    refuses("GenerationConfig.bad_words_ids spells old words")


@pytest.fixture(params=["training", "release"])
def kind(request) -> str:
    return request.param


@pytest.fixture
def swapped(kind, toy_folders, other_tokenizer, tmp_path):
    """(folder, counts of tokens)"""
    other_tokenizer.save_pretrained(tmp_path / "tokenizer")
    counts = swap_checkpoint(toy_folders[kind], tmp_path / "tokenizer", tmp_path / "out")
    return tmp_path / "out", counts


def test_tokens_are_counted(swapped, toy_tokenizer, other_tokenizer):
    _, counts = swapped
    assert counts["tokens"] == len(other_tokenizer)
    assert counts["old_tokens"] == len(toy_tokenizer)
    assert counts["copied"] + counts["new"] + counts["unknown"] == counts["tokens"]


def test_a_swapped_checkpoint_is_the_swapped_model(
    swapped, kind, toy_folders, toy_tokenizer, other_tokenizer
):
    folder, _ = swapped
    model = EchoForTranslation.from_pretrained(toy_folders[kind])
    swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    assert_same(AutoModelForSeq2SeqLM.from_pretrained(folder), model)
    assert (folder / "decoder").is_dir() == (kind == "release")


def test_a_swapped_checkpoint_has_the_new_tokenizer(swapped, other_tokenizer):
    tokenizer = AutoTokenizer.from_pretrained(swapped[0])
    assert isinstance(tokenizer, EchoTokenizer)
    assert tokenizer.get_vocab() == other_tokenizer.get_vocab()


@pytest.fixture
def swapped_encoder(toy, toy_trained, toy_tokenizer, tmp_path):
    """(folder of an encoder alone with a bare file tokenizer.json of letters, counts of tokens)"""
    toy.save(tmp_path / "encoder", toy_trained.encoder, toy_tokenizer)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    letters = {letter: number for number, letter in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocab=letters, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    file = tmp_path / "tokenizer.json"
    backend.save(str(file))
    return tmp_path / "out", swap_checkpoint(tmp_path / "encoder", file, tmp_path / "out")


def test_an_encoder_alone_is_swapped(swapped_encoder):
    """256 letters and five special tokens."""
    folder, counts = swapped_encoder
    assert counts["tokens"] == counts["copied"] == 261
    config = AutoModel.from_pretrained(folder).config
    assert config.decoder is None
    assert config.vocab_size == 264


def test_a_bare_tokenizer_has_the_ends_of_the_old_one(swapped_encoder, toy_tokenizer):
    tokenizer = EchoTokenizer.from_pretrained(swapped_encoder[0])
    assert tokenizer.model_max_length == 64
    assert tokenizer.eos_token == toy_tokenizer.eos_token


def test_a_decoder_of_the_first_tokens_is_refused(toy, toy_tokenizer, other_tokenizer):
    """And the advice works: the encoder alone can be swapped."""
    model = toy.make_model(toy_tokenizer, decoder={"vocab_size": 320})
    message = r"the decoder knows only the first 320 of 400 tokens.* --decoder drop\)$"
    with pytest.raises(ValueError, match=message):
        swap_vocabulary(model, toy_tokenizer, other_tokenizer)
    swap_vocabulary(model.encoder, toy_tokenizer, other_tokenizer)


def test_a_checkpoint_is_not_overwritten(toy_folders):
    folder = toy_folders["training"]
    with pytest.raises(ValueError, match="is the checkpoint itself"):
        swap_checkpoint(folder, folder, folder)


def test_a_missing_tokenizer_is_named(toy_folders, tmp_path):
    with pytest.raises(FileNotFoundError, match="no tokenizer at"):
        swap_checkpoint(toy_folders["training"], tmp_path / "none", tmp_path / "out")


def test_another_file_in_place_of_a_tokenizer_is_refused(toy_folders, tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_text("{}")
    with pytest.raises(ValueError, match="tokenizer.json is not a tokenizer.json: "):
        swap_checkpoint(toy_folders["training"], file, tmp_path / "out")


def test_a_tokenizer_without_marks_of_words_is_refused(refuses):
    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    new = EchoTokenizer.from_backend(words)
    refuses("new tokenizer is WordLevel without marks of words", new=new)


def test_a_tokenizer_without_a_special_token_is_refused(refuses, toy_tokenizer):
    backend = toy_tokenizer.backend_tokenizer
    new = EchoTokenizer(tokenizer_object=backend, cls_token="<CLS>")
    refuses("new tokenizer has no sep token", new=new)


def test_another_old_tokenizer_is_refused(refuses, other_tokenizer):
    message = rf"encoder.embed_tokens has 400 rows, but the old tokenizer {len(other_tokenizer)}"
    refuses(f"{message} tokens", old=other_tokenizer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "focus"}, "'focus' needs auxiliary"),
        (
            {"method": "mean", "auxiliary": ["a"]},
            "auxiliary is for method 'focus', not 'mean'",
        ),
        (
            {"method": "focus", "auxiliary": np.eye(3)},
            r"auxiliary has shape \(3, 3\); it must have",
        ),
    ],
)
def test_options_that_do_not_fit_the_method_are_refused(refuses, options, message):
    refuses(message, **options)


def test_vectors_of_no_shared_token_are_refused(refuses, other_tokenizer):
    empty = np.zeros((len(other_tokenizer), 3))
    message = "none of the .* shared tokens has an auxiliary vector"
    refuses(message, method="focus", auxiliary=empty)
