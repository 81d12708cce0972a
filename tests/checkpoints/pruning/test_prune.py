"""Pruning: what stays is the source's, what is chosen counts for most, and the result opens like any checkpoint."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, pipeline
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from hf_echo.checkpoints.pruning.prune import prune, rotary_pairs
from hf_echo.checkpoints.pruning.shapes import encoder_parameters, layers_to_keep, resolve_shape
from hf_echo.inference import encode
from hf_echo.modeling import EchoConfig, EchoEncoder, EchoForTranslation
from hf_echo.vocabulary import train_tokenizer

pytestmark = pytest.mark.trains

COMMAND = "prune"
SMALL = {
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
SMALL |= {"num_key_value_heads": 2, "head_dim": 8}
CUT = {
    "hidden_size": 16,
    "intermediate_size": 12,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


@pytest.fixture
def model(toy, toy_tokenizer):
    """Random, three layers, CLS; norms that are not 1, so that it shows where they are forgotten, and values so large
    that the norms' epsilon is nothing beside them."""
    model = toy.make_model(toy_tokenizer, pooling="cls", **SMALL).eval()
    torch.manual_seed(0)
    for name, weight in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(weight, 0.5, 1.5)
        else:
            torch.nn.init.normal_(weight, std=0.3)
    return model


@pytest.fixture(scope="module")
def sentences(toy) -> tuple[list[str], list[str]]:
    rows = toy.nway_rows()
    return [row["text"] for row in rows], [row["lang"] for row in rows]


@pytest.fixture(scope="module")
def numbers(sentences, toy_tokenizer):
    """numbers(model): embeddings of a few sentences."""
    return lambda model: encode(model, toy_tokenizer, *(column[:9] for column in sentences))


def test_layers():
    kept = {(16, 8): [0, 2, 4, 6, 9, 11, 13, 15], (16, 10): [0, 2, 3, 5, 7, 8, 10, 12, 13, 15]}
    for (source, count), layers in (
        kept | {(2, 1): [0], (3, 2): [0, 2], (3, 3): [0, 1, 2]}
    ).items():
        assert layers_to_keep(source, count) == layers


@pytest.mark.parametrize("importance", ["weight", "plain"])
@pytest.mark.parametrize("bottleneck", [True, False])
def test_same_shape_is_the_identity(model, toy, numbers, importance, bottleneck):
    model.bottleneck = bottleneck
    shape = resolve_shape(model.config, shape={"hidden_size": SMALL["hidden_size"]})
    assert shape == SMALL
    same = prune(model, shape, importance=importance)
    assert same.decoder is model.decoder
    assert same.bottleneck == bottleneck
    toy.assert_same(same.encoder, model.encoder)
    np.testing.assert_array_equal(numbers(same), numbers(model))


def kill(body, hidden: list[int], units: list[int]) -> None:
    """Zeroes dimensions, units, and in each layer the heads of one key and value head: never written, or never read."""
    with torch.no_grad():
        body.embed_tokens.weight[:, hidden] = 0
        for number, layer in enumerate(body.layers):
            layer.mlp.down_proj.weight[hidden] = 0
            layer.mlp.down_proj.weight[:, units[0::3]] = 0
            layer.mlp.gate_proj.weight[units[1::3]] = 0
            layer.mlp.up_proj.weight[units[2::3]] = 0
            layer.self_attn.o_proj.weight[hidden] = 0
            dead = number % 2
            if number:
                layer.self_attn.v_proj.weight[8 * dead : 8 * dead + 8] = 0
            else:
                layer.self_attn.o_proj.weight[:, 16 * dead : 16 * dead + 16] = 0


def test_dead_units_go_before_live_ones(model, numbers):
    """All that is dropped is dead, so the encoder says what it said: norms are rescaled for the lost width."""
    kill(model.encoder.backbone, [0, 3, 7, 8, 9, 11, 20, 21], [0, 1, 2, 5, 6, 13, 17, 19])
    shape = resolve_shape(model.config, shape=CUT)
    smaller = prune(model, shape)
    assert smaller.encoder.num_parameters() < 0.7 * model.encoder.num_parameters()
    want = numbers(model)
    have = numbers(smaller)
    # Over seeds they differ by 1e-5 .. 4e-5 of the largest value; with other dimensions by all of it.
    np.testing.assert_allclose(have, want, rtol=1e-3, atol=3e-4 * np.abs(want).max())
    other = prune(model, shape, importance="plain")
    assert not np.allclose(numbers(other), want, atol=1e-2)
    model.bottleneck = False
    # the decoder cannot be kept
    pytest.raises(ValueError, prune, model, shape).match("reads all encoder states")


def test_dead_value_dimensions_go_first(model, numbers):
    """Of a head's values, each key and value head drops its own; queries and keys say nothing here."""
    with torch.no_grad():
        for layer in model.encoder.backbone.layers:
            layer.self_attn.v_proj.weight[[0, 2, 4, 6, 8 + 1, 8 + 3, 8 + 4, 8 + 5]] = 0
            layer.self_attn.q_proj.weight.zero_()
    smaller = prune(model, resolve_shape(model.config, shape={"head_dim": 4}))
    np.testing.assert_allclose(numbers(smaller), numbers(model), rtol=1e-4, atol=1e-5)


def test_query_heads_stay_with_their_key_head(toy, toy_tokenizer):
    """8 heads on 4 -> 3 heads on 3: rows are marked with the number of their head."""
    sizes = dict(num_attention_heads=8, num_key_value_heads=4, head_dim=4, hidden_size=24)
    encoder = toy.make_model(toy_tokenizer, **sizes).encoder
    # heads 2 and 4 of these belong to others: 0, 1, 3
    block = encoder.backbone.layers[0].self_attn
    loud = [1, 2, 6]
    with torch.no_grad():
        for linear, count in ((block.q_proj, 8), (block.k_proj, 4), (block.v_proj, 4)):
            linear.weight.copy_(
                torch.arange(count).repeat_interleave(4)[:, None].expand(-1, 24) + 1
            )
        block.o_proj.weight.zero_()
        for head in loud:
            block.o_proj.weight[:, 4 * head : 4 * head + 4] = 100.0 + head
    shape = resolve_shape(
        encoder.config, shape={"num_attention_heads": 3, "num_key_value_heads": 3}
    )
    cut = prune(encoder, shape).backbone.layers[0].self_attn
    assert (cut.q_proj.weight[::4, 0] - 1).tolist() == loud
    assert (
        (cut.k_proj.weight[::4, 0] - 1).tolist()
        == (cut.v_proj.weight[::4, 0] - 1).tolist()
        == [0, 1, 3]
    )
    assert (cut.o_proj.weight[0, ::4] - 100).tolist() == loud


def test_a_pair_of_rotations_stands_for_its_twin(toy, toy_tokenizer, numbers):
    """Where all pairs turn alike and say the same, half of them say it all."""
    torch.manual_seed(0)
    rope = {"rope_type": "default", "rope_theta": 1.0}
    encoder = toy.make_model(
        toy_tokenizer, pooling="cls", rope_parameters=rope, **SMALL
    ).encoder.eval()
    with torch.no_grad():
        for layer in encoder.backbone.layers:
            block = layer.self_attn
            for linear in (block.q_proj, block.k_proj):
                torch.nn.init.normal_(linear.weight)
                # head, half of the rotation, pair and its twin
                rows = linear.weight.view(-1, 2, 2, 2, 24)
                rows[:, :, :, 1] = rows[:, :, :, 0]
            block.v_proj.weight.view(2, 8, 24)[:, 4:] = 0
    smaller = prune(encoder, resolve_shape(encoder.config, shape={"head_dim": 4}))
    want = numbers(encoder)
    np.testing.assert_allclose(numbers(smaller), want, rtol=1e-4, atol=1e-4)
    smaller.backbone.layers[0].self_attn.q_proj.weight.data *= 0.5
    assert np.abs(numbers(smaller) - want).max() > 1e-2


@pytest.mark.parametrize(("source", "count"), [(64, 32), (64, 16), (64, 48), (8, 8), (64, 2)])
def test_rotary_pairs_turn_as_the_new_ones(source, count):
    old, new = (
        LlamaRotaryEmbedding(
            EchoConfig(hidden_size=size * 2, num_attention_heads=2, head_dim=size)
        ).inv_freq.log()
        for size in (source, count)
    )
    pairs = rotary_pairs(source, count)
    assert len(set(pairs.tolist())) == count // 2
    nearest = (new[:, None] - old).abs().min(1).values
    torch.testing.assert_close((new - old[pairs]).abs(), nearest, atol=1e-4, rtol=0)


def rsa(x: np.ndarray, y: np.ndarray) -> float:
    """Correlation of the cosines between all pairs of rows."""
    above = np.triu_indices(len(x), 1)
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, y)]
    return float(np.corrcoef(*((rows @ rows.T)[above] for rows in unit))[0, 1])


@pytest.mark.parametrize("importance", ["weight", "plain"])
def test_starts_nearer_to_the_teacher_than_a_random_one(
    toy_trained, sentences, toy_tokenizer, importance
):
    shape = resolve_shape(toy_trained.config, shape={"hidden_size": 24, "intermediate_size": 32})
    teacher = encode(toy_trained, toy_tokenizer, *sentences)
    near = encode(prune(toy_trained, shape, importance=importance), toy_tokenizer, *sentences)
    for seed in range(3):
        torch.manual_seed(seed)
        config = EchoConfig.from_dict(toy_trained.config.to_dict() | {"decoder": None} | shape)
        far = encode(EchoEncoder(config).eval(), toy_tokenizer, *sentences)
        # by the plain way, half
        assert np.square(near - teacher).mean() < 0.75 * np.square(far - teacher).mean()
        assert rsa(near, teacher) > rsa(far, teacher) + 0.3


@pytest.mark.parametrize("kind", ["training", "release"])
@pytest.mark.parametrize("decoder", ["keep", "drop"])
def test_result_opens_in_every_way(
    run, toy_folders, toy_trained, toy, toy_tokenizer, tmp_path, kind, decoder
):
    shape = {"hidden_size": 24, "intermediate_size": 48}
    arguments = ["--shape", "hidden_size=24,intermediate_size=48", "--decoder", decoder]
    code, out, _ = run(
        toy_folders[kind], tmp_path / "small", *arguments, "--json", tmp_path / "report.json"
    )
    assert code == 0
    report = json.loads(out)
    assert json.loads((tmp_path / "report.json").read_text()) == report
    encoder = AutoModel.from_pretrained(tmp_path / "small")
    assert (
        report["parameters"]
        == encoder.num_parameters()
        == encoder_parameters(toy_trained.config, shape)
    )
    assert report["parameters_before"] == toy_trained.encoder.num_parameters()
    note = encoder.config.pruned_from
    assert note["model"] == str(toy_folders[kind])
    assert note["importance"] == "weight"
    assert note["shape"]["hidden_size"] == 32
    assert note["layers"] == [0]

    texts = [toy.say(m, "fra_Latn") for m in toy.split("dev")[:4]]
    want = encode(encoder.eval(), toy_tokenizer, texts, "fra_Latn")
    opened = SentenceTransformer(str(tmp_path / "small"), device="cpu")
    np.testing.assert_allclose(opened.encode(texts, prompt_name="fra_Latn"), want, atol=1e-5)
    assert (tmp_path / "small" / "decoder").is_dir() == (kind == "release" and decoder != "drop")
    if decoder == "drop":
        assert encoder.config.decoder is None
        return
    translate = pipeline("sonar-translation", model=str(tmp_path / "small"))
    assert len(translate(texts, src_lang="fra_Latn", tgt_lang="eng_Latn")) == 4
    loaded = EchoForTranslation.from_pretrained(tmp_path / "small")
    have = loaded.decoder.state_dict()
    old = toy_trained.decoder.state_dict()
    assert all(torch.equal(have[name], old[name]) for name in old)


@pytest.mark.parametrize("fast", [True, False])
def test_dtype_is_the_source_s_on_every_processor(
    run, model, toy, toy_tokenizer, tmp_path, monkeypatch, fast
):
    half = toy.save(tmp_path / "half", model.to(torch.bfloat16), toy_tokenizer, release=True)
    monkeypatch.setattr("hf_echo.modeling.precision_echo.bf16_is_faster", lambda device="cpu": fast)
    assert run(half, tmp_path / "small", "--shape", "intermediate_size=12")[0] == 0
    for part in ("", "decoder"):
        weights = load_file(tmp_path / "small" / part / "model.safetensors")
        assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
        assert (
            json.loads((tmp_path / "small" / part / "config.json").read_text())["dtype"]
            == "bfloat16"
        )


def test_new_tokenizer(run, toy_folders, sentences, tmp_path):
    train_tokenizer(sentences[0], 320, max_length=64, progress=False).save_pretrained(
        tmp_path / "tokenizer"
    )
    small = tmp_path / "new" / "small"
    code, out, _ = run(
        toy_folders["release"], small, "--size", "half", "--tokenizer", tmp_path / "tokenizer"
    )
    assert code == 0
    opened = SentenceTransformer(str(small), device="cpu")
    encoder = AutoModel.from_pretrained(small)
    report = json.loads(out)
    assert report["tokens"] == len(opened.tokenizer) <= encoder.config.vocab_size < 400
    assert report["parameters"] == encoder.num_parameters()
    assert encoder.config.pruned_from["importance"] == "weight"
    assert opened.encode(["un chat"]).shape == (1, 32)
    assert [path.name for path in small.parent.iterdir()] == ["small"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("M out", "no shape: give a size (large, medium, small, tiny, xtiny, nano, half)"),
        ("M out --size smal", "unknown size 'smal'"),
        ("M out --size tiny", "hidden_size 1152 is larger than the source's 32: pruning only cuts"),
        ("M M --size half", "is an input too"),
        ("nothing out --size half", "'nothing' is neither a folder nor a name on the Hub"),
        ("M out --size half --tokenizer nothing", "no tokenizer at nothing"),
    ],
)
def test_errors(refused, toy_folders, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    words = {"M": toy_folders["training"]}
    refused(message, *(words.get(word, word) for word in arguments.split()))
    assert not (tmp_path / "out").exists()
