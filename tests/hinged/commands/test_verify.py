"""`hinged verify` on the files of a real server, and after each kind of change."""

import ast
import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hinged.commands import verify as verifier
from hinged.commands.cli import cli
from hinged.commands.receipts import folded
from hinged.commands.verify import Wrong, records
from hinged.frames import decode, encode
from hinged.service.engine.transfer.exports import EXPORT
from hinged.service.model.events.receipts import EventsSealed
from hinged.service.model.receipts import GONE
from hinged.service.model.state import SNAPSHOT
from tests.faults import tampering
from tests.faults.tampering import FORGETTING, KEPT, attacks, prepared

TRIES = 400


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("evidence"))


@pytest.mark.parametrize("name", [KEPT, FORGETTING])
def test_an_export_and_its_receipts_hold_and_the_state_is_the_fold_of_the_log(evidence, name, tmp_path):
    export, receipts = evidence[name].write(tmp_path)
    found = CliRunner().invoke(cli, ["verify", str(export), str(receipts), "--key", evidence[name].key])
    assert found.exit_code == 0, found.output
    assert "receipts hold" in found.output
    assert "is the fold of the log, to the bit" in found.output


def test_the_first_step_runs_alone_and_uses_only_the_library_of_python(evidence, tmp_path):
    program = Path(verifier.__file__)
    source = program.read_text()
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert names - {"__future__", "cryptography"} <= sys.stdlib_module_names
    assert len(source.splitlines()) < 300
    export, receipts = evidence[KEPT].write(tmp_path)
    alone = tmp_path / "alone.py"
    alone.write_text(source)
    for more in (["--key"], ["--key=" + "00" * 32], [receipts], ["--fold"]):
        wrong = subprocess.run([sys.executable, "-I", alone, export, receipts, *more], capture_output=True, check=False)
        assert wrong.returncode != 0
    command = [sys.executable, "-I", alone, export, receipts, "--key", evidence[KEPT].key]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert "receipts hold" in found.stdout
    command[-1] = "00" * 32
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert found.returncode == 1
    assert found.stderr.startswith("WRONG: the newest head is signed by")


@pytest.mark.long
def test_each_change_of_an_export_or_of_receipts_is_found(evidence, tmp_path):
    found, missed = attacks(evidence, tmp_path, TRIES, random.randrange(10**9))
    assert missed == []
    assert found.keys() == {way.__name__ for way in tampering.WAYS}


def test_a_state_that_is_not_the_fold_of_the_log_is_found_by_the_second_step(evidence, tmp_path):
    case = evidence[KEPT].copied()
    facts, arrays = decode(case.events[0][2], EXPORT)
    state, parts = decode(arrays["snapshot"].tobytes(), SNAPSHOT)
    parts["answers.scores"][0] += 1e-9
    other = {"snapshot": np.frombuffer(encode(SNAPSHOT, state, parts, long=True), np.uint8)}
    case.events[0] = (0, EXPORT, encode(EXPORT, facts, other))
    export, receipts = case.write(tmp_path)
    case.verify(tmp_path)
    with pytest.raises(Wrong, match="is not the fold of the log"):
        folded(export)
    found = CliRunner().invoke(cli, ["verify", str(export), str(receipts)])
    assert found.exit_code == 1
    assert found.output.startswith("Error: the state at") or "is not the fold" in found.output


def test_a_forgotten_example_has_no_salt_and_its_commitment_stays(evidence):
    case = evidence[FORGETTING]
    seals = [EventsSealed.decoded(data) for _, kind, data in case.events if kind == EventsSealed.KIND]
    payloads = {at: payload for at, _, payload in case.events}
    for seal in seals:
        for at, (salt, commitment) in enumerate(zip(seal.salts, seal.commitments, strict=True), seal.first):
            assert (hashlib.sha256(salt + payloads[at]).digest() == commitment) == (salt != GONE)
    assert any(salt == GONE for seal in seals for salt in seal.salts)


def test_files_that_are_no_export_are_refused(evidence, tmp_path):
    export, receipts = evidence[KEPT].write(tmp_path)
    whole = export.read_bytes()
    for data in (b"", whole[:100], whole[:-1], b"hng1" + bytes(100), whole + b"x"):
        export.write_bytes(data)
        with pytest.raises(Wrong):
            verifier.verify(export, receipts)
    export.write_bytes(whole)
    for text in ("[]", "{", json.dumps({"receipts": [{}]}), json.dumps({"head": None})):
        receipts.write_text(text)
        with pytest.raises(Wrong):
            verifier.verify(export, receipts)
    assert len(list(records(export))) == len(evidence[KEPT].events)
