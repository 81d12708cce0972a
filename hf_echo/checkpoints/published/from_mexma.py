"""MEXMA (Janeiro et al., 2024) as a SentenceTransformer: XLM-R large whose embedding is the state of its first token.

Its repository holds the weights only. sentence-transformers opens such a folder with mean pooling, which gives other
vectors; so the pooling is written down, and the tokenizer of xlm-roberta-large is put beside it.
"""

from __future__ import annotations

from pathlib import Path

from transformers import AutoTokenizer, XLMRobertaModel

from ...utils.sources import locate, read_pretrained
from .sentence_transformer_files import write_sentence_transformer
from .weights import open_config, open_whole
from .writing import converted, license_of_source

TOKENIZER = "FacebookAI/xlm-roberta-large"


def convert_mexma(
    source: str | Path, out: str | Path, *, tokenizer: str | Path = TOKENIZER, license: str | None = None
) -> Path:
    """Write MEXMA with its tokenizer and CLS pooling.

    Args:
        source: folder or Hub name of the weights.
        tokenizer: folder or Hub name of XLM-R's tokenizer.
        license: of the weights, for the card; None takes the one in the source folder's README.md.

    Raises:
        FileNotFoundError: there is no model or tokenizer.
        ValueError: the model is not XLM-R, lacks weights, or does not fit the tokenizer.
    """
    config = open_config(source, ["xlm-roberta"], "MEXMA")
    words = _open_tokenizer(tokenizer)
    if len(words) > config.vocab_size:
        raise ValueError(f"{source} knows {config.vocab_size} tokens and the tokenizer {tokenizer} makes {len(words)}")
    model = open_whole(XLMRobertaModel, source, config=config, add_pooling_layer=False)
    # The first two of XLM-R's positions are not used.
    words.model_max_length = config.max_position_embeddings - 2
    values = {"license": license or license_of_source(source)}
    with converted(out, "mexma", values, source=source, tokenizer=tokenizer) as folder:
        model.save_pretrained(folder)
        words.save_pretrained(folder)
        write_sentence_transformer(folder, dimension=config.hidden_size, pooling="cls")
    return Path(out)


def _open_tokenizer(name: str | Path):
    place = str(name) if Path(name).is_dir() else locate(name)[0]
    return read_pretrained(AutoTokenizer, name, place)
