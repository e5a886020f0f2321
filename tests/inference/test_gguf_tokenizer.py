"""Tokenizers rebuilt from GGUF metadata: cut, merged and decoded as the models' own."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import sentencepiece

from engine.inference.gguf import GGUFError, Header
from engine.inference.gguf_tokenizer import eos_tokens, tokenizer
from engine.inference.tokenizer import ChatTokenizer
from tests.tiny import CHAT_TEMPLATE, END
from tests.tiny_gguf import tokens

MESSAGES = [{"role": "user", "content": "Hi"}]
TEXTS = (
    "the cat sat on the mat",
    "  two spaces, and a tab\tthere",
    "Unseen: łódź 🦊 日本",
    "line\nbreaks\n\n",
    "1234567 + 89",
    "",
)


def header(**changes) -> Header:
    """Of a byte-level tokenizer; `pre="smollm"` changes `tokenizer.ggml.pre`, None leaves a key out."""
    named = {f"tokenizer.ggml.{key}" if key != "chat_template" else "tokenizer.chat_template": value
             for key, value in changes.items()}  # fmt: skip
    metadata = {**tokens(262), **named}
    return Header(Path("model.gguf"), {key: value for key, value in metadata.items() if value is not None}, {})


def pieces(pre: str, text: str) -> list[str]:
    """What text is cut into before any merge."""
    backend = tokenizer(header(pre=pre)).backend_tokenizer
    return [text[start:end] for _, (start, end) in backend.pre_tokenizer.pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("gpt-2", ["It", "'s", " 12345", " apples", ",", "  ", " OK", "?!", "\n", "\n", "x"]),
        ("smollm", ["It", "'s", " ", "1", "2", "3", "4", "5", " apples", ",", "  ", " OK", "?!", "\n", "\n", "x"]),
        ("default", ["It", "'", "s", " ", "123", "45", " apples", ",", "  ", " OK", "?!", "\n", "\n", "x"]),
        ("tekken", ["It", "'s", " ", "1", "2", "3", "4", "5", " apples", ",", "  ", " OK", "?!\n\n", "x"]),
        ("llama-bpe", ["It", "'s", " ", "123", "45", " apples", ",", "  ", " OK", "?!\n\n", "x"]),
        ("qwen2", ["It", "'s", " ", "1", "2", "3", "4", "5", " apples", ",", "  ", " OK", "?!\n\n", "x"]),
    ],
)
def test_text_is_cut_as_the_family_cuts_it(pre, expected):
    assert pieces(pre, "It's 12345 apples,   OK?!\n\nx") == expected


def test_english_contractions_are_cut_off_in_capitals_by_newer_families_only():
    assert pieces("llama-bpe", "DON'T") == ["DON", "'T"]
    assert pieces("gpt-2", "DON'T") == ["DON", "'", "T"]


def test_words_are_cut_at_their_capitals_by_tekken_only():
    assert pieces("tekken", "HelloWorld") == ["Hello", "World"]
    assert pieces("qwen2", "HelloWorld") == ["HelloWorld"]


def test_merges_apply_in_the_order_of_the_file():
    plain = tokens(262)["tokenizer.ggml.tokens"]
    vocabulary = [*plain, "ab", "bc", "abc"]
    types = [*tokens(262)["tokenizer.ggml.token_type"], 1, 1, 1]
    made = tokenizer(header(tokens=vocabulary, token_type=types, merges=["b c", "a b", "a bc"]))
    assert made.convert_ids_to_tokens(made.encode("abcab")) == ["abc", "ab"]


def test_a_whole_word_of_the_vocabulary_needs_no_merges_in_llama_3():
    vocabulary = [*tokens(262)["tokenizer.ggml.tokens"], "hello"]
    types = [*tokens(262)["tokenizer.ggml.token_type"], 1]
    assert tokenizer(header(pre="llama-bpe", tokens=vocabulary, token_type=types)).encode("hello") == [262]
    assert len(tokenizer(header(pre="gpt-2", tokens=vocabulary, token_type=types)).encode("hello")) == 5


def test_every_byte_survives_encoding_and_decoding():
    made = tokenizer(header())
    for text in TEXTS:
        assert made.decode(made.encode(text)) == text


def test_control_and_user_defined_tokens_are_found_whole():
    made = tokenizer(header())
    assert made.encode("<|im_end|>") == [END]
    assert made.convert_ids_to_tokens(made.encode("a user's")) == ["a", "Ġ", "user", "'", "s"]
    assert made.decode([END, *made.encode("user")], skip_special_tokens=True) == "user"


def test_a_chat_is_written_in_the_files_template():
    chat = ChatTokenizer(tokenizer(header()), eos_tokens(header()))
    assert chat._tokenizer.decode(chat.prompt(MESSAGES)) == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert chat.end_of_turn == END


def test_every_token_that_ends_a_turn_is_known():
    assert eos_tokens(header()) == {END}
    assert eos_tokens(header(eot_token_id=5)) == {END, 5}
    # A file that names only the end of text, with a template that ends turns otherwise.
    assert eos_tokens(header(eos_token_id=0)) == {0, END}
    assert eos_tokens(header(eos_token_id=0, chat_template=None)) == {0}
    assert "<|im_end|>" in CHAT_TEMPLATE


def test_a_merge_that_is_none_is_named():
    with pytest.raises(GGUFError, match="'a b c' isn't a merge"):
        tokenizer(header(merges=["a b c"]))


@pytest.fixture(scope="module")
def trained() -> sentencepiece.SentencePieceProcessor:
    """A SentencePiece BPE as Llama 2 and Mistral have it: a space before the text, bytes for what is unknown."""
    model = io.BytesIO()
    corpus = ["the cat sat on the mat and the dog ate the cat's hat"] * 20 + ["numbers 12 345 and commas, too"] * 20
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, model_type="bpe", vocab_size=340, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, minloglevel=2,
        hard_vocab_limit=False,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def sentencepiece_header(trained: sentencepiece.SentencePieceProcessor, **changes) -> Header:
    def type(id: int) -> int:
        return 2 if trained.is_unknown(id) else 3 if trained.is_control(id) else 6 if trained.is_byte(id) else 1

    ids = range(trained.get_piece_size())
    return header(
        model="llama",
        pre=None,
        merges=None,
        tokens=[trained.id_to_piece(id) for id in ids],
        scores=[trained.get_score(id) for id in ids],
        token_type=[type(id) for id in ids],
        unknown_token_id=trained.unk_id(),
        bos_token_id=trained.bos_id(),
        eos_token_id=trained.eos_id(),
        padding_token_id=None,
        **changes,
    )


@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_a_sentencepiece_vocabulary_encodes_as_sentencepiece_does(trained, text):
    made = tokenizer(sentencepiece_header(trained))
    expected = trained.encode(text)
    assert made.encode(text, add_special_tokens=False) == expected
    assert made.decode(expected) == trained.decode(expected) == text


def test_a_sentencepiece_vocabulary_may_want_no_space_before_the_text(trained):
    plain = tokenizer(sentencepiece_header(trained, add_space_prefix=False))
    assert plain.convert_ids_to_tokens(plain.encode("the", add_special_tokens=False))[0] != "▁the"
    assert plain.decode(plain.encode(" the")) == " the"


def test_a_sentencepiece_vocabulary_without_scores_is_refused(trained):
    made = sentencepiece_header(trained)
    del made.metadata["tokenizer.ggml.scores"]
    with pytest.raises(GGUFError, match="lacks the scores"):
        tokenizer(made)
