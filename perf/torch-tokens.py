#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Turns text into a file of two bytes a token, the lower one first. Words and what stands between them are tokens; the most frequent
ones have a number of their own, in the order of their frequency, and all others share the last one.
usage: torch-tokens.py VOCABULARY OUTPUT FILE|FOLDER..."""
import collections
import os
import re
import struct
import sys


def files(paths):
    for path in paths:
        if not os.path.isdir(path):
            yield path
        for folder, _, names in sorted(os.walk(path)):
            yield from (os.path.join(folder, name) for name in sorted(names) if not os.path.islink(os.path.join(folder, name)))


def main():
    vocabulary, output, paths = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    words = []
    for path in files(paths):
        with open(path, encoding="utf-8", errors="replace") as f:
            words += re.findall(r"\w+|[^\w\s]|\s+", f.read())
    ranking = sorted(collections.Counter(words).items(), key=lambda word: (-word[1], word[0]))
    numbers = {word: i for i, (word, _) in enumerate(ranking[:vocabulary - 1])}
    tokens = [numbers.get(word, vocabulary - 1) for word in words]
    with open(output, "wb") as f:
        f.write(struct.pack(f"<{len(tokens)}H", *tokens))
    print(len(tokens), len(numbers))


if __name__ == "__main__":
    main()
