"""Texts to embeddings, fast on the machine at hand: batches of equal token count, bf16 where the CPU or GPU has it.

sentence-transformers sorts by characters and pads; on mixed-language text that wastes half the work. Here batches are
cut by token budget after sorting by tokens, and on a CPU they are not padded (`modeling/packed_echo.py`). Rows come
back in the order they went in.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import local

import numpy as np
import torch
from tokenizers import Tokenizer
from tqdm.auto import tqdm
from transformers import AutoModel, AutoTokenizer

from ..modeling import EchoEncoder, EchoForTranslation
from ..modeling.modeling_echo_base import check_finite, why_unreadable
from ..modeling.packed_echo import MAX_TOKENS, MIN_TOKENS, PackedEncoder, can_pack, length_batches
from ..modeling.precision_echo import has_fast_bf16
from ..modeling.prompting_echo import check_texts
from ..utils.hub import out_of_reach

logger = logging.getLogger(__name__)


def pick_dtype(dtype: str | torch.dtype, device: torch.device | str) -> torch.dtype:
    """ "auto": bf16 where it is native, else fp32."""
    if isinstance(dtype, torch.dtype):
        return dtype
    names = {
        "auto": torch.bfloat16 if has_fast_bf16(device) else torch.float32,
        "bf16": torch.bfloat16,
        "bfloat16": torch.bfloat16,
        "fp32": torch.float32,
        "float32": torch.float32,
    }
    if dtype not in names:
        raise ValueError(f"dtype must be one of {', '.join(names)}, not {dtype!r}")
    return names[dtype]


def pick_device(device: str | torch.device | None) -> torch.device:
    return torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))


@contextmanager
def opening(name_or_path: str | Path):
    """Gives the name as transformers takes it, and errors that say what could not be opened.

    transformers would ask the Hub for a path that is not there, for most of a minute, and then blame the network; and
    a Hub that is out of reach, file by file, for minutes.
    """
    name = str(name_or_path)
    is_path = isinstance(name_or_path, Path) or name.startswith((".", "/", "~")) or name.count("/") > 1
    if is_path and not Path(name).exists():
        raise FileNotFoundError(f"no folder {name}; give a checkpoint's folder, or a name on the Hub (org/name)")
    if not Path(name).exists() and (reason := out_of_reach(name)):
        raise FileNotFoundError(f"{name!r} is neither a folder nor a name on the Hub: {reason}")
    try:
        yield name
    except Exception as error:
        if Path(name).is_dir():
            if (reason := _damage(Path(name))) and not isinstance(error, FileNotFoundError):
                raise ValueError(reason) from error
            if name in str(error) and isinstance(error, (FileNotFoundError, ValueError)) and "\n" not in str(error):
                raise
            kind = FileNotFoundError if isinstance(error, OSError) else ValueError
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise kind(f"{name} cannot be opened: {reason}") from error
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            reason = str(error).splitlines()[0]
            raise FileNotFoundError(f"{name!r} is neither a folder nor a name on the Hub: {reason}") from error
        raise


def _damage(folder: Path) -> str | None:
    """One line about the first file of a checkpoint that cannot be read."""
    for file in sorted([*folder.glob("*.json"), *folder.glob("decoder/*.json")]):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(content, list if file.name == "modules.json" else dict):
                return f"{file} is damaged: it holds {type(content).__name__}, not an object"
            if file.name == "tokenizer.json":
                Tokenizer.from_file(str(file))
        except Exception as error:  # tokenizers raises a bare Exception
            return f"{file} is damaged or incomplete: {(str(error).splitlines() or [type(error).__name__])[0]}"
    return why_unreadable(sorted([*folder.glob("*.safetensors"), *folder.glob("decoder/*.safetensors")]))


def open_tokenizer(name: str):
    """The EchoTokenizer of a folder or Hub name.

    Raises:
        ValueError: it is another tokenizer, for example since tokenizer_config.json is missing.
    """
    tokenizer = AutoTokenizer.from_pretrained(name)
    if not hasattr(tokenizer, "pair_ids"):
        raise ValueError(f"the tokenizer of {name} is a {type(tokenizer).__name__}, not an EchoTokenizer")
    for role in ("cls", "sep", "bos", "eos", "pad"):
        if getattr(tokenizer, f"{role}_token_id") is None:
            raise ValueError(f"{name}: tokenizer_config.json is missing or names no {role}_token of the vocabulary")
    return tokenizer


def load_encoder(name_or_path: str | Path, *, device: str | None = None, dtype: str = "auto"):
    """(EchoEncoder, EchoTokenizer) of a folder or Hub name, on the device and in the dtype that is fast there."""
    device = pick_device(device)
    with opening(name_or_path) as name:
        tokenizer = open_tokenizer(name)
        model = AutoModel.from_pretrained(name, dtype=pick_dtype(dtype, device))
    return model.to(device).eval(), tokenizer


@torch.inference_mode()
def encode(
    model,
    tokenizer,
    texts: Sequence[str],
    lang: str | Sequence[str | None] | None = None,
    *,
    max_tokens: int | None = None,
    max_length: int | None = None,
    on_long: str = "warn",
    normalize: bool = False,
    progress: bool = False,
) -> np.ndarray:
    """Sentence embeddings of texts in one or many languages.

    Args:
        model, tokenizer: an EchoEncoder (or EchoForTranslation) and its EchoTokenizer.
        lang: a code for all, one a text, or None ("Unspecified language").
        max_tokens: padded tokens of a batch; by default 1,536 on a CPU (2,048 in bf16), whose caches hold that much,
            else 16,384.
        on_long: "warn" cuts texts beyond the model's length and says how many, "error" refuses them by row number,
            "split" encodes the pieces and averages them by tokens.

    Returns:
        (len(texts), embedding_size) float32, row i is text i.

    Raises:
        ValueError: an unknown language, a wrong number of languages, a text that is too long under "error", an
            embedding that holds NaN.
    """
    if isinstance(texts, str):
        raise ValueError("texts is one string; give a list of texts")
    limit = max_length or tokenizer.model_max_length
    size = model.config.embedding_size
    if max_tokens is None:
        on_cpu = MAX_TOKENS.get(next(model.parameters()).dtype, 1_536)
        max_tokens = on_cpu if model.device.type == "cpu" else 16_384
    if not len(texts):
        return np.zeros((0, size), np.float32)
    pieces = list(pieces_of(tokenizer, list(texts), lang, limit, on_long))
    sums = np.zeros((len(texts), size), np.float32)
    weight = np.zeros(len(texts), np.float32)
    bar = tqdm(total=len(texts), desc="Encoding", unit="text", disable=not progress)
    batches = list(length_batches([len(ids) for _, ids in pieces], max_tokens))
    ids_of = [[pieces[i][1] for i in batch] for batch in batches]
    for batch, rows, vectors in zip(batches, ids_of, _embedded(model, tokenizer, ids_of), strict=True):
        lengths = np.array([len(ids) for ids in rows], np.float32)
        owners = np.array([pieces[i][0] for i in batch])
        np.add.at(sums, owners, vectors * lengths[:, None])
        np.add.at(weight, owners, lengths)
        bar.update(len(batch))
    bar.close()
    embeddings = sums / weight[:, None]
    check_finite(torch.from_numpy(embeddings))
    if normalize:
        embeddings /= np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), 1e-12)
    return embeddings


def _embedded(model, tokenizer, batches: list[list[list[int]]]) -> Iterator[np.ndarray]:
    """(rows, embedding_size) of each batch of ids, in order.

    An Echo model on a CPU, and nothing else, takes them by `PackedEncoder`, one batch a core at a time: products of
    this size gain less from several cores than batches do.
    """
    encoder = model.encoder if type(model) is EchoForTranslation else model
    tokens = sum(len(ids) for rows in batches for ids in rows)
    if not (type(encoder) is EchoEncoder and can_pack(encoder)) or tokens < MIN_TOKENS:
        yield from (_embed_padded(model, tokenizer, rows) for rows in batches)
    elif (threads := min(torch.get_num_threads(), len(batches))) < 2:
        embed = PackedEncoder(encoder).embed
        yield from (embed(rows).float().numpy() for rows in batches)
    else:
        yield from _embed_in_threads(encoder, batches, threads)


def _embed_padded(model, tokenizer, rows: list[list[int]]) -> np.ndarray:
    ids, mask = padded(rows, tokenizer.pad_token_id)
    mask = None if mask.all() else mask.to(model.device)
    # The model itself, not its encoder: under FSDP only the outermost forward gathers what is sharded at the root.
    return model(ids.to(model.device), attention_mask=mask).sentence_embedding.float().cpu().numpy()


def _embed_in_threads(encoder, batches: list[list[list[int]]], threads: int) -> Iterator[np.ndarray]:
    mine, before, first = local(), torch.get_num_threads(), PackedEncoder(encoder)

    def prepare() -> None:
        torch.set_num_threads(1)  # of this thread
        mine.embed = PackedEncoder(encoder, like=first).embed

    @torch.inference_mode()  # is a thread's own, too
    def embed(rows: list[list[int]]) -> np.ndarray:
        return mine.embed(rows).float().numpy()

    pool = ThreadPoolExecutor(threads, initializer=prepare)
    try:
        yield from pool.map(embed, batches)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)  # what threads to come start with


def pieces_of(tokenizer, texts: list[str], lang, limit: int, on_long: str) -> Iterator[tuple[int, list[int]]]:
    """(row, ids) of every text, or of every piece of it."""
    if on_long not in ("warn", "error", "split"):
        raise ValueError(f"on_long must be one of warn, error, split, not {on_long!r}")
    if not (lang is None or isinstance(lang, str)) and len(lang) != len(texts):
        raise ValueError(f"{len(texts)} texts but {len(lang)} languages: give one code, or one a text")
    check_texts(texts)
    long = []
    for start in range(0, len(texts), 10_000):
        part = texts[start : start + 10_000]
        codes = lang if lang is None or isinstance(lang, str) else lang[start : start + 10_000]
        prompts, bodies = tokenizer.with_prompts(part, codes)
        for row, ids in enumerate(tokenizer.pair_ids(prompts, bodies), start):
            if len(ids) <= limit:
                yield row, ids
                continue
            long.append(row)
            head = len(tokenizer.pair_ids([prompts[row - start]], [""])[0]) - 1
            room = limit - head - 1
            if room < 1:
                raise ValueError(f"max_length={limit} leaves no room beside the prompt of {head + 1} tokens")
            body = ids[head:-1]
            for i in range(0, len(body) if on_long == "split" else 1, room):
                yield row, ids[:head] + body[i : i + room] + ids[-1:]
    if long and on_long == "error":
        raise ValueError(f"{len(long)} texts are longer than {limit} tokens, the first is row {long[0] + 1}; use split")
    if long and on_long == "warn":
        logger.warning(
            "%d of %d texts are longer than %d tokens and were cut; on_long='split' averages their pieces, "
            "on_long='error' refuses them",
            len(long),
            len(texts),
            limit,
        )


def padded(rows: list[list[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, longest) ids filled up on the right, and their attention mask."""
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.full((len(rows), int(lengths.max())), pad)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = torch.as_tensor(row)
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()
