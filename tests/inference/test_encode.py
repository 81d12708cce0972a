"""`encode`: the model's own embeddings, whatever the batches; order, long and empty texts."""

import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_ident

import numpy as np
import pytest
import torch

from hf_echo.checkpoints import convert_llama
from hf_echo.inference import encode, load_encoder
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encode import pick_dtype
from hf_echo.modeling.packed_echo import PackedEncoder
from hf_echo.vocabulary import load_tokenizer

pytestmark = pytest.mark.trains

LANGUAGES = ["fra_Latn", "rus_Cyrl", None, "eng_Latn", "jpn_Jpan"]
WORDS = "un deux quatre neuf rouge bleu chat chien кот пёс птица 猫 é ∑ <SEP> </s> 12".split()


@pytest.fixture(scope="module")
def texts():
    """100 texts of 0 to 20 words, in no order."""
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, size=rng.integers(0, 12))) for _ in range(98)] + [
        "",
        "  \t ",
    ]


@pytest.fixture(scope="module")
def langs(texts):
    return [LANGUAGES[i % len(LANGUAGES)] for i in range(len(texts))]


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
    have = encode(model, toy_tokenizer, texts, langs, max_tokens=max_tokens)
    assert have.dtype == np.float32
    assert have.shape == (100, 32)
    np.testing.assert_allclose(have, rows_one_by_one, atol=1e-5)
    assert np.abs(have[0] - have[1]).max() > 1e-2


def test_a_batch_a_core(
    model, toy_tokenizer, texts, langs, rows_one_by_one, two_threads, monkeypatch
):
    """Batches run side by side, each on one core; afterwards threads old and new are as they were."""
    # breaks unless two batches are under way at once
    seen = set()
    together = Barrier(2, timeout=60)
    embed = PackedEncoder.embed

    def watched(self, rows):
        if not seen:
            together.wait()
        seen.add((get_ident(), torch.get_num_threads()))
        return embed(self, rows)

    monkeypatch.setattr(PackedEncoder, "embed", watched)
    have = encode(model, toy_tokenizer, texts, langs, max_tokens=60)
    np.testing.assert_allclose(have, rows_one_by_one, atol=1e-5)
    assert {threads for _, threads in seen} == {1}
    assert get_ident() not in {thread for thread, _ in seen}
    with ThreadPoolExecutor(1) as pool:
        assert torch.get_num_threads() == 2 == pool.submit(torch.get_num_threads).result()
    # the caller gets a thread's error
    monkeypatch.setattr(PackedEncoder, "embed", lambda self, rows: [][1])
    pytest.raises(IndexError, encode, model, toy_tokenizer, texts, max_tokens=60)
    assert torch.get_num_threads() == 2


def test_batches_keep_the_budget(model, toy_tokenizer, texts, langs, path, monkeypatch):
    sizes = []
    forward = type(model.encoder).forward
    embed = PackedEncoder.embed
    monkeypatch.setattr(
        type(model.encoder),
        "forward",
        lambda self, ids, **kw: sizes.append(ids.shape) or forward(self, ids, **kw),
    )
    monkeypatch.setattr(
        PackedEncoder,
        "embed",
        lambda self, rows: sizes.append((len(rows), max(map(len, rows)))) or embed(self, rows),
    )
    encode(model.encoder, toy_tokenizer, texts, langs, max_tokens=200)
    lengths = [
        len(toy_tokenizer(text, lang=lang)["input_ids"])
        for text, lang in zip(texts, langs, strict=True)
    ]
    assert sum(rows for rows, _ in sizes) == 100
    assert all(rows * length <= 200 for rows, length in sizes)
    # little of it is padding
    assert sum(rows * length for rows, length in sizes) < 1.15 * sum(lengths)


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
    unit = french / np.linalg.norm(french, axis=1, keepdims=True)
    normalised = encode(model, toy_tokenizer, texts, "fra_Latn", normalize=True)
    np.testing.assert_allclose(normalised, unit, atol=1e-6)


def test_a_hub_out_of_reach_is_asked_once(monkeypatch):
    asked = []

    def model_info(self, name, timeout):
        asked.append(name)
        raise ConnectionError("no route to host")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", model_info)
    loads = (load_encoder, any_encoder, load_tokenizer, convert_llama)
    # transformers is not asked: it would retry file by file for most of a minute
    for load in loads:
        with pytest.raises(
            FileNotFoundError, match="'org/none' is neither a folder nor .*on the Hub: no route"
        ):
            load("org/none")
    assert asked == ["org/none"] * len(loads)


def test_white_space_is_an_empty_text(model, toy_tokenizer):
    vectors = encode(model, toy_tokenizer, ["", " ", "\n\t", "un"], "fra_Latn")
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[1:3], vectors[[0, 0]], atol=1e-6)
    assert np.abs(vectors[3] - vectors[0]).max() > 1e-3


def test_no_text_gives_no_row(model, toy_tokenizer):
    assert encode(model, toy_tokenizer, []).shape == (0, 32)


def prefix(tokenizer, lang):
    return len(tokenizer("", lang=lang)["input_ids"]) - 1


def test_long_texts_are_cut_with_a_warning(model, toy_tokenizer, caplog):
    long = "un deux " * 40
    with caplog.at_level(logging.WARNING):
        have = encode(model, toy_tokenizer, ["un", long, "deux", long + "x"], "fra_Latn")
    warnings = [r.getMessage() for r in caplog.records if r.name.startswith("hf_echo")]
    assert len(warnings) == 1
    assert warnings[0].startswith("2 of 4 texts are longer than 64 tokens and were truncated")
    tokenizer_cuts = toy_tokenizer([long], lang="fra_Latn", truncation=True, return_tensors="pt")
    with torch.no_grad():
        want = model.encoder(**tokenizer_cuts).sentence_embedding[0].numpy()
    np.testing.assert_allclose(have[1], want, atol=1e-5)
    with pytest.raises(
        ValueError, match="2 texts are longer than 64 tokens, the first is row 2; shorten them"
    ):
        encode(model, toy_tokenizer, ["un", "un " * 90, "un " * 90], on_long="error")


def test_long_texts_are_split(model, toy_tokenizer):
    """Pieces of as many tokens as fit, each behind the language's prefix, averaged by their tokens."""
    long = "un chien rouge dort " * 30
    ids = toy_tokenizer(long, lang="fra_Latn")["input_ids"]
    head = ids[: prefix(toy_tokenizer, "fra_Latn")]
    tail = ids[-1:]
    body = ids[len(head) : -1]
    room = 64 - len(head) - 1
    pieces = [head + body[i : i + room] + tail for i in range(0, len(body), room)]
    assert len(pieces) > 2
    assert max(map(len, pieces)) == 64 > len(pieces[-1])
    with torch.no_grad():
        vectors = [
            model.encoder(torch.tensor([piece])).sentence_embedding[0].numpy() for piece in pieces
        ]
    want = np.average(vectors, axis=0, weights=[len(piece) for piece in pieces])
    have = encode(
        model, toy_tokenizer, ["un", long, "deux"], ["rus_Cyrl", "fra_Latn", None], on_long="split"
    )
    np.testing.assert_allclose(have[1], want, atol=1e-5)
    short = encode(model, toy_tokenizer, ["un", "deux"], ["rus_Cyrl", None])
    np.testing.assert_allclose(have[[0, 2]], short, atol=1e-5)
    assert np.abs(have[1] - vectors[0]).max() > 1e-3


def test_own_max_length(model, toy_tokenizer):
    a = encode(
        model,
        toy_tokenizer,
        ["un deux quatre"],
        "fra_Latn",
        max_length=prefix(toy_tokenizer, "fra_Latn") + 2,
    )
    b = encode(model, toy_tokenizer, ["un"], "fra_Latn")
    assert len(toy_tokenizer.text_ids(["un"])[0]) == 1
    np.testing.assert_allclose(a, b, atol=1e-5)
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
def test_load_encoder(toy_folders, toy_trained, toy_tokenizer, kind):
    encoder, tokenizer = load_encoder(toy_folders[kind], dtype="fp32")
    assert not encoder.training
    want = encode(toy_trained, toy_tokenizer, ["un chat"], "fra_Latn")
    np.testing.assert_allclose(encode(encoder, tokenizer, ["un chat"], "fra_Latn"), want, atol=1e-6)


def test_bf16_is_close(toy_folders):
    full, half = (load_encoder(toy_folders["release"], dtype=dtype) for dtype in ("fp32", "bf16"))
    texts = ["un chat rouge dort.", "два кот", ""]
    a, b = (encode(*pair, texts, "fra_Latn", normalize=True) for pair in (full, half))
    assert b.dtype == np.float32
    assert (a * b).sum(1).min() > 0.999


def test_any_encoder(toy_folders, toy_trained, toy_tokenizer, tmp_path):
    """An Echo checkpoint, one with a module of somebody's own behind it, a model of quite another kind."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, StaticEmbedding

    texts = ["un chat", "", "deux chien"]
    static = StaticEmbedding(toy_tokenizer.backend_tokenizer, embedding_dim=7)
    want = encode(toy_trained, toy_tokenizer, texts, "fra_Latn")
    found = any_encoder(str(toy_folders["release"]), dtype="fp32")(texts, "fra_Latn")
    np.testing.assert_allclose(found, want, atol=1e-2)
    longer = SentenceTransformer(str(toy_folders["release"]), device="cpu")
    longer.append(Dense(32, 5, bias=False, activation_function=torch.nn.Identity()))
    longer[0].to(torch.bfloat16)  # a Dense stays in float32
    longer.save(str(tmp_path / "longer"))
    found = any_encoder(str(tmp_path / "longer"))(texts, "fra_Latn")
    np.testing.assert_allclose(found, want @ longer[1].linear.weight.detach().numpy().T, atol=3e-2)

    other = SentenceTransformer(modules=[static], device="cpu")
    other.save(str(tmp_path / "static"))
    np.testing.assert_allclose(
        any_encoder(str(tmp_path / "static"))(texts, "fra_Latn"), other.encode(texts), atol=1e-6
    )


def test_a_wrapped_model_is_called_itself(model, toy_tokenizer, texts):
    """As a trainer's evaluation does under FSDP or DDP: only the outermost forward may gather weights."""

    class Wrapper(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
            self.calls = 0
            self.config = inner.config
            self.device = inner.device

        def forward(self, *args, **kwargs):
            self.calls += 1
            return self.inner(*args, **kwargs)

    wrapped = Wrapper(model)
    have = encode(wrapped, toy_tokenizer, texts, "fra_Latn")
    assert wrapped.calls > 0
    np.testing.assert_allclose(have, encode(model, toy_tokenizer, texts, "fra_Latn"), atol=1e-5)
