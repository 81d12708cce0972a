"""`encode`: the model's own embeddings, whatever the batches; order, long and empty texts."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_ident

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, StaticEmbedding

from hf_echo.checkpoints import convert_llama
from hf_echo.inference import encode, load_encoder
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encode import pick_dtype
from hf_echo.modeling.packed_echo import PackedEncoder
from hf_echo.vocabulary import load_tokenizer

from ..formulas import unit

pytestmark = pytest.mark.trains

LANGUAGES = ["fra_Latn", "rus_Cyrl", None, "eng_Latn", "jpn_Jpan"]
WORDS = [
    "un",
    "deux",
    "quatre",
    "neuf",
    "rouge",
    "bleu",
    "chat",
    "chien",
    "кот",
    "пёс",
    "птица",
    "猫",
    "é",
    "∑",
    "<SEP>",
    "</s>",
    "12",
]


@pytest.fixture(scope="module")
def texts():
    """100 texts of 0 to 11 words, in no order."""
    rng = np.random.default_rng(0)
    texts = ["", "  \t "]
    for _ in range(98):
        texts.append(" ".join(rng.choice(WORDS, size=rng.integers(12))))
    rng.shuffle(texts)
    return texts


@pytest.fixture(scope="module")
def langs():
    return LANGUAGES * 20


@pytest.fixture(scope="module")
def model(toy_untrained):
    return toy_untrained


@pytest.fixture(scope="module")
def rows_one_by_one(model, toy_tokenizer, texts, langs) -> np.ndarray:
    """By the Llama blocks' own forward passes: gradients keep the encoder from packing."""
    rows = []
    for text, lang in zip(texts, langs, strict=True):
        batch = toy_tokenizer(text, lang=lang, return_tensors="pt")
        rows.append(model.encoder(**batch).sentence_embedding.detach())
    return torch.cat(rows).numpy()


@pytest.fixture(params=["packed", "padded"])
def path(request, monkeypatch):
    """Both ways through `encode`, whatever this model and machine would take."""
    if request.param == "padded":
        monkeypatch.setitem(encode.__globals__, "can_pack", lambda encoder: False)
        monkeypatch.setattr("hf_echo.modeling.packed_echo.can_pack", lambda encoder: False)
    return request.param


@pytest.mark.parametrize("max_tokens", [1, 60, 300, 10**6])
def test_rows_are_the_models(model, toy_tokenizer, texts, langs, rows_one_by_one, max_tokens, path):
    vectors = encode(model, toy_tokenizer, texts, langs, max_tokens=max_tokens)

    assert vectors.dtype == np.float32
    assert vectors.shape == (100, 32)
    np.testing.assert_allclose(vectors, rows_one_by_one, atol=1e-5)
    assert np.ptp(vectors, axis=0).max() > 1e-2  # texts differ


@pytest.fixture
def threads_of_batches(monkeypatch):
    """(thread, its number of cores) of each batch;
    the first batch waits until a second is under way."""
    seen = set()
    together = Barrier(2, timeout=60)
    embed = PackedEncoder.embed

    def noting(self, rows):
        if not seen:
            together.wait()
        seen.add((get_ident(), torch.get_num_threads()))
        return embed(self, rows)

    monkeypatch.setattr(PackedEncoder, "embed", noting)
    return seen


def test_batches_run_side_by_side_each_on_one_core(
    model, toy_tokenizer, texts, langs, rows_one_by_one, two_threads, threads_of_batches
):
    vectors = encode(model, toy_tokenizer, texts, langs, max_tokens=60)

    # Each row alone, without batches and threads.
    np.testing.assert_allclose(vectors, rows_one_by_one, atol=1e-5)
    assert {cores for _, cores in threads_of_batches} == {1}
    assert get_ident() not in {thread for thread, _ in threads_of_batches}


def test_threads_are_as_before_afterwards(
    model, toy_tokenizer, texts, two_threads, threads_of_batches
):
    """The caller's own, and new ones."""
    encode(model, toy_tokenizer, texts, max_tokens=60)

    assert torch.get_num_threads() == 2
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 2


def test_the_caller_gets_the_error_of_a_thread(
    model, toy_tokenizer, texts, two_threads, monkeypatch
):
    def fail(self, rows):
        raise IndexError("in a thread")

    monkeypatch.setattr(PackedEncoder, "embed", fail)
    with pytest.raises(IndexError, match="in a thread"):
        encode(model, toy_tokenizer, texts, max_tokens=60)
    assert torch.get_num_threads() == 2


@pytest.fixture
def batch_shapes(model, monkeypatch):
    """(rows, longest row) of each batch, packed or padded."""
    shapes = []
    forward = type(model.encoder).forward
    embed = PackedEncoder.embed

    def noting_forward(self, ids, **options):
        shapes.append(ids.shape)
        return forward(self, ids, **options)

    def noting_embed(self, rows):
        shapes.append((len(rows), max(map(len, rows))))
        return embed(self, rows)

    monkeypatch.setattr(type(model.encoder), "forward", noting_forward)
    monkeypatch.setattr(PackedEncoder, "embed", noting_embed)
    return shapes


def test_batches_keep_the_budget(model, toy_tokenizer, texts, langs, path, batch_shapes):
    """No batch is over 200 tokens with its padding, which is less than 15 % of all."""
    encode(model.encoder, toy_tokenizer, texts, langs, max_tokens=200)

    rows, longest = np.array(batch_shapes).T
    ids = toy_tokenizer(texts, lang=langs)["input_ids"]
    assert rows.sum() == 100
    assert (rows * longest).max() <= 200
    assert rows @ longest < 1.15 * sum(map(len, ids))


@pytest.fixture
def french(model, toy_tokenizer, texts) -> np.ndarray:
    return encode(model, toy_tokenizer, texts, "fra_Latn")


def test_the_encoder_alone_gives_the_vectors_of_the_whole_model(
    model, toy_tokenizer, texts, french
):
    alone = encode(model.encoder, toy_tokenizer, texts, "fra_Latn")
    np.testing.assert_array_equal(alone, french)


def test_a_prompt_in_the_text_counts(model, toy_tokenizer, texts, french):
    prompted = encode(model, toy_tokenizer, ["French:<SEP>" + texts[0]])

    np.testing.assert_allclose(prompted, french[:1], atol=1e-5)


def test_normalised_vectors_have_length_1(model, toy_tokenizer, texts, french):
    normalised = encode(model, toy_tokenizer, texts, "fra_Latn", normalize=True)

    np.testing.assert_allclose(normalised, unit(french), atol=1e-6)


@pytest.mark.parametrize("load", [load_encoder, any_encoder, load_tokenizer, convert_llama])
def test_a_hub_out_of_reach_is_asked_once(monkeypatch, load):
    """transformers is not asked: it would retry file by file for most of a minute."""
    names = []

    def model_info(self, name, timeout):
        names.append(name)
        raise ConnectionError("no route to host")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", model_info)
    message = "'org/none' is neither a folder nor .*on the Hub: the Hub cannot be reached .no route"
    with pytest.raises(FileNotFoundError, match=message):
        load("org/none")
    assert names == ["org/none"]


def test_white_space_is_an_empty_text(model, toy_tokenizer):
    vectors = encode(model, toy_tokenizer, ["", " ", "\n\t", "un"], "fra_Latn")
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[1:3], vectors[[0, 0]], atol=1e-6)
    assert np.abs(vectors[3] - vectors[0]).max() > 1e-3


def test_no_text_gives_no_row(model, toy_tokenizer):
    assert encode(model, toy_tokenizer, []).shape == (0, 32)


def prompt_ids(tokenizer, lang) -> list[int]:
    """The tokens in front of a text."""
    return tokenizer("", lang=lang)["input_ids"][:-1]


LONG = "un deux " * 40


def test_long_texts_are_cut_as_the_tokenizer_cuts(model, toy_tokenizer):
    vectors = encode(model, toy_tokenizer, ["un", LONG], "fra_Latn")

    # The tokenizer cuts, the model embeds.
    batch = toy_tokenizer([LONG], lang="fra_Latn", truncation=True, return_tensors="pt")
    with torch.no_grad():
        cut = model.encoder(**batch).sentence_embedding.numpy()
    np.testing.assert_allclose(vectors[1:], cut, atol=1e-5)


def test_long_texts_are_counted_in_one_warning(model, toy_tokenizer, caplog):
    encode(model, toy_tokenizer, ["un", LONG, "deux", LONG], "fra_Latn")

    (warning,) = caplog.messages
    assert warning.startswith("2 of 4 texts are longer than 64 tokens and were truncated")


def test_long_texts_are_refused_on_request(model, toy_tokenizer):
    message = "2 texts are longer than 64 tokens, the first is row 2; shorten them"
    with pytest.raises(ValueError, match=message):
        encode(model, toy_tokenizer, ["un", LONG, LONG], on_long="error")


@pytest.fixture
def long_text_in_pieces(toy_tokenizer):
    """A text, and ids of its pieces of as many tokens as fit, each behind the language's prefix."""
    text = "un chien rouge dort " * 30
    head = prompt_ids(toy_tokenizer, "fra_Latn")
    *ids, end = toy_tokenizer(text, lang="fra_Latn")["input_ids"]
    room = 64 - len(head) - 1
    pieces = []
    for start in range(len(head), len(ids), room):
        pieces.append([*head, *ids[start : start + room], end])
    assert [len(piece) for piece in pieces[:2]] == [64, 64]
    assert len(pieces[-1]) < 64
    return text, pieces


def test_pieces_of_a_long_text_are_averaged_by_their_tokens(
    model, toy_tokenizer, long_text_in_pieces
):
    text, pieces = long_text_in_pieces

    vectors = encode(model, toy_tokenizer, ["un", text], "fra_Latn", on_long="split")

    with torch.no_grad():
        of_pieces = [model.encoder(torch.tensor([piece])).sentence_embedding for piece in pieces]
    lengths = [len(piece) for piece in pieces]
    expected = np.average(torch.cat(of_pieces), axis=0, weights=lengths)
    np.testing.assert_allclose(vectors[1], expected, atol=1e-5)
    assert np.abs(vectors[1] - of_pieces[0].numpy()).max() > 1e-3  # it is not the first piece


def test_texts_beside_a_split_one_are_as_alone(model, toy_tokenizer, long_text_in_pieces):
    text, _ = long_text_in_pieces
    langs = ["rus_Cyrl", "fra_Latn", None]

    vectors = encode(model, toy_tokenizer, ["un", text, "deux"], langs, on_long="split")

    # The same two texts in a call without the long one.
    alone = encode(model, toy_tokenizer, ["un", "deux"], ["rus_Cyrl", None])
    np.testing.assert_allclose(vectors[[0, 2]], alone, atol=1e-5)


def test_a_limit_of_the_user_cuts(model, toy_tokenizer):
    """Room for the prompt, one word and the end."""
    limit = len(prompt_ids(toy_tokenizer, "fra_Latn")) + 2

    cut = encode(model, toy_tokenizer, ["un deux quatre"], "fra_Latn", max_length=limit)

    first_word = encode(model, toy_tokenizer, ["un"], "fra_Latn")
    np.testing.assert_allclose(cut, first_word, atol=1e-5)


def test_a_limit_under_the_prompt_is_refused(model, toy_tokenizer):
    with pytest.raises(ValueError, match="max_length=4 is too small for the prompt"):
        encode(model, toy_tokenizer, ["un deux"], "fra_Latn", max_length=4)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("fp32", torch.float32), ("bf16", torch.bfloat16), (torch.float16, torch.float16)],
)
def test_dtypes_by_name(name, dtype):
    assert pick_dtype(name, "cpu") is dtype


def test_auto_is_one_of_two_dtypes():
    assert pick_dtype("auto", "cpu") in (torch.float32, torch.bfloat16)


def test_an_unknown_dtype_is_refused():
    with pytest.raises(ValueError, match="it must be one of auto, bf16"):
        pick_dtype("fp64", "cpu")


@pytest.mark.parametrize("kind", ["training", "release"])
def test_a_loaded_encoder_gives_the_vectors_of_the_saved_one(
    toy_folders, toy_trained, toy_tokenizer, kind
):
    encoder, tokenizer = load_encoder(toy_folders[kind], dtype="fp32")

    assert not encoder.training
    vectors = encode(encoder, tokenizer, ["un chat"], "fra_Latn")
    # The model in memory, before it was saved.
    expected = encode(toy_trained, toy_tokenizer, ["un chat"], "fra_Latn")
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_bf16_is_close(toy_folders):
    texts = ["un chat rouge dort.", "два кот", ""]
    full = load_encoder(toy_folders["release"], dtype="fp32")
    half = load_encoder(toy_folders["release"], dtype="bf16")

    vectors = encode(*half, texts, "fra_Latn", normalize=True)

    cosines = (vectors * encode(*full, texts, "fra_Latn", normalize=True)).sum(axis=1)
    assert vectors.dtype == np.float32
    assert cosines.min() > 0.999


TEXTS = ["un chat", "", "deux chien"]


def test_any_encoder_opens_an_echo_checkpoint(toy_folders, toy_trained, toy_tokenizer):
    vectors = any_encoder(str(toy_folders["release"]), dtype="fp32")(TEXTS, "fra_Latn")

    expected = encode(toy_trained, toy_tokenizer, TEXTS, "fra_Latn")
    np.testing.assert_allclose(vectors, expected, atol=1e-2)


def test_any_encoder_follows_modules_behind_an_echo_checkpoint(
    toy_folders, toy_trained, toy_tokenizer, tmp_path
):
    model = SentenceTransformer(str(toy_folders["release"]), device="cpu")
    dense = Dense(32, 5, bias=False, activation_function=torch.nn.Identity())
    model.append(dense)
    model[0].to(torch.bfloat16)  # a Dense stays in float32
    model.save(str(tmp_path / "longer"))

    vectors = any_encoder(str(tmp_path / "longer"))(TEXTS, "fra_Latn")

    of_echo = encode(toy_trained, toy_tokenizer, TEXTS, "fra_Latn")
    expected = of_echo @ dense.linear.weight.detach().numpy().T
    np.testing.assert_allclose(vectors, expected, atol=3e-2)


def test_any_encoder_opens_a_model_of_another_kind(toy_tokenizer, tmp_path):
    static = StaticEmbedding(toy_tokenizer.backend_tokenizer, embedding_dim=7)
    model = SentenceTransformer(modules=[static], device="cpu")
    model.save(str(tmp_path / "static"))

    vectors = any_encoder(str(tmp_path / "static"))(TEXTS, "fra_Latn")

    # sentence-transformers, with the model in memory.
    np.testing.assert_allclose(vectors, model.encode(TEXTS), atol=1e-6)


class Wrapper(torch.nn.Module):
    """As FSDP or DDP around a model; it counts its calls."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.calls = 0
        self.config = model.config
        self.device = model.device

    def forward(self, *args, **kwargs):
        self.calls += 1
        return self.model(*args, **kwargs)


def test_a_wrapped_model_is_called_itself(model, toy_tokenizer, texts, french):
    """As in a trainer's evaluation: only the outermost forward may gather weights."""
    wrapped = Wrapper(model)

    vectors = encode(wrapped, toy_tokenizer, texts, "fra_Latn")

    assert wrapped.calls > 0
    np.testing.assert_allclose(vectors, french, atol=1e-5)
