"""Make an encoder smaller: score its parts, cut it to a shape."""
