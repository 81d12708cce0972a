"""Distillation: a new vocabulary (OS 4.5.1) or a small student (OS 4.8), by MSE to a frozen teacher.

    python train_scripts/5_distillation.py                                          # the nano recipe
    python train_scripts/5_distillation.py RECIPE train_data=corpus.parquet teacher=org/omnisonar
    torchrun --standalone --nproc_per_node 2 train_scripts/5_distillation.py max_steps=100

Data, tokenizer, model and trainer are put together in hf_echo/stages/run.py; what the stage does is in
hf_echo/stages/distillation.py.
"""

from hf_echo.stages.run import run_script

if __name__ == "__main__":
    run_script(__doc__, "nano-omni/2_small")
