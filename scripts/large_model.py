#!/usr/bin/env python3
"""Writes an ONNX model of very many ops, for measuring how long reading one takes and how much memory.

    large_model.py OUT.onnx [--ops N]

The ops are rows of a grid: each adds the op before it in its row to the one above it, and every fourth is a Relu of its
neighbour, so that the model is wide and deep. Nodes and values have names as exporters write them. The bytes are written
here without a library, as Python's objects of a million nodes would take gigabytes themselves.
"""

import argparse
import pathlib


def varint(number):
    out = bytearray()
    while True:
        out.append(number & 127 | (128 if number > 127 else 0))
        number >>= 7
        if not number:
            return bytes(out)


def field(number, data):
    """A field that holds a text or a message."""
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def whole(number, value):
    return varint(number << 3) + varint(value)


def value(name, sizes):
    """A ValueInfoProto of floats."""
    shape = b"".join(field(1, whole(1, size)) for size in sizes)
    return field(1, name) + field(2, field(1, whole(1, 1) + field(2, shape)))


def node(kind, name, inputs, output):
    return b"".join(field(1, each) for each in inputs) + field(2, output) + field(3, name) + field(4, kind)


def made(row, column):
    return f"/encoder/layers.{row}/block.{column}/output_0" if column >= 0 and row >= 0 else "x"


def graph(ops, width):
    for at in range(ops):
        row, column = divmod(at, width)
        kind = "Relu" if at % 4 == 3 else "Add"
        inputs = [made(row, column - 1), made(row - 1, column)][: 1 if kind == "Relu" else 2]
        yield field(1, node(kind, f"/encoder/layers.{row}/block.{column}/{kind}", inputs, made(row, column)))
    yield field(2, "grid")
    yield field(11, value("x", [1, 64]))
    yield field(12, value(made(*divmod(ops - 1, width)), [1, 64]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--ops", type=int, default=1_000_000)
    asked = parser.parse_args()
    body = b"".join(graph(asked.ops, 1000))
    asked.out.write_bytes(whole(1, 8) + field(2, "large_model.py") + field(8, whole(2, 17)) + field(7, body))
    print(f"{asked.ops} ops, {asked.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
