"""Make the pictures of the page in docs/pictures from scikit-learn's digits.

    python -m tests.page.pictures [FOLDER]

The program writes page-model.png, page-accuracy.png (a part of page-model.png), page-label.png, page-start.png,
page-data.png, page-suspects.png in the dark mode, and page-phone.png. After a change of the page that they show, run
the program and check the pictures. It needs chromium, as the tests of the page do, and matplotlib.
"""

import io
import random
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from hinged import Client
from tests.helpers.browser import ARGUMENTS, Tab, executable
from tests.helpers.server import ROOT, RunningServer

MODEL = "demo-digits"
WIDTH, HEIGHT = 1180, 640
PHONE = {"width": 390, "height": 780}
COLOURS = 64  # colours of a picture; fewer make a smaller file, and text with ragged edges
# Pixels of page-model.png: the state and the chart, without the header.
ACCURACY = {"x": 0, "y": 50, "width": WIDTH, "height": 490}
STREAMED = 1100
TO_LABEL = 200
BATCH = 4  # examples per request; it is small, so that the curves have many points


def digits():
    """Return the rows and labels of the digits, with pixels in [0, 1], in the order of a fixed seed."""
    from sklearn.datasets import load_digits  # noqa: PLC0415

    X, y = load_digits(return_X_y=True)
    order = list(range(len(y)))
    random.Random(0).shuffle(order)
    return [((X[k] / 16).tolist(), int(y[k])) for k in order]


def teach(client, rows):
    """Stream the digits into a model. On the way add a challenger, change C and run a finishing step."""
    client.create_model(
        MODEL,
        kernel={"type": "rbf", "gamma": 0.05},
        C=10,
        features={"type": "dense", "dim": 64},
        show={"image": [8, 8]},
    )
    pool = rows[STREAMED : STREAMED + TO_LABEL]
    client.offer(MODEL, [{"id": f"unlabelled-{k}", "x": x} for k, (x, _) in enumerate(pool)])
    for at in range(0, STREAMED, BATCH):
        if at == 400:
            client.wait(client.change_model(MODEL, C=5.0))
            client.wait(client.challenge(MODEL, "softer", C=0.1))
        if at == 900:
            client.finish(MODEL)
        client.learn(MODEL, [{"id": f"digit-{k}", "x": rows[k][0], "y": rows[k][1]} for k in range(at, at + BATCH)])
    return {f"unlabelled-{k}": y for k, (_, y) in enumerate(pool)}


def picture_model(tab, folder):
    page = tab.open(f"models/{MODEL}", ".chart canvas")
    page.get_by_text("live", exact=True).wait_for()
    page.wait_for_timeout(500)  # until the charts have their widths
    save(page, folder / "page-model.png")
    save(page, folder / "page-accuracy.png", clip=ACCURACY)


def picture_label(tab, folder, labels):
    page = tab.label(MODEL, "ann")
    for _ in range(4):
        tab.answer(str(labels[tab.question()]))
    page.get_by_text("predictions in the pool.").wait_for()
    page.keyboard.press("w")
    page.wait_for_selector(".neighbours canvas")
    page.wait_for_timeout(500)  # until the last answer is in the list
    save(page, folder / "page-label.png")


def picture_start(tab, folder):
    page = tab.open("", "table.models")
    page.get_by_role("link", name=f"{MODEL} contradicts").wait_for()
    save(page, folder / "page-start.png")


def picture_suspects(tab, folder):
    page = tab.open(f"models/{MODEL}/suspects", ".suspect .neighbours canvas")
    page.wait_for_timeout(500)  # until the examples behind each prediction are there
    save(page, folder / "page-suspects.png")


def picture_data(tab, folder):
    page = tab.open("data", ".drop")
    lines = [f"{1 + k % 28}.5.2026,{k % 9},Customer {k},{'web' if k % 2 else 'shop'},{k % 3 > 0}\n" for k in range(120)]
    body = ("day,amount,customer,channel,sent back\n" + "".join(lines)).encode()
    page.set_input_files("input[type=file]", {"name": "orders.csv", "mimeType": "text/csv", "buffer": body})
    page.get_by_role("button", name="Use customer").wait_for()
    save(page, folder / "page-data.png")


def picture_phone(tab, folder):
    page = tab.label(MODEL, "bob")
    page.wait_for_timeout(500)  # until the buttons have their widths
    save(page, folder / "page-phone.png")


def save(page, path, **options):
    """Take a picture, and store it with few colours."""
    from PIL import Image  # noqa: PLC0415 - it comes with matplotlib

    picture = Image.open(io.BytesIO(page.screenshot(**options)))
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def main(folder):
    with (
        tempfile.TemporaryDirectory() as data,
        RunningServer(Path(data) / "data") as server,
        sync_playwright() as playwright,
        Client(server.url) as client,
    ):
        rows = digits()
        labels = teach(client, rows)
        browser = playwright.chromium.launch(executable_path=executable(), args=list(ARGUMENTS))
        wide = {"viewport": {"width": WIDTH, "height": HEIGHT}}
        light = Tab(browser, server.url, **wide, color_scheme="light")
        dark = Tab(browser, server.url, **wide, color_scheme="dark")
        phone = Tab(browser, server.url, viewport=PHONE, is_mobile=True, has_touch=True, color_scheme="light")
        picture_model(light, folder)
        picture_label(light, folder, labels)
        picture_phone(phone, folder)
        client.learn(
            MODEL, [{"id": f"wrong-{k}", "x": x, "y": (y + 1) % 10} for k, (x, y) in enumerate(rows[1400:1403])]
        )
        picture_start(light, folder)
        picture_suspects(dark, folder)
        picture_data(light, folder)
        for tab in (light, dark, phone):
            tab.close()
            assert tab.wrong == []
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
