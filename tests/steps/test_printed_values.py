"""The values that the papers print, against the YAML files of the recipes, field by field.

A field that a recipe leaves out has the default of its stage or operation. A recipe that holds another value than the
printed one stands in DEVIATIONS with its reason.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from hf_echo.data.batching import TokenBudgetBatchSampler
from hf_echo.stages.core.arguments import DataArguments, ModelArguments
from hf_echo.steps.recipe import RECIPES
from hf_echo.steps.table import OPERATIONS, stage_named
from hf_echo.utils.settings import default_of, fields_of


class Printed(NamedTuple):
    """What a paper prints about a recipe: its section, the file, {field: value}."""

    section: str
    recipe: str
    values: dict


OPTIMISER = {
    "adam_beta1": 0.9,
    "adam_beta2": 0.98,
    "max_grad_norm": 1.0,
    "lr_scheduler_type": "inverse_sqrt",
}
FP16 = {"fp16": True}
ALIGNMENT = {
    "contrastive_weight": 0.05,
    "translation_weight": 1.0,
    "margin": 0.3,
    "logit_scale": 100.0,
    "radius": 0.5,
}
COSINE = {
    "adam_beta1": 0.9,
    "adam_beta2": 0.98,
    "warmup_steps": 1000,
    "lr_scheduler_type": "cosine",
}
LLAMA = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
}
LLAMA |= {"num_key_value_heads": 8, "head_dim": 64, "embedding_size": 1024}
SMALL = {
    "hidden_size": 1536,
    "intermediate_size": 6144,
    "num_hidden_layers": 12,
    "num_attention_heads": 24,
}
SMALL |= {"num_key_value_heads": 6, "head_dim": 64, "embedding_size": 1024}
TINY = {
    "hidden_size": 1152,
    "intermediate_size": 4608,
    "num_hidden_layers": 10,
    "num_attention_heads": 18,
}
TINY |= {"num_key_value_heads": 6, "head_dim": 64, "embedding_size": 1024}
STAGE_3, EXTENDED = "outputs/large/3_hard_negatives", "outputs/large/4e_extension"


def shape(values: dict) -> dict:
    return {f"shape.{name}": value for name, value in values.items()}


PRINTED = [
    # OmniSONAR and ECHO. The chain of starts is that of OS Figure 1.
    Printed(
        "OS 4.2, 5",
        "large/0b_llama",
        {"source": "meta-llama/Llama-3.2-1B", "cross_attention": "copy"},
    ),
    Printed("OS 5", "large/0b_llama", {"embedding_size": 1024, "pooling": "cls"}),
    Printed("OS 4.2", "large/0c_start", {"model": "outputs/large/0b_llama", "method": "mean"}),
    Printed(
        "ECHO 4.6, OS 5", "large/1_seq2seq", OPTIMISER | {"max_steps": 100_000, "max_tokens": 8192}
    ),
    Printed(
        "ECHO 4.6, OS 5", "large/1_seq2seq", FP16 | {"learning_rate": 4e-4, "warmup_steps": 2000}
    ),
    Printed(
        "OS 4.3, Figure 1",
        "large/1_seq2seq",
        {"stage": "seq2seq", "model_name_or_path": "outputs/large/0c_start"},
    ),
    Printed("OS 4.3", "large/1_seq2seq", {"translation_reduction": "sum"}),
    Printed("OS Table 36", "large/1_seq2seq", shape(LLAMA) | {"vocab_size": 256_232}),
    Printed("ECHO 4.6, OS 5", "large/2_contrastive", OPTIMISER | ALIGNMENT | FP16),
    Printed("ECHO 4.6, OS 5", "large/2_contrastive", {"max_steps": 10_000, "max_tokens": 6000}),
    Printed("ECHO 4.6, OS 5", "large/2_contrastive", {"learning_rate": 3e-4, "warmup_steps": 2000}),
    Printed("OS Eq. 2", "large/2_contrastive", {"margin_space": "logit"}),
    Printed("OS 4.4.1", "large/2_contrastive", {"model_name_or_path": "outputs/large/1_seq2seq"}),
    Printed("ECHO 4.6, OS 5", "large/3_hard_negatives", OPTIMISER | ALIGNMENT | FP16),
    Printed("ECHO 4.6, OS 5", "large/3_hard_negatives", {"max_steps": 15_000, "max_tokens": 1200}),
    Printed(
        "ECHO 4.6, OS 5", "large/3_hard_negatives", {"learning_rate": 1e-5, "warmup_steps": 2000}
    ),
    Printed(
        "ECHO 4.6, OS 5",
        "large/3_hard_negatives",
        {"max_negatives": 5, "gamma": 0.8, "one_softmax": False},
    ),
    Printed(
        "OS 4.4.2", "large/3_hard_negatives", {"model_name_or_path": "outputs/large/2_contrastive"}
    ),
    Printed(
        "OS 4.5", "large/4b_swap", {"model": STAGE_3, "tokenizer": "outputs/vocabulary/omnilingual"}
    ),
    Printed("OS 5", "large/4c_vocabulary", COSINE | {"max_steps": 20_000, "learning_rate": 1e-4}),
    Printed("OS 4.5.1", "large/4c_vocabulary", {"stage": "distillation", "teacher": STAGE_3}),
    Printed("OS 4.5.1", "large/4c_vocabulary", {"model_name_or_path": "outputs/large/4b_swap"}),
    Printed("OS 5 (16k)", "large/4c_vocabulary", {"max_tokens": 16_384}),
    Printed(
        "OS 4.5.2", "large/4d_teacher_errors", {"operation": "measure_teacher", "model": STAGE_3}
    ),
    Printed(
        "OS 5",
        "large/4e_extension",
        COSINE | {"max_steps": 30_000, "learning_rate": 4e-5, "dropout": 0.05},
    ),
    Printed("OS 5 (16k)", "large/4e_extension", {"max_tokens": 16_384}),
    Printed("OS 3.5", "large/4e_extension", {"temperature": 0.6}),
    Printed("OS 4.5.2", "large/4e_extension", {"stage": "extension", "teacher": STAGE_3}),
    Printed(
        "OS 4.5.2", "large/4e_extension", {"model_name_or_path": "outputs/large/4c_vocabulary"}
    ),
    Printed(
        "OS 4.5.2",
        "large/4e_extension",
        {"teacher_xsimpp": "outputs/large/4d_teacher_errors/xsimpp.json"},
    ),
    Printed("OS Table 3", "large/4e_extension", {"mse_weight": 0.5, "new_mse_weight": 0.1}),
    Printed(
        "OS Table 3",
        "large/4e_extension",
        {"student_teacher_weight": 1.0, "new_student_teacher_weight": 1.0},
    ),
    Printed(
        "OS Table 3",
        "large/4e_extension",
        {"teacher_student_weight": 0.5, "new_teacher_student_weight": 0.0},
    ),
    Printed("OS Table 3", "large/4e_extension", {"logit_scale": 10.0, "new_logit_scale": 60.0}),
    Printed("OS Table 3", "large/4e_extension", {"language_drop": 0.25, "new_language_drop": 0.5}),
    Printed("OS Figure 1", "large/5_speech", {"journey": "speech-large"}),
    Printed("OS 4.7", "large/6_decoder", {"stage": "decoder", "model_name_or_path": EXTENDED}),
    Printed(
        "OS 5", "large/6_decoder", OPTIMISER | FP16 | {"max_steps": 100_000, "max_tokens": 8192}
    ),
    Printed("OS 5", "large/6_decoder", {"learning_rate": 1e-3, "warmup_steps": 200}),
    Printed("OS 4.8, Table 36", "large/7a_tokenizer", {"vocab_size": 64_232}),
    Printed("OS 4.8", "large/7b_prune", {"model": EXTENDED, "size": "small"}),
    Printed("OS 4.8", "large/7c_small", {"teacher": EXTENDED, "base_languages_of": STAGE_3}),
    Printed(
        "OS 5",
        "large/7c_small",
        COSINE | {"max_steps": 64_000, "learning_rate": 5e-4, "max_tokens": 16_384},
    ),
    Printed("OS Table 36", "large/7c_small", shape(SMALL) | {"vocab_size": 64_232}),
    Printed(
        "OS 10.1",
        "large/8_token",
        {"model_name_or_path": EXTENDED, "teacher": EXTENDED, "max_steps": 15_000},
    ),
    Printed("OS 10.1", "large/8_token", {"self_objective_weight": 1.0, "similarity_scale": 500.0}),
    Printed("OS 10.2", "large/9a_tokenizer", {"vocab_size": 128_232}),
    Printed("OS 10.2", "large/9b_prune", {"model": EXTENDED, "size": "tiny"}),
    Printed("OS 10.2, 4.8", "large/9c_tiny", {"teacher": EXTENDED, "base_languages_of": STAGE_3}),
    Printed(
        "OS 5",
        "large/9c_tiny",
        COSINE | {"max_steps": 64_000, "learning_rate": 1e-3, "max_tokens": 16_384},
    ),
    Printed("OS Table 36", "large/9c_tiny", shape(TINY) | {"vocab_size": 128_232}),
    Printed(
        "OS 10.2",
        "large/9d_long_context",
        {"max_rows": 128 // 8, "max_steps": 9000, "learning_rate": 1e-5},
    ),
    Printed("OS 10.2", "large/9d_long_context", {"warmup_steps": 900, "logit_scale": 20.0}),
    Printed(
        "OS 10.2",
        "large/9d_long_context",
        {"model_name_or_path": "outputs/large/9c_tiny"} | shape(TINY),
    ),
    # Speech
    Printed(
        "OS 5",
        "speech-large/1_speech",
        {"max_steps": 200_000, "learning_rate": 1e-4, "warmup_steps": 8000},
    ),
    Printed(
        "OS 4.6",
        "speech-large/1_speech",
        {"teacher": EXTENDED, "mse_weight": 1.0, "contrastive_weight": 0.0},
    ),
    Printed(
        "OS 4.6", "speech-large/1_speech", {"shape.pooler_layers": 3, "shape.embedding_size": 1024}
    ),
    Printed("OS 5", "speech-large/1_speech", {"weight_decay": 0.0, "metric_for_best_model": "mse"}),
    Printed("OS 3.5, Eq. 1", "speech-large/1_speech", {"sampling_exponent": 0.5}),
    # Tokenizers
    Printed("ECHO D, OS 4.1", "vocabulary/languages_200", {"merges": 128_000}),
    Printed("OS 4.1, Table 36", "vocabulary/omnilingual", {"vocab_size": 256_232}),
    # Spectrum
    Printed(
        "OS 9.2",
        "spectrum/1_tower",
        {"max_steps": 55_000, "learning_rate": 2e-4, "teacher": EXTENDED},
    ),
    Printed(
        "OS 9.1", "spectrum/1_tower", {"shape.num_hidden_layers": 6, "shape.hidden_size": 8192}
    ),
    Printed("OS 9.1", "spectrum/1_tower", {"objective": "infonce", "negatives": "both"}),
    Printed("OS 9.2 (2M: 64 devices)", "spectrum/1_tower", {"max_tokens": 2**21 // 64}),
    Printed(
        "OS 9.2",
        "spectrum/2_sentences",
        {"max_steps": 35_000, "learning_rate": 2e-4, "train_decoder": False},
    ),
    Printed("OS 9.2 (2M: 64 devices)", "spectrum/2_sentences", {"max_tokens": 2**21 // 64}),
    Printed(
        "OS 9.2",
        "spectrum/3_prefix",
        {"max_steps": 95_000, "learning_rate": 2e-4, "train_decoder": False},
    ),
    Printed("OS 9.2 (1M: 64 devices)", "spectrum/3_prefix", {"max_tokens": 2**20 // 64}),
    Printed(
        "OS 9.2",
        "spectrum/4_tasks",
        {"max_steps": 10_000, "learning_rate": 5e-6, "train_decoder": True},
    ),
    Printed("OS 9.2 (1M: 64 devices)", "spectrum/4_tasks", {"max_tokens": 2**20 // 64}),
    # MEXMA
    Printed("MEXMA 3.1, A.1", "mexma/1_mexma", {"backbone": "FacebookAI/xlm-roberta-large"}),
    Printed("MEXMA A.2", "mexma/1_mexma", {"head_layers": 6}),
    Printed(
        "MEXMA A.3",
        "mexma/1_mexma",
        {"max_rows": 150, "gradient_accumulation_steps": 2, "max_steps": 300_000},
    ),
    Printed(
        "MEXMA A.4",
        "mexma/1_mexma",
        {"alignment_weight": 1, "unmasking_weight": 1 / 2, "koleo_weight": 0.01 / 2},
    ),
    Printed("MEXMA A.5", "mexma/1_mexma", FP16 | {"max_length": 200, "mask_probability": 0.4}),
    Printed("MEXMA A.5", "mexma/1_mexma", {"learning_rate": 1e-5}),
    # EMMA-X
    Printed(
        "EMMA-X A.2", "emma-x/1_emma_x", {"backbone": "FacebookAI/xlm-roberta-large", "ranks": 4}
    ),
    Printed(
        "EMMA-X A.2",
        "emma-x/1_emma_x",
        {"queue_size": 256, "momentum": 0.999, "contrastive_temperature": 0.04},
    ),
    Printed(
        "EMMA-X A.2", "emma-x/1_emma_x", {"temperatures": [0.04, 0.04, 0.04], "mlm_weight": 0.0}
    ),
    Printed(
        "EMMA-X A.2", "emma-x/1_emma_x", {"learning_rate": 5e-4, "mixture_learning_rate": 3e-5}
    ),
    Printed(
        "EMMA-X A.2",
        "emma-x/1_emma_x",
        {"lr_scheduler_type": "cosine", "adam_beta1": 0.9, "adam_beta2": 0.999},
    ),
    Printed("EMMA-X A.2 (1024)", "emma-x/1_emma_x", {"max_rows": 1024 // 8}),
    # Modular: the paper's values are the defaults of the operation, so nano-modular stands for a recipe without them.
    Printed(
        "Modular B.2",
        "nano-modular/1_english",
        {"vocab_size": 50_000, "mlm_steps": 200_000, "max_length": 128},
    ),
    Printed(
        "Modular B.2",
        "nano-modular/1_english",
        {"batch_size": 128, "alignment_batch_size": 256, "epochs": 1},
    ),
    Printed("Modular B.2", "nano-modular/1_english", {"learning_rate": 2e-5}),
    # The objective at nano size
    Printed("OS 5", "nano/2_contrastive", ALIGNMENT),
    Printed("OS 5", "nano/3_hard_negatives", ALIGNMENT | {"gamma": 0.8, "max_negatives": 5}),
    Printed("OS 5", "nano-real/2_contrastive", ALIGNMENT),
    Printed("OS 5", "nano-real/3_hard_negatives", ALIGNMENT | {"gamma": 0.8, "max_negatives": 5}),
    Printed("OS Table 3", "nano-omni/1_extension", {"mse_weight": 0.5, "new_mse_weight": 0.1}),
    Printed(
        "OS Table 3",
        "nano-omni/1_extension",
        {"student_teacher_weight": 1.0, "new_student_teacher_weight": 1.0},
    ),
    Printed(
        "OS Table 3",
        "nano-omni/1_extension",
        {"teacher_student_weight": 0.5, "new_teacher_student_weight": 0.0},
    ),
    Printed("OS Table 3", "nano-omni/1_extension", {"logit_scale": 10.0, "new_logit_scale": 60.0}),
    Printed(
        "OS Table 3", "nano-omni/1_extension", {"language_drop": 0.25, "new_language_drop": 0.5}
    ),
    Printed("OS 3.5", "nano-omni/1_extension", {"temperature": 0.6}),
    Printed(
        "OS 10.1", "nano-omni/3_token", {"self_objective_weight": 1.0, "similarity_scale": 500.0}
    ),
    Printed("OS 10.2", "nano-omni/4_long_context", {"max_rows": 128, "logit_scale": 20.0}),
    Printed("MEXMA A.5", "nano-mexma/2_mexma", {"mask_probability": 0.4}),
    Printed(
        "EMMA-X A.2", "nano-emma-x/1_emma_x", {"queue_size": 256, "momentum": 0.999, "ranks": 4}
    ),
]

NO_SCALING = "bf16: needs no scaling of the loss, and a machine without GPU reads the recipe"
ON_MEANS = "on means over both texts: twice the paper's weight on their sum"
SMALL_BATCH = "small batches of a small model"
# {(recipe, field): (its value, why it is not the printed one)}
DEVIATIONS = {
    ("large/1_seq2seq", "fp16"): (False, NO_SCALING),
    ("large/2_contrastive", "fp16"): (False, NO_SCALING),
    ("large/3_hard_negatives", "fp16"): (False, NO_SCALING),
    ("large/6_decoder", "fp16"): (False, NO_SCALING),
    ("mexma/1_mexma", "fp16"): (False, NO_SCALING),
    ("large/1_seq2seq", "translation_reduction"): (
        "mean",
        "a sum would make alpha depend on the sentence's length",
    ),
    ("large/2_contrastive", "margin_space"): (
        "cosine",
        "LaBSE's, and only it fits the ablation of the margin",
    ),
    ("mexma/1_mexma", "unmasking_weight"): (1.0, ON_MEANS),
    ("mexma/1_mexma", "koleo_weight"): (0.01, ON_MEANS),
    ("mexma/1_mexma", "learning_rate"): (
        1e-4,
        "1e-5 is the first rate; this is the highest, of the authors' command",
    ),
    ("emma-x/1_emma_x", "temperatures"): (
        [0.05, 0.075, 0.1],
        "G.1: rising with the rank, without figures",
    ),
    ("emma-x/1_emma_x", "mlm_weight"): (1.0, "of the authors' code, not in the paper"),
    ("nano-modular/1_english", "vocab_size"): (50_048, "50K rounded up to a multiple of 128"),
    ("nano/2_contrastive", "contrastive_weight"): (0.3, SMALL_BATCH),
    ("nano/3_hard_negatives", "contrastive_weight"): (0.3, SMALL_BATCH),
    ("nano/3_hard_negatives", "max_negatives"): (2, SMALL_BATCH),
    ("nano-real/2_contrastive", "contrastive_weight"): (1.0, SMALL_BATCH),
    ("nano-real/2_contrastive", "translation_weight"): (0.2, SMALL_BATCH),
    ("nano-real/3_hard_negatives", "contrastive_weight"): (1.0, SMALL_BATCH),
    ("nano-real/3_hard_negatives", "translation_weight"): (0.2, SMALL_BATCH),
}


def defaults_of(values: dict) -> dict:
    """The defaults of the fields that a recipe leaves out."""
    if "operation" in values:
        kinds = [OPERATIONS[values["operation"]]]
    elif "stage" in values:
        kinds = [ModelArguments, DataArguments, stage_named(values["stage"]).config]
    else:
        kinds = []
    defaults = {}
    for kind in kinds:
        for name, field in fields_of(kind).items():
            defaults[name] = default_of(field)
    return defaults


def held(values: dict, field: str):
    """The value of a field, such as max_steps or shape.hidden_size, in the content of a recipe."""
    whole = defaults_of(values) | values
    name, _, part = field.partition(".")
    return whole[name][part] if part else whole[name]


def differences(recipes: Path) -> list[tuple[str, str]]:
    """(recipe, field) of all values that are neither printed nor a deviation that the table knows."""
    wrong = []
    for row in PRINTED:
        values = yaml.safe_load((recipes / f"{row.recipe}.yaml").read_text(encoding="utf-8"))
        for field, printed in row.values.items():
            key = (row.recipe, field)
            expected = DEVIATIONS[key][0] if key in DEVIATIONS else printed
            if held(values, field) != expected:
                wrong.append(key)
    return wrong


def test_recipes_hold_what_the_papers_print():
    assert differences(RECIPES) == []


def test_a_deviation_is_from_a_printed_value():
    printed = {(row.recipe, field): value for row in PRINTED for field, value in row.values.items()}
    for key, (value, reason) in DEVIATIONS.items():
        assert printed[key] != value, f"{key} is as printed"
        assert reason


def test_every_recipe_at_the_size_of_a_paper_has_a_row():
    named = {row.recipe for row in PRINTED}
    for folder in ("large", "speech-large", "mexma", "emma-x", "spectrum", "vocabulary"):
        for path in (RECIPES / folder).glob("*.yaml"):
            name = f"{folder}/{path.stem}"
            assert name in named or "journey" in yaml.safe_load(path.read_text(encoding="utf-8")), (
                name
            )


@pytest.mark.parametrize(
    ("recipe", "field", "value"),
    [
        ("large/1_seq2seq", "learning_rate", 0.4),
        ("large/1_seq2seq", "max_steps", 7),
        ("large/1_seq2seq", "max_tokens", 99),
        ("large/2_contrastive", "margin", 0.9),
        ("large/2_contrastive", "logit_scale", 3),
        ("large/2_contrastive", "contrastive_weight", 5),
        ("large/3_hard_negatives", "gamma", 0.1),
        ("large/4e_extension", "mse_weight", 9),
        ("large/6_decoder", "model_name_or_path", STAGE_3),
        ("large/9d_long_context", "max_rows", 128),
        ("mexma/1_mexma", "koleo_weight", 0.005),
        ("spectrum/4_tasks", "learning_rate", 2e-4),
    ],
)
def test_another_value_is_seen(recipe, field, value, tmp_path):
    folder = tmp_path / "recipes"
    shutil.copytree(RECIPES, folder)
    path = folder / f"{recipe}.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump(values | {field: value}), encoding="utf-8")
    assert differences(folder) == [(recipe, field)]


# What max_tokens counts


def pairs_on_a_device(recipe: str, rows: int = 20_000, tokens: int = 43) -> float:
    """Mean number of pairs in a batch of a recipe's budget, where the sampler sees the longer side of each pair."""
    values = yaml.safe_load((RECIPES / f"{recipe}.yaml").read_text(encoding="utf-8"))
    assert values["tokens_of"] == "side"
    return rows / len(TokenBudgetBatchSampler([tokens] * rows, values["max_tokens"]))


def test_a_budget_buys_what_the_papers_figures_say():
    """OS 5: 768k tokens are about 18k examples, of 43 tokens; stage 3 has a fifth of the pairs of stage 2."""
    assert pytest.approx(43, abs=0.5) == 768_000 / 18_000
    second = pairs_on_a_device("large/2_contrastive")
    third = pairs_on_a_device("large/3_hard_negatives")
    assert second == pytest.approx(125, abs=1)
    assert third == pytest.approx(second / 5, abs=0.5)


@pytest.mark.parametrize("length", [300, 600, 1000, 2048])
def test_the_default_of_tokens_does_not_cut_the_documents_of_a_batch(length):
    values = yaml.safe_load((RECIPES / "large/9d_long_context.yaml").read_text(encoding="utf-8"))
    prompt = 64
    lengths = [[length + prompt, length + prompt]] * 160
    batches = list(
        TokenBudgetBatchSampler(
            lengths, held(values, "max_tokens"), max_rows=held(values, "max_rows")
        )
    )
    assert [len(batch) for batch in batches] == [16] * 10
