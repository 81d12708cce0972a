"""Public evaluation sets, mteb, speed and cost."""
