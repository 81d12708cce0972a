"""Omnilingual extension (OS 4.5.2, Algorithm 2):
new languages join the space, the old ones keep their embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from datasets import Dataset
from torch import nn

from ..checkpoints.open_text import encoder_of
from ..data.directions import extension_pairs
from ..data.tokenized import TokenizedParallel
from ..inference.embedding_store import LiveNegatives
from ..languages import ENGLISH
from ..losses import distillation_parts, gather_with_grad, hard_negatives_loss, teacher_target
from ..modeling import EchoEncoder, EchoForTranslation
from ..utils.files import read_json
from ..utils.settings import setting
from .core.arguments import DataArguments
from .core.base import CachedBatchConfig, CoreTrainer, LossParts
from .core.loss_blocks import loss_by_blocks
from .core.stage import Embedded, Stage, teacher
from .core.text import same_text
from .core.text_pairs import with_rule_negatives
from .distillation import DistillationConfig, DistillationTrainer, resampled

# Share of the source's embedding in the teacher's target of a base language, beside the target's
# (OS Table 14c).
SOURCE_SHARES = {"interpolated": 0.5, "source": 1.0, "target": 0.0}


@dataclass
class ExtensionConfig(CachedBatchConfig, DistillationConfig):
    """OS 5 and Table 3: 30k steps, lr 4e-5, dropout 0.05;
    base languages first, new ones in the fields `new_...`."""

    learning_rate: float = setting("AdamW's initial learning rate", 4e-5)
    mse_weight: float = setting("lambda of Eq. 10 for base languages", 0.5)
    new_mse_weight: float = setting("the same for new languages", 0.1)
    student_teacher_weight: float = setting("lambda of Eq. 9", 1.0)
    new_student_teacher_weight: float = setting("the same for new languages", 1.0)
    teacher_student_weight: float = setting("lambda of the reverse direction", 0.5)
    new_teacher_student_weight: float = setting("the same for new languages", 0.0)
    logit_scale: float = setting("tau of Eq. 9 for base languages", 10.0, above=0)
    new_logit_scale: float = setting("the same for new languages", 60.0, above=0)
    base_teacher_target: Literal["interpolated", "source", "target"] = setting(
        "teacher's embedding that a base language is pulled to: the mean of both texts', or one (OS Table 14c)",
        "interpolated",
    )
    new_language_drop: float = setting("OS p_unk of new languages", 0.5, least=0, most=1)
    dropout: float | None = setting(
        "of the student's attention; null: that of its configuration", 0.05, least=0, most=1
    )


class ExtensionTrainer(DistillationTrainer):
    """Contrastive in both directions and MSE against the teacher's target, with weights by language
    type.

    The training data are pairs into base languages, English only to itself
    (`hf_echo.data.directions.extension_pairs`). Equal target texts are not negatives of each other.
    Students and teachers are gathered over ranks. With `negatives` each row is also told from its
    own hard negatives, which the paper does not do here.
    """

    def __init__(
        self,
        model: EchoEncoder | EchoForTranslation,
        args: ExtensionConfig,
        *,
        train_dataset: TokenizedParallel,
        negatives: LiveNegatives | None = None,
        **kwargs: Any,
    ):
        if not args.base_languages:
            raise ValueError("base_languages is empty: name the teacher's languages")
        base = set(args.base_languages)
        for lang in sorted(set(train_dataset.names["target_lang"]) - base):
            raise ValueError(
                f"target language {lang!r} is not a base language; hf_echo.data.directions.extension_pairs "
                "keeps the directions that the teacher can judge"
            )
        encoder = encoder_of(model)
        self.base = base
        self.negatives = negatives
        languages = base.union(model.config.languages or [], train_dataset.names["source_lang"])
        model.config.languages = encoder.config.languages = sorted(languages)
        super().__init__(model, args, train_dataset=train_dataset, **kwargs)

    def language_drops(self, args: ExtensionConfig) -> dict[str, float]:
        new = set(self.train_dataset.names["source_lang"]) - self.base
        return dict.fromkeys(new, args.new_language_drop)

    def by_kind(self, name: str, new: torch.Tensor) -> torch.Tensor:
        """(n,) the base languages' figure, or the new ones'."""
        base_figure = float(getattr(self.args, name))
        new_figure = float(getattr(self.args, f"new_{name}"))
        return torch.where(new, new_figure, base_figure)

    def loss_parts(self, model: nn.Module, inputs: dict[str, Any]) -> LossParts:
        return CoreTrainer.loss_parts(self, model, inputs)  # not that of distillation

    def losses_of_embeddings(self, student: torch.Tensor, inputs: dict[str, Any]) -> LossParts:
        """OS Eq. 8 to 11: squared distance to the teacher's embeddings,
        and both contrastive losses; with `negatives` the hard term of Eq. 5."""
        # (n,) which rows are of a new language, and which are English
        device = student.device
        langs = self.source_langs(inputs)
        new = torch.tensor([lang not in self.base for lang in langs], device=device)
        english = torch.tensor([lang == ENGLISH for lang in langs], device=device)
        # Eq. 8: a new language takes the target's embedding, English its own, a base language by
        # default both.
        base_share = SOURCE_SHARES[self.args.base_teacher_target]
        share = torch.where(new, 0.0, torch.where(english, 1.0, base_share))
        teacher = teacher_target(
            self.teacher_rows(0, inputs), self.teacher_rows(1, inputs), source_weight=share
        )
        # Weights and scale of each row; its candidates are those of all processes.
        all_student, offset = gather_with_grad(student)
        names = ("mse_weight", "student_teacher_weight", "teacher_student_weight", "logit_scale")
        figures = {name: self.by_kind(name, new) for name in names}
        all_teacher, _ = gather_with_grad(teacher)
        is_same = same_text(inputs)
        if self.negatives is not None:
            vectors, mask = self.negatives[inputs["index"].cpu().numpy()]
            negatives = torch.from_numpy(vectors).to(device)  # (n, K, d)
            is_negative = torch.from_numpy(mask).to(device)  # (n, K)

        def losses(rows: slice) -> dict[str, torch.Tensor]:
            """The losses of a block of rows."""
            parts = distillation_parts(
                student[rows],
                teacher[rows],
                all_student=all_student,
                all_teacher=all_teacher,
                offset=offset + rows.start,
                exclude=is_same(rows),
                **{name: figure[rows] for name, figure in figures.items()},
            )
            if self.negatives is not None:
                parts["hard_negatives"] = hard_negatives_loss(
                    student[rows],
                    teacher[rows],
                    negatives[rows],
                    is_negative[rows],
                    logit_scale=figures["logit_scale"][rows, None],
                )
            return parts

        parts = loss_by_blocks(losses, len(student))
        return parts, dict.fromkeys(parts, 1.0)

    def source_langs(self, inputs: dict[str, Any]) -> list[str]:
        data = self.train_dataset
        numbers = data.labels["source_lang"][inputs["index"].cpu().numpy()]
        return [data.names["source_lang"][number] for number in numbers]


def read_xsimpp(file: str) -> dict[str, float]:
    """The teacher's xsim++ by language, from a JSON file."""
    errors = read_json(file)
    has_numbers = isinstance(errors, dict) and all(
        isinstance(value, (int, float)) for value in errors.values()
    )
    if not has_numbers:
        raise ValueError(
            f'teacher_xsimpp: {file} must hold {{language: xsim++}}, such as {{"fra_Latn": 3.1}}'
        )
    return errors


class ExtensionStage(Stage):
    name = "extension"
    config = ExtensionConfig
    trainer = ExtensionTrainer
    learns = "encoder"
    # Algorithm 2 does not ask the teacher about a language that it never saw.
    embedded = Embedded(
        "teacher", teacher, languages=lambda config: config.base_languages, negatives=True
    )
    reads = (
        "teacher",
        "live_teacher",
        "temperature",
        "base_languages_of",
        "teacher_xsimpp",
        "english_rows",
        "rule_negatives",
    )
    needs_teacher = True

    def choose_rows(self, rows: Dataset, data: DataArguments, config: ExtensionConfig) -> Dataset:
        """The directions that the teacher can judge (Algorithm 2); with `rule_negatives`, hard
        negatives of English targets beside them."""
        if data.rule_negatives and not data.live_teacher:
            raise ValueError(
                "rule_negatives of an extension needs live_teacher: true, since its teacher embeds them batch by batch"
            )
        errors = read_xsimpp(data.teacher_xsimpp) if data.teacher_xsimpp else None
        base = config.base_languages
        english = data.english_rows
        pairs = extension_pairs(rows, base, errors, english_rows=english, seed=config.seed)
        rows_to_learn = resampled(pairs, data, config.seed)
        if data.rule_negatives:
            rows_to_learn = with_rule_negatives(rows_to_learn, data.rule_negatives)
        return rows_to_learn

    def row_choice(self, data: DataArguments, config: ExtensionConfig) -> dict[str, Any]:
        """What decides which rows are learned, beside the data."""
        errors = read_xsimpp(data.teacher_xsimpp) if data.teacher_xsimpp else None
        choice = {
            "stage": self.name,
            "base_languages": config.base_languages,
            "teacher_xsimpp": errors,
            "english_rows": data.english_rows,
            "temperature": data.temperature,
            "seed": config.seed,
        }
        # Only where it is set: data that were prepared before it existed stay valid.
        if data.rule_negatives:
            choice["rule_negatives"] = data.rule_negatives
        return choice


STAGE = ExtensionStage()
