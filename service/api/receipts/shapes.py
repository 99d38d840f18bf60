"""Examples of the answers of the routes for receipts."""

_HEAD = {
    "origin": "hinged/weather/5f3c1b7a90d24e6f8a1b2c3d4e5f6071",
    "size": 2,
    "root": "83830744ad025c1cbe695f2b9fe55ff67b107aabdb586dedec764fc2db67e25b",
    "at_ms": 1_777_636_800_000,
    "key": None,
    "signature": None,
}
RECEIPT = {
    "position": 2,
    "kind": "learned",
    "digest": "60d1cf3f80951c6c64f7894e71a6fbb831be535ccf35da22cb868289f8399ab5",
    "index": 1,
    "path": ["eeb84ef8a753b38cf8118c357cfdf5ebd9c04dd75112d90ad387d14dfad4d5fc"],
    "head": _HEAD,
}
HEADED = {"model": "weather", "position": 3, "head": _HEAD}
PROVED = {"model": "weather", "position": 3, "head": _HEAD, "receipts": [RECEIPT]}
