"""Makes what lies in this folder: a tiny Llama, adapters of it by Hugging Face's `peft`, and the logits these give.

    uv venv /tmp/peft && uv pip install -p /tmp/peft peft
    /tmp/peft/bin/python tests/peft_made/make.py            # makes it anew
    /tmp/peft/bin/python tests/peft_made/make.py FOLDER     # the logits peft gives with an adapter of the model

Needs `peft` and `torch`, which the project doesn't; so what it makes is kept.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).parent
TOKENS = [[5, 100, 7, 42, 250, 9, 1, 17], [200, 3, 3, 61, 130, 2, 88, 12]]
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "lora": {"r": 4, "lora_alpha": 12, "target_modules": ALL},
    "rslora": {"r": 4, "lora_alpha": 6, "use_rslora": True, "target_modules": ["q_proj", "v_proj"]},
    "dora": {"r": 4, "lora_alpha": 8, "use_dora": True, "target_modules": ALL},
    "last": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"], "layers_to_transform": [1]},
    "patterns": {
        "r": 4,
        "lora_alpha": 8,
        "target_modules": ["q_proj", "v_proj"],
        "rank_pattern": {"layers.1.self_attn.q_proj": 2},
        "alpha_pattern": {"v_proj": 16},
    },
}


def base() -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(HERE / "model", dtype=torch.float32).eval()


def logits(model: torch.nn.Module) -> np.ndarray:
    """[2, 8, 262]."""
    with torch.no_grad():
        return model(torch.tensor(TOKENS)).logits.numpy()


def make() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=262,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=2,
        initializer_range=0.3,
    )
    for name in ("model", *ADAPTERS):
        shutil.rmtree(HERE / name, ignore_errors=True)
    LlamaForCausalLM(config).save_pretrained(HERE / "model")
    given = {"tokens": np.array(TOKENS), "base": logits(base())}
    for name, settings in ADAPTERS.items():
        adapted = get_peft_model(base(), LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **settings))
        for parameter, array in adapted.named_parameters():
            if "magnitude" in parameter:  # peft begins with the norms, which would hide what they do
                array.data *= 1.0 + 0.3 * torch.rand_like(array)
        given[name] = logits(adapted.eval())
        adapted.peft_config["default"].base_model_name_or_path = "tiny"
        adapted.save_pretrained(HERE / name)
        (HERE / name / "README.md").unlink(missing_ok=True)
    np.savez_compressed(HERE / "logits.npz", **given)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(logits(PeftModel.from_pretrained(base(), sys.argv[1]).eval()).tolist()))
    else:
        make()
