"""The release of a speech encoder: encoder in the root, the decoder of its text space in `decoder/`, with its card."""

from __future__ import annotations

from pathlib import Path

from ..cards.model_card import write_checkpoint_card
from ..inference.encode import pick_dtype
from ..inference.encode_speech import load_speech_encoder
from ..inference.translate import load_translator
from ..modeling.modeling_echo_base import DECODER_FOLDER
from ..utils.folders import write_folder
from ..utils.lineage import write_lineage
from ..utils.speech_data import read_speech_data, write_speech_data
from .release import write_compact


def release_speech(
    model: str | Path,
    out: str | Path,
    *,
    decoder: str | Path | None = None,
    dtype: str = "fp32",
    license: str | None = None,
) -> Path:
    """Write the release of a speech encoder.

    Args:
        model: folder of the training checkpoint.
        decoder: checkpoint or release of the text space, whose decoder and tokenizer are copied; None: no decoder.
        dtype: fp32 or bf16, of the saved weights.
        license: for the card, an identifier of the Hub.

    Raises:
        ValueError: another kind of model, an unknown dtype, or a decoder that reads another embedding size.
    """
    encoder, extractor = load_speech_encoder(model, device="cpu", dtype="fp32")
    encoder.to(pick_dtype(dtype, "cpu"))
    parents, translator, tokenizer = {"model": model}, None, None
    if decoder is not None:
        translator, tokenizer = load_translator(decoder, device="cpu", dtype="fp32")
        size, wanted = encoder.config.embedding_size, translator.decoder.config.embedding_size
        if size != wanted:
            raise ValueError(f"{model} writes {size} dimensions and the decoder of {decoder} reads {wanted}")
        translator.decoder.to(pick_dtype(dtype, "cpu"))
        parents["decoder"] = decoder
    with write_folder(out) as folder:
        encoder.save_pretrained(folder)
        extractor.save_pretrained(folder)
        if translator is not None:
            translator.decoder.save_pretrained(folder / DECODER_FOLDER)
            # Not in the root: sentence-transformers would take the tokenizer for the encoder's processor.
            tokenizer.save_pretrained(folder / DECODER_FOLDER)
            write_compact(folder / DECODER_FOLDER / "tokenizer.json")
        settings = {"dtype": dtype, "license": license}
        write_lineage(folder, "release", settings, parents=parents, output_dir=out)
        write_speech_data(folder, read_speech_data(model))
        write_checkpoint_card(folder)
    return Path(out)
