"""Trains the toy stages in two processes; a test compares the weights with those of one process."""

import multiprocessing
import os
import socket
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from accelerate.state import AcceleratorState, GradientState
from datasets import Dataset

from hf_echo.data.documents import TASK_COLUMNS, TokenizedDocuments
from hf_echo.data.speech.batches import SpeechRows, audio_lengths
from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.inference.embedding_store import frozen_embeddings
from hf_echo.modeling import EchoAudioFeatureExtractor, EchoSpeechEncoder
from hf_echo.stages import DevSet, emma_x, mexma, speech
from hf_echo.stages.spectrum.sentences import SentencesConfig, SentencesTrainer
from hf_echo.stages.spectrum.tower import TowerConfig, TowerTrainer
from hf_echo.stages.speech import new_config

from .. import speech_toy
from ..losses.test_gather import of_this_process
from ..modeling.spectrum_toy import embeddings, make_spectrum, make_tower

# Two processes count tokens and gather texts in these; the other stages train in the slow tests.
QUICK_RUNS = ("seq2seq", "contrastive")
SLOW_RUNS = ("cached", "guided", "hard_negatives", "decoder", "distillation", "extension")
SLOW_RUNS += ("speech", "mexma", "emma_x", "spectrum_tower", "spectrum_sentences")
GLOBAL_ROWS = 14
EVERY_LENGTH = 48  # the toy's texts are shorter with their prompts, so rows are drawn alike by rows or by tokens


def build(run: str, toy, world: int, output_dir, **changes):
    """The trainer of a run; a global batch has the same rows whatever the number of processes."""
    tokenizer = toy.make_tokenizer()
    data = tokenize_parallel(toy.dataset(), tokenizer, progress=False)
    rates = dict(learning_rate=0.5, optim="sgd", lr_scheduler_type="constant", warmup_steps=0)
    options = (
        dict(output_dir=str(output_dir), max_steps=3, logging_steps=1) | rates | toy.QUIET | changes
    )
    if run == "speech":
        return build_speech(world, options)
    if run.startswith("spectrum"):
        return build_spectrum(run, toy, tokenizer, world, options)
    stage = {"guided": "contrastive", "cached": "contrastive"}.get(run, run)
    name = {"seq2seq": "Seq2Seq"}.get(stage) or stage.title().replace("_", "")
    module = import_module(f"hf_echo.stages.{stage}")
    config = getattr(module, f"{name}Config")
    trainer = getattr(module, f"{name}Trainer")
    dev_sets = {"toy": DevSet(toy.nway_rows())}
    if run == "extension":
        options |= {
            "base_languages": ["eng_Latn", "fra_Latn"],
            "dropout": 0.0,
            "new_language_drop": 0.5,
        }
    if run in ("distillation", "extension", "token"):
        options |= {"language_drop": 0.3, "learning_rate": 0.01}
    if run in ("mexma", "emma_x"):
        return build_encoder_alone(
            run, toy, tokenizer, data, dev_sets, GLOBAL_ROWS // world, options
        )
    if run == "cached":  # the batches of the run "contrastive", in chunks of at most three pairs
        of_a_pair = 3 * EVERY_LENGTH  # source, target and the decoder's target
        options |= {
            "max_tokens": 3 * of_a_pair,
            "batch_tokens": of_a_pair * GLOBAL_ROWS // world,
            "max_rows": 3,
        }
    else:
        options |= {"max_tokens": 10**6, "max_rows": GLOBAL_ROWS // world}
    args = config(**options)
    extra = {}
    if run == "guided":
        rng = np.random.default_rng(0)
        extra["guide"] = [rng.normal(size=(len(data), 6)).astype(np.float32) + 1 for _ in range(2)]
    if run in ("distillation", "extension", "token"):
        rng = np.random.default_rng(0)
        extra["teacher"] = [rng.normal(size=(len(data), 32)).astype(np.float32) for _ in range(2)]
    trained = trainer(
        toy.make_model(tokenizer),
        args,
        train_dataset=data,
        tokenizer=tokenizer,
        dev_sets=dev_sets,
        **extra,
    )
    if stage == "contrastive":
        trained.bucket_multiple = EVERY_LENGTH
    return trained


def build_speech(world: int, options: dict):
    """Both losses of the stage `speech`, on batches that the processes pad to different lengths."""
    rows = speech_toy.speech(42)
    config = new_config(speech_toy.SHAPE | {"embedding_size": 16})
    # Without dropout both processes compute what one would.
    torch.manual_seed(5)
    for name in (
        "hidden_dropout",
        "attention_dropout",
        "feat_proj_dropout",
        "conformer_conv_dropout",
    ):
        setattr(config.audio_config, name, 0.0)
    model = EchoSpeechEncoder(config)
    teacher = [
        np.random.default_rng(side).normal(size=(len(rows), 16)).astype(np.float32)
        for side in range(2)
    ]
    weights = dict(mse_weight=0.1, contrastive_weight=1.0, english_weight=0.3)
    args = speech.SpeechConfig(
        **options | weights | {"learning_rate": 0.01}, max_rows=GLOBAL_ROWS // world
    )
    data = SpeechRows(rows, speech_toy.RATE, audio_lengths(rows, speech_toy.RATE))
    extractor = EchoAudioFeatureExtractor(features="log-mel", num_mel_bins=20, stride=4)
    return speech.SpeechTrainer(
        model, args, train_dataset=data, tokenizer=extractor, teacher=teacher
    )


def build_spectrum(run: str, toy, tokenizer, world: int, options: dict):
    """Documents of 1 to 4 sentences: the processes hold unequal numbers of sentences and of
    tokens."""
    texts = [row["text"] for row in toy.nway_rows("train") if row["lang"] == "eng_Latn"]
    rows = Dataset.from_list(
        [{"sentences": texts[i : i + 1 + i % 4], "lang": "eng_Latn"} for i in range(42)]
    )
    rows = rows.map(lambda row: dict.fromkeys(TASK_COLUMNS))
    data = TokenizedDocuments(rows, tokenizer, max_sentences=8, max_length=64)
    vectors = embeddings(data.sentences + 1).numpy()
    options |= {"max_tokens": 10**6, "max_rows": GLOBAL_ROWS // world, "learning_rate": 0.05}
    parts = dict(train_dataset=data, tokenizer=tokenizer, embeddings=(vectors,))
    if run == "spectrum_tower":
        return TowerTrainer(make_tower(), TowerConfig(**options), **parts)
    model = make_spectrum(decoder={"vocab_size": len(tokenizer)})
    return SentencesTrainer(model, SentencesConfig(**options), **parts)


def build_encoder_alone(run: str, toy, tokenizer, data, dev_sets, rows: int, options: dict):
    """Without what depends on the rows of a process: KoLeo's neighbours, and dropout."""
    options |= {
        "learning_rate": 0.05,
        "max_tokens": 10**6,
        "max_rows": rows,
        "mask_probability": 0.3,
    }
    torch.manual_seed(3)
    model = toy.make_model(tokenizer)
    parts = dict(train_dataset=data, tokenizer=tokenizer, dev_sets=dev_sets)
    if run == "mexma":
        head = dict(head_layers=1, head_heads=4, head_ffn=32, head_dropout=0.0)
        args = mexma.MexmaConfig(koleo_weight=0.0, alignment="contrastive", **head, **options)
        trainer = mexma.MexmaTrainer(model, args, **parts)
    else:
        args = emma_x.EmmaXConfig(
            mixture_learning_rate=0.01, contrastive_steps=1, momentum=0.9, **options
        )
        trainer = emma_x.EmmaXTrainer(model, args, **parts)
        trainer.model.mixture_mean.data.normal_(std=0.05)  # otherwise near vectors all have rank 1
        trainer.model.mixture_log_sigma.data.normal_(-2, 0.05)
    return trainer


def force_fsdp(trainer) -> None:
    """accelerate takes up FSDP on accelerators only: on the CPU it would silently be DDP."""
    from accelerate import PartialState
    from accelerate.state import AcceleratorState
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

    options = dict(fsdp_version=2, reshard_after_forward=True, state_dict_type="FULL_STATE_DICT")
    options |= dict(auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False)
    wrapped = ["LlamaDecoderLayer", "EchoDecoderLayer"]
    plugin = FullyShardedDataParallelPlugin(transformer_cls_names_to_wrap=wrapped, **options)
    for state in (AcceleratorState._shared_state, PartialState._shared_state):
        state.update(distributed_type=DistributedType.FSDP, fsdp_plugin=plugin)
    trainer.is_fsdp_enabled = True


def finish(trainer, out: Path) -> None:
    trainer.train()
    metrics = trainer.evaluate()
    trainer.save_model(str(out))
    if trainer.is_world_process_zero():
        torch.save({"log": trainer.state.log_history, "metrics": metrics}, out / "log.pt")


def train_and_resume(toy, out: Path, prepare) -> None:
    """Four steps unbroken into out/whole; the last two again from its checkpoint into out/again."""
    options = dict(
        max_steps=4, save_strategy="steps", save_steps=2, optim="adamw_torch", learning_rate=1e-2
    )
    for name, checkpoint in (("whole", None), ("again", str(out / "whole" / "checkpoint-2"))):
        trainer = build(
            "contrastive", toy, world=2, output_dir=out / name, language_drop=0.3, **options
        )
        prepare(trainer)
        torch.manual_seed(len(name))
        trainer.train(resume_from_checkpoint=checkpoint)
        trainer.save_model(str(out / name))


def embed_as_rank(toy, out: Path) -> None:
    """Write the texts that this process encoded, and the embeddings that it reads."""
    # What is not a plain run.
    encoded_texts = []

    def encode(texts: list[str], lang: str) -> np.ndarray:
        encoded_texts.extend((lang, text) for text in texts)
        return np.array([[len(text), ord(text[0])] for text in texts], np.float32)

    rank = torch.distributed.get_rank()
    data = toy.dataset()
    sides = frozen_embeddings(data, encode, "m", out / "store", by_all_ranks=True)
    rows = [side[np.arange(len(data))] for side in sides]
    torch.save({"texts": encoded_texts, "rows": rows}, out / f"embeddings-{rank}.pt")


def train_one(run: str, toy, out: Path) -> None:
    """Train a run of `build`, or one under FSDP, with checkpointing, or stopped;
    or compute losses of gathered rows."""
    if run == "gather":
        of_this_process(out / "gather.pt")
    elif run == "embeddings":
        embed_as_rank(toy, out)
    elif run == "resumed":
        train_and_resume(toy, out / run, lambda trainer: None)
    elif run == "fsdp_resumed":
        train_and_resume(toy, out / run, force_fsdp)
    elif run == "checkpointed":
        options = dict(output_dir=out / run, gradient_checkpointing=True)
        finish(build("contrastive", toy, world=2, **options), out / run)
    elif run.startswith("fsdp_"):
        trainer = build(run.removeprefix("fsdp_"), toy, world=2, output_dir=out / run)
        force_fsdp(trainer)
        finish(trainer, out / run)
        assert type(trainer.model_wrapped).__name__.startswith("FSDP")
    else:
        trainer = build(run, toy, world=2, output_dir=out / run)
        assert trainer.args.world_size == 2
        assert trainer.accelerator.num_processes == 2
        finish(trainer, out / run)


def train_as_rank(rank: int, port: int, toy, out: Path, runs: tuple[str, ...]) -> None:
    """What torchrun's process of this rank does."""
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    places |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in places.items()})
    # The process that was forked may have trained alone.
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    torch.set_num_threads(1)  # two processes share the cores
    for run in runs:
        train_one(run, toy, out)
    torch.distributed.destroy_process_group()


def train_in_two(toy, out: Path, runs: tuple[str, ...], timeout: float = 300) -> Path:
    """Train the runs in two forked processes: a fresh one would import for ten seconds.
    Returns the folder `out`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    forks = multiprocessing.get_context("fork")
    processes = []
    for rank in range(2):
        processes.append(forks.Process(target=train_as_rank, args=(rank, port, toy, out, runs)))
        processes[-1].start()
    try:
        for process in processes:
            process.join(timeout)
            assert process.exitcode == 0
    finally:
        for process in processes:
            process.kill()
    return out
