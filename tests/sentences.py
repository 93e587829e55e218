#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""All sentences of findings with example facts, as a user may meet them; and which facts the sources give each.

usage: sentences.py        (prints them; tests/e2e/test_sentences.py holds the sources against the table)
"""

import re
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
TABLE = TREE / "analyzer" / "findings" / "sentences.def"
EXAMPLES = {
    "bytes": "3.19 GiB", "signed_bytes": "-12.0 MiB", "count": "51", "many": "1,064", "step": "7", "ns": "1.5 s",
    "share": "12.5%", "ratio": "4", "name": "history", "site": "train.py:36", "line": "train.py:36", "flag": "",
    "figure": "2.50 GiB", "range": "0.60 to 0.62 GiB", "percent": "6.25%", "size": "18.2 GiB", "at": "127", "whole": "127",
}  # fmt: skip
NAMES = {
    "device": "GPU 0, NVIDIA H100", "zeros": "; cuDNN's workspaces are not counted (3 unknown)", "certainty": "probably ", "verdict": "leak",
    "keeper": "self.history", "kind": "list", "function": "fit", "place": "in fit() at train.py:36", "caller": "main.py:12", "code": "history.clear()",
    "entry": "sessions[key]", "value": "x.detach()", "call": "model.0.register_forward_hook()", "other": "outputs.clear()",
    "attribute": "parent", "variable": "previous", "optimizer": "optimizer", "figure": "free", "figures": "how much was free",
    "outcome": "fragmentation", "outcomes": "below 9.41 GiB another process, from 9.41 GiB fragmentation", "truth": "-2.00 GiB",
    "backend": "CUDA", "each": "a step", "by": "step", "at": "127", "low": "120", "high": "140", "first": "step 120", "last": "140",
    "course": "steady", "unit": "MiB", "paces": "12, 12, 13", "fit": "linear", "quadratic": "310", "linear": "342", "step": "100",
    "steps": "100,000", "lengths": "4, 51 and 102", "module": "vision.encoder", "of": "peak of tensors", "actual": "21.4 GiB",
    "allowed": "20 GiB", "over": "1.4 GiB", "origin": "--max-peak", "reason": "there are too few steps", "file": "job.vtr",
    "at_least": "", "line": "train.py:36",
}  # fmt: skip


def table():
    """{name: text} of all rows, in their order."""
    rows = re.findall(r"^SENTENCE\((\w+),((?:\s*\"(?:[^\"\\]|\\.)*\")+)\)", TABLE.read_text(), re.M)
    return {name: "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)) for name, text in rows}


def keys(text):
    """The keys that a sentence must have, and those that it may have."""
    may = set(re.findall(r"\{(\w+)", "".join(re.findall(r"\[[^]]*\]", text))))
    must = set(re.findall(r"\{(\w+)", re.sub(r"\[[^]]*\]", "", text)))
    return must, may - must


def functions(source):
    """The functions of a C file, each from its first line to the brace in the first column."""
    return re.findall(r"^\w[^\n;]*\([^;]*?\)\n\{\n.*?^\}", source, re.M | re.S)


def uses():
    """(file, sentence, {key: unit}, are they given with it) for each place of the sources that says a sentence."""
    for path in sorted((TREE / "analyzer").glob("*/*.c")):
        source = path.read_text()
        tables = source
        for function in functions(source):
            tables = tables.replace(function, "")
            named = {name: (key, unit) for name, unit, key in re.findall(r'(\w+) = fact_(\w+)\("(\w+)"', function)}
            named |= {name: (key, unit) for name, unit, key in
                      re.findall(r'(\w+) = fact_(?:if|as)\([^"]*fact_(\w+)\("(\w+)"', function)}  # fmt: skip
            around = {key: unit for unit, key in re.findall(r'fact_(\w+)\("(\w+)"', function)}
            for name, given in re.findall(r"\bSAID\((\w+),((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*)\)", function):
                here = {key: unit for unit, key in re.findall(r'fact_(\w+)\("(\w+)"', given)}
                here |= dict(named[word] for word in re.findall(r"\w+", given) if word in named)
                yield path, name, here, True
            for name in re.findall(r"(?<![=!]= )(?<!drop_evidence\(f, )\bSAY_(\w+)", function):  # compared with, or taken back
                if name != "nothing":
                    keys_of_arrays = {key: "bytes" for pair in re.findall(r'\{ ("\w+"(?:, "\w+")*) \}', function)
                                      for key in re.findall(r'"(\w+)"', pair)}  # fmt: skip
                    yield path, name, around | keys_of_arrays, False
        of_file = {key: unit for unit, key in re.findall(r'fact_(\w+)\("(\w+)"', source)}
        for name in re.findall(r"\bSAY_(\w+)", tables):  # a row of a table, which the file's functions give its facts
            if name != "nothing":
                yield path, name, of_file, False


def example(text, units):
    """The sentence with all that it may have."""
    def put(match):
        key, noun = re.match(r"(\w+)(?:[:.](.*))?", match[1]).groups()
        unit = units.get(key, "name")
        value = NAMES.get(key, EXAMPLES["name"]) if unit == "name" else EXAMPLES.get(unit, "NAME")
        if noun == "function":
            return "step"
        return value + (" " + (noun.split("/")[1] if "/" in noun else noun + "s") if noun else "")

    text = re.sub(r"(?<=\})\]\[(?=[\w{])", "|", text)  # the one or the other
    return re.sub(r"\{([^}]*)\}", put, re.sub(r"[][]", "", text))


def main():
    units = {}
    for _, name, here, _ in uses():
        units.setdefault(name, {}).update(here)
    for name, text in table().items():
        print(f"{name}: {example(text, units.get(name, {}))}")


if __name__ == "__main__":
    main()
