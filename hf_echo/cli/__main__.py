"""Run the command line as `python -m hf_echo.cli`, for torchrun and accelerate launch."""

from . import main

main()
