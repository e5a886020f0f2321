"""Data sets: what is read, what is held out, and what is said of a file that can't be read."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import HfApi

from engine import Epochs, Example
from engine.data.datasets import apart, held_out, read, read_parts
from engine.data.tables import LONGEST_LINE, DataError, is_on_hub

ROWS = [{"prompt": "1+1=", "answer": "2"}, {"prompt": "2+2=", "answer": "4"}]


def file(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def lines(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def hub(folder: Path) -> Path:
    """A folder laid out like a repository of the hub."""
    (folder / "main").mkdir(parents=True)
    for split, name in (("train", "a"), ("test", "b")):
        table = pa.table({"question": [f"{name}{i}" for i in range(3)], "answer": [f"#### {i}" for i in range(3)]})
        pq.write_table(table, folder / "main" / f"{split}-00000-of-00001.parquet")
    files = "".join(f"  - split: {split}\n    path: main/{split}-*\n" for split in ("train", "test"))
    (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: main\n  data_files:\n{files}---\n")
    return folder


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.jsonl", lines(ROWS)),
        ("rows.ndjson", "\ufeff" + lines(ROWS).replace("\n", "\r\n\n")),
        ("rows.json", json.dumps(ROWS, indent=1)),
        ("rows.csv", 'prompt,answer\n1+1=,2\n"2+2=",4\n'),
        ("rows.tsv", "\ufeffprompt\tanswer\r\n1+1=\t2\r\n2+2=\t4\r\n"),
    ],
)
def test_every_kind_of_file_gives_the_same_examples(name, content, tmp_path):
    read_rows = read(file(tmp_path, name, content))
    assert [(example.prompt, example.answer) for example in read_rows] == [("1+1=", "2"), ("2+2=", "4")]


def test_parquet_too(tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    assert [example.prompt for example in read(str(tmp_path / "rows.parquet"))] == ["1+1=", "2+2="]
    with pytest.raises(DataError, match=r"broken\.parquet: no Parquet file"):
        read(file(tmp_path, "broken.parquet", "PAR1 nothing"))


def test_a_repository_of_the_hub_is_read_by_config_and_split(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    source, columns = str(hub(tmp_path / "gsm")), {"config": "main", "prompt": "question"}
    assert [example.prompt for example in read(source, split="test", **columns)] == ["b0", "b1", "b2"]
    parts = read_parts(source, evaluation="split:test", **columns)
    assert [[e.prompt[0] for e in part] for part in parts[:2]] == [["a"] * 3, ["b"] * 3]
    with pytest.raises(DataError, match=r"split 'dev'.*Unknown split"):
        read(source, split="dev", **columns)
    with pytest.raises(DataError, match="BuilderConfig 'other' not found"):
        read(source, config="other", prompt="question")


def test_an_id_of_the_hub_is_no_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_on_hub("openai/gsm8k")
    assert not any(map(is_on_hub, ("./openai/gsm8k", "data/train.csv", "gsm8k", "/a/b", "a/b/c")))
    (tmp_path / "openai" / "gsm8k").mkdir(parents=True)
    assert not is_on_hub("openai/gsm8k")


def test_a_template_takes_columns_by_name_and_nothing_else(tmp_path):
    source = file(tmp_path, "rows.jsonl", lines([{"a b": "x {y}", "n": 3, "answer": ["p", "q"]}]))
    assert read(source, template="{{{a b}}} {n}")[0].prompt == "{x {y}} 3"
    for template, said in [
        ("{n.__class__}", "no column 'n.__class__'; there are: a b, n, answer"),
        ("{n!r}", "wants the name of a column and nothing else"),
        ("{n:>9}", "wants the name of a column and nothing else"),
        ("{}", "no column ''"),
        ("{n", "a brace of its own is written {{ or }}"),
        ("{answer}", "column 'answer' wants a text or a number, not a list"),
    ]:
        with pytest.raises(DataError) as caught:
            read(source, template=template)
        assert said in str(caught.value)


GOOD = json.dumps(ROWS[0]) + "\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", GOOD * 811 + '{"prompt": "x"\n', "a.jsonl, line 812: not JSON: Expecting ',' delimiter"),
        ("a.jsonl", GOOD + "[1]\n", "line 2: expected an object such as"),
        ("a.jsonl", GOOD.encode() + b'{"prompt": "caf\xe9"}\n', "line 2: byte 0xe9 at offset 49 is not UTF-8"),
        ("a.jsonl", GOOD.encode("utf-16"), "line 1: this is UTF-16; expected UTF-8"),
        ("a.jsonl", "", "no rows; expected at least one"),
        ("a.csv", "prompt,answer\n", "no rows; expected at least one"),
        ("a.jsonl", '{"q": "x", "answer": "1"}', "line 1: no column 'prompt'; there are: q, answer"),
        ("a.jsonl", '{"prompt": " ", "answer": "1"}', "line 1: column 'prompt' is empty"),
        ("a.jsonl", '{"prompt": 3, "answer": "1"}', "line 1: column 'prompt' wants a text, not a number: 3"),
        ("a.jsonl", '{"prompt": "x", "answer": null}', "column 'answer' wants a text or a number, not nothing"),
        ("a.jsonl", '{"prompt": "x", "answer": true}', "column 'answer' wants a text or a number, not true"),
        ("a.jsonl", '{"prompt": "x", "answer": NaN}', "column 'answer' wants a text or a number"),
        ("a.jsonl", '{"prompt": "x", "answer": {}}', "column 'answer' wants a text or a number, not an object"),
        ("a.jsonl", '{"prompt": "x", "answer": []}', "column 'answer' has no answer"),
        ("a.jsonl", '{"prompt": "\\ud800", "answer": "1"}', "half of a surrogate pair"),
        ("a.jsonl", "[" * 100_000, "JSON that can't be read"),
        ("a.json", '[{"prompt": "x",\n "answer" 1}]', "a.json, line 2: not JSON"),
        ("a.json", '{"prompt": "x"}', "expected a list of objects, found an object"),
        ("a.json", '[{"prompt": "x", "answer": 1}, 2]', "entry 2: expected an object"),
        ("a.csv", "prompt,answer\nx,1\ny\n", "line 3: 1 fields where the header has 2"),
        ("a.csv", "prompt,prompt\nx,1\n", "line 1: expected the names of columns, all different"),
        ("a.csv", 'prompt,answer\n"x,1\n', "line 2: unexpected end of data"),
        ("a.txt", "x", "a data set is a file (.jsonl"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(name, content, said, tmp_path):
    with pytest.raises(DataError) as caught:
        read(file(tmp_path, name, content))
    assert said in str(caught.value)


def test_a_line_that_never_ends_is_not_read_to_its_end(tmp_path):
    with (tmp_path / "a.jsonl").open("wb") as sparse:
        sparse.truncate(30 * LONGEST_LINE)
    with pytest.raises(DataError, match=r"line 1: over 16,000,000 bytes; expected one row a line"):
        read(str(tmp_path / "a.jsonl"))


def test_a_missing_file_and_a_missing_package_are_named(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"no file at .*gone\.csv"):
        read(str(tmp_path / "gone.csv"))
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(DataError, match=r"pip install 'selfplay-tui\[data\]'"):
        read("openai/gsm8k")


def test_a_hub_that_cannot_be_reached_is_not_waited_for(monkeypatch, capfd):
    monkeypatch.setattr(HfApi, "dataset_info", lambda *_, **__: (_ for _ in ()).throw(OSError("no route")))
    with pytest.raises(DataError, match=r"no such file, and the hub can't be reached \(no route\)"):
        read("nobody/nothing-of-the-kind")
    assert not any(capfd.readouterr())


def examples(*prompts: str) -> list[Example]:
    return [Example(prompt, "1") for prompt in prompts]


def test_what_is_held_out_depends_on_the_prompt_alone():
    prompts = [f"question {i}" for i in range(1000)]
    parts = held_out(examples(*prompts), 0.2)
    assert 150 < len(parts.held_out) < 250
    assert not {e.prompt for e in parts.train} & {e.prompt for e in parts.held_out}
    alone = held_out(examples(*reversed(prompts[:500])), 0.2)
    assert {e.prompt for e in alone.held_out} == {e.prompt for e in parts.held_out} & set(prompts[:500])


def test_nothing_is_trained_on_that_is_held_out_however_it_is_written():
    parts = apart(examples("Who?", "what", "WHAT ", "where"), examples("who?", " WHERE\n", "when", "When"))
    assert [e.prompt for e in parts.train] == ["what"]
    assert {e.prompt for e in parts.held_out} == {"who?", " WHERE\n", "when"}
    assert parts.repeated == 4


def test_a_part_without_examples_is_an_error(tmp_path):
    source = file(tmp_path, "a.jsonl", GOOD)
    with pytest.raises(DataError, match=r"holds out none|none is left"):
        read_parts(source, share=0.5)
    with pytest.raises(DataError, match="all of its 1 examples are held out"):
        read_parts(source, evaluation=source)


def test_choices_hold_the_answer(tmp_path):
    rows = [{"prompt": "x", "answer": "a", "choices": ["a", "b"]}, {"prompt": "y", "answer": "c", "choices": ["a"]}]
    assert read(file(tmp_path, "a.jsonl", lines(rows[:1])), choices="choices")[0].choices == ("a", "b")
    with pytest.raises(DataError, match=r"line 2: column 'answer' wants one of the choices .*a.*, not a text: 'c'"):
        read(file(tmp_path, "a.jsonl", lines(rows)), choices="choices")


def test_every_example_comes_once_before_any_comes_twice_and_a_resumed_store_goes_on():
    data = examples(*"abcdefg")
    store = Epochs(lambda: data, seed=3)
    first = [artifact.data["prompt"] for artifact in store.sample(7)]
    assert sorted(first) == list("abcdefg")
    state = json.loads(json.dumps(store.state()))
    second = [artifact.data["prompt"] for artifact in store.sample(7)]
    assert sorted(second) == list("abcdefg")
    assert second != first
    again = Epochs(lambda: data, seed=4)
    again.load_state(state)
    assert [artifact.data["prompt"] for artifact in again.sample(7)] == second
    fewer = Epochs(lambda: data[:5])
    fewer.load_state(state)
    with pytest.raises(DataError, match="5 examples to train on; it had 7"):
        fewer.sample(1)
