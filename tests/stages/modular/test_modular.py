"""Modular encoder: languages come and go without a trace on the others; parameter counts; routing; bad input."""

import json
import random
import shutil
import subprocess
import sys
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

pytestmark = pytest.mark.trains
COMMAND = "modular"

WORDS = "house cat red dog sees big blue eats bread water".split()
GERMAN = "haus katze rot hund sieht gross blau isst brot wasser".split()
FRENCH = "maison chat rouge chien voit grand bleu mange pain eau".split()
SETTINGS = dict(
    vocab_size=120, mlm_steps=4, batch_size=32, alignment_batch_size=32, learning_rate=1e-2
)
EVERYTHING = ("texts", "paraphrases", "cross_paraphrases", "parallel")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Word-for-word languages; a paraphrase is the sentence backwards."""
    folder = tmp_path_factory.mktemp("data")
    draw = random.Random(0)
    rows = [[draw.randrange(10) for _ in range(5)] for _ in range(160)]
    english = [" ".join(WORDS[i] for i in row) for row in rows]
    for code, words in (("eng_Latn", WORDS), ("deu_Latn", GERMAN), ("fra_Latn", FRENCH)):
        own = [" ".join(words[i] for i in row) for row in rows]
        back = [" ".join(reversed(text.split())) for text in own]
        (folder / f"{code}.texts.txt").write_text("\n".join(own))
        columns = {
            "paraphrases": (own, back),
            "cross_paraphrases": (english, back),
            "parallel": (english, own),
        }
        for name, pairs in columns.items():
            (folder / f"{code}.{name}.tsv").write_text(
                "".join(f"{a}\t{b}\n" for a, b in zip(*pairs))
            )
    return folder


def of(data: Path, code: str, *names: str) -> dict[str, Path]:
    return {
        name: data / (f"{code}.texts.txt" if name == "texts" else f"{code}.{name}.tsv")
        for name in names
    }


@pytest.fixture(scope="module")
def base(tiny_bert, tmp_path_factory) -> Path:
    return tiny_bert(
        tmp_path_factory.mktemp("base"), [*WORDS, *GERMAN, *FRENCH] * 3, vocab_size=150
    )


@pytest.fixture(scope="module")
def english(base, data, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("english") / "model"
    modular_backbone(base, out)
    add_language(out, "eng_Latn", **SETTINGS, **of(data, "eng_Latn", "texts", "paraphrases"))
    return out


@pytest.fixture(scope="module")
def two(english, data, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("two") / "model"
    add_language(
        english, "deu_Latn", **SETTINGS, output_dir=out, **of(data, "deu_Latn", *EVERYTHING)
    )
    return out


@pytest.fixture
def copy(two, tmp_path) -> Path:
    return Path(shutil.copytree(two, tmp_path / "model"))


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def lines(data: Path, code: str, n: int = 6) -> list[str]:
    return (data / f"{code}.texts.txt").read_text().splitlines()[:n]


def embed(folder: Path, data: Path, code: str) -> np.ndarray:
    return open_modular(folder).encode(lines(data, code), prompt_name=code)


def test_another_language_leaves_the_others_equal_in_every_bit(copy, data):
    before = content(copy)
    vectors = {code: embed(copy, data, code) for code in ("eng_Latn", "deu_Latn")}
    add_language(copy, "fra_Latn", **SETTINGS, **of(data, "fra_Latn", *EVERYTHING))
    after = content(copy)
    new = {name for name in after if name not in before}
    assert new
    assert all(name.startswith("languages/fra_Latn/") for name in new)
    assert {name: after[name] for name in before} == before
    for code, old in vectors.items():
        assert embed(copy, data, code).tobytes() == old.tobytes()
    french = embed(copy, data, "fra_Latn")
    assert (
        abs(
            french - open_modular(copy).encode(lines(data, "fra_Latn"), prompt_name="deu_Latn")
        ).max()
        > 1e-3
    )
    shutil.rmtree(copy / "languages" / "fra_Latn")
    assert content(copy) == before


@pytest.mark.parametrize("name", ["negative", "hard_negatives"])
def test_triplets_have_a_negative_in_the_softmax(base, data, tmp_path, name):
    """The loss of the first batch, before anything has moved, by the formula."""
    modular_backbone(base, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config["backbone"] |= still
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    add_language(tmp_path / "model", "eng_Latn")
    texts = [lines(data, "deu_Latn", 36)[i : i + 12] for i in (0, 12, 24)]
    langs = ["deu_Latn"] * 12
    columns = dict(zip(("sentence1", "sentence2", name), texts)) | {
        "sentence1_lang": langs,
        "sentence2_lang": langs,
    }
    file = tmp_path / "triplets.parquet"
    Dataset.from_dict(columns).to_parquet(file)
    found = add_language(
        tmp_path / "model", "deu_Latn", paraphrases=file, batch_size=12, learning_rate=1e-9
    )
    opened = open_modular(tmp_path / "model")
    anchor, positive, negative = (
        opened.encode(t, prompt_name="deu_Latn", normalize_embeddings=True) for t in texts
    )
    logits = 20 * anchor @ np.concatenate([positive, negative]).T
    want = (np.log(np.exp(logits).sum(1)) - np.diag(logits)).mean()
    assert found["sentence_adapter"] == pytest.approx(want, rel=0.02)
    without = 20 * anchor @ positive.T
    assert abs(want - (np.log(np.exp(without).sum(1)) - np.diag(without)).mean()) > 0.1


def test_the_language_of_the_anchors_is_drawn_for_each_batch():
    """Over 200 batches of pairs each language is the anchor about as often; triplets keep their direction."""
    vectors = torch.nn.functional.normalize(torch.randn(3, 4, 8), dim=-1)
    calls = []

    class Model(torch.nn.Module):
        def forward(self, features):
            calls.append(features["side"])
            return {"sentence_embedding": vectors[features["side"]]}

    torch.manual_seed(0)
    loss = either_direction(Model())
    for _ in range(200):
        loss([{"side": 0}, {"side": 1}], None)
    assert 60 < sum(calls[::2]) < 140
    assert sorted(calls[:2]) == [0, 1]
    calls.clear()
    for _ in range(20):
        loss([{"side": 0}, {"side": 1}, {"side": 2}], None)
    assert calls == [0, 1, 2] * 20


def test_all_pair_alignment_has_a_loss_against_each_earlier_language(copy, data, tmp_path):
    """Modular 6.1: parallel pairs of French with English and with German, given either way round.

    Before anything has moved, the loss is the mean of 1 - cos over both languages, by the formula.
    """
    config = json.loads((copy / "config.json").read_text())
    config["backbone"] |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (copy / "config.json").write_text(json.dumps(config))
    before = content(copy)
    french = lines(data, "fra_Latn", 32)
    rows = []
    for code in ("eng_Latn", "deu_Latn"):
        for own, other in zip(french, lines(data, code, 32), strict=True):
            row = {"source": other, "source_lang": code, "target": own, "target_lang": "fra_Latn"}
            if code == "deu_Latn":
                row = {
                    "source": own,
                    "source_lang": "fra_Latn",
                    "target": other,
                    "target_lang": code,
                }
            rows.append(row)
    Dataset.from_list(rows).to_parquet(tmp_path / "pairs.parquet")

    settings = dict(alignment_batch_size=32, learning_rate=1e-12)
    found = add_language(copy, "fra_Latn", **settings, parallel=tmp_path / "pairs.parquet")

    opened = open_modular(copy)
    of_french = opened.encode(french, prompt_name="fra_Latn", normalize_embeddings=True)
    distances = []
    for code in ("eng_Latn", "deu_Latn"):
        other = opened.encode(lines(data, code, 32), prompt_name=code, normalize_embeddings=True)
        distances.append(1 - (other * of_french).sum(1).mean())
    assert abs(distances[0] - distances[1]) > 0.01  # so that one language alone would not pass
    assert found["alignment"] == pytest.approx(np.mean(distances), abs=0.003)
    after = content(copy)
    assert {name: after[name] for name in before} == before


def test_pairs_with_a_language_that_is_not_there_are_refused(english, data, tmp_path):
    rows = [
        {"source": "haus", "source_lang": "deu_Latn", "target": "maison", "target_lang": "fra_Latn"}
    ]
    Dataset.from_list(rows).to_parquet(tmp_path / "pairs.parquet")
    with pytest.raises(
        ValueError, match="a pair is deu_Latn-fra_Latn, it must be fra_Latn with eng_Latn"
    ):
        add_language(english, "fra_Latn", **SETTINGS, parallel=tmp_path / "pairs.parquet")


def test_parameter_counts_of_table_4():
    """On a base model; meta tensors, so nothing is computed."""
    with torch.device("meta"):
        module = ModularEncoder(BertModel(BertConfig(vocab_size=100)), None)
        module.add_language("deu_Latn", embeddings=torch.empty(50_048, 768))
        for part in ("language_adapter", "sentence_adapter", "alignment"):
            module.add_part("deu_Latn", part)
    parts = {
        part: module.part_parameters("deu_Latn", part).values() for part in module.parts["deu_Latn"]
    }
    adapters = dict(
        language_adapter=12 * 3 * 2 * 8 * 768, sentence_adapter=1_179_648, alignment=7_091_712
    )
    count = {part: sum(value.numel() for value in values) for part, values in parts.items()}
    assert count == {"embeddings": 38_436_864} | adapters
    assert not any(p.requires_grad for p in module.parameters())
    module.learn("deu_Latn", ["sentence_adapter"])
    assert sum(p.numel() for p in module.parameters() if p.requires_grad) == 1_179_648


def test_parallel_adapter_is_inside_the_layer_norm(two, data):
    """LN(FFN(x) + x + 4 up(relu(down x))) of the last layer, worked out from its parts."""
    module = open_modular(two)[0]
    layer = module.backbone.encoder.layer[-1]
    adapter = module.alignment["deu_Latn"][-1]
    seen = {}
    layer.intermediate.register_forward_hook(lambda m, i, o: seen.update(x=i[0], hidden=o))
    features = module.preprocess(lines(data, "deu_Latn", 3), prompt="deu_Latn")
    with torch.no_grad():
        states = module(features)["token_embeddings"]
        x = seen["x"]
        down = x @ adapter.down.weight.T + adapter.down.bias
        added = 4 * (down.clamp(min=0) @ adapter.up.weight.T + adapter.up.bias)
        expected = layer.output.LayerNorm(layer.output.dense(seen["hidden"]) + x + added)
    assert added.abs().max() > 1e-4
    torch.testing.assert_close(states, expected, atol=1e-6, rtol=0)
    assert not ParallelAdapter(8)(torch.randn(2, 8)).any()  # a new one changes nothing


def test_adapters_add_up_as_peft_opens_them(two, data):
    """Both LoRA deltas added to the weights by hand give the states of the unmerged adapters."""
    module = open_modular(two)[0]
    module.alignment.pop("deu_Latn")
    features = module.preprocess(lines(data, "deu_Latn", 3), prompt="deu_Latn")
    with torch.no_grad():
        states = module(features)["token_embeddings"]
        plain = AutoModel.from_pretrained(two, dtype=torch.float32).backbone
        for part in ("language_adapter", "sentence_adapter"):
            folder = two / "languages" / "deu_Latn" / part
            config = json.loads((folder / "adapter_config.json").read_text())
            values = load_file(folder / "adapter_model.safetensors")
            for name in [n for n in values if "lora_A" in n]:
                target = plain.get_submodule(
                    name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
                )
                delta = values[name.replace("lora_A", "lora_B")] @ values[name]
                assert delta.any()  # it has learned
                target.weight += config["lora_alpha"] / config["r"] * delta
        embeddings = module.embeddings["deu_Latn"](features["input_ids"])
        expected = plain.eval()(
            inputs_embeds=embeddings, attention_mask=features["attention_mask"]
        ).last_hidden_state
    torch.testing.assert_close(states, expected, atol=1e-5, rtol=0)


def test_a_mixed_batch_equals_batches_per_language(two, data):
    model = open_modular(two)
    mixed = []
    alone = []
    for code in ("eng_Latn", "deu_Latn"):
        texts = [" ".join([text] * (1 + i)) for i, text in enumerate(lines(data, code))]
        mixed += [{"text": text, "lang": code} for text in texts]
        alone += list(zip(texts, model.encode(texts, prompt_name=code)))
    order = list(range(len(mixed)))
    random.Random(1).shuffle(order)
    for size in (1, 5, 32):
        found = model.encode([mixed[i] for i in order], batch_size=size)
        np.testing.assert_allclose(found, [alone[i][1] for i in order], atol=1e-6)


def test_languages_are_identified_where_none_is_given(two, data):
    model = open_modular(two)
    texts = [lines(data, "deu_Latn")[0], lines(data, "eng_Latn")[0]]
    asked = []

    def identify(texts: list[str], languages: list[str]) -> list[str]:
        asked.append(languages)
        return ["deu_Latn" if text.split()[0] in GERMAN else "eng_Latn" for text in texts]

    model[0].identify = identify
    found = model.encode(texts)
    assert asked[0] == ["deu_Latn", "eng_Latn"]
    given = [{"text": text, "lang": code} for text, code in zip(texts, ("deu_Latn", "eng_Latn"))]
    np.testing.assert_allclose(found, model.encode(given), atol=1e-6)


def test_heliport_identifies(two):
    texts = [
        "This is a short sentence in English.",
        "Das ist ein kurzer Satz auf Deutsch, und er ist nicht schwer.",
    ]
    assert open_modular(two)[0].languages_of(["x", "y"], texts, None) == ["eng_Latn", "deu_Latn"]


@pytest.mark.slow
def test_opens_elsewhere_with_remote_code(two, data, tmp_path):
    """A process that cannot import hf_echo; the same vectors; saved again and opened again."""
    code = f"""
import sys, numpy as np
sys.modules["hf_echo"] = None
from sentence_transformers import SentenceTransformer
model = SentenceTransformer({str(two)!r}, trust_remote_code=True)
model.save({str(tmp_path / "again")!r}, create_model_card=False)
model = SentenceTransformer({str(tmp_path / "again")!r}, trust_remote_code=True)
np.save({str(tmp_path / "v.npy")!r}, model.encode({lines(data, "deu_Latn")!r}, prompt_name="deu_Latn"))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), embed(two, data, "deu_Latn"), atol=1e-6)
    assert content(tmp_path / "again" / "languages").keys() == content(two / "languages").keys()


def test_every_encoder_takes_the_language_of_a_text(two, data):
    """Without trust_remote_code, by the code of this package."""
    want = embed(two, data, "deu_Latn")
    texts = lines(data, "deu_Latn")
    for encode in (
        any_encoder(str(two)),
        NamedEncoder(str(two)),
        open_model(str(two), texts).encode,
    ):
        np.testing.assert_allclose(encode(texts, "deu_Latn"), want, atol=1e-6)
        assert np.abs(encode(texts, "eng_Latn") - want).max() > 1e-3
        with pytest.raises(
            ValueError, match="'fra_Latn' is not in this model; it has deu_Latn, eng_Latn"
        ):
            encode(["chat"], "fra_Latn")


def test_length_is_counted_by_the_languages_own_tokenizer(base, tmp_path):
    """A word is one token of the language's own vocabulary and several of the backbone's: nothing is cut."""
    text = "haus rot wasserrot katzehaus wasserrot katzehaus"
    (tmp_path / "texts.txt").write_text(f"{text}\n" * 40)
    modular_backbone(base, tmp_path / "m", max_seq_length=10)
    add_language(tmp_path / "m", "eng_Latn")
    add_language(tmp_path / "m", "deu_Latn", **SETTINGS, texts=tmp_path / "texts.txt")
    encode = NamedEncoder(str(tmp_path / "m"), on_long="error")
    assert encode([text], "deu_Latn").shape == (1, 32)
    with pytest.raises(ValueError, match="longer than 10 tokens"):
        encode([text], "eng_Latn")


@pytest.mark.parametrize(
    "missing",
    ["alignment.safetensors", "sentence_adapter", "language.json", "embeddings.safetensors"],
)
def test_a_missing_part_is_one_line(copy, missing):
    place = copy / "languages" / "deu_Latn" / missing
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    with pytest.raises(FileNotFoundError, match=f"deu_Latn.*{missing}"):
        open_modular(copy)
    assert open_modular(copy, ["eng_Latn"])[0].languages == ["eng_Latn"]  # the others still open
    if missing == "alignment.safetensors":
        save_file({"0.up.weight": torch.ones(2, 3)}, place)
        with pytest.raises(ValueError, match="does not fit the backbone"):
            open_modular(copy)


def test_bad_input_is_one_line(two, data, tmp_path):
    with pytest.raises(
        ValueError, match="'fra_Latn' is not in this model; it has deu_Latn, eng_Latn"
    ):
        open_modular(two).encode([{"text": "chat", "lang": "fra_Latn"}])
    with pytest.raises(ValueError, match="'fra_Latn' is not in this model"):
        open_modular(two, ["fra_Latn"])
    header = "sentence1\tsentence2\tsentence1_lang\tsentence2_lang\tnegative\n"
    lines = "un\tdeux\tfra_Latn\tfra_Latn\ttrois\nun\tun\tfra_Latn\tfra_Latn\t\n"
    (tmp_path / "some.tsv").write_text(header + lines)
    for folder, code, given, message in (
        (tmp_path, "deu_Latn", {}, r"has no modular\.json"),
        (two, "deu_Latn", of(data, "deu_Latn", "texts"), "has deu_Latn already"),
        (two, "fra_Latn", {}, "nothing to train fra_Latn on"),
        (two, "fra_Latn", {"parallel": two / "modules.json"}, "modules.json"),
        (two, "xyz_Abcd", of(data, "fra_Latn", "texts"), "xyz_Abcd"),
        (two, "fra_Latn", {"texts": tmp_path / "none.txt"}, "texts: no file"),
        (two, "fra_Latn", {"paraphrases": tmp_path / "some.tsv"}, "1 of 2 rows have a negative"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            add_language(folder, code, **SETTINGS | given)


def test_the_pivot_is_not_aligned(base, data, tmp_path):
    modular_backbone(base, tmp_path / "m")
    with pytest.raises(ValueError, match="eng_Latn is the pivot, which is not aligned"):
        add_language(tmp_path / "m", "eng_Latn", **of(data, "eng_Latn", "parallel"))


def test_the_pivot_comes_first(base, data, tmp_path):
    modular_backbone(base, tmp_path / "m")
    with pytest.raises(ValueError, match="does not have the pivot eng_Latn yet"):
        add_language(tmp_path / "m", "deu_Latn", **of(data, "deu_Latn", "parallel"))


def test_the_pivot_gives_the_means_of_the_backbone(base, tmp_path):
    """By sentence-transformers and by AutoModel."""
    modular_backbone(base, tmp_path / "m")
    add_language(tmp_path / "m", "eng_Latn")  # the backbone's own English
    model = open_modular(tmp_path / "m")
    auto = AutoModel.from_pretrained(tmp_path / "m").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "m")
    text = ["cat eats bread"]
    with torch.no_grad():
        features = model[0].preprocess(text, prompt="eng_Latn")
        states = BertModel.from_pretrained(base).eval()(features["input_ids"]).last_hidden_state
        vector = auto(**tokenizer(text, lang="eng_Latn", return_tensors="pt")).sentence_embedding
    assert type(auto) is EchoEncoder
    for found in (model.encode(text, prompt_name="eng_Latn"), vector):
        np.testing.assert_allclose(found, states.mean(1), atol=1e-6)


def test_starts_from_an_echo_checkpoint_on_such_a_backbone(base, data, tmp_path):
    convert_encoder(base, tmp_path / "echo", pooling="cls", license="mit")
    vectors = []
    for start in (base, tmp_path / "echo"):
        modular_backbone(start, tmp_path / "m" / start.name)
        add_language(tmp_path / "m" / start.name, "eng_Latn")
        vectors.append(embed(tmp_path / "m" / start.name, data, "eng_Latn"))
    np.testing.assert_array_equal(*vectors)


def test_command_line(run, base, data, tmp_path):
    model = tmp_path / "m"
    add = ("add-language", "-m", model, "--vocab-size", 120, "--mlm-steps", 2, "--batch-size", 64)
    assert run("start", base, model)[0] == 0
    code, _, err = run(*add, "eng_Latn", "--texts", data / "eng_Latn.texts.txt")
    assert code == 0, err
    code, report, err = run(*add, "deu_Latn", "--parallel", data / "deu_Latn.parallel.tsv")
    assert code == 0 and '"alignment"' in report, err
    code, _, err = run("start", base, model)  # its languages are not lost
    assert code == 0
    assert "is made already" in err
    assert open_modular(model)[0].languages == ["deu_Latn", "eng_Latn"]
