"""The page of this metric on the Hub."""

from metric_page import metric_page

EXAMPLE = {
    "predictions": ["sports", "travel", "sports", "sports"],
    "references": ["sports", "travel", "sports", "travel"],
    "languages": ["fra_Latn", "fra_Latn", "deu_Latn", "deu_Latn"],
}

if __name__ == "__main__":
    metric_page("clt", EXAMPLE).launch()
