"""Encode texts as embeddings, fast: sorted by tokens, in batches by token budget, bf16 where it is
faster than fp32.

sentence-transformers sorts by characters and pads, which wastes half the work on mixed-language
text. On a CPU batches are not padded (`modeling/packed_echo.py`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import local
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from tqdm.auto import tqdm
from transformers import AutoConfig, AutoModel, AutoTokenizer

from ..modeling import EchoEncoder, EchoForTranslation, EchoTokenizer
from ..modeling.generation_echo import check_numbers
from ..modeling.modeling_echo_base import check_finite, why_unreadable
from ..modeling.packed_echo import MAX_TOKENS, MIN_TOKENS, can_pack, length_batches, packed_encoder
from ..modeling.precision_echo import bf16_is_faster, has_fast_bf16  # noqa: F401 (others import it from here)
from ..modeling.prompting_echo import langs_of, texts_of
from ..utils.adapter_base import base_of, is_adapter
from ..utils.bars import hidden
from ..utils.choices import OnLong
from ..utils.cores import one_per_core
from ..utils.devices import chosen_device
from ..utils.files import first_line
from ..utils.fingerprint import warn_of_changes
from ..utils.hub import is_place, out_of_reach, remote_modules, snapshot, warn_unpinned
from ..utils.vectors import unit_length

logger = logging.getLogger(__name__)


def pick_dtype(dtype: str | torch.dtype, device: torch.device | str) -> torch.dtype:
    """The torch dtype of a name: "fp32", "bf16", or "auto", which is bf16 where it is faster, else
    fp32."""
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype == "auto":
        return torch.bfloat16 if bf16_is_faster(device) else torch.float32
    names = {
        "bf16": torch.bfloat16,
        "bfloat16": torch.bfloat16,
        "fp32": torch.float32,
        "float32": torch.float32,
    }
    if dtype not in names:
        raise ValueError(f"dtype is {dtype!r}; it must be one of auto, {', '.join(names)}")
    return names[dtype]


def pick_device(device: str | torch.device | None) -> torch.device:
    """The device of a name; None is the one that was chosen (`hf_echo.utils.devices`), CUDA if
    available, or the CPU.

    Raises:
        ValueError: this machine has no such device.
    """
    name = device or chosen_device() or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(name)
    except RuntimeError:
        raise ValueError(
            f"device is {name!r}; it must be a name such as cpu, cuda, cuda:1 or mps"
        ) from None
    if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"device is {name!r}, and this machine has {torch.cuda.device_count()} CUDA devices: use cpu"
        )
    return place


@contextmanager
def opening(name_or_path: str | Path) -> Iterator[str]:
    """Yield the name for transformers' `from_pretrained`; errors inside the block say which
    checkpoint and why.

    transformers asks the Hub for a missing path, takes most of a minute, and then reports a network
    problem. "org/name@v1.2.0" becomes the folder of that version, the name of a checkpoint of the
    package its folder. Code of a repository that runs in the block without a version causes one
    warning per process.

    Raises:
        FileNotFoundError: no such folder or Hub name. ValueError: a damaged checkpoint, or an
            adapter on a base that has changed since.
    """
    name = snapshot(name_or_path)
    # What cannot be there is refused before transformers asks the Hub for it.
    is_path = isinstance(name_or_path, Path) or is_place(name)
    if is_path and not Path(name).exists():
        raise FileNotFoundError(
            f"no folder {name}; give a checkpoint's folder, or a name on the Hub (org/name)"
        )
    if Path(name).is_file():
        raise FileNotFoundError(
            f"{name} is a file; give a checkpoint's folder, or a name on the Hub (org/name)"
        )
    reason = None if Path(name).exists() else out_of_reach(name)
    if reason:
        raise FileNotFoundError(f"{name!r} is neither a folder nor a name on the Hub: {reason}")
    if is_adapter(name):
        _check_base_once(name)
    # Errors inside: of a folder the damaged file, of a Hub name that it is none.
    before = remote_modules()
    try:
        warn_of_changes(name)
        yield name
    except Exception as error:
        named_error = _named(error, name)
        if named_error is None:
            raise
        raise named_error from error
    finally:
        if remote_modules() - before:
            warn_unpinned(name)


@cache
def _check_base_once(adapter: str) -> None:
    """Raises ValueError where the base of an adapter is no longer the one that it was trained on.
    A command opens a folder several times, and this reads the whole base."""
    base_of(adapter)


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """The model in evaluation mode, and afterwards as before."""
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)


def _named(error: Exception, name: str) -> Exception | None:
    """The error as one line that names the model; None where it is one already."""
    folder = Path(name)
    # A name of the Hub: its client says most errors well.
    if not folder.is_dir():
        if not isinstance(error, OSError) or isinstance(error, FileNotFoundError):
            return None
        return FileNotFoundError(
            f"{name!r} is neither a folder nor a name on the Hub: {first_line(error)}"
        )
    # A folder: a damaged file explains any error.
    damage = _damage(folder)
    if damage and not isinstance(error, FileNotFoundError):
        return ValueError(damage)
    if not [*folder.glob("*config.json"), *folder.glob("mod*.json")]:  # modules, modular
        return FileNotFoundError(f"{name} holds no config.json: give the folder of a checkpoint")
    is_no_model = str(error).startswith("Unrecognized model")
    if is_no_model and not (folder / "config.json").is_file():  # of a tokenizer alone
        return FileNotFoundError(f"{name} holds no config.json: give the folder of a checkpoint")
    # A message that names the folder in one line stays as it is.
    names_it = name in str(error) and "\n" not in str(error)
    if names_it and isinstance(error, (FileNotFoundError, ValueError)):
        return None
    kind = FileNotFoundError if isinstance(error, OSError) else ValueError
    return kind(f"cannot open {name}: {first_line(error)}")


def _damage(folder: Path) -> str | None:
    """One line about the first unreadable file of a checkpoint; None if all files can be read."""
    for file in sorted([*folder.glob("*.json"), *folder.glob("decoder/*.json")]):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(content, list if file.name == "modules.json" else dict):
                return f"{file} is damaged: it contains {type(content).__name__}, not an object"
            if file.name == "tokenizer.json":
                Tokenizer.from_file(str(file))
        except Exception as error:  # tokenizers raises a bare Exception
            return f"{file} is damaged or incomplete: {first_line(error)}"
    return why_unreadable(
        sorted([*folder.glob("*.safetensors"), *folder.glob("decoder/*.safetensors")])
    )


def open_tokenizer(name: str, subfolder: str = "") -> EchoTokenizer:
    """Open the EchoTokenizer of a folder or Hub name."""
    tokenizer: Any = AutoTokenizer.from_pretrained(name, subfolder=subfolder)
    if not hasattr(tokenizer, "pair_ids"):
        if getattr(AutoConfig.from_pretrained(name), "prompts", "name") != "none":
            kind = type(tokenizer).__name__
            raise ValueError(
                f"the tokenizer of {name} is a {kind}; give a model with an EchoTokenizer"
            )
        tokenizer = EchoTokenizer.around(tokenizer)
    for role in tokenizer.roles:
        if getattr(tokenizer, f"{role}_token_id") is None:
            raise ValueError(
                f"{name}: tokenizer_config.json is missing or has no {role}_token of the vocabulary"
            )
    return tokenizer


def load_encoder(
    name_or_path: str | Path, *, device: str | None = None, dtype: str = "auto"
) -> tuple[EchoEncoder, EchoTokenizer]:
    """Load (EchoEncoder, EchoTokenizer) from a folder or Hub name; `device` None is CUDA if
    available, else the CPU.

    Raises:
        FileNotFoundError: no such folder or Hub name. ValueError: a damaged checkpoint, or another
            tokenizer.
    """
    place = pick_device(device)
    with opening(name_or_path) as name:
        tokenizer = open_tokenizer(name)
        model = AutoModel.from_pretrained(name, dtype=pick_dtype(dtype, place))
    return model.to(place).eval(), tokenizer


@torch.inference_mode()
def encode(  # noqa: PLR0913 (the options of `hf-echo encode`)
    model: EchoEncoder | EchoForTranslation,
    tokenizer: EchoTokenizer,
    texts: Iterable[str],
    lang: str | Iterable[str | None] | None = None,
    *,
    max_tokens: int | None = None,
    max_length: int | None = None,
    on_long: OnLong = "warn",
    normalize: bool = False,
    prompt: str | None = None,
    progress: bool | tqdm = False,
) -> np.ndarray:
    """Encode texts in one or several languages as sentence embeddings.

    A converted SentenceTransformer gives the vectors that it gives itself: behind its default
    prompt (or the one with the name of the language), of length 1 and cut where it says so
    (`EchoConfig.sentence_transformer`).

    Args:
        model, tokenizer: an EchoEncoder (or EchoForTranslation) and its EchoTokenizer.
        texts: list, tuple, generator, NumPy array, pandas or polars Series, column of `datasets` or
            Arrow array.
        lang: one code for all texts, one per text, or None ("Unspecified language").
        max_tokens: padded tokens per batch; None is 1,536 on a CPU (2,048 in bf16), which fit its
            caches, else 16,384.
        max_length: longest text in tokens; None is the model's limit.
        on_long: for longer texts: "warn" truncates them and logs how many, "error" raises, "split"
            encodes pieces and averages them, weighted by tokens.
        normalize: divide embeddings by their L2 norm.
        prompt: of a converted SentenceTransformer what stands in front of each text, instead of its
            own prompts.
        progress: show a progress bar; or the bar of a longer run, which counts texts.

    Returns:
        (len(texts), size) float32; row i is text i. The size is `model.config.vector_size`.

    Raises:
        ValueError: an unknown language, a wrong number of languages, a number below 1, a text that
            is too long with "error", an embedding with NaN.
    """
    texts = texts_of(texts)
    lang = langs_of(lang, len(texts))
    check_numbers(max_tokens=max_tokens, max_length=max_length)
    served = getattr(model.config, "sentence_transformer", None) or {}
    texts = behind_prompts(texts, lang, served, prompt)
    limit = max_length or tokenizer.model_max_length
    size = model.config.embedding_size
    if max_tokens is None:
        on_cpu = MAX_TOKENS.get(next(model.parameters()).dtype, 1_536)
        max_tokens = on_cpu if model.device.type == "cpu" else 16_384
    if not texts:
        return np.zeros((0, model.config.vector_size), np.float32)

    # A text is one piece, or with on_long="split" several, whose embeddings are averaged by tokens.
    pieces = list(pieces_of(tokenizer, texts, lang, limit, on_long))
    sums = np.zeros((len(texts), size), np.float32)
    weight = np.zeros(len(texts), np.float32)
    new_bar = tqdm(total=len(texts), desc="Encoding", unit="text", disable=hidden(progress is True))
    bar = new_bar if isinstance(progress, bool) else progress
    text_of_piece = np.array([row for row, _ in pieces])
    lengths = np.array([len(ids) for _, ids in pieces])
    batches = list(length_batches(lengths.tolist(), max_tokens))
    ids_of_batches = []
    for batch in batches:
        ids_of_batches.append([pieces[piece][1] for piece in batch])
    embedded = _embedded(model, tokenizer, ids_of_batches)
    for batch, vectors in zip(batches, embedded, strict=True):
        tokens = lengths[batch].astype(np.float32)
        np.add.at(sums, text_of_piece[batch], vectors * tokens[:, None])
        np.add.at(weight, text_of_piece[batch], tokens)
        bar.update(len(batch))
    new_bar.close()

    # As the SentenceTransformer that it was converted from: of length 1, cut to its size.
    embeddings = sums / weight[:, None]
    check_finite(torch.from_numpy(embeddings))
    if served.get("normalize"):
        unit_length(embeddings, out=embeddings)
    embeddings = embeddings[:, : model.config.vector_size]
    if normalize:
        unit_length(embeddings, out=embeddings)
    return embeddings


def behind_prompts(
    texts: list[str],
    lang: str | list[str | None] | None,
    served: Mapping[str, Any],
    prompt: str | None = None,
) -> list[str]:
    """Texts behind the prompts of a converted SentenceTransformer, as its own `encode` puts them.

    Args:
        lang: a prompt with the name of a text's language comes before the default one.
        served: `EchoConfig.sentence_transformer`, or an empty mapping.
        prompt: instead of both.
    """
    if not served and not prompt:
        return texts
    prompts = served.get("prompts") or {}
    default = prompts.get(served.get("default_prompt_name"), "")
    langs = lang if isinstance(lang, list) else [lang] * len(texts)
    prompted = []
    for text, code in zip(texts, langs, strict=True):
        prompted.append((prompts.get(code, default) if prompt is None else prompt) + text)
    return prompted


def _embedded(
    model: EchoEncoder | EchoForTranslation,
    tokenizer: EchoTokenizer,
    batches: list[list[list[int]]],
) -> Iterator[np.ndarray]:
    """Yield (rows, embedding_size) for each batch of ids, in order.

    Only an Echo model on a CPU uses `packed_encoder`, one batch per core.
    """
    encoder = model.encoder if type(model) is EchoForTranslation else model
    tokens = sum(len(ids) for rows in batches for ids in rows)
    if type(encoder) is not EchoEncoder or tokens < MIN_TOKENS or not can_pack(encoder):
        for rows in batches:
            yield _embed_padded(model, tokenizer, rows)
        return
    # One packed encoder a thread, since it has buffers; all share the joined weights of the first.
    per_thread = local()
    first = packed_encoder(encoder)

    def embed(rows: list[list[int]]) -> np.ndarray:
        if not hasattr(per_thread, "packed"):
            per_thread.packed = packed_encoder(encoder, like=first)
        return per_thread.packed.embed(rows).float().numpy()

    yield from one_per_core(embed, batches)


def _embed_padded(
    model: EchoEncoder | EchoForTranslation, tokenizer: EchoTokenizer, rows: list[list[int]]
) -> np.ndarray:
    """(rows, embedding_size) float32 of a padded batch."""
    ids, mask = padded(rows, tokenizer.pad_token_id)
    attention_mask = None if mask.all() else mask.to(model.device)
    # Call the model, not its encoder: under FSDP only the outermost forward gathers the root's shards.
    output = model(ids.to(model.device), attention_mask=attention_mask)
    return output.sentence_embedding.float().cpu().numpy()


def pieces_of(
    tokenizer: EchoTokenizer,
    texts: list[str],
    lang: str | Sequence[str | None] | None,
    limit: int,
    on_long: OnLong,
) -> Iterator[tuple[int, list[int]]]:
    """Yield (row, token ids) of every text; with on_long="split" of every piece of it."""
    long = []
    for start in range(0, len(texts), 10_000):
        part = texts[start : start + 10_000]
        codes = lang if lang is None or isinstance(lang, str) else lang[start : start + 10_000]
        prompts, bodies = tokenizer.with_prompts(part, codes)
        for row, ids in enumerate(tokenizer.pair_ids(prompts, bodies), start):
            if len(ids) <= limit:
                yield row, ids
                continue
            # A long text is cut between the prompt in front of it and the special tokens behind it.
            long.append(row)
            end = tokenizer.end_ids
            frame = len(tokenizer.pair_ids([prompts[row - start]], [""])[0])
            head = frame - len(end)
            room = limit - frame
            if room < 1:
                raise ValueError(
                    f"max_length={limit} is too small for the prompt of {frame} tokens; give more"
                )
            body = ids[head : len(ids) - len(end)]
            if on_long != "split" and tokenizer.truncation_side == "left":
                body = body[-room:]
            for i in range(0, len(body) if on_long == "split" else 1, room):
                yield row, [*ids[:head], *body[i : i + room], *end]
    if long and on_long == "error":
        raise ValueError(
            f"{len(long)} texts are longer than {limit} tokens, the first is row {long[0] + 1}; shorten them, or use "
            "on_long='split'"
        )
    if long and on_long == "warn":
        logger.warning(
            f"{len(long)} of {len(texts)} texts are longer than {limit} tokens and were truncated; on_long='split' "
            "averages their pieces, on_long='error' raises an error"
        )


def padded(rows: list[list[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Right-padded ids and their attention mask, both (rows, longest)."""
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.full((len(rows), int(lengths.max())), pad)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = torch.as_tensor(row)
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()
