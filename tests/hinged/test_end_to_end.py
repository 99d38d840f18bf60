"""Run the commands as a user does, against a real server."""

import re
from pathlib import Path

import httpx
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from tests.helpers.command import hinged
from tests.helpers.fixtures import server_with

WIDE = {"COLUMNS": "200"}


server = server_with()


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return ((X - X.mean(axis=0)) / X.std(axis=0))[order].round(4), np.where(y[order], "benign", "malignant")


def figure(output, name):
    """Return the numbers in a line of the final table."""
    (line,) = re.findall(rf"^{name}\s+(.*)$", output, re.MULTILINE)
    return [float(v.replace(",", "")) for v in re.findall(r"[\d.,]+(?:e[+-]?\d+)?", line)]


@pytest.mark.long
def test_the_demonstration_learns_as_well_as_a_batch_svm_and_ends_cleanly(tmp_path):
    done = hinged("demo", "--no-stay", cwd=tmp_path, env=WIDE)
    _, finished, batch = figure(done.stdout, "held-out accuracy")
    assert finished > 97.0
    assert abs(finished - batch) < 1.0
    assert figure(done.stdout, "duality gap")[1] < 5.0
    assert "curl -s" in done.stdout
    assert (tmp_path / "data" / "hinged.db").exists()


def write_csv(path, X, y):
    names = ",".join(f"f{k}" for k in range(X.shape[1]))
    rows = [",".join(map(str, x)) + f",{label}" for x, label in zip(X.tolist(), y.tolist(), strict=True)]
    path.write_text("\n".join([f"{names},diagnosis", *rows]) + "\n")


def write_libsvm(path, X, y):
    rows = [
        f"{'+1' if label == 'benign' else '-1'} " + " ".join(f"{k + 1}:{v}" for k, v in enumerate(x) if v)
        for x, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    path.write_text("\n".join(rows) + "\n")


def write_npz(path, X, y):
    np.savez(path, X_train=X[:400], y_train=y[:400] == "benign", X_test=X[400:], y_test=y[400:] == "benign")


@pytest.mark.long
@pytest.mark.parametrize(("suffix", "write"), [("csv", write_csv), ("libsvm", write_libsvm), ("npz", write_npz)])
def test_replay_streams_a_file_of_each_kind_into_a_model(server, tmp_path, suffix, write):
    path = Path(tmp_path / f"cancer.{suffix}")
    write(path, *cancer())
    label = {"csv": "diagnosis", "libsvm": "ignored", "npz": "y_train"}[suffix]
    arguments = ["replay", path, "--label", label, "--model", f"cancer-{suffix}", "--url", server.url, "--C", 10]
    done = hinged(*arguments, "--batch", 20, env=WIDE)
    assert figure(done.stdout, "prequential accuracy")[0] > 90.0
    described = httpx.get(f"{server.url}/models/cancer-{suffix}").json()
    assert described["examples"] == (400 if suffix == "npz" else 569)
    assert described["support_vectors"] == figure(done.stdout, "support vectors")[-1]
    hinged(*arguments, "--no-finish")
    assert httpx.get(f"{server.url}/models/cancer-{suffix}").json()["examples"] == described["examples"]


def test_replay_without_a_server_says_how_to_start_one(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("a,b\n1,2\n")
    done = hinged("replay", path, "--label", "b", "--model", "m", "--url", "http://127.0.0.1:9", code=1)
    assert "hinged serve" in done.stderr
    assert "Traceback" not in done.stderr
