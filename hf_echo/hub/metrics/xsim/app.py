"""The page of this metric on the Hub."""

from metric_page import metric_page

EXAMPLE = {
    "predictions": [[1.0, 0.0], [0.0, 1.0]],
    "references": [[1.0, 0.1], [0.1, 1.0]],
}

if __name__ == "__main__":
    metric_page("xsim", EXAMPLE).launch()
