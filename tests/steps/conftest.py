from ..stages.conftest import *  # noqa: F403  (its fixtures)
