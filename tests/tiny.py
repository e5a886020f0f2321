"""A language model small enough for a unit test: random weights, real file formats.

The folder it writes is an ordinary mlx-lm model (Llama) with an ordinary tokenizer: every byte is a token.
"""

from __future__ import annotations

import json
from pathlib import Path

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ROLES = ("system", "user", "assistant")
END = 2
"""The id of `<|im_end|>`."""


def tiny_model(
    folder: Path,
    *,
    dim: int = 32,
    layers: int = 2,
    heads: int = 2,
    vocab: int = 262,
    seed: int = 0,
    **config: object,
) -> Path:
    """Write a random Llama into `folder` and return it. Further keywords go into its config.json.

    `model_type` and what it asks for make a model of another kind.

    Raises:
        ValueError: if `vocab` has no room for 256 bytes, three specials and three role names.
    """
    if vocab < 262:
        raise ValueError(f"vocab={vocab}: 256 bytes, 3 specials and 3 role names need at least 262")
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    written = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": dim,
        "num_hidden_layers": layers,
        "intermediate_size": 2 * dim,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "rms_norm_eps": 1e-5,
        "vocab_size": vocab,
        "max_position_embeddings": 512,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "eos_token_id": END,
        "hidden_act": "silu",
        **config,
    }
    (folder / "config.json").write_text(json.dumps(written, indent=1))
    write_weights(folder, written, seed)
    return folder


def write_tokenizer(folder: Path) -> None:
    """A byte tokenizer in Hugging Face's format, with ChatML turns and one token for each role name."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: id for id, token in enumerate((*SPECIALS, *alphabet))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIALS])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in ROLES])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=SPECIALS[END],
        pad_token=SPECIALS[0],
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)


def write_weights(folder: Path, config: dict, seed: int) -> None:
    """Random weights, large enough that the next-token distribution is far from uniform."""
    import mlx.core as mx
    import numpy as np
    from mlx.utils import tree_flatten
    from mlx_lm.utils import _get_classes

    model_class, arguments_class = _get_classes(config)
    model = model_class(arguments_class.from_dict(config))
    rng = np.random.default_rng(seed)
    weights = {}
    for name, array in tree_flatten(model.parameters()):
        if array.ndim > 1:
            spread = 0.5 if "embed" in name or "lm_head" in name else array.shape[-1] ** -0.5
            array = mx.array(rng.normal(0.0, spread, array.shape).astype(np.float32))
        weights[name] = array
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
