"""How long a stage would take on graphics cards:
computed from its parameters and tokens, not measured."""

from __future__ import annotations

# Dense bf16 products per second with sums in float32: the data sheets of A100 SXM and H100 SXM, and
# NVIDIA's white paper on the Ada architecture.
PEAK_FLOPS = {"A100": 312e12, "H100": 989e12, "RTX 4090": 165e12}
UTILISATION = 0.35  # an assumption: the share of the peak that training of this size reaches
FORWARD = 2  # operations of a weight and a token: a product and a sum
TRAINING = 3 * FORWARD  # the backward pass takes twice as many
THROUGH = 2 * FORWARD  # the same of a weight that stays: its own gradient is not computed


def computed_hours(flops_of_step: float, steps: int) -> dict[str, object]:
    """Hours of a run of so many steps on each card;
    attention scores, a teacher and a guide are not counted."""
    flops = flops_of_step * steps
    hours = {}
    for card, peak in PEAK_FLOPS.items():
        hours[card] = round(flops / (peak * UTILISATION) / 3600, 2)
    return {
        "hours": hours,
        "flops": flops,
        "note": f"computed, not measured: {UTILISATION:.0%} of each card's peak in bf16 is assumed",
    }
