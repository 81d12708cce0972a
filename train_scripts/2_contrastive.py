"""Stage 2 (OS 4.4.1, Eq. 2-4): contrastive and translation finetuning through the bottleneck.

    python train_scripts/2_contrastive.py                                          # the nano recipe
    python train_scripts/2_contrastive.py large/2_contrastive train_data=corpus.parquet
    torchrun --standalone --nproc_per_node 2 train_scripts/2_contrastive.py max_steps=100

Data, tokenizer, model and trainer are put together in hf_echo/stages/run.py; what the stage does is in
hf_echo/stages/contrastive.py and hf_echo/losses/contrastive.py.
"""

from hf_echo.stages.run import run_script

if __name__ == "__main__":
    run_script(__doc__, "nano/2_contrastive")
