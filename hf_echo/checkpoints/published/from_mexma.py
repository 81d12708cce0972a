"""MEXMA (Janeiro et al., 2024) as a SentenceTransformer: XLM-R large whose embedding is the state of its first token.

Its repository holds the weights only. sentence-transformers opens such a folder with mean pooling, which gives other
vectors; so the pooling is written down, and the tokenizer of xlm-roberta-large is put beside it.
"""

from __future__ import annotations

from pathlib import Path

from transformers import AutoConfig, AutoTokenizer, XLMRobertaModel

from ...cards.model_card import write_checkpoint_card
from ...cards.stamp import license_of
from ...utils.folders import write_folder
from ...utils.lineage import write_lineage
from ...utils.sources import locate, read_pretrained
from .sentence_transformer_files import write_sentence_transformer

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
    place, _ = locate(source)
    config = read_pretrained(AutoConfig, source, place)
    if config.model_type != "xlm-roberta":
        raise ValueError(f"{source} is a model of type {config.model_type!r}; MEXMA is of type 'xlm-roberta'")
    words = _open_tokenizer(tokenizer)
    if len(words) > config.vocab_size:
        raise ValueError(f"{source} knows {config.vocab_size} tokens and the tokenizer {tokenizer} makes {len(words)}")
    options = {"config": config, "add_pooling_layer": False, "output_loading_info": True}
    model, report = read_pretrained(XLMRobertaModel, source, place, **options)
    if missing := sorted(report["missing_keys"]):
        raise ValueError(f"{source}: the weights lack the tensor {missing[0]}; they are incomplete")
    # The first two of XLM-R's positions are not used.
    words.model_max_length = config.max_position_embeddings - 2
    license = license or license_of(place)
    with write_folder(out) as folder:
        model.save_pretrained(folder)
        words.save_pretrained(folder)
        write_sentence_transformer(folder, dimension=config.hidden_size, pooling="cls")
        parents = {"source": source, "tokenizer": tokenizer}
        write_lineage(folder, "mexma", {"license": license}, parents=parents, output_dir=out)
        write_checkpoint_card(folder)
    return Path(out)


def _open_tokenizer(name: str | Path):
    place = str(name) if Path(name).is_dir() else locate(name)[0]
    return read_pretrained(AutoTokenizer, name, place)
