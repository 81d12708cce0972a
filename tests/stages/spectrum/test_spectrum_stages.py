"""Stages of Spectrum on documents: losses against the model called by hand,
recipes from end to end, resume, errors."""

import json

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoTokenizer

from hf_echo.losses import mse_loss, next_embedding_loss
from hf_echo.modeling import EchoDecoder, EchoDecoderConfig, SpectrumForCausalLM, SpectrumModel
from hf_echo.stages.core import loss_blocks
from hf_echo.stages.spectrum.prefix import CONTINUE, REBUILD
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.recipe import RECIPES
from hf_echo.steps.training import train_recipe
from hf_echo.vocabulary import train_tokenizer

pytestmark = pytest.mark.trains

SHAPE = dict(
    hidden_size=32,
    intermediate_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
)
SUBJECTS = ("The dog", "A woman", "My friend", "The river")
VERBS = ("sleeps", "sings", "waits")


def documents() -> list[dict]:
    """Twelve documents of one to three sentences, with a question about them."""
    rows = []
    for number, who in enumerate(SUBJECTS * 3):
        verbs = VERBS[: 1 + number % 3]
        rows.append(
            {
                "sentences": [f"{who} {verb} near house {number}." for verb in verbs],
                "lang": "eng_Latn",
                "task": "Who is it?",
                "question": "Who?",
                "choices": list(SUBJECTS),
                "answer": who,
            }
        )
    return rows


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spectrum")
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents()))
    return folder


@pytest.fixture(scope="module")
def echo(toy, place) -> str:
    """A small release with random weights, whose tokenizer knows the words of the documents and of
    the prompts."""
    sentences = [sentence for row in documents() for sentence in row["sentences"]]
    tokenizer = train_tokenizer(
        [*sentences, CONTINUE, REBUILD], 400, max_length=512, progress=False
    )
    model = toy.make_model(tokenizer, max_position_embeddings=512)
    return str(toy.save(place / "echo", model, tokenizer, release=True))


@pytest.fixture(scope="module")
def recipe(place, echo):
    """recipe(name, stage, **fields) -> path of a recipe of two steps; None leaves a field out."""
    common = dict(
        teacher=echo,
        train_data=str(place / "train.jsonl"),
        cache_dir=str(place / "cache"),
        row_length=40,
        max_tokens=600,
        max_steps=2,
        save_steps=2,
        learning_rate=1e-2,
        warmup_steps=0,
        logging_steps=1,
        use_cpu=True,
        disable_tqdm=True,
    )
    of_stages = {
        "spectrum_tower": dict(max_tokens=12, shape=SHAPE, tokenizer_name_or_path=echo),
        "spectrum_sentences": dict(max_tokens=12),
    }

    def write(name: str, stage: str, **fields):
        values = {"stage": stage, "output_dir": str(place / name)}
        values |= common | of_stages.get(stage, {}) | fields
        file = place / f"{name}.yaml"
        file.write_text(
            yaml.safe_dump({key: value for key, value in values.items() if value is not None})
        )
        return file

    return write


@pytest.fixture(scope="module")
def tower(recipe, place):
    train_recipe(recipe("tower", "spectrum_tower"))
    return str(place / "tower")


@pytest.fixture(scope="module")
def spectrum(recipe, place, tower, echo):
    train_recipe(recipe("sentences", "spectrum_sentences", model_name_or_path=tower, decoder=echo))
    return str(place / "sentences")


def vectors(trainer, row):
    numbers = np.arange(row["first"], row["first"] + len(row["sentences"]))
    return torch.from_numpy(trainer.embeddings[numbers])


@pytest.fixture
def predictions(recipe, caught):
    """predictions(objective) -> (loss of five documents, predicted, following embedding, document,
    key)

    Of each sentence from those before it, each document alone.
    """

    @torch.no_grad()
    def compute(objective: str):
        """(loss of the trainer, predictions, vectors, document and key of each vector) of five
        documents."""
        trainer = caught(recipe("loss", "spectrum_tower", objective=objective))
        model = trainer.model.eval()
        # Weights large enough for predictions to differ.
        for parameter in model.layers.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
        rows = [trainer.train_dataset[i] for i in range(5)]
        parts, _ = trainer.loss_parts(model, trainer.data_collator(rows))
        predicted = []
        following = []
        # Each document by itself.
        for row in rows:
            embeddings = vectors(trainer, row)
            predicted.append(model(embeddings[None, :-1]).next_embedding[0])
            following.append(embeddings)
        counts = torch.tensor([len(row["keys"]) for row in rows])
        document = torch.arange(5).repeat_interleave(counts)
        key = torch.cat([torch.as_tensor(row["keys"]) for row in rows])
        return parts["next_embedding"], torch.cat(predicted), torch.cat(following), document, key

    return compute


def test_tower_predicts_each_sentence_from_those_before(predictions):
    loss, predicted, following, document, key = predictions("infonce")
    options = dict(document=document, key=key, logit_scale=20.0)
    expected = next_embedding_loss(predicted, following, **options)
    torch.testing.assert_close(loss, expected, atol=1e-4, rtol=1e-5)


def test_the_tower_s_loss_by_blocks_has_the_gradients_of_all_rows(recipe, caught, monkeypatch):
    """Blocks of two rows, because there are many columns: as of many processes."""
    trainer = caught(recipe("blocks", "spectrum_tower"))
    model = trainer.model.train()
    for parameter in model.layers.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(5)])
    columns = sum(len(trainer.train_dataset[i]["keys"]) for i in range(5))

    def gradients(cosines: int) -> list[torch.Tensor]:
        monkeypatch.setattr(loss_blocks, "COSINES", cosines)
        parts, _ = trainer.loss_parts(model, batch)
        learning = [p for p in model.parameters() if p.requires_grad]
        return torch.autograd.grad(parts["next_embedding"], learning, allow_unused=True)

    torch.testing.assert_close(gradients(2 * columns), gradients(2**28), rtol=1e-4, atol=1e-6)


def test_tower_can_predict_by_the_squared_distance(predictions):
    loss, predicted, following, _, _ = predictions("mse")
    torch.testing.assert_close(loss, mse_loss(predicted, following), atol=1e-4, rtol=1e-5)


def test_a_new_tower_predicts_the_last_sentence(recipe, caught):
    trainer = caught(recipe("new", "spectrum_tower"))
    sentence_vectors = vectors(trainer, trainer.train_dataset[2])
    with torch.no_grad():
        predicted = trainer.model(sentence_vectors[None]).next_embedding[0]
    # What stands before each sentence: BOE, then the sentences in their order.
    before = torch.cat([trainer.model.boe[None], sentence_vectors])
    assert torch.nn.functional.cosine_similarity(predicted, before).min() > 0.9999
    boe = trainer.embeddings[[trainer.train_dataset.sentences]][0]
    np.testing.assert_allclose(trainer.model.boe.numpy(), boe)


@pytest.fixture
def of_sentences(recipe, caught, tower, echo):
    return caught(recipe("frozen", "spectrum_sentences", model_name_or_path=tower, decoder=echo))


def learned(trainer) -> set[str]:
    return {name for name, p in trainer.model.named_parameters() if p.requires_grad}


def test_the_sentence_stage_leaves_the_language_model_of_the_decoder(of_sentences):
    for name in learned(of_sentences):
        assert name.startswith("tower.") or "cross_att" in name or "projection" in name
    assert "tower.next_embedding.weight" not in learned(of_sentences)


def test_every_learned_weight_of_the_sentence_stage_has_a_gradient(of_sentences):
    """DDP would wait for others."""
    batch = of_sentences.data_collator([of_sentences.train_dataset[i] for i in range(4)])
    losses, _ = of_sentences.loss_parts(of_sentences.model.train(), batch)
    losses["language_model"].backward()
    grown = {name for name, p in of_sentences.model.named_parameters() if p.grad is not None}
    assert grown == learned(of_sentences)


def test_the_decoder_writes_a_sentence_then_the_end_of_the_document(of_sentences, echo):
    batch = of_sentences.data_collator([of_sentences.train_dataset[i] for i in range(4)])
    written = batch["labels"][0]
    text = AutoTokenizer.from_pretrained(echo).decode(written[written >= 0].tolist())
    assert text.count("</s>") >= 2


@pytest.mark.parametrize("ends", [True, False])
def test_a_window_of_a_longer_document_has_no_end(of_sentences, ends):
    row = of_sentences.train_dataset[2]
    document = of_sentences.document(row | {"ends": ends}, vectors(of_sentences, row), None)
    assert len(document.segments) == len(row["sentences"]) + ends


def test_before_training_a_sentence_is_as_likely_as_from_its_translation_decoder(
    recipe, caught, tower, echo
):
    """With one state to read, the cross-attention of the decoder is what it was:
    it reads an embedding."""
    trainer = caught(
        recipe("join", "spectrum_sentences", decoder=echo, shape=SHAPE, model_name_or_path=None)
    )
    model = trainer.model.eval()
    sentence_vectors = vectors(trainer, trainer.train_dataset[2])[:1]
    decoder = EchoDecoder.from_pretrained(echo, dtype=torch.float32).eval()
    ids = torch.tensor([model.config.prompt_ids])
    # the tower's last norm makes embeddings as long as BOE
    scale = model.tower.boe.norm() / sentence_vectors.norm()
    with torch.no_grad():
        state = model.tower(sentence_vectors[None]).last_hidden_state[:, 1:]
        hidden = model.decoder.model(
            ids, memory=model.memory(state), use_cache=False
        ).last_hidden_state
        expected = decoder.model(
            ids, memory=sentence_vectors[None] * scale, use_cache=False
        ).last_hidden_state
    torch.testing.assert_close(hidden, expected, atol=1e-3, rtol=1e-3)


@pytest.fixture
def of_prefixes(recipe, caught, spectrum):
    return caught(recipe("prefix", "spectrum_prefix", model_name_or_path=spectrum))


def segment_of(trainer, seed: int, **fields):
    """(number of sentences that are read, the segment that is written) of the third document."""
    row = trainer.train_dataset[2] | fields
    document = trainer.document(row, vectors(trainer, row), np.random.default_rng(seed))
    (segment,) = document.segments
    assert document.prefix == len(document.embeddings)
    assert segment.reads == document.prefix + 1
    return document.prefix, segment


def texts_of(trainer, segment) -> tuple[str, str]:
    """The prompt, and what is written behind it."""
    prompt = trainer.tokenizer.decode(segment.ids[: segment.prompt])
    return prompt, trainer.tokenizer.decode(segment.ids[segment.prompt : -1])


def test_a_prefix_is_read_then_the_rest_is_written(of_prefixes):
    sentences = documents()[2]["sentences"]
    prefixes = set()
    for seed in range(20):
        prefix, segment = segment_of(of_prefixes, seed)
        prompt, written = texts_of(of_prefixes, segment)
        assert CONTINUE in prompt
        assert written == " ".join(sentences[prefix:])
        prefixes.add(prefix)
    assert prefixes == {1, 2}


def test_a_target_that_is_cut_has_no_end(of_prefixes):
    _, segment = segment_of(of_prefixes, 19)
    whole = [*segment.ids]
    _, of_longer_document = segment_of(of_prefixes, 19, ends=False)
    assert [*of_longer_document.ids] == whole[:-1]
    of_prefixes.args.max_target = 2
    _, short = segment_of(of_prefixes, 19)
    assert [*short.ids] == whole[: segment.prompt + 2]


def test_auto_encoding_reads_every_sentence(of_prefixes):
    sentences = documents()[2]["sentences"]
    of_prefixes.args.autoencode_fraction = 1.0
    prefix, segment = segment_of(of_prefixes, 0)
    prompt, written = texts_of(of_prefixes, segment)
    assert prefix == len(sentences)
    assert REBUILD in prompt
    assert written == " ".join(sentences)


def test_stages_follow_each_other(recipe, place, spectrum):
    start = dict(model_name_or_path=spectrum, autoencode_fraction=0.5)
    dev = {"dev_data": {"own": str(place / "train.jsonl")}, "eval_strategy": "no"}
    results = train_recipe(recipe("chain3", "spectrum_prefix", **start), dev)
    assert results["stage"] == "spectrum_prefix"
    assert 0 < results["eval_own_nll"] < 20

    train_recipe(recipe("chain4", "spectrum_tasks", model_name_or_path=str(place / "chain3")))

    model = SpectrumForCausalLM.from_pretrained(place / "chain4")
    before = SpectrumForCausalLM.from_pretrained(place / "chain3")
    words, words_before = (m.get_input_embeddings().weight for m in (model, before))
    assert not torch.equal(words, words_before)  # it learns
    assert torch.equal(model.tower.boe, SpectrumModel.from_pretrained(place / "tower").boe)
    assert "spectrum_tasks" in (place / "chain4" / "README.md").read_text()


LORA = dict(r=2, alpha=6)


@pytest.fixture
def adapted(recipe, spectrum):
    """adapted(name, **adapter) -> path of a recipe of the prefix stage with an adapter of the token
    decoder."""

    def write(name: str, **adapter):
        options = dict(model_name_or_path=spectrum, adapter=LORA | adapter)
        return recipe(name, "spectrum_prefix", **options)

    return write


def test_an_adapter_of_the_decoder_learns_beside_the_other_parts(adapted, caught):
    names = learned(caught(adapted("learns")))
    of_adapter = {name for name in names if "lora_" in name}
    layers = {name.split(".lora_")[0].rpartition(".")[2] for name in of_adapter}
    assert layers == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert all(name.startswith("decoder.") and "cross_att" not in name for name in of_adapter)
    for name in names - of_adapter:
        assert name.startswith("tower.") or "cross_att" in name or "projection" in name
    assert any("cross_attn" in name for name in names - of_adapter)


def check_is_merged(folder, start) -> None:
    """Each layer of the result is that of the start and alpha / r of B A, of the checkpoint."""
    result = SpectrumForCausalLM.from_pretrained(folder).state_dict()
    before = SpectrumForCausalLM.from_pretrained(start).state_dict()
    (file,) = folder.glob("checkpoint-*/model.safetensors")
    checkpoint = load_file(file)
    layers = [
        name.removesuffix(".lora_A.default.weight") for name in checkpoint if "lora_A" in name
    ]
    assert layers
    for layer in layers:
        a = checkpoint[f"{layer}.lora_A.default.weight"].numpy()
        b = checkpoint[f"{layer}.lora_B.default.weight"].numpy()
        expected = before[f"{layer}.weight"].numpy() + LORA["alpha"] / LORA["r"] * (b @ a)
        assert np.abs(b).max() > 0
        np.testing.assert_allclose(result[f"{layer}.weight"].numpy(), expected, atol=1e-6)
    # The words of the decoder stay, and the tower has learned.
    words = "decoder.model.embed_tokens.weight"
    assert torch.equal(result[words], before[words])
    projection = "tower.embedding_projection.weight"
    assert not torch.equal(result[projection], before[projection])


def test_the_result_of_an_adapter_is_a_whole_spectrum(adapted, place, spectrum):
    train_recipe(adapted("merged"))
    check_is_merged(place / "merged", spectrum)


@pytest.mark.slow
def test_an_adapter_on_a_decoder_in_4_bits_is_merged_into_all_its_bits(adapted, place, spectrum):
    train_recipe(adapted("merged4", load_in_4bit=True))
    check_is_merged(place / "merged4", spectrum)


def test_the_whole_decoder_cannot_learn_beside_its_adapter(recipe, spectrum):
    options = dict(model_name_or_path=spectrum, adapter=LORA)
    refuses("wrong.yaml: train_decoder is true, but", recipe("wrong", "spectrum_tasks", **options))


def test_a_tower_takes_no_adapter(recipe, tower):
    refuses(
        "stage 'spectrum_tower' trains no adapter",
        recipe("wrong", "spectrum_tower", model_name_or_path=tower, adapter=LORA),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "adapter"),
    [
        ("spectrum_tower", None),
        ("spectrum_prefix", None),
        ("spectrum_prefix", LORA | {"dropout": 0.2}),
    ],
)
def test_a_stopped_run_resumes_exactly(recipe, place, spectrum, train_stopped, stage, adapter):
    start = None if stage == "spectrum_tower" else spectrum
    name = f"{stage}-{'whole' if adapter is None else 'adapter'}"
    options = dict(model_name_or_path=start, max_steps=5, adapter=adapter)
    train_recipe(recipe(f"unbroken-{name}", stage, **options))
    path = recipe(f"stopped-{name}", stage, **options)
    train_stopped(path, 3)
    assert (place / f"stopped-{name}" / "checkpoint-2").is_dir()
    train_recipe(path)
    unbroken = place / f"unbroken-{name}" / "model.safetensors"
    resumed = place / f"stopped-{name}" / "model.safetensors"
    assert unbroken.read_bytes() == resumed.read_bytes()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(shape=SHAPE | {"layers": 2}), "a tower has no field 'layers'"),
        (dict(shape=SHAPE | {"embedding_size": 8}), "embeddings of size 8, the encoder"),
        (dict(data_options={"lines": 3}), "data_options: .*lines"),
    ],
)
def test_a_tower_that_cannot_be_is_refused(recipe, fields, message):
    with pytest.raises(ValueError, match=message):
        train_recipe(recipe("wrong", "spectrum_tower", **fields))


def refuses(message: str, path) -> None:
    with pytest.raises(ValueError, match=message):
        train_recipe(path)


def test_the_sentence_stage_needs_a_decoder(recipe, tower):
    path = recipe("wrong", "spectrum_sentences", model_name_or_path=tower)
    refuses("decoder is missing: an Echo checkpoint", path)


def test_the_prefix_stage_has_its_decoder(recipe, spectrum, echo):
    path = recipe("wrong", "spectrum_prefix", model_name_or_path=spectrum, decoder=echo)
    refuses("has a token decoder already", path)


def test_tasks_need_answers(recipe, place, spectrum):
    file = place / "no-answers.jsonl"
    file.write_text('{"sentences": ["It rains."], "lang": "eng_Latn"}\n')
    start = dict(model_name_or_path=spectrum, train_data=str(file))
    refuses("1 documents have no answer", recipe("wrong", "spectrum_tasks", **start))


def test_dry_run_counts_the_paper_s_tower():
    """OS 9.1: six layers of Llama 3.3 70B are 5B parameters."""
    report = dry_run(RECIPES / "spectrum" / "1_tower.yaml")
    assert report["parameters"]["tower"] == pytest.approx(5.15e9, rel=0.01)


def test_dry_run_computes_the_memory_of_the_paper_s_tower():
    """All of it learns: a weight takes 4 bytes, its gradient and two moments 12."""
    report = dry_run(RECIPES / "spectrum" / "1_tower.yaml")

    memory = report["memory_gib"]
    in_gibibytes = report["parameters"]["total"] / 2**30
    assert memory["weights"] == pytest.approx(4 * in_gibibytes)
    assert memory["gradients and AdamW"] == pytest.approx(12 * in_gibibytes)
    assert memory["activations"] > 0


@pytest.fixture
def of_the_paper(monkeypatch, tmp_path):
    """of_the_paper(stage) -> dry run of a recipe at the paper's size, with the configuration of a
    token decoder of Llama 3.2 3B."""
    monkeypatch.chdir(tmp_path)
    layers = dict(hidden_size=3072, intermediate_size=8192, num_hidden_layers=28, head_dim=128)
    heads = dict(num_attention_heads=24, num_key_value_heads=8)
    size = dict(vocab_size=128_259, embedding_size=8192)
    config = EchoDecoderConfig(**layers, **heads, **size)
    config.save_pretrained(tmp_path / "outputs" / "spectrum-large" / "llama")

    def report(stage: str) -> dict:
        return dry_run(RECIPES / "spectrum" / f"{stage}.yaml")

    return report


@pytest.mark.parametrize("stage", ["1_tower", "2_sentences", "3_prefix", "4_tasks"])
def test_the_paper_s_spectrum_fits_eight_gpus_of_80_gb(of_the_paper, stage):
    """Sharded over them; 80 GB are 74.5 GiB. One alone does not hold weights and AdamW."""
    report = of_the_paper(stage)

    sharded = report["memory_gib sharded over 8"]
    weights = report["memory_gib"]["weights"] + report["memory_gib"]["gradients and AdamW"]
    assert sharded["total"] < 74.5 < weights
    assert sharded["weights"] + sharded["gradients and AdamW"] == pytest.approx(weights / 8)
    # Three blocks of Llama 3.3 70B in bf16.
    block = 2 * 8192 * (8192 + 1024) + 3 * 8192 * 28672 + 2 * 8192
    assert sharded["gathered"] > 3 * 2 * block / 2**30


def test_dry_run_computes_fewer_gradients_where_layers_are_frozen(recipe):
    shape = SHAPE | {"embedding_size": 32}
    whole = dry_run(recipe("dry", "spectrum_tower", shape=shape))
    part = dry_run(recipe("dry", "spectrum_tower", shape=shape, freeze=["layers."]))

    assert part["parameters"] == whole["parameters"]
    assert part["memory_gib"]["gradients and AdamW"] < whole["memory_gib"]["gradients and AdamW"]


def test_dry_run_counts_the_decoder(recipe, echo):
    report = dry_run(recipe("dry", "spectrum_sentences", decoder=echo, shape=SHAPE))
    decoder = EchoDecoder.from_pretrained(echo, subfolder="decoder")
    assert report["parameters"]["token decoder"] == decoder.num_parameters()
    assert report["data"]["pairs"] == 12


@pytest.mark.parametrize("stage", ["spectrum_sentences", "spectrum_prefix", "spectrum_tasks"])
def test_dry_run_computes_the_memory_of_what_learns(recipe, spectrum, stage):
    """Tower, without its own head, and cross-attention: a weight, its gradient and two moments."""
    report = dry_run(recipe("dry", stage, model_name_or_path=spectrum, train_decoder=False))

    model = SpectrumForCausalLM.from_pretrained(spectrum)
    learning = 0
    for name, parameter in model.named_parameters():
        is_of_tower = name.startswith("tower.") and "next_embedding" not in name
        if is_of_tower or "cross_att" in name or "decoder.model.embedding_projection" in name:
            learning += parameter.numel()
    memory = report["memory_gib"]
    assert memory["weights"] == pytest.approx(4 * model.num_parameters() / 2**30)
    assert memory["gradients and AdamW"] == pytest.approx(12 * learning / 2**30)
    assert memory["activations"] > 0


def test_dry_run_of_a_decoder_that_learns_counts_more(recipe, spectrum):
    start = dict(model_name_or_path=spectrum)
    part = dry_run(recipe("dry", "spectrum_prefix", **start))["memory_gib"]
    whole = dry_run(recipe("dry", "spectrum_prefix", train_decoder=True, **start))["memory_gib"]

    assert whole["weights"] == part["weights"]
    assert whole["gradients and AdamW"] > part["gradients and AdamW"]
    assert whole["activations"] > part["activations"]


def test_dry_run_counts_the_adapter_of_a_token_decoder(recipe, spectrum):
    """Two matrices of four rows or columns for each linear layer outside of cross-attention."""
    report = dry_run(recipe("dry", "spectrum_prefix", model_name_or_path=spectrum, adapter=LORA))

    model = SpectrumForCausalLM.from_pretrained(spectrum)
    of_adapter = 0
    for name, module in model.decoder.model.layers.named_modules():
        if isinstance(module, torch.nn.Linear) and "cross_att" not in name:
            of_adapter += LORA["r"] * (module.in_features + module.out_features)
    assert report["parameters"]["adapter"] == of_adapter
    assert report["batches"]["tokens of a sentence (assumed)"] == 32


def test_dry_run_of_a_journey_joins_a_planned_tower_with_a_decoder(recipe, place, spectrum, echo):
    """The tower is planned from the recipe before it;
    sizes are those of the model that two such runs made."""
    planned = str(place / "plan1")
    steps = [
        recipe("plan1", "spectrum_tower", shape=SHAPE | {"embedding_size": 32}),
        recipe("plan2", "spectrum_sentences", model_name_or_path=planned, decoder=echo),
    ]
    report = dry_run(steps[1], journey=steps)
    assert "problems" not in report
    trained = SpectrumForCausalLM.from_pretrained(spectrum)
    assert report["parameters"] == {
        "tower": trained.tower.num_parameters(),
        "token decoder": trained.decoder.num_parameters(),
        "total": trained.num_parameters(),
    }


def test_dry_run_of_an_echo_model_in_place_of_a_tower(recipe, echo):
    wrong = dry_run(recipe("plan3", "spectrum_sentences", model_name_or_path=echo, decoder=echo))
    assert any("is a model of type 'echo', not spectrum" in line for line in wrong["problems"])
