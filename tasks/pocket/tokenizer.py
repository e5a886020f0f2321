"""A byte-level tokenizer of 262 tokens, and its chat template.

Every text can be spelled and none is unknown, which a prompt edited in mid-run needs. The three role names are
one token each: they stand in every prompt, and spelled out they would cost 18 tokens of about 50.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ROLES = ("system", "user", "assistant")
END_OF_TURN = SPECIAL.index("<|im_end|>")
VOCABULARY = len(SPECIAL) + 256 + len(ROLES)

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@lru_cache(maxsize=1)
def build() -> Tokenizer:
    """Ids 0–2 are `SPECIAL`, 3–258 the bytes in the order of their printable stand-ins, 259–261 `ROLES`."""
    symbols = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={symbol: i for i, symbol in enumerate(symbols)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(symbol, special=True, normalized=False) for symbol in SPECIAL])
    tokenizer.add_tokens([AddedToken(role, special=False, normalized=False) for role in ROLES])
    return tokenizer


def encode(text: str) -> list[int]:
    return build().encode(text, add_special_tokens=False).ids


def save(folder: Path, context: int) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json` (with the chat template) as transformers reads them."""
    build().save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "model_max_length": context,
        "pad_token": "<|endoftext|>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
