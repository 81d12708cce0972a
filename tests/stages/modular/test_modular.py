"""Modular encoder: languages come and go without a trace on the others; parameter counts; routing;
bad input."""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

from hf_echo.checkpoints import convert_encoder
from hf_echo.evaluation.report.models import open_model
from hf_echo.inference.any_encoder import NamedEncoder, any_encoder
from hf_echo.modeling import EchoEncoder
from hf_echo.modeling.sentence_transformer_modular import ModularEncoder, ParallelAdapter
from hf_echo.stages.modular import add_language, modular_backbone, open_modular
from hf_echo.stages.modular.training import either_direction

from ...processes import SCRIPTS, WITHOUT_PACKAGE, python

pytestmark = pytest.mark.trains
COMMAND = "modular"

WORDS = {
    "eng_Latn": ["house", "cat", "red", "dog", "sees", "big", "blue", "eats", "bread", "water"],
    "deu_Latn": [
        "haus",
        "katze",
        "rot",
        "hund",
        "sieht",
        "gross",
        "blau",
        "isst",
        "brot",
        "wasser",
    ],
    "fra_Latn": [
        "maison",
        "chat",
        "rouge",
        "chien",
        "voit",
        "grand",
        "bleu",
        "mange",
        "pain",
        "eau",
    ],
}
SETTINGS = dict(
    vocab_size=120, mlm_steps=4, batch_size=32, alignment_batch_size=32, learning_rate=1e-2
)
UNKNOWN = "'fra_Latn' is not in this model; it has deu_Latn, eng_Latn"


def meanings() -> list[list[int]]:
    """160 sentences of five words, by number."""
    rng = np.random.default_rng(0)
    return rng.integers(10, size=(160, 5)).tolist()


def sentences(code: str, count: int = 6) -> list[str]:
    words = WORDS[code]
    return [" ".join(words[i] for i in meaning) for meaning in meanings()[:count]]


def write_pairs(file: Path, sources: list[str], targets: list[str]) -> Path:
    lines = [f"{source}\t{target}\n" for source, target in zip(sources, targets, strict=True)]
    file.write_text("".join(lines))
    return file


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, dict[str, Path]]:
    """language -> the files of `add_language`; a paraphrase is the sentence backwards."""
    files = {}
    english = sentences("eng_Latn", 160)
    for code in WORDS:
        folder = tmp_path_factory.mktemp(code)
        texts = sentences(code, 160)
        backwards = [" ".join(reversed(text.split())) for text in texts]
        (folder / "texts.txt").write_text("\n".join(texts))
        files[code] = {
            "texts": folder / "texts.txt",
            "paraphrases": write_pairs(folder / "paraphrases.tsv", texts, backwards),
            "cross_paraphrases": write_pairs(folder / "cross.tsv", english, backwards),
            "parallel": write_pairs(folder / "parallel.tsv", english, texts),
        }
    return files


@pytest.fixture(scope="module")
def base(tiny_bert, tmp_path_factory) -> Path:
    words = [word for own_words in WORDS.values() for word in own_words]
    return tiny_bert(tmp_path_factory.mktemp("base"), words * 3, vocab_size=150)


@pytest.fixture(scope="module")
def english(base, data, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("english") / "model"
    modular_backbone(base, out)
    files = data["eng_Latn"]
    add_language(
        out, "eng_Latn", **SETTINGS, texts=files["texts"], paraphrases=files["paraphrases"]
    )
    return out


@pytest.fixture(scope="module")
def two(english, data, tmp_path_factory) -> Path:
    """A model of English and German."""
    out = tmp_path_factory.mktemp("two") / "model"
    add_language(english, "deu_Latn", **SETTINGS, output_dir=out, **data["deu_Latn"])
    return out


@pytest.fixture
def copy(two, tmp_path) -> Path:
    return Path(shutil.copytree(two, tmp_path / "model"))


@pytest.fixture
def backbone(base, tmp_path) -> Path:
    """A modular encoder without a language."""
    modular_backbone(base, tmp_path / "m")
    return tmp_path / "m"


@pytest.fixture
def bare_english(backbone) -> Path:
    """With the backbone's own English."""
    add_language(backbone, "eng_Latn")
    return backbone


def without_dropout(folder: Path) -> None:
    """So that the loss of the first batch is that of the saved weights."""
    config = json.loads((folder / "config.json").read_text())
    config["backbone"].update(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    (folder / "config.json").write_text(json.dumps(config))


def content(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def embed(folder: Path, code: str) -> np.ndarray:
    return open_modular(folder).encode(sentences(code), prompt_name=code)


def unit_vectors(folder: Path, texts: list[str], code: str) -> np.ndarray:
    model = open_modular(folder)
    return model.encode(texts, prompt_name=code, normalize_embeddings=True)


@pytest.fixture(scope="module")
def three(two, data, tmp_path_factory) -> Path:
    """The model of two languages with French."""
    out = tmp_path_factory.mktemp("three") / "model"
    shutil.copytree(two, out)
    add_language(out, "fra_Latn", **SETTINGS, **data["fra_Latn"])
    return out


def test_another_language_writes_its_own_folder_alone(two, three):
    before = content(two)
    after = content(three)
    new = after.keys() - before.keys()
    assert new
    assert all(name.startswith("languages/fra_Latn/") for name in new)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("code", ["eng_Latn", "deu_Latn"])
def test_another_language_leaves_vectors_equal_in_every_bit(two, three, code):
    assert embed(three, code).tobytes() == embed(two, code).tobytes()


def test_a_language_has_vectors_of_its_own(three):
    texts = sentences("fra_Latn")
    by_german = open_modular(three).encode(texts, prompt_name="deu_Latn")
    assert np.abs(embed(three, "fra_Latn") - by_german).max() > 1e-3


def softmax_loss(logits: np.ndarray) -> float:
    """Mean cross-entropy of rows (n, candidates) whose right candidate is on the diagonal."""
    return (np.log(np.exp(logits).sum(1)) - np.diag(logits)).mean()


@pytest.mark.parametrize("name", ["negative", "hard_negatives"])
def test_triplets_have_a_negative_in_the_softmax(bare_english, tmp_path, name):
    """The loss of the first batch, before anything has moved, by the formula."""
    without_dropout(bare_english)
    texts = sentences("deu_Latn", 36)
    languages = ["deu_Latn"] * 12
    columns = {
        "sentence1": texts[:12],
        "sentence2": texts[12:24],
        name: texts[24:],
        "sentence1_lang": languages,
        "sentence2_lang": languages,
    }
    file = tmp_path / "triplets.parquet"
    Dataset.from_dict(columns).to_parquet(file)

    report = add_language(
        bare_english, "deu_Latn", paraphrases=file, batch_size=12, learning_rate=1e-9
    )

    vectors = unit_vectors(bare_english, texts, "deu_Latn")
    logits = 20 * vectors[:12] @ vectors[12:].T  # 12 positives, then 12 negatives
    assert report["losses"]["sentence_adapter"] == pytest.approx(softmax_loss(logits), rel=0.02)
    assert abs(softmax_loss(logits) - softmax_loss(logits[:, :12])) > 0.1


class Sides(torch.nn.Module):
    """A model that notes which column of a batch it reads."""

    def __init__(self):
        super().__init__()
        self.vectors = torch.nn.functional.normalize(torch.randn(3, 4, 8), dim=-1)
        self.columns = []

    def forward(self, features):
        self.columns.append(features["side"])
        return {"sentence_embedding": self.vectors[features["side"]]}


def test_the_language_of_the_anchors_is_drawn_for_each_batch():
    """Over 200 batches of pairs each language is the anchor about as often."""
    torch.manual_seed(0)
    model = Sides()
    loss = either_direction(model)

    for _ in range(200):
        loss([{"side": 0}, {"side": 1}], None)

    assert 60 < sum(model.columns[::2]) < 140
    assert sorted(model.columns[:2]) == [0, 1]


def test_triplets_keep_their_direction():
    model = Sides()
    loss = either_direction(model)

    for _ in range(20):
        loss([{"side": 0}, {"side": 1}, {"side": 2}], None)

    assert model.columns == [0, 1, 2] * 20


@pytest.fixture
def all_pairs(tmp_path) -> Path:
    """Pairs of French with English and with German, given either way round."""
    rows = []
    for french, english, german in zip(
        sentences("fra_Latn", 32), sentences("eng_Latn", 32), sentences("deu_Latn", 32), strict=True
    ):
        rows.append(
            dict(source=english, source_lang="eng_Latn", target=french, target_lang="fra_Latn")
        )
        rows.append(
            dict(source=french, source_lang="fra_Latn", target=german, target_lang="deu_Latn")
        )
    Dataset.from_list(rows).to_parquet(tmp_path / "pairs.parquet")
    return tmp_path / "pairs.parquet"


def test_all_pair_alignment_has_a_loss_against_each_earlier_language(copy, all_pairs):
    """Modular 6.1: before anything has moved, the loss is the mean of 1 - cos over both languages,
    by the formula."""
    without_dropout(copy)

    report = add_language(
        copy, "fra_Latn", alignment_batch_size=32, learning_rate=1e-12, parallel=all_pairs
    )

    french = unit_vectors(copy, sentences("fra_Latn", 32), "fra_Latn")
    distances = []
    for code in ("eng_Latn", "deu_Latn"):
        vectors = unit_vectors(copy, sentences(code, 32), code)
        distances.append(1 - (vectors * french).sum(1).mean())
    assert abs(distances[0] - distances[1]) > 0.01  # so that one language alone would not pass
    assert report["losses"]["alignment"] == pytest.approx(np.mean(distances), abs=0.003)


def test_all_pair_alignment_leaves_the_earlier_languages(copy, all_pairs):
    before = content(copy)

    add_language(copy, "fra_Latn", **SETTINGS, parallel=all_pairs)

    after = content(copy)
    assert {name: after[name] for name in before} == before


def test_pairs_with_a_language_that_is_not_there_are_refused(english, all_pairs):
    message = "a pair is fra_Latn-deu_Latn, it must be fra_Latn with eng_Latn"
    with pytest.raises(ValueError, match=message):
        add_language(english, "fra_Latn", **SETTINGS, parallel=all_pairs)


@pytest.fixture
def bert_base() -> ModularEncoder:
    """German on a base model of meta tensors, so nothing is computed."""
    with torch.device("meta"):
        module = ModularEncoder(BertModel(BertConfig(vocab_size=100)), None)
        module.add_language("deu_Latn", embeddings=torch.empty(50_048, 768))
        for part in ("language_adapter", "sentence_adapter", "alignment"):
            module.add_part("deu_Latn", part)
    return module


@pytest.mark.parametrize(
    ("part", "count"),
    [
        ("embeddings", 38_436_864),
        ("language_adapter", 12 * 3 * 2 * 8 * 768),
        ("sentence_adapter", 1_179_648),
        ("alignment", 7_091_712),
    ],
)
def test_parameter_counts_of_table_4(bert_base, part, count):
    weights = bert_base.part_parameters("deu_Latn", part).values()
    assert sum(weight.numel() for weight in weights) == count


def test_adapters_of_a_second_language_warn_of_nothing(bert_base):
    """peft warns of a second adapter, and a modular encoder has several."""
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("error")

        bert_base.add_language("fra_Latn")
        bert_base.add_part("fra_Latn", "language_adapter")

    assert bert_base.parts["fra_Latn"] == ["language_adapter"]


def test_one_part_learns_at_a_time(bert_base):
    assert not any(weight.requires_grad for weight in bert_base.parameters())

    bert_base.learn("deu_Latn", ["sentence_adapter"])

    learning = [weight for weight in bert_base.parameters() if weight.requires_grad]
    assert sum(weight.numel() for weight in learning) == 1_179_648


def test_parallel_adapter_is_inside_the_layer_norm(two):
    """LN(FFN(x) + x + 4 up(relu(down x))) of the last layer, worked out from its parts."""
    module = open_modular(two)[0]
    layer = module.backbone.encoder.layer[-1]
    adapter = module.alignment["deu_Latn"][-1]
    seen = {}
    # What goes into the last feed-forward layer and what comes out of its first half.
    layer.intermediate.register_forward_hook(
        lambda module, inputs, output: seen.update(x=inputs[0], hidden=output)
    )
    features = module.preprocess(sentences("deu_Latn", 3), prompt="deu_Latn")

    with torch.no_grad():
        states = module(features)["token_embeddings"]

    # The formula, on the layer's own weights.
    with torch.no_grad():
        down = torch.nn.functional.linear(seen["x"], adapter.down.weight, adapter.down.bias)
        up = torch.nn.functional.linear(down.relu(), adapter.up.weight, adapter.up.bias)
        total = layer.output.dense(seen["hidden"]) + seen["x"] + 4 * up
        expected = layer.output.LayerNorm(total)
    assert up.abs().max() > 1e-4
    torch.testing.assert_close(states, expected, atol=1e-6, rtol=0)


def test_a_new_parallel_adapter_changes_nothing():
    assert not ParallelAdapter(8)(torch.randn(2, 8)).any()


def add_lora(model, folder: Path) -> None:
    """Add alpha / r B A of an adapter's folder to the weights."""
    config = json.loads((folder / "adapter_config.json").read_text())
    weights = load_file(folder / "adapter_model.safetensors")
    for name, low_rank in weights.items():
        layer, _, kind = name.removeprefix("base_model.model.").partition(".lora_")
        if kind == "A.weight":
            delta = weights[name.replace("lora_A", "lora_B")] @ low_rank
            assert delta.any()  # it has learned
            model.get_submodule(layer).weight += config["lora_alpha"] / config["r"] * delta


@torch.no_grad()
def test_adapters_add_up_as_peft_opens_them(two):
    """Both LoRA deltas added to the weights by hand give the states of the unmerged adapters."""
    module = open_modular(two)[0]
    module.alignment.pop("deu_Latn")
    features = module.preprocess(sentences("deu_Latn", 3), prompt="deu_Latn")

    states = module(features)["token_embeddings"]

    plain = AutoModel.from_pretrained(two, dtype=torch.float32).backbone.eval()
    for part in ("language_adapter", "sentence_adapter"):
        add_lora(plain, two / "languages" / "deu_Latn" / part)
    inputs = {
        "inputs_embeds": module.embeddings["deu_Latn"](features["input_ids"]),
        "attention_mask": features["attention_mask"],
    }
    torch.testing.assert_close(states, plain(**inputs).last_hidden_state, atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [1, 5, 32])
def test_a_mixed_batch_equals_batches_per_language(two, size):
    model = open_modular(two)
    rows = []
    for number in range(6):
        for code in ("deu_Latn", "eng_Latn"):
            text = " ".join(sentences(code)[: number + 1])
            rows.append({"text": text, "lang": code})
    # Each text by itself.
    alone = [model.encode(row["text"], prompt_name=row["lang"]) for row in rows]

    mixed = model.encode(rows, batch_size=size)

    np.testing.assert_allclose(mixed, alone, atol=1e-6)


def test_languages_are_identified_where_none_is_given(two):
    model = open_modular(two)
    german = sentences("deu_Latn")[0]
    english = sentences("eng_Latn")[0]
    choices = []

    def identify(texts: list[str], languages: list[str]) -> list[str]:
        choices.append(languages)
        return ["deu_Latn" if text == german else "eng_Latn" for text in texts]

    model[0].identify = identify
    vectors = model.encode([german, english])

    assert choices[0] == ["deu_Latn", "eng_Latn"]
    # The same texts with their language given.
    rows = [{"text": german, "lang": "deu_Latn"}, {"text": english, "lang": "eng_Latn"}]
    np.testing.assert_allclose(vectors, model.encode(rows), atol=1e-6)


def test_heliport_identifies(two):
    texts = [
        "This is a short sentence in English.",
        "Das ist ein kurzer Satz auf Deutsch, und er ist nicht schwer.",
    ]
    assert open_modular(two)[0].languages_of(["x", "y"], texts, None) == ["eng_Latn", "deu_Latn"]


@pytest.mark.slow
def test_opens_elsewhere_with_remote_code(two, tmp_path):
    """A process that cannot import hf_echo saves it again and opens that: the same vectors."""
    again = tmp_path / "again"
    vectors = tmp_path / "vectors.npy"

    script = [WITHOUT_PACKAGE, SCRIPTS / "save_modular_again.py"]
    python(*script, two, again, vectors, *sentences("deu_Latn"), cwd=tmp_path)

    np.testing.assert_allclose(np.load(vectors), embed(two, "deu_Latn"), atol=1e-6)
    assert content(again / "languages").keys() == content(two / "languages").keys()


WAYS = {
    "any_encoder": any_encoder,
    "NamedEncoder": NamedEncoder,
    "open_model": lambda name: open_model(name, sentences("deu_Latn")).encode,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_encoder_takes_the_language_of_a_text(two, way):
    """Without trust_remote_code, by the code of this package."""
    encode = WAYS[way](str(two))
    texts = sentences("deu_Latn")
    expected = embed(two, "deu_Latn")
    np.testing.assert_allclose(encode(texts, "deu_Latn"), expected, atol=1e-6)
    assert np.abs(encode(texts, "eng_Latn") - expected).max() > 1e-3


@pytest.mark.parametrize("way", WAYS)
def test_every_encoder_refuses_a_language_that_is_not_there(two, way):
    encode = WAYS[way](str(two))
    with pytest.raises(ValueError, match=UNKNOWN):
        encode(["chat"], "fra_Latn")


LONG_WORDS = "haus rot wasserrot katzehaus wasserrot katzehaus"


@pytest.fixture(scope="module")
def encode_ten_tokens(base, tmp_path_factory):
    """An encoder of ten tokens; German's own vocabulary spells each of the six long words with one
    token."""
    folder = tmp_path_factory.mktemp("short")
    (folder / "texts.txt").write_text(f"{LONG_WORDS}\n" * 40)
    modular_backbone(base, folder / "m", max_seq_length=10)
    add_language(folder / "m", "eng_Latn")
    add_language(folder / "m", "deu_Latn", **SETTINGS, texts=folder / "texts.txt")
    return NamedEncoder(str(folder / "m"), on_long="error")


def test_length_is_counted_by_the_languages_own_tokenizer(encode_ten_tokens):
    assert encode_ten_tokens([LONG_WORDS], "deu_Latn").shape == (1, 32)


def test_a_text_that_is_too_long_for_its_language_is_refused(encode_ten_tokens):
    with pytest.raises(ValueError, match="longer than 10 tokens"):
        encode_ten_tokens([LONG_WORDS], "eng_Latn")


@pytest.mark.parametrize(
    "missing",
    ["alignment.safetensors", "sentence_adapter", "language.json", "embeddings.safetensors"],
)
def test_a_missing_part_is_named(copy, missing):
    place = copy / "languages" / "deu_Latn" / missing
    place.rename(copy / "gone")
    with pytest.raises(FileNotFoundError, match=f"deu_Latn.*{missing}"):
        open_modular(copy)


def test_other_languages_open_beside_a_damaged_one(copy):
    (copy / "languages" / "deu_Latn" / "language.json").unlink()
    assert open_modular(copy, ["eng_Latn"])[0].languages == ["eng_Latn"]


def test_a_part_of_another_backbone_is_refused(copy):
    file = copy / "languages" / "deu_Latn" / "alignment.safetensors"
    save_file({"0.up.weight": torch.ones(2, 3)}, file)
    with pytest.raises(ValueError, match="does not fit the backbone"):
        open_modular(copy)


def test_a_text_of_an_unknown_language_is_refused(two):
    with pytest.raises(ValueError, match=UNKNOWN):
        open_modular(two).encode([{"text": "chat", "lang": "fra_Latn"}])


def test_an_unknown_language_is_not_opened(two):
    with pytest.raises(ValueError, match="'fra_Latn' is not in this model"):
        open_modular(two, ["fra_Latn"])


def refuses(message: str, folder: Path, code: str, **files) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        add_language(folder, code, **SETTINGS, **files)


def test_a_folder_that_is_no_modular_encoder_is_refused(tmp_path):
    refuses(r"has no modular\.json", tmp_path, "deu_Latn")


def test_a_language_that_is_there_is_refused(two, data):
    refuses("has deu_Latn already", two, "deu_Latn", texts=data["deu_Latn"]["texts"])


def test_an_unknown_code_is_refused(two, data):
    refuses("xyz_Abcd", two, "xyz_Abcd", texts=data["fra_Latn"]["texts"])


def test_a_language_without_data_is_refused(two):
    refuses("nothing to train fra_Latn on", two, "fra_Latn")


def test_a_missing_file_is_named(two):
    refuses("texts: no file", two, "fra_Latn", texts="none.txt")


def test_a_file_without_pairs_is_named(two):
    refuses("modules.json", two, "fra_Latn", parallel=two / "modules.json")


def test_triplets_in_some_rows_are_refused(two, tmp_path):
    header = "sentence1\tsentence2\tsentence1_lang\tsentence2_lang\tnegative\n"
    rows = "un\tdeux\tfra_Latn\tfra_Latn\ttrois\nun\tun\tfra_Latn\tfra_Latn\t\n"
    (tmp_path / "some.tsv").write_text(header + rows)
    message = "1 of 2 rows have a negative"
    refuses(message, two, "fra_Latn", paraphrases=tmp_path / "some.tsv")


def test_the_pivot_is_not_aligned(backbone, data):
    message = "eng_Latn is the pivot, which is not aligned"
    refuses(message, backbone, "eng_Latn", parallel=data["eng_Latn"]["parallel"])


def test_the_pivot_comes_first(backbone, data):
    message = "does not have the pivot eng_Latn yet"
    refuses(message, backbone, "deu_Latn", parallel=data["deu_Latn"]["parallel"])


@pytest.fixture(scope="module")
def means_of_bert(base):
    """means_of_bert(input ids): mean of the backbone's states, as transformers computes them."""
    bert = BertModel.from_pretrained(base).eval()

    @torch.no_grad()
    def compute(ids: torch.Tensor) -> np.ndarray:
        return bert(ids).last_hidden_state.mean(1).numpy()

    return compute


TEXT = ["cat eats bread"]


def test_the_pivot_gives_the_means_of_the_backbone(bare_english, means_of_bert):
    model = open_modular(bare_english)
    ids = model[0].preprocess(TEXT, prompt="eng_Latn")["input_ids"]
    vectors = model.encode(TEXT, prompt_name="eng_Latn")
    np.testing.assert_allclose(vectors, means_of_bert(ids), atol=1e-6)


def test_automodel_opens_the_pivot(bare_english, means_of_bert):
    model = AutoModel.from_pretrained(bare_english).eval()
    tokenizer = AutoTokenizer.from_pretrained(bare_english)
    inputs = tokenizer(TEXT, lang="eng_Latn", return_tensors="pt")
    with torch.no_grad():
        vectors = model(**inputs).sentence_embedding.numpy()
    assert type(model) is EchoEncoder
    # BERT of transformers, its states averaged by hand.
    np.testing.assert_allclose(vectors, means_of_bert(inputs["input_ids"]), atol=1e-6)


def test_starts_from_an_echo_checkpoint_on_such_a_backbone(bare_english, base, tmp_path):
    convert_encoder(base, tmp_path / "echo", pooling="cls", license="mit")
    modular_backbone(tmp_path / "echo", tmp_path / "from_echo")
    add_language(tmp_path / "from_echo", "eng_Latn")
    expected = embed(bare_english, "eng_Latn")
    np.testing.assert_array_equal(embed(tmp_path / "from_echo", "eng_Latn"), expected)


def test_commands_start_a_model_then_add_languages(run, base, data, tmp_path):
    model = tmp_path / "m"
    add = ("add-language", "-m", model, "--vocab-size", 120, "--mlm-steps", 2, "--batch-size", 64)
    code, _, err = run("start", base, model)
    assert code == 0, err

    code, _, err = run(*add, "eng_Latn", "--texts", data["eng_Latn"]["texts"])
    assert code == 0, err
    code, report, err = run(*add, "deu_Latn", "--parallel", data["deu_Latn"]["parallel"])
    assert code == 0, err

    report = json.loads(report)
    assert report["losses"].keys() == {"alignment"}
    assert "alignment" in report["parts"]
    assert open_modular(model)[0].languages == ["deu_Latn", "eng_Latn"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give --texts, --paraphrases, --cross-paraphrases or --parallel"),
        (("--texts", "none.txt"), "--texts: no file none.txt"),
        (("--cross-paraphrases", "none.tsv"), "--cross-paraphrases: no file none.tsv"),
    ],
)
def test_the_command_names_its_options(refused, bare_english, options, message):
    refused(message, "add-language", "fra_Latn", "-m", bare_english, *options)


def test_the_pivot_is_told_which_option_to_leave_out(refused, backbone, data):
    parallel = data["eng_Latn"]["parallel"]
    message = "eng_Latn is the pivot, which is not aligned: leave out --parallel"
    refused(message, "add-language", "eng_Latn", "-m", backbone, "--parallel", parallel)


def test_start_leaves_a_model_with_its_languages(run, base, bare_english):
    code, _, err = run("start", base, bare_english)
    assert code == 0, err
    assert "is made already" in err
    assert open_modular(bare_english)[0].languages == ["eng_Latn"]
