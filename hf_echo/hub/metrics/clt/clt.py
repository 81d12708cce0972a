"""The cross-lingual transfer (CLT) ratio as a metric of the `evaluate` library."""

from typing import Any

import datasets
import evaluate

DESCRIPTION = """\
A classifier is trained on sentences of one language, French in the papers, and predicts labels of sentences
of other languages. The cross-lingual transfer (CLT) ratio of a language is its accuracy in percent of the
accuracy on the language of training; clt is the mean over the other languages. At 100 nothing is lost.
"""
INPUTS = """
Args:
    predictions: predicted labels, whole numbers or strings. With the configuration "accuracies": the accuracy
        of each language, a share or percent.
    references: right labels. None with the configuration "accuracies".
    languages: the language of each row.
    train_lang: the language that the classifier was trained on; rows of it must be there.
Returns:
    clt: CLT ratio in percent, mean over the languages other than train_lang.
    clt_by_language: the ratio of each language, in percent.
    accuracy_by_language: its accuracy: a share of 1, or as given.
Example:
    >>> metric = evaluate.load("clt", "accuracies")
    >>> metric.compute(predictions=[80.0, 60.0], languages=["fra_Latn", "deu_Latn"])["clt"]
    75.0
"""
CITATION = """\
ECHO, section 5.3, Table 4; Omnilingual SONAR, section 8.1, Table 18: on SIB200Classification of MTEB.
"""


class Clt(evaluate.Metric):
    """`clt` in percent, of labels and their languages;
    with "accuracies", of one accuracy a language."""

    def _info(self) -> evaluate.MetricInfo:
        """What the metric takes: accuracies by language, or predictions with their labels."""
        if self.config_name not in ("default", "accuracies"):
            raise ValueError(
                f"configuration {self.config_name!r}: it must be 'default' or 'accuracies'"
            )
        language = datasets.Value("string")
        if self.config_name == "accuracies":
            features = datasets.Features(
                {"predictions": datasets.Value("float64"), "languages": language}
            )
        else:
            # Labels are words or numbers.
            features = []
            for kind in ("string", "int64"):
                label = datasets.Value(kind)
                columns = {"predictions": label, "references": label, "languages": language}
                features.append(datasets.Features(columns))
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS,
            features=features,
        )

    def _compute(
        self,
        predictions: list[float | int | str],
        languages: list[str],
        references: list[int | str] | None = None,
        train_lang: str = "fra_Latn",
    ) -> dict[str, Any]:
        """The accuracy of each language as a share of that of the training language,
        and their mean."""
        if self.config_name == "accuracies":
            accuracies = _given_accuracies(predictions, languages)
        else:
            accuracies = _label_accuracies(predictions, references, languages)
        if not accuracies.get(train_lang):
            raise ValueError(
                f"no accuracy above 0 in {train_lang!r}; languages: {', '.join(accuracies)}"
            )
        # Accuracies as shares of the one in the training language.
        ratios = {}
        for language, accuracy in accuracies.items():
            ratios[language] = 100.0 * accuracy / accuracies[train_lang]
        other_ratios = [ratio for language, ratio in ratios.items() if language != train_lang]
        if not other_ratios:
            raise ValueError(f"all rows are in {train_lang!r}: give rows of other languages")
        return {
            "clt": sum(other_ratios) / len(other_ratios),
            "clt_by_language": ratios,
            "accuracy_by_language": accuracies,
        }


def _given_accuracies(accuracies: list[float], languages: list[str]) -> dict[str, float]:
    by_language = dict(zip(languages, accuracies))
    if len(by_language) < len(languages):
        raise ValueError("a language has two accuracies: give one for each")
    return by_language


def _label_accuracies(
    predictions: list[int | str], references: list[int | str], languages: list[str]
) -> dict[str, float]:
    """{language: share of its predictions that equal their reference}."""
    hits: dict[str, list[bool]] = {}
    for prediction, reference, language in zip(predictions, references, languages):
        hits.setdefault(language, []).append(prediction == reference)
    return {language: sum(of_language) / len(of_language) for language, of_language in hits.items()}
