"""The tokenizer that a GGUF file describes in its metadata, rebuilt. No MLX here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from engine.inference.gguf import GGUFError, Header

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CONTROL, USER_DEFINED = 3, 4
"""Token types: those that text can't spell, and those that are found in text before it is split."""

ENDS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "</s>")
"""What ends a turn in the chat templates of the families that are read."""

SPACE = "▁"
"""SentencePiece's space."""

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = {
    "gpt-2": (GPT2,),
    "default": (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"),
    "smollm": (r"\p{N}", GPT2),
    "llama-bpe": (LLAMA3,),
    "llama3": (LLAMA3,),
    "llama-v3": (LLAMA3,),
    "qwen2": (QWEN2,),
    "deepseek-r1-qwen": (QWEN2,),
    "tekken": (TEKKEN,),
}
"""`tokenizer.ggml.pre` to the patterns that text is cut by, one after the other, before pairs are merged."""
WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3", "tekken")
"""Vocabularies in which a piece of text that is itself a token is one, whatever the merges say."""


def tokenizer(header: Header) -> PreTrainedTokenizerFast:
    """With its special tokens and, where the file has one, its chat template.

    Raises:
        GGUFError: if the vocabulary is of another kind than byte-level BPE or SentencePiece's BPE, or text is cut
            in an unknown way before.
    """
    from transformers import PreTrainedTokenizerFast

    if not header.tokens:
        raise GGUFError(f"{header.path} has no tokenizer (tokenizer.ggml.tokens)")
    kind = header.metadata.get("tokenizer.ggml.model")
    if kind == "gpt2":
        made = _byte_level(header)
    elif kind == "llama":
        made = _sentencepiece(header)
    else:
        raise GGUFError(f"{header.path}: its tokenizer is of the kind {kind!r}; 'gpt2' and 'llama' are read")
    types = header.metadata.get("tokenizer.ggml.token_type", [])
    for type, special in ((CONTROL, True), (USER_DEFINED, False)):
        texts = [text for text, of_type in zip(header.tokens, types, strict=False) if of_type == type]
        made.add_tokens([AddedToken(text, special=special, normalized=False) for text in texts])
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        chat_template=header.metadata.get("tokenizer.chat_template") or None,
        clean_up_tokenization_spaces=False,
        **_named(header),
    )


def eos_tokens(header: Header) -> frozenset[int]:
    """Every token that ends a turn: those that the file names, and well-known ones that its chat template writes.

    Older files name only what ends a text, and a reply would never end.
    """
    named = (header.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom"))
    template = header.metadata.get("tokenizer.chat_template", "")
    written = (header.tokens.index(text) for text in ENDS if text in template and text in header.tokens)
    return frozenset(token for token in (*named, *written) if token is not None and token < len(header.tokens))


def _byte_level(header: Header) -> Tokenizer:
    pre = header.metadata.get("tokenizer.ggml.pre", "default")
    if pre not in SPLITS:
        raise GGUFError(
            f"{header.path}: before its tokenizer merges, it cuts text in the way {pre!r} (tokenizer.ggml.pre); "
            f"known are {', '.join(SPLITS)}. Give the model in MLX format, with its own tokenizer.json"
        )
    made = Tokenizer(
        models.BPE(vocab=_vocabulary(header), merges=_merges(header), ignore_merges=pre in WHOLE_WORDS)
    )
    if pre in ("qwen2", "deepseek-r1-qwen"):
        made.normalizer = normalizers.NFC()
    cuts: list[Any] = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in SPLITS[pre]]
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    made.decoder = decoders.ByteLevel()
    return made


def _sentencepiece(header: Header) -> Tokenizer:
    """BPE over characters, which falls back on bytes. Its merges are implied: whatever two tokens make a third,
    the likeliest first."""
    from transformers.tokenization_utils_base import generate_merges

    vocabulary = _vocabulary(header)
    scores = header.metadata.get("tokenizer.ggml.scores")
    if not scores or len(scores) != len(header.tokens):
        raise GGUFError(f"{header.path}: its SentencePiece vocabulary lacks the scores (tokenizer.ggml.scores)")
    unknown = header.metadata.get("tokenizer.ggml.unknown_token_id", 0)
    merges = generate_merges(vocabulary, dict(zip(header.tokens, scores, strict=True)))
    made = Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=merges,
            unk_token=header.tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    prefix = header.metadata.get("tokenizer.ggml.add_space_prefix", True)
    made.normalizer = normalizers.Sequence(
        [*([normalizers.Prepend(SPACE)] if prefix else []), normalizers.Replace(" ", SPACE)]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            *([decoders.Strip(" ", 1, 0)] if prefix else []),
        ]
    )
    return made


def _vocabulary(header: Header) -> dict[str, int]:
    return {text: token for token, text in enumerate(header.tokens)}


def _merges(header: Header) -> list[tuple[str, str]]:
    written: list[str] = header.metadata.get("tokenizer.ggml.merges", [])
    pairs = [tuple(merge.split(" ")) for merge in written]
    if wrong := [merge for merge, pair in zip(written, pairs, strict=True) if len(pair) != 2]:
        raise GGUFError(f"{header.path}: {wrong[0]!r} isn't a merge of two tokens (tokenizer.ggml.merges)")
    return pairs  # type: ignore[return-value]


def _named(header: Header) -> dict[str, str]:
    """The tokens that have a name of their own."""
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    ids = {name: header.metadata.get(f"tokenizer.ggml.{key}_token_id") for name, key in names.items()}
    return {name: header.tokens[id] for name, id in ids.items() if id is not None and id < len(header.tokens)}
