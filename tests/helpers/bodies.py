"""Long request bodies by name, hostile and valid, of every kind that a route accepts: (route, media type, bytes)."""

import json
import struct

import numpy as np

from hinged.frames import encode

JSON, BATCH, BYTES = "application/json", "application/vnd.hinged.batch", "application/octet-stream"
LONG = 12 * 2**20
"""Approximate bytes of a hostile body. If it were read in one go, it would block the event loop for at least 0.1 s."""
DIM, CLASSES, ROWS = 20, 150, 10_000
ENTITY = "&b%s;"
CHOICES = '<View><Choices name="a" toName="b"><Choice value="x"/></Choices></View>'


def many(part, before=b"", after=b"", between=b",", size=LONG):
    """Repeat one part until the body has about `size` bytes."""
    return before + between.join([part] * (size // (len(part) + len(between)))) + after


def header(text):
    """Return a frame that has only a header."""
    return b"hng1" + bytes(16) + struct.pack("<I", len(text)) + text + bytes(-(24 + len(text)) % 8)


def shaped(shape):
    return header(json.dumps({"kind": "batch", "facts": {}, "arrays": [["x", "float32", shape]]}).encode())


def configured(label_config):
    return json.dumps({"tasks": [{"data": {"x": [0] * DIM}}], "label_config": label_config}).encode()


HOSTILE = {
    # endless numbers
    "a row that is too long": lambda: ("rows/predict", JSON, many(b"0.123456", b'{"x":[', b"]}")),
    "a row that is too long, of whole numbers": lambda: ("rows/learn", JSON, many(b"1", b'{"x":[', b'],"y":1}')),
    "rows that are too long": lambda: (
        "rows/predict", JSON, many(many(b"0.5", b'{"x":[', b"]}", size=60_000), b'{"examples":[', b"]}"),
    ),
    "a sparse row that is too long": lambda: (
        "rows/predict", JSON, many(b"7", b'{"x":{"indices":[', many(b"0.5", b'],"values":[', b"]}}", size=LONG // 2),
                                   size=LONG // 2),
    ),
    "a number without end": lambda: ("rows/predict", JSON, b'{"x":[' + b"1" * LONG + b"]}"),
    "a fraction without end": lambda: ("rows/predict", JSON, b'{"x":[0.' + b"1" * LONG + b"]}"),
    "numbers beside x": lambda: ("rows/predict", JSON, many(b"1", b'{"x":[1],"id":[', b"]}")),
    "numbers as a label": lambda: ("rows/learn", JSON, many(b"1", b'{"x":[1],"y":[', b"]}")),
    "numbers alone": lambda: ("rows/predict", JSON, many(b"1", b"[", b"]")),
    # endless examples
    "examples without end": lambda: ("rows/learn", JSON, many(b'{"x":[1],"y":1}', b'{"examples":[', b"]}")),
    "candidates without end": lambda: ("rows/pool", JSON, many(b'{"x":[1],"id":"a"}', b'{"examples":[', b"]}")),
    "ranked examples without end": lambda: ("rows/rank", JSON, many(b'{"x":[1]}', b'{"examples":[', b"]}")),
    "empty lists": lambda: ("rows/learn", JSON, many(b"[]", b'{"examples":[', b"]}")),
    "nulls as examples": lambda: ("rows/learn", JSON, many(b"null", b'{"examples":[', b"]}")),
    "deep lists": lambda: ("rows/predict", JSON, many(b"[" * 30 + b"]" * 30, b'{"other":[', b"]}")),
    # endless names
    "unknown parts": lambda: (
        "rows/predict", JSON, b"{" + b",".join(b'"%07d":0' % k for k in range(LONG // 12)) + b"}",
    ),
    "unknown parts of an example": lambda: (
        "rows/learn", JSON, b'{"examples":[{' + b",".join(b'"%07d":0' % k for k in range(LONG // 12)) + b"}]}",
    ),
    "unknown parts of many examples": lambda: (
        "rows/learn", JSON,
        many(b'{"x":[1],"y":1,' + b",".join(b'"%05d":0' % k for k in range(6000)) + b"}", b'{"examples":[', b"]}"),
    ),
    "unknown parts of a sparse row": lambda: (
        "rows/learn", JSON,
        many(b'{"y":1,"x":{' + b",".join(b'"%05d":0' % k for k in range(6000)) + b"}}", b'{"examples":[', b"]}"),
    ),
    "named values without end": lambda: (
        "named/predict", JSON, b'{"x":{' + b",".join(b'"%07d":0' % k for k in range(LONG // 12)) + b"}}",
    ),
    "records of too many names": lambda: (
        "named/predict", JSON,
        many(b'{"x":{' + b",".join(b'"%05d":0' % k for k in range(5000)) + b"}}", b'{"examples":[', b"]}"),
    ),
    # invalid JSON
    "brackets": lambda: ("rows/predict", JSON, b"[" * LONG),
    "brackets and braces": lambda: ("rows/predict", JSON, b'{"a":[' * (LONG // 6)),
    "a deep row": lambda: ("rows/predict", JSON, b'{"x":' + b"[" * (LONG // 2) + b"]" * (LONG // 2) + b"}"),
    "white space": lambda: ("rows/predict", JSON, b" " * LONG),
    "white space in a row": lambda: ("rows/predict", JSON, b'{"x":[1' + b" " * LONG + b"]}"),
    "commas": lambda: ("rows/predict", JSON, b'{"x":[' + b"," * LONG + b"]}"),
    "quotes": lambda: ("rows/predict", JSON, b'"' * LONG),
    "backslashes": lambda: ("rows/predict", JSON, b'{"x":"' + b"\\" * LONG + b'"}'),
    "zero bytes": lambda: ("rows/predict", JSON, bytes(LONG)),
    "a JSON that ends in the middle": lambda: ("rows/learn", JSON, many(b'{"x":[1],"y":1}', b'{"examples":[')),
    # endless strings
    "a string without end": lambda: ("rows/predict", JSON, b'{"x":"' + b"a" * LONG + b'"}'),
    "a string of escapes": lambda: ("text/predict", JSON, b'{"x":"' + b"\\u0041" * (LONG // 6) + b'"}'),
    "a long id": lambda: ("rows/predict", JSON, b'{"x":[1],"id":"' + b"\\u0041" * (LONG // 6) + b'"}'),
    "a long name": lambda: ("named/predict", JSON, b'{"x":{"' + b"a" * LONG + b'":1}}'),
    "a long show": lambda: (
        "rows/pool", JSON, many(b'"a"', b'{"examples":[{"x":[1],"id":"a","show":[', b"]}]}"),
    ),
    # bodies that are short in a valid request
    "a configuration of unknown parts": lambda: (
        "rows", JSON, b"{" + b",".join(b'"%07d":0' % k for k in range(LONG // 12)) + b"}",
    ),
    "a configuration of classes": lambda: ("rows", JSON, many(b'"a"', b'{"classes":[', b"]}")),
    "a question of numbers": lambda: ("rows/queries", JSON, many(b"1", b'{"n":[', b"]}")),
    "leases that are held": lambda: ("rows/queries", JSON, many(b'"a"', b'{"annotator":"a","held":[', b"]}")),
    "a finishing step of parts": lambda: (
        "rows/finish", JSON, b"{" + b",".join(b'"%07d":0' % k for k in range(LONG // 12)) + b"}",
    ),
    # rows as bytes
    "a shape of 100,000 axes": lambda: ("rows/predict", BATCH, shaped([2**63 - 1] * 100_000)),
    "shapes of 31 axes": lambda: (
        "rows/predict", BATCH,
        header(b'{"kind":"batch","facts":{},"arrays":['
               + many(b'["x","int8",[' + b",".join([b"9223372036854775807"] * 31) + b"]]") + b"]}"),
    ),
    "arrays without end": lambda: (
        "rows/predict", BATCH, header(b'{"kind":"batch","facts":{},"arrays":[' + many(b'["x","int8",[0]]') + b"]}"),
    ),
    "a header of brackets": lambda: ("rows/predict", BATCH, header(b"[" * LONG)),
    "ids without end": lambda: (
        "rows/predict", BATCH, header(b'{"kind":"batch","arrays":[],"facts":{"ids":[' + many(b'"a"') + b"]}}"),
    ),
    "labels without end": lambda: (
        "rows/learn", BATCH, header(b'{"kind":"batch","arrays":[],"facts":{"labels":[' + many(b'"a"') + b"]}}"),
    ),
    "shows without end": lambda: (
        "rows/pool", BATCH, header(b'{"kind":"batch","arrays":[],"facts":{"shows":[' + many(b"1") + b"]}}"),
    ),
    "a wrong checksum": lambda: ("rows/predict", BATCH, encode("batch", {}, {"x": np.zeros((9000, 300))})[:-1] + b"1"),
    "rows of bytes that are too wide": lambda: (
        "rows/predict", BATCH, encode("batch", {}, {"x": np.zeros((9000, 300))}),
    ),
    # tensors
    "a tensor without end": lambda: (
        "rows/infer", JSON,
        many(b"1", b'{"inputs":[{"name":"x","datatype":"FP32","shape":[9999,9999],"data":[', b"]}]}"),
    ),
    "a nested tensor without end": lambda: (
        "rows/infer", JSON,
        many(b"[1]", b'{"inputs":[{"name":"x","datatype":"FP32","shape":[9999,9999],"data":[', b"]}]}"),
    ),
    "a tensor of texts for numbers": lambda: (
        "rows/infer", JSON,
        many(b'"a"', b'{"inputs":[{"name":"x","datatype":"FP32","shape":[9999,9999],"data":[', b"]}]}"),
    ),
    "tensors without end": lambda: (
        "rows/infer", JSON, many(b'{"name":"x","datatype":"FP32","shape":[1]}', b'{"inputs":[', b"]}"),
    ),
    "tensors of nothing": lambda: ("rows/infer", JSON, many(b"{}", b'{"inputs":[', b"]}")),
    "parameters without end": lambda: (
        "rows/infer", JSON,
        b'{"inputs":[],"parameters":{' + b",".join(b'"%07d":[]' % k for k in range(LONG // 13)) + b"}}",
    ),
    # Label Studio
    **{
        f"a configuration of {name}": lambda text=text: ("studio/predict", JSON, configured(text))
        for name, text in {
            "declarations": "<!" * 180_000, "marked sections": "<![" * 120_000, "tags": "<a " * 120_000,
            "attributes": "<a" + " b" * 180_000, "quoted attributes": "<a " + "b='" * 120_000,
            "angles": "<" * 360_000, "closing tags": "</" * 180_000, "comments": "<!--" * 90_000,
            "instructions": "<?" * 180_000, "entities": "&#" + "1" * 360_000,
            "nested tags": "<a>" * 120_000,
            "entities in entities": '<!DOCTYPE a [<!ENTITY b "c">'
            + "".join(f'<!ENTITY b{k + 1} "{ENTITY % (k or "") * 99}">' for k in range(9)) + "]><a>&b9;</a>",
            "choices": "<View>" + '<Choices name="a" toName="b"/>' * 10_000 + "</View>",
        }.items()
    },
    "a long configuration": lambda: ("studio/predict", JSON, configured("<View>" + "<a/>" * (LONG // 4) + "</View>")),
    "a configuration of a project that is set up": lambda: (
        "studio/setup", JSON, json.dumps({"schema": "<![" * 120_000}).encode(),
    ),
    "a configuration in a webhook": lambda: (
        "studio/webhook", JSON,
        json.dumps({"action": "ANNOTATION_CREATED", "annotation": {"id": 1}, "task": {"data": {}},
                    "project": {"label_config": "<!" * 180_000}}).encode(),
    ),
    "tasks without end": lambda: ("studio/predict", JSON, many(b'{"data":{}}', b'{"label_config":"","tasks":[', b"]}")),
    "tasks of no data": lambda: ("studio/predict", JSON, many(b"{}", b'{"label_config":"","tasks":[', b"]}")),
    "a task of numbers": lambda: (
        "studio/predict", JSON, many(b"1", b'{"label_config":"","tasks":[{"data":{"x":[', b"]}}]}"),
    ),
    "annotations without end": lambda: (
        "studio/webhook", JSON, many(b'{"id":1}', b'{"action":"ANNOTATIONS_CREATED","annotation":[', b"]}"),
    ),
    "regions without end": lambda: (
        "studio/webhook", JSON,
        many(b"{}", b'{"action":"ANNOTATION_CREATED","task":{"data":{}},"annotation":{"id":1,"result":[', b"]}}"),
    ),
    "deleted annotations without end": lambda: (
        "studio/webhook", JSON, many(b'{"id":1}', b'{"action":"ANNOTATIONS_DELETED","annotations":[', b"]}"),
    ),
}  # fmt: skip

ROUTES = [
    "rows/predict", "rows/learn", "rows/pool", "rows/rank", "rows/decide", "rows/queries", "rows/infer", "wide/predict",
    "wide/infer", "named/predict", "named/infer", "text/infer", "studio/predict", "studio/webhook",
]  # fmt: skip
NAMES = ["examples", "x", "id", "y", "show", "labels", "data", "inputs", "tasks", "annotation", "held", "other"]
ATOMS = [
    "1",
    "0.25",
    "null",
    '"a"',
    '"%07d"',
    '"\\u0041"',
    "[]",
    "{}",
    "[1]",
    "[[[[1]]]]",
    '{"a":1}',
    '{"%07d":[]}',
]


def random_hostile(seed):
    """Return a body with many small values in a few lists and objects, for a random route."""
    random = np.random.default_rng(seed)
    atom = str(random.choice(ATOMS))
    size = int(LONG * random.uniform(0.1, 1))
    each = int(min(10 ** random.uniform(1, 7), size // len(atom)))  # elements of an innermost list
    one = ",".join(atom.replace("%07d", f"{k:07d}") for k in range(each))
    body = ",".join([f"[{one}]"] * max(1, size // len(one)))
    for _ in range(random.integers(1, 4)):
        name, other = random.choice(NAMES, 2)
        body = f"[{body}]" if random.random() < 0.3 else f'{{"{name}":[{body}],"{other}":1}}'
    if body[0] == "[":
        body = f'{{"{random.choice(NAMES)}":{body}}}'
    return str(random.choice(ROUTES)), JSON, body.encode()


_random = np.random.default_rng(7)


def examples(x, **more):
    """Return a body with as many examples as a request may have.

    x, more: functions that return a part of an example, given its number.
    """
    body = {"examples": [{"x": x(r), **{name: part(r) for name, part in more.items()}} for r in range(ROWS)]}
    return json.dumps(body).encode()


def dense(_=None, dim=DIM):
    return _random.normal(size=dim).round(6).tolist()


def label(r):
    return f"class {r % CLASSES:03}"


VALID = {
    "rows to learn": lambda: ("rows/learn", JSON, examples(dense, y=lambda r: r % 2, id=lambda r: f"valid {r}")),
    "rows to predict": lambda: ("rows/predict", JSON, examples(dense)),
    "rows to predict, of many classes with probabilities": lambda: (
        "many/predict", JSON, examples(dense)[:-1] + b',"probabilities":true}',
    ),
    "rows that wait for their labels": lambda: ("many/predict", JSON, examples(dense, id=lambda r: f"waits {r}")),
    "sparse rows": lambda: (
        "rows/predict", JSON, examples(lambda _: {"indices": [*range(DIM)], "values": dense()}),
    ),
    "wide rows": lambda: (
        "wide/predict", JSON,
        json.dumps({"examples": [{"x": dense(dim=200_000)} for _ in range(5)]}).encode(),
    ),
    "records": lambda: (
        "named/predict", JSON, examples(lambda r: {f"name {k}": (r * k) % 17 / 4 for k in range(DIM)}),
    ),
    "records to learn": lambda: (
        "named/learn", JSON, examples(lambda r: {f"name {k}": (r * k) % 17 for k in range(DIM)}, y=lambda r: r % 2),
    ),
    "texts": lambda: ("text/predict", JSON, examples(lambda r: f"a text of some words, number {r} " * 20)),
    "candidates": lambda: (
        "rows/pool", JSON, examples(dense, id=lambda r: f"offered {r}", show=lambda r: {"text": "x" * 300}),
    ),
    "rows to rank": lambda: ("rows/rank", JSON, examples(dense, id=lambda r: f"ranked {r}")),
    "rows as bytes": lambda: (
        "many/predict", BATCH,
        encode("batch", {"ids": [None] * ROWS}, {"x": _random.normal(size=(ROWS, DIM))}),
    ),
    "wide rows as bytes": lambda: (
        "wide/predict", BATCH, encode("batch", {}, {"x": _random.normal(size=(20, 200_000))}),
    ),
    "sparse rows as bytes": lambda: (
        "wide/predict", BATCH,
        encode("batch", {}, {
            "indptr": np.arange(ROWS + 1) * 200, "indices": np.tile(np.arange(200), ROWS),
            "values": _random.normal(size=ROWS * 200),
        }),
    ),
    "rows as bytes to learn": lambda: (
        "rows/learn", BATCH,
        encode("batch", {"labels": [0, 1], "ids": [f"bytes {r}" for r in range(ROWS)]},
               {"x": _random.normal(size=(ROWS, DIM)), "y": np.arange(ROWS) % 2}),
    ),
    "a tensor": lambda: (
        "many/infer", JSON,
        json.dumps({"inputs": [{"name": "x", "datatype": "FP64", "shape": [ROWS, DIM],
                                "data": _random.normal(size=ROWS * DIM).round(6).tolist()}]}).encode(),
    ),
    "tensors of records": lambda: (
        "named/infer", JSON,
        json.dumps({"inputs": [{"name": f"name {k}", "datatype": "FP64", "shape": [ROWS],
                                "data": _random.normal(size=ROWS).round(3).tolist()} for k in range(DIM)]}).encode(),
    ),
    "tasks": lambda: (
        "studio/predict", JSON,
        json.dumps({"label_config": CHOICES, "tasks": [
            {"id": r, "data": {"x": dense(), "text": "x" * 300}} for r in range(ROWS)]}).encode(),
    ),
}  # fmt: skip
