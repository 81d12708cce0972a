"""The model that a run starts from: a checkpoint, a pretrained backbone of transformers,
or a new shape."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path

import torch

from ...checkpoints.open_text import is_release, open_checkpoint
from ...inference.encode import opening
from ...modeling import EchoConfig, EchoDecoder, EchoEncoder, EchoForTranslation, EchoTokenizer
from ...utils.adapter_base import is_adapter
from ...utils.hub import snapshot
from ...vocabulary import load_tokenizer
from .arguments import ModelArguments
from .model_shape import OF_DECODER, check_backbone, decoder_config, new_config

Model = EchoEncoder | EchoForTranslation


def start_model(
    args: ModelArguments,
    tokenizer: EchoTokenizer,
    languages: list[str],
    *,
    learns: str = "model",
    pooling: str = "mean",
) -> Model:
    """The model of a run, in fp32, by `model_name_or_path`, `backbone`, `shape` and `decoder` of
    the recipe (`args`).

    Without a decoder of its own, a checkpoint or backbone gets that of `args.decoder`, or a new one
    if `args.shape` has fields of a decoder (`decoder_layers`). A stage whose encoder alone learns
    needs none.
    """
    shape = args.shape
    name = args.model_name_or_path
    # A new model of the shape, or an encoder around a pretrained backbone.
    if not name and not args.backbone:
        model: Model = EchoForTranslation(new_config(shape, tokenizer, languages))
    elif args.backbone:
        with opening(args.backbone) as place:
            values, _ = EchoConfig.get_config_dict(place)
            check_backbone(args.backbone, values.get("model_type"))
            model = EchoEncoder.from_backbone(
                place,
                pooling=shape.get("pooling", pooling),
                embedding_size=shape.get("embedding_size"),
                attention="both",
                languages=languages,
                dtype=torch.float32,
            )
    else:
        with opening(name) as place:
            if is_adapter(name):
                merged = open_checkpoint(name)
                merged.config.sentence_transformer = None
                return with_decoder(merged, args.decoder, tokenizer) if args.decoder else merged
            values, _ = EchoConfig.get_config_dict(place)
            kind = values.get("model_type")
            if kind != EchoConfig.model_type:
                raise ValueError(
                    f"{name} is a model of type {kind!r}, no Echo checkpoint: name it as `backbone`"
                )
            whole = EchoConfig.from_pretrained(place).decoder is not None or is_release(place)
        model = (EchoForTranslation if whole else EchoEncoder).from_pretrained(
            snapshot(name), dtype=torch.float32
        )
        model.config.sentence_transformer = None  # training reads texts without prompts
    if args.decoder:
        return with_decoder(model, args.decoder, tokenizer)
    # What has no decoder gets a new one where the shape has fields of it.
    if isinstance(model, EchoForTranslation):
        return model
    decoder_shape = {key: value for key, value in shape.items() if key in OF_DECODER}
    if decoder_shape:
        decoder = EchoDecoder(decoder_config(decoder_shape, model.config, tokenizer))
        return EchoForTranslation.from_parts(model, decoder)
    if learns != "encoder":
        raise ValueError(
            f"{name or args.backbone} is an encoder alone: give the new decoder a shape (shape.decoder_layers), or "
            "name a checkpoint whose decoder it takes over (decoder)"
        )
    return model


def with_decoder(model: Model, name: str | Path, tokenizer: EchoTokenizer) -> EchoForTranslation:
    """The same encoder with the decoder of another checkpoint of its space and tokenizer."""
    decoder = EchoDecoder.from_pretrained(snapshot(name), dtype=torch.float32)
    check_tokenizer(name, tokenizer, decoder.config.vocab_size)
    encoder = model if isinstance(model, EchoEncoder) else model.encoder
    return EchoForTranslation.from_parts(encoder, decoder)


def check_tokenizer(name: str | Path, tokenizer: EchoTokenizer, size: int) -> None:
    """Raises ValueError where the tokenizer beside a decoder is not that of the run,
    in the tokens that it knows."""
    try:
        decoder_tokenizer = load_tokenizer(name)
    except (OSError, ValueError):  # weights alone: nothing to compare
        return
    tokens = {number: token for token, number in tokenizer.get_vocab().items()}
    for token, number in sorted(decoder_tokenizer.get_vocab().items(), key=itemgetter(1)):
        if number < size and tokens.get(number) != token:
            raise ValueError(
                f"decoder: {name} has another tokenizer (token {number} is {token!r}, here "
                f"{tokens.get(number)!r}): give a decoder that was trained on the encoder's tokenizer"
            )
