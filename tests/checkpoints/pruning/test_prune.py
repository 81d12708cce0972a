"""Pruning: what stays is the source's, what is chosen counts for most,
and the result opens like any checkpoint."""

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

from ...formulas import unit

pytestmark = pytest.mark.trains

COMMAND = "prune"
SMALL = {
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
CUT = {
    "hidden_size": 16,
    "intermediate_size": 12,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


@pytest.fixture
def model(toy, toy_tokenizer):
    """Random, three layers, CLS; norms that are not 1, so that it shows where they are forgotten,
    and values so large that the norms' epsilon is nothing beside them."""
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
    """(texts, languages)"""
    rows = toy.nway_rows()
    return [row["text"] for row in rows], [row["lang"] for row in rows]


@pytest.fixture(scope="module")
def embed(sentences, toy_tokenizer):
    """embed(model): embeddings of nine sentences."""
    texts, langs = sentences
    return lambda model: encode(model, toy_tokenizer, texts[:9], langs[:9])


def cut(model, *, importance: str = "weight", **shape):
    return prune(model, resolve_shape(model.config, shape=shape), importance=importance)


@pytest.mark.parametrize(
    ("source", "layers"),
    [
        (16, [0, 2, 4, 6, 9, 11, 13, 15]),
        (16, [0, 2, 3, 5, 7, 8, 10, 12, 13, 15]),
        (2, [0]),
        (3, [0, 2]),
        (3, [0, 1, 2]),
    ],
)
def test_layers_are_kept_at_equal_distances(source, layers):
    assert layers_to_keep(source, len(layers)) == layers


@pytest.mark.parametrize("importance", ["weight", "plain"])
@pytest.mark.parametrize("bottleneck", [True, False])
def test_same_shape_is_the_identity(model, toy, embed, importance, bottleneck):
    model.bottleneck = bottleneck

    same = cut(model, importance=importance, hidden_size=SMALL["hidden_size"])

    assert same.decoder is model.decoder
    assert same.bottleneck == bottleneck
    # The truth is the model itself: nothing is cut, so nothing may change.
    toy.assert_same(same.encoder, model.encoder)
    np.testing.assert_array_equal(embed(same), embed(model))


@torch.no_grad()
def kill(body, hidden: list[int], units: list[int]) -> None:
    """Zeroes dimensions, units, and in each layer the heads of one key and value head:
    never written, or never read."""
    body.embed_tokens.weight[:, hidden] = 0
    for layer in body.layers:
        layer.mlp.down_proj.weight[hidden] = 0
        layer.mlp.down_proj.weight[:, units[0::3]] = 0
        layer.mlp.gate_proj.weight[units[1::3]] = 0
        layer.mlp.up_proj.weight[units[2::3]] = 0
        layer.self_attn.o_proj.weight[hidden] = 0
    # Two query heads share a key and value head of 8 dimensions: the first dies in layer 0, the
    # second in the others.
    first, *others = body.layers
    first.self_attn.o_proj.weight[:, :16] = 0
    for layer in others:
        layer.self_attn.v_proj.weight[8:] = 0


@pytest.fixture
def half_dead(model):
    """A model in which all is dead that a cut to CUT can drop."""
    kill(model.encoder.backbone, [0, 3, 7, 8, 9, 11, 20, 21], [0, 1, 2, 5, 6, 13, 17, 19])
    return model


def test_dead_units_go_before_live_ones(half_dead, embed):
    """All that is dropped is dead, so the encoder says what it said:
    norms are rescaled for the lost width."""
    smaller = cut(half_dead, **CUT)

    assert smaller.encoder.num_parameters() < 0.7 * half_dead.encoder.num_parameters()
    expected = embed(half_dead)
    # Over seeds they differ by 1e-5 .. 4e-5 of the largest value; with other dimensions by all of
    # it.
    tolerance = 3e-4 * np.abs(expected).max()
    np.testing.assert_allclose(embed(smaller), expected, rtol=1e-3, atol=tolerance)


def test_the_plain_way_drops_live_units(half_dead, embed):
    smaller = cut(half_dead, importance="plain", **CUT)
    assert not np.allclose(embed(smaller), embed(half_dead), atol=1e-2)


def test_a_decoder_that_reads_all_states_needs_their_width(model):
    model.bottleneck = False
    with pytest.raises(ValueError, match="reads all encoder states"):
        cut(model, **CUT)


@torch.no_grad()
def test_dead_value_dimensions_go_first(model, embed):
    """Of a head's values, each key and value head drops its own;
    queries and keys say nothing here."""
    for layer in model.encoder.backbone.layers:
        of_first_head = layer.self_attn.v_proj.weight[:8]
        of_second_head = layer.self_attn.v_proj.weight[8:]
        of_first_head[[0, 2, 4, 6]] = 0
        of_second_head[[1, 3, 4, 5]] = 0
        layer.self_attn.q_proj.weight.zero_()

    smaller = cut(model, head_dim=4)

    np.testing.assert_allclose(embed(smaller), embed(model), rtol=1e-4, atol=1e-5)


def mark_heads(linear, count: int) -> None:
    """Four rows of each head hold 1 + its number."""
    numbers = torch.arange(count).repeat_interleave(4) + 1
    linear.weight.copy_(numbers[:, None].expand_as(linear.weight))


def heads_of(linear) -> list[int]:
    return (linear.weight[::4, 0] - 1).int().tolist()


@torch.no_grad()
def test_query_heads_stay_with_their_key_head(toy, toy_tokenizer):
    """8 heads on 4 -> 3 heads on 3: of the loud heads 1, 2 and 6 the key heads are 0, 1 and 3."""
    sizes = dict(num_attention_heads=8, num_key_value_heads=4, head_dim=4, hidden_size=24)
    encoder = toy.make_model(toy_tokenizer, **sizes).encoder
    block = encoder.backbone.layers[0].self_attn
    # Heads 1, 2 and 6 are the loud ones; two query heads share a key head.
    mark_heads(block.q_proj, 8)
    mark_heads(block.k_proj, 4)
    mark_heads(block.v_proj, 4)
    block.o_proj.weight.zero_()
    columns = block.o_proj.weight.view(24, 8, 4)
    for head in (1, 2, 6):
        columns[:, head] = 100 + head

    small = cut(encoder, num_attention_heads=3, num_key_value_heads=3)

    block = small.backbone.layers[0].self_attn
    # By hand: query heads 1, 2, 6 belong to the key heads 0, 1, 3.
    assert heads_of(block.q_proj) == [1, 2, 6]
    assert heads_of(block.k_proj) == [0, 1, 3]
    assert heads_of(block.v_proj) == [0, 1, 3]
    assert block.o_proj.weight[0, ::4].tolist() == [101, 102, 106]


@torch.no_grad()
def test_a_pair_of_rotations_stands_for_its_twin(toy, toy_tokenizer, embed):
    """Where all pairs turn alike and say the same, half of them say it all."""
    torch.manual_seed(0)
    rope = {"rope_type": "default", "rope_theta": 1.0}
    model = toy.make_model(toy_tokenizer, pooling="cls", rope_parameters=rope, **SMALL)
    encoder = model.encoder.eval()
    for layer in encoder.backbone.layers:
        block = layer.self_attn
        for linear in (block.q_proj, block.k_proj):
            torch.nn.init.normal_(linear.weight)
            rows = linear.weight.view(-1, 2, 2, 2, 24)  # head, half of the rotation, pair, twin
            rows[:, :, :, 1] = rows[:, :, :, 0]
        block.v_proj.weight.view(2, 8, 24)[:, 4:] = 0

    smaller = cut(encoder, head_dim=4)

    expected = embed(encoder)
    np.testing.assert_allclose(embed(smaller), expected, rtol=1e-4, atol=1e-4)
    smaller.backbone.layers[0].self_attn.q_proj.weight *= 0.5  # the rotations have an effect
    assert np.abs(embed(smaller) - expected).max() > 1e-2


def log_frequencies(head_dim: int) -> torch.Tensor:
    """Of the rotary pairs of a head, by transformers."""
    config = EchoConfig(hidden_size=head_dim * 2, num_attention_heads=2, head_dim=head_dim)
    return LlamaRotaryEmbedding(config).inv_freq.log()


@pytest.mark.parametrize(("source", "count"), [(64, 32), (64, 16), (64, 48), (8, 8), (64, 2)])
def test_rotary_pairs_turn_as_the_new_ones(source, count):
    old = log_frequencies(source)
    new = log_frequencies(count)

    pairs = rotary_pairs(source, count)

    assert len(set(pairs.tolist())) == count // 2
    # The nearest old frequency of each new one, searched among all.
    nearest = (new[:, None] - old).abs().min(1).values
    torch.testing.assert_close((new - old[pairs]).abs(), nearest, atol=1e-4, rtol=0)


def cosines(rows: np.ndarray) -> np.ndarray:
    """Of all pairs of rows."""
    return (unit(rows) @ unit(rows).T)[np.triu_indices(len(rows), 1)]


def rsa(x: np.ndarray, y: np.ndarray) -> float:
    """Correlation of the cosines of two spaces."""
    return np.corrcoef(cosines(x), cosines(y))[0, 1]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("importance", ["weight", "plain"])
def test_starts_nearer_to_the_teacher_than_a_random_one(
    toy_trained, sentences, toy_tokenizer, importance, seed
):
    shape = {"hidden_size": 24, "intermediate_size": 32}
    pruned = cut(toy_trained, importance=importance, **shape)
    torch.manual_seed(seed)
    random_model = EchoEncoder(EchoConfig.from_dict(pruned.encoder.config.to_dict())).eval()

    teacher = encode(toy_trained, toy_tokenizer, *sentences)
    near = encode(pruned, toy_tokenizer, *sentences)
    far = encode(random_model, toy_tokenizer, *sentences)

    # by the plain way, half
    assert np.square(near - teacher).mean() < 0.75 * np.square(far - teacher).mean()
    assert rsa(near, teacher) > rsa(far, teacher) + 0.3


SHAPE = {"hidden_size": 24, "intermediate_size": 48}


@pytest.fixture(params=["training", "release"])
def kind(request) -> str:
    return request.param


@pytest.fixture
def pruned(run, toy_folders, tmp_path, kind):
    """pruned(decoder) -> (folder, the report that the command prints)"""

    def call(decoder: str):
        out = tmp_path / "small"
        shape = "hidden_size=24,intermediate_size=48"
        options = ["--shape", shape, "--decoder", decoder, "--json", tmp_path / "report.json"]
        code, report, err = run(toy_folders[kind], out, *options)
        assert code == 0, err
        return out, json.loads(report)

    return call


def test_the_report_counts_parameters(pruned, toy_trained, tmp_path):
    folder, report = pruned("drop")
    count = AutoModel.from_pretrained(folder).num_parameters()
    assert report["parameters"] == count == encoder_parameters(toy_trained.config, SHAPE)
    assert report["parameters_before"] == toy_trained.encoder.num_parameters()
    assert json.loads((tmp_path / "report.json").read_text()) == report


def test_the_configuration_names_what_was_pruned(pruned, toy_folders, kind):
    folder, _ = pruned("drop")
    note = AutoModel.from_pretrained(folder).config.pruned_from
    assert note["model"] == str(toy_folders[kind])
    assert note["importance"] == "weight"
    assert note["shape"]["hidden_size"] == 32
    assert note["layers"] == [0]


def test_a_kept_decoder_is_the_old_one(pruned, toy, toy_trained, kind):
    folder, _ = pruned("keep")
    assert (folder / "decoder").is_dir() == (kind == "release")
    toy.assert_same(EchoForTranslation.from_pretrained(folder).decoder, toy_trained.decoder)


def test_a_pruned_model_translates_with_a_kept_decoder(pruned):
    folder, _ = pruned("keep")
    translate = pipeline("sonar-translation", model=str(folder))
    assert len(translate(["un chat dort."], src_lang="fra_Latn", tgt_lang="eng_Latn")) == 1


def test_a_dropped_decoder_is_gone(pruned):
    folder, _ = pruned("drop")
    assert not (folder / "decoder").exists()
    assert AutoModel.from_pretrained(folder).config.decoder is None


@pytest.mark.parametrize("fast", [True, False])
def test_dtype_is_the_source_s_on_every_processor(
    run, model, toy, toy_tokenizer, tmp_path, monkeypatch, fast
):
    half = toy.save(tmp_path / "half", model.to(torch.bfloat16), toy_tokenizer, release=True)
    monkeypatch.setattr("hf_echo.modeling.precision_echo.bf16_is_faster", lambda device="cpu": fast)
    assert run(half, tmp_path / "small", "--shape", "intermediate_size=12")[0] == 0
    for folder in (tmp_path / "small", tmp_path / "small" / "decoder"):
        weights = load_file(folder / "model.safetensors")
        assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}
        assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"


def test_new_tokenizer(run, toy_folders, sentences, tmp_path):
    texts, _ = sentences
    tokenizer = train_tokenizer(texts, 320, max_length=64, progress=False)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    small = tmp_path / "new" / "small"

    options = ["--size", "half", "--tokenizer", tmp_path / "tokenizer"]
    code, out, err = run(toy_folders["release"], small, *options)

    assert code == 0, err
    report = json.loads(out)
    opened = SentenceTransformer(str(small), device="cpu")
    encoder = AutoModel.from_pretrained(small)
    assert report["tokens"] == len(opened.tokenizer) <= encoder.config.vocab_size < 400
    assert report["parameters"] == encoder.num_parameters()
    assert opened.encode(["un chat"]).shape == (1, 32)
    assert list(small.parent.iterdir()) == [small]


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
    refused(message, *[words.get(word, word) for word in arguments.split()])
    assert not (tmp_path / "out").exists()
