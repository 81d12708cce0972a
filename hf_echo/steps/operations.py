"""Operations on checkpoints: each makes one checkpoint from others, in a recipe (`operation:
prune`) or by a command.

A new operation is a function that writes its folder whole, with its lineage, and a declaration
here, where the lineage records the settings under the same names: so a finished operation is
recognised. Nothing heavy is imported here, since the help of the commands reads it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..languages import ENGLISH
from ..utils.settings import CHECKPOINT, DATA, DefaultOf, setting, step
from .step import OnEcho, OnTextOrSpeech, Operation, language_code, model, output

if TYPE_CHECKING:
    from ..modeling import EchoConfig

XSIMPP = "xsimpp.json"  # what `measure_teacher` writes


@step(
    "vocabulary swap",
    operation="swap_tokenizer",
    calls="checkpoints.swap_checkpoint",
    example="hf-echo vocabulary swap outputs/echo outputs/tokenizer outputs/echo-256k",
)
class SwapTokenizer(OnEcho):
    """Replace the tokenizer of a model; tokens in both vocabularies keep their embeddings."""

    model: str = model()
    tokenizer: str = setting(
        "new tokenizer: folder, tokenizer.json or version", reads=CHECKPOINT, argument=True
    )
    output_dir: str = output()
    method: Literal["mean", "focus", "random"] = setting(
        "initial embeddings of new tokens (mean: ECHO 4.1)", DefaultOf()
    )
    auxiliary: str | None = setting("for focus: file with one text per line", None, reads=DATA)
    seed: int = setting("random seed", DefaultOf())

    def planned(self, config: EchoConfig) -> EchoConfig:
        from ..vocabulary import load_tokenizer

        config.vocab_size = (
            len(load_tokenizer(self.tokenizer))
            if Path(self.tokenizer).exists()
            else config.vocab_size
        )
        return config


@step(
    "vocabulary trim",
    operation="trim_vocabulary",
    calls="checkpoints.trim_checkpoint",
    example="hf-echo vocabulary trim outputs/e5 outputs/e5-70k --texts texts.parquet --keep 70000",
)
class TrimVocabulary(OnEcho):
    """Trim a model's vocabulary to the tokens that given languages need;
    train the model afterwards."""

    model: str = model()
    output_dir: str = output()
    texts: str = setting(
        "texts of all languages to serve: a table of lang and text, or of pairs", reads=DATA
    )
    keep: int = setting("largest number of tokens", least=1)
    first: list[str] = setting(
        "languages whose tokens come first, for a decoder of the first ids alone",
        list,
        convert=language_code,
    )
    split: str | None = setting("use only this split of the texts; default: all", None)
    sample: int = setting(
        "most texts of each language that are counted",
        DefaultOf(),
        least=1,
    )
    seed: int = setting("random seed of the sample", DefaultOf())
    nway: str | None = setting(
        "measure xsim before and after: a table with id, lang and text",
        None,
        reads=DATA,
        recorded=False,
    )

    def counted(self) -> dict[str, Any]:
        """The report of the result and, with a table, xsim before and after."""
        return super().counted() | self._xsim()

    def _xsim(self) -> dict[str, Any]:
        """{"xsim": {language: {"before", "after"}}}; empty without a table."""
        from ..data import load_nway
        from ..evaluation import evaluate_xsim
        from ..inference.any_encoder import any_encoder

        if self.nway is None:
            return {}
        rows = load_nway(self.nway)
        xsim: dict[str, dict[str, float]] = {}
        for when, name in (("before", self.model), ("after", self.output_dir)):
            for row in evaluate_xsim(any_encoder(name), rows).rows:
                xsim.setdefault(row["lang"], {})[when] = row["xsim"]
        return {"xsim": xsim}

    def planned(self, config: EchoConfig) -> EchoConfig:
        config.vocab_size = min(config.vocab_size, self.keep)
        return config


@step(
    "average",
    operation="average",
    calls="checkpoints.average_checkpoints",
    example="hf-echo average outputs/a outputs/b outputs/both --share 0.5",
)
class Average(OnTextOrSpeech):
    """Average the weights of two checkpoints of one shape."""

    model: str = model("checkpoint, release or speech encoder")
    other: str = setting("checkpoint of the same shape", reads=CHECKPOINT, argument=True)
    output_dir: str = output()
    share: float = setting("weight of the other checkpoint", DefaultOf(), least=0, most=1)
    part: Literal["model", "encoder", "decoder"] = setting(
        "what is averaged; the rest is that of MODEL", DefaultOf()
    )


@step(
    "prune",
    operation="prune",
    calls="checkpoints.prune_checkpoint",
    example="hf-echo prune outputs/echo outputs/echo-tiny --size tiny",
)
class Prune(OnEcho):
    """Make an encoder smaller (structured pruning, OS 4.8):
    fewer layers, heads and units, the same embedding size."""

    model: str = model()
    output_dir: str = output()
    size: str | None = setting(
        "name of a size: large, medium, small, tiny or xtiny (OS Table 36), nano, or half", None
    )
    shape: dict[str, int] = setting(
        "fields that differ from the size's, such as num_hidden_layers=8", dict
    )
    importance: Literal["weight", "plain"] = setting(
        "what to keep: what counts most, or the first ones", DefaultOf()
    )
    decoder: Literal["keep", "drop"] = setting(
        "whether the decoder stays (keep) or is left out (drop)", DefaultOf()
    )
    tokenizer: str | None = setting(
        "tokenizer to move the smaller model onto", None, reads=CHECKPOINT
    )

    def planned(self, config: EchoConfig) -> EchoConfig:
        from ..checkpoints.pruning.shapes import resolve_shape

        for name, value in resolve_shape(config, self.size, self.shape or None).items():
            setattr(config, name, value)
        return config


@step(
    "release",
    operation="release",
    example="hf-echo release outputs/nano/3_hard_negatives outputs/nano/release",
)
class Release(OnTextOrSpeech):
    """Convert a training checkpoint to a release:
    encoder in the root folder, decoder in decoder/."""

    then = (
        "{output_dir}: open it with AutoModel, SentenceTransformer or pipeline('sonar-translation')"
    )

    model: str = model("training checkpoint: folder, org/name@v1.2.0 or echo-nano")
    output_dir: str = output("folder of the release")
    dtype: Literal["fp32", "bf16"] = setting(
        "precision of the saved weights; bf16 is half the size",
        DefaultOf("hub.release.release_checkpoint"),
    )
    matrix_dtype: Literal["int8", "int4"] | None = setting(
        "matrices in 8 bits with a scale per row, or in 4 bits", None
    )
    token_dtype: Literal["int8", "int4"] | None = setting("the same for token vectors", None)
    generation: dict = setting(
        "fields of the generation configuration, such as no_repeat_ngram_size=3", dict
    )
    code: Literal["carried", "installed"] = setting(
        "model code: carried in the folder, or installed: read only by the installed package",
        DefaultOf("hub.release.release_checkpoint"),
    )
    also: Literal["onnx", "openvino"] | None = setting(
        "graphs of the encoder beside it, as hf-echo export makes", None
    )
    decoder: str | None = setting(
        "of a speech encoder: text model of its space whose decoder is copied",
        None,
        reads=CHECKPOINT,
    )
    leaks: str | None = setting(
        "report of `hf-echo data leaks --json FILE`, for the card; default: those beside the training data",
        None,
        reads=DATA,
    )
    card: str | None = setting(
        "template of the card in hub_cards/; default: written from the lineage",
        None,
        recorded=False,
    )
    results: str | None = setting(
        "JSON file with the figures of the card", None, needs="card", recorded=False
    )
    license: str | None = setting(
        "license identifier of the Hub, for the card", None, recorded=False
    )

    def __post_init__(self):
        super().__post_init__()
        if self.card:
            from ..cards.template import check_template

            check_template(self.card)

    def write_card(self) -> None:
        """From a template always, since figures may be newer than the weights."""
        from ..cards.model_card import release_card
        from ..cards.stamp import set_license
        from ..utils.files import write_text

        if not self.card:
            super().write_card()
            return
        card = Path(self.output_dir) / "README.md"
        write_text(card, release_card(self.output_dir, self.card, self.results))
        if self.license:
            set_license(card, self.license)

    def make(self) -> None:
        """Write the release of a text or of a speech encoder."""
        from ..hub.release import release_checkpoint, release_speech
        from ..inference.encode_speech import is_speech

        if not is_speech(self.model):
            if self.decoder:
                raise ValueError(
                    "decoder belongs to the release of a speech encoder; a text release has its own"
                )
            self.call(release_checkpoint)
            return
        if self.also:
            raise ValueError(
                f"also is {self.also!r}, and a speech encoder has no such form: leave it out"
            )
        self.call(release_speech)


@step(
    "export",
    operation="export",
    calls="export.export_checkpoint",
    example="hf-echo export outputs/nano/release outputs/nano/onnx --to onnx",
)
class Export(Operation):
    """Write a model for others to open: transformers without remote code, ONNX, OpenVINO,
    static embeddings."""

    then = "{output_dir}: docs/serving.md shows the servers and libraries that open it"

    model: str = model()
    output_dir: str = output("folder of the export")
    to: Literal["stock", "onnx", "openvino", "static"] = setting(
        "format: stock (classes of transformers and sentence-transformers), onnx or openvino (graphs for them and for "
        "programs without Python), or static (one vector for each token)",
        DefaultOf(),
    )

    def is_whole(self) -> bool:
        from ..utils.lineage import FILE

        return (
            Path(self.output_dir) / FILE
        ).is_file()  # a folder is moved there when all of it is written


@step(
    "modular start",
    operation="modular_backbone",
    calls="stages.modular.modular_backbone",
    example="hf-echo modular start sentence-transformers/LaBSE out",
)
class ModularBackbone(Operation):
    """Make a modular encoder without languages. Add the pivot language first."""

    then = "{output_dir}: add the pivot with hf-echo modular add-language {pivot} -m {output_dir}"

    model: str = model("encoder with the layers of BERT or XLM-R: folder or Hub name")
    output_dir: str = output("folder of the modular encoder")
    pivot: str = setting(
        "language that the others are aligned to", DefaultOf(), convert=language_code
    )
    max_seq_length: int = setting("longest text in tokens", DefaultOf(), least=1)


@step(
    "modular add-language",
    operation="add_language",
    calls="stages.modular.add_language",
    example="hf-echo modular add-language deu_Latn -m outputs/modular --texts de.txt --parallel en-de.tsv",
)
class AddLanguage(Operation):
    """Add a language. Only its own folder is written; all other languages stay as they are."""

    language: str = setting(
        "code of the new language, such as deu_Latn", argument=True, convert=language_code
    )
    model: str = model("folder of a modular encoder", argument=False, short="-m")
    output_dir: str | None = output(
        "a new folder; default: the language is added to MODEL", None, argument=False
    )
    texts: str | None = setting(
        "texts, one per line: vocabulary and language adapter", None, reads=DATA
    )
    paraphrases: str | None = setting("pairs in this language: sentence adapter", None, reads=DATA)
    cross_paraphrases: str | None = setting(
        "pairs of a pivot sentence and a paraphrase in this language: alignment", None, reads=DATA
    )
    parallel: str | None = setting(
        "translations from the pivot language: alignment", None, reads=DATA
    )
    vocab_size: int = setting("tokens of the language's vocabulary", DefaultOf(), least=1)
    mlm_steps: int = setting(
        "steps of masked language modelling on the texts; the paper's number, which took it 20 hours of an A100 for "
        "each language (its Table 4): a few hundred show whether all works",
        DefaultOf(),
        least=1,
    )
    mlm_learning_rate: float = setting(
        "learning rate of embeddings and language adapter", DefaultOf(), above=0
    )
    epochs: float = setting("passes over the sentence pairs", DefaultOf(), above=0)
    learning_rate: float = setting(
        "learning rate of the sentence and the alignment adapter", DefaultOf(), above=0
    )
    batch_size: int = setting("texts or paraphrases in a batch", DefaultOf(), least=1)
    alignment_batch_size: int = setting(
        "pairs in a batch of the alignment adapter", DefaultOf(), least=1
    )
    max_length: int = setting("longest text in tokens; longer ones are cut", DefaultOf(), least=1)
    seed: int = setting("random seed", DefaultOf())

    def alone(self) -> AbstractContextManager[Any]:
        from ..utils.files import only_run

        return only_run(self.output_dir or self.model)

    def make(self) -> dict[str, Any]:
        from ..stages.modular.folder import check_addition

        check_addition(self.model, self.language, self.files(), self.spelled)
        return self.function()(self.model, self.language, **self.options("model"))

    def files(self) -> dict[str, str | None]:
        """The files, those that are not given as None."""
        names = ("texts", "paraphrases", "cross_paraphrases", "parallel")
        return {name: getattr(self, name) for name in names}


@step(operation="measure_teacher")
class MeasureTeacher(Operation):
    """Measure xsim++ of each language into English, the figures that `teacher_xsimpp` of an
    extension reads (OS 4.5.2).

    English itself, whose sentences find themselves, has 0.
    """

    model: str = model("the teacher: SentenceTransformer or Echo checkpoint")
    data: str = setting("table with id, lang and text that holds English, or 'builtin'", reads=DATA)
    split: str | None = setting(
        "its rows of this split; default: those of dev, if it has splits", None
    )
    negatives: int = setting(
        "hard negatives by rule of each English sentence",
        DefaultOf("data.builtin.dev_set", "max_negatives"),
        least=1,
    )
    output_dir: str = output(f"folder of {XSIMPP}")

    def make(self) -> dict[str, Any]:
        """Measure xsim++ of each language, and write the error rates beside their lineage."""
        from ..evaluation import evaluate_xsim
        from ..inference.any_encoder import any_encoder
        from ..utils.files import write_json
        from ..utils.folders import write_folder
        from ..utils.lineage import write_lineage

        rows, negatives = self.dev_rows()
        if not negatives:
            raise ValueError(
                f"data: {self.data} has no English sentence of which the rules make hard negatives"
            )
        table = evaluate_xsim(
            any_encoder(self.model), rows, target_lang=ENGLISH, negatives=negatives
        )
        # No pair leads to English as a worse language: its own error is none.
        errors = {ENGLISH: 0.0}
        for row in table.rows:
            if row["xsimpp"] is not None:
                errors[row["lang"]] = row["xsimpp"]
        with write_folder(self.output_dir) as folder:
            write_json(Path(folder) / XSIMPP, errors)
            write_lineage(
                folder,
                str(self.operation),
                self.names(None),
                parents=self.names(CHECKPOINT),
                data=self.names(DATA),
                output_dir=self.output_dir,
                results={"xsimpp": errors},
            )
        return {"output_dir": self.output_dir, "xsimpp": errors}

    def dev_rows(self) -> tuple[Any, dict[str, list[tuple[str, str]]]]:
        """The rows (id, lang, text), and hard negatives by rule of their English sentences,
        by id."""
        if self.data == "builtin":
            from ..data.builtin import dev_set

            return dev_set(max_negatives=self.negatives)
        from ..data import load_nway
        from ..data.nway import dev_split
        from ..negatives.rules import hard_negatives_by_id

        split = dev_split(self.data) if self.split is None else self.split
        rows = load_nway(self.data, split=split)
        return rows, hard_negatives_by_id(rows, self.negatives)

    def is_whole(self) -> bool:
        return (Path(self.output_dir) / XSIMPP).is_file()
