# SPDX-License-Identifier: MIT
"""Programs that generate code: objects with other content appear at the same address again and again."""
import random
import sys

import decode
import stackcheck
from stackcheck import HELD, check

LOOP = 600
memo = {}
capturing = True


def capture():
    if not capturing:
        return
    number = HELD.probe_python(); want = stackcheck.expected()
    got = memo.get(number)
    if got is None:
        got = memo[number] = stackcheck.stack_of(number)
    check("generated code", got, want)


def run(source, file):
    exec(compile(source, file, "exec"), {"capture": capture})


def name(i):
    run("def f%05d():\n  capture()\nf%05d()\ndel f%05d\n" % (i, i, i), "<s>")


def few_names(i):
    run("def f%d():\n  capture()\nf%d()\ndel f%d\n" % (i % 3, i % 3, i % 3), "<s>")


def file(i):
    run("def f():\n  capture()\nf()\ndel f\n", "<file-%05d>" % i)


def wide_file(i):
    run("def f():\n  capture()\nf()\ndel f\n", "<\u65e5-%05d>" % i)


def first_line(i):
    run("\n" * (i % 50) + "def f():\n  capture()\nf()\ndef g(): pass\n", "<s>")


def table(i):
    run("def f():\n  x=1\n" + "\n" * (i % 50) + "  capture()\nf()\ndel f\n", "<s>")


def module(i):
    run("capture()\nt%d=1\n" % (i % 7), "<mod%05d>" % i)


def eval_lambda(i):
    eval("(lambda: capture())() or %d" % i)


def file_lambda(i):
    eval(compile("(lambda: capture())()", "<l%05d>" % i, "eval"))


def method(i):
    scope = {"capture": capture}
    exec(compile("def method_%05d(self):\n    capture()\n" % i, "<gen>", "exec"), scope)
    scope["method_%05d" % i](0)


def mixture(count):
    """Objects of random content that live for random times."""
    rnd = random.Random(1)
    keep = []
    for _ in range(count):
        n = rnd.choice("abcdefgh") * rnd.choice((1, 2, 30))
        scope = {"capture": capture}
        source = "%sdef %s():\n  %s\n%s  capture()\n%s()\n" % (
            "\n" * rnd.randrange(3), n, rnd.choice(("x=1", "x=22222", "x='q'", "pass")),
            "\n" * rnd.randrange(4), n)
        exec(compile(source, rnd.choice(("<s>", "<t>", "aaaa.py", "bbbb.py")), "exec"), scope)
        if rnd.random() < .1:
            keep.append(scope)
        if len(keep) > 50:
            del keep[rnd.randrange(len(keep))]


def generations(count):
    """Thousands of objects die between two captures, at the same addresses: what is seen next is none of them."""
    for i in range(count):
        for _ in range(i % 3 * 500):
            exec(compile("def f(): pass\n", "<none-%d>" % (i % 11), "exec"), {})
        loops[i % len(loops)](i)


loops = (name, few_names, file, wide_file, first_line, table, module, eval_lambda, file_lambda, method)

if __name__ == "__main__":
    for every in (1, 2, 3, 4, 5, 7, 8, 16):
        for loop in loops:
            for i in range(LOOP):
                capturing = i % every == 0
                loop(i)
    capturing = True
    mixture(20000)
    generations(60)
    known = HELD.probe_count(decode.CODE)
    for loop in loops:
        for i in range(LOOP):
            loop(i)
    check("equal content has its old id", HELD.probe_count(decode.CODE), known)
    print("%d code objects, %d nodes" % (known, HELD.probe_count(decode.FRAME)))
    stackcheck.done()
