"""A toy language world for tests that train: sentences of four words in three languages, a word for
a word.

Small enough that a model of 32 dimensions learns it in seconds. Also imported by scripts that tests
start.
"""

import copy
import os
import random
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path

import torch
from datasets import Dataset
from safetensors.torch import load_file
from tokenizers import (
    BertWordPieceTokenizer,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

from hf_echo.modeling import EchoConfig, EchoDecoderConfig, EchoForTranslation, EchoTokenizer
from hf_echo.vocabulary import train_tokenizer

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))

WORDS = dict(
    eng_Latn=[
        "one two four nine",
        "red blue old small",
        "cat dog bird fish",
        "sleeps runs eats waits",
    ],
    fra_Latn=[
        "un deux quatre neuf",
        "rouge bleu vieux petit",
        "chat chien oiseau poisson",
        "dort court mange attend",
    ],
    rus_Cyrl=[
        "один два четыре девять",
        "красный синий старый малый",
        "кот пёс птица рыба",
        "спит бежит ест ждёт",
    ],
)
LANGUAGES = list(WORDS)
MEANINGS = list(product(range(4), repeat=4))
SHAPE = dict(hidden_size=32, intermediate_size=64, embedding_size=32, num_hidden_layers=1)
SHAPE |= dict(num_attention_heads=2, num_key_value_heads=1, head_dim=16)
# for TrainingArguments
QUIET = dict(save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True)


def say(meaning: Sequence[int], lang: str) -> str:
    words = [group.split()[i] for group, i in zip(WORDS[lang], meaning, strict=True)]
    return " ".join(words) + "."


def split(part: str) -> list[tuple[int, ...]]:
    """32 of the 256 meanings are held out, by lot."""
    held_out = set(random.Random(0).sample(range(len(MEANINGS)), 32))
    is_dev = part == "dev"
    return [meaning for i, meaning in enumerate(MEANINGS) if (i in held_out) == is_dev]


def parallel_rows(part: str = "train") -> list[dict]:
    """French and Russian -> English, with one to three sentences that differ in one word as hard
    negatives."""
    rows = []
    for number, meaning in enumerate(split(part)):
        negatives = []
        for place in range(1 + number % 3):
            near = list(meaning)
            near[place] = (near[place] + 1) % 4
            negatives.append(say(near, "eng_Latn"))
        for lang in ("fra_Latn", "rus_Cyrl"):
            row = {
                "source": say(meaning, lang),
                "source_lang": lang,
                "target": say(meaning, "eng_Latn"),
                "target_lang": "eng_Latn",
                "provenance": "primary",
                "hard_negatives": negatives,
            }
            rows.append(row)
    return rows


def dataset(part: str = "train") -> Dataset:
    return Dataset.from_list(parallel_rows(part))


def nway_rows(part: str = "dev") -> list[dict]:
    return [
        dict(id=i, lang=lang, text=say(m, lang))
        for i, m in enumerate(split(part))
        for lang in LANGUAGES
    ]


@cache
def trained_tokenizer() -> EchoTokenizer:
    texts = [say(m, lang) for m in MEANINGS for lang in LANGUAGES]
    prompts = [
        "This is a possible translation in English: French: Russian: Unspecified language:"
    ] * 50
    return train_tokenizer([*texts, *prompts], 400, max_length=64, progress=False)


def make_tokenizer() -> EchoTokenizer:
    """A copy, to which a test may add tokens."""
    return copy.deepcopy(trained_tokenizer())


def with_ends(
    backend: Tokenizer, *, template: str = "<s> $A </s>", **options
) -> PreTrainedTokenizerFast:
    """The backend with XLM-R's special tokens and <s> and </s> around a text."""
    special = [(name, backend.token_to_id(name)) for name in ("<s>", "</s>")]
    backend.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    names = dict(
        bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>", pad_token="<pad>"
    )
    names |= dict(unk_token="<unk>", mask_token="<mask>")
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names | options)


def word_pieces(texts: list[str], vocab_size: int = 200) -> PreTrainedTokenizerFast:
    """As BERT's: `##` inside of words, [CLS] and [SEP] around a text."""
    backend = BertWordPieceTokenizer()
    backend.train_from_iterator(texts, vocab_size=vocab_size, show_progress=False)
    names = dict(
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend._tokenizer, model_max_length=128, **names
    )


def unigram(texts: list[str]) -> PreTrainedTokenizerFast:
    """As XLM-R's: SentencePiece's mark of a space, <s> and </s> around a text."""
    words = sorted({f"▁{word}" for text in texts for word in text.split()})
    letters = sorted({*"".join(words), "▁"})
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = [
        *((word, -5.0) for word in words if len(word) > 1),
        *((letter, -9.0) for letter in letters),
    ]
    backend = Tokenizer(models.Unigram([*special, *pieces, ("<mask>", 0.0)], unk_id=3))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return with_ends(backend, model_max_length=128)


def plain_tokenizer(
    *, mask: str | None = "<mask>", cls: str | None = "<s>", template: str = "<s> $A </s>"
):
    """A tokenizer that is not Echo's, in the layout of XLM-R: a number for each word."""
    words = set()
    for lang in LANGUAGES:
        words.update(" ".join(WORDS[lang]).split())
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *sorted(words), ".", "<mask>"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return with_ends(
        backend, template=template, cls_token=cls, mask_token=mask, model_max_length=32
    )


def plain_encoder(tokenizer, *, seed: int = 3, **changes):
    """XLM-R of 32 dimensions and one layer."""
    torch.manual_seed(seed)
    shape = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4)
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=34, **shape | changes
    )
    return XLMRobertaModel(config, add_pooling_layer=False)


def make_model(
    tokenizer, *, seed: int = 7, decoder: dict | None = None, **changes
) -> EchoForTranslation:
    """Hidden and embedding size 32, one encoder and one decoder layer."""
    torch.manual_seed(seed)
    roles = {
        f"{role}_token_id": getattr(tokenizer, f"{role}_token_id")
        for role in ("cls", "sep", "bos", "eos", "pad")
    }
    shape = SHAPE | {"vocab_size": len(tokenizer), "max_position_embeddings": 64} | roles | changes
    options = {"pooling": shape.pop("pooling")} if "pooling" in shape else {}
    decoder = shape | {"decoder_start_token_id": tokenizer.bos_token_id} | (decoder or {})
    return EchoForTranslation(
        EchoConfig(**shape, **options, languages=LANGUAGES, decoder=EchoDecoderConfig(**decoder))
    )


def save(folder: Path, model, *others, release: bool = False) -> Path:
    """The folder, with a model as a training checkpoint or as a release,
    and its tokenizer or feature extractor."""
    (model.save_release if release else model.save_pretrained)(folder)
    for part in others:
        part.save_pretrained(folder)
    return folder


def assert_same(weights, expected) -> None:
    """Two models have the same weights under the same names."""
    weights = weights.state_dict()
    expected = expected.state_dict()
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def trained_model(tokenizer: EchoTokenizer, data, folder) -> EchoForTranslation:
    """Translates most of the held-out sentences, after some seconds."""
    from hf_echo.stages.contrastive import ContrastiveConfig, ContrastiveTrainer

    rates = dict(
        learning_rate=1e-2,
        lr_scheduler_type="cosine",
        warmup_steps=10,
        max_steps=200,
        language_drop=0.2,
    )
    args = ContrastiveConfig(
        output_dir=str(folder), max_tokens=10**6, max_rows=64, **rates, **QUIET
    )
    model = make_model(tokenizer, pooling="mean")
    trainer = ContrastiveTrainer(model, args, train_dataset=data, tokenizer=tokenizer)
    trainer.train()
    return trainer.model.eval()


def tensors(folder) -> dict[str, torch.Tensor]:
    """Every weight of a checkpoint, by file and name."""
    files = sorted(Path(folder).rglob("*.safetensors"))
    assert files
    return {
        f"{file.relative_to(folder)} {name}": t.clone()
        for file in files
        for name, t in load_file(file).items()
    }


def same(one, other) -> bool:
    """Whether two checkpoints hold the same weights, bit by bit, in the same dtypes."""
    a = tensors(one)
    b = tensors(other)
    return a.keys() == b.keys() and all(
        torch.equal(a[name], b[name]) and a[name].dtype == b[name].dtype for name in a
    )
