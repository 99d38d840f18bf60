"""Make the pictures of the page in docs/pictures: each view in the light mode, in the dark mode and on a phone.

    python -m tests.page.pictures [FOLDER]

The program writes view-NAME.png for each of VIEWS, and page-accuracy.png for README.md. After a change of the page, run
the program and check the pictures. It needs chromium, as the tests of the page do.
"""

import io
import random
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from hinged import Client
from hinged.service.edge.keys import create_key
from tests.helpers.browser import ARGUMENTS, Tab, executable
from tests.helpers.payments import BODY, COSTS, stream
from tests.helpers.server import ROOT, RunningServer

MODEL = "demo-digits"
HEIGHT = 760  # height of a picture in pixels
MODES = {  # the pictures of a view, from left to right
    "light": {"viewport": {"width": 900, "height": HEIGHT}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 900, "height": HEIGHT}, "color_scheme": "dark"},
    "phone": {
        "viewport": {"width": 390, "height": HEIGHT},
        "color_scheme": "light",
        "is_mobile": True,
        "has_touch": True,
    },
}
GAP = 16  # pixels between the pictures of a view
COLOURS = 96  # colours of a picture; fewer make a smaller file, and text with ragged edges
README = {"viewport": {"width": 1180, "height": 640}, "color_scheme": "light"}
ACCURACY = {"x": 0, "y": 50, "width": 1180, "height": 490}  # the state and the chart, without the header
STREAMED = 1100
TO_LABEL = 200
BATCH = 4  # examples per request; it is small, so that the curves have many points
CLIENTS = ("web", "shop", "phone")


def digits():
    """Return the rows and labels of the digits, with pixels in [0, 1], in the order of a fixed seed."""
    from sklearn.datasets import load_digits  # noqa: PLC0415

    X, y = load_digits(return_X_y=True)
    order = list(range(len(y)))
    random.Random(0).shuffle(order)
    return [((X[k] / 16).tolist(), int(y[k])) for k in order]


def teach(client):
    """Stream the digits into a model. On the way add a challenger, change C and run a finishing step."""
    rows = digits()
    client.create_model(
        MODEL,
        kernel={"type": "rbf", "gamma": 0.05},
        C=10,
        features={"type": "dense", "dim": 64},
        show={"image": [8, 8]},
        labels={"guide": "A digit that you cannot read: skip it for everybody."},
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
    client.learn(MODEL, [{"id": f"wrong-{k}", "x": x, "y": (y + 1) % 10} for k, (x, y) in enumerate(rows[1400:1403])])


def furnish(client):
    """Make the other models of the views: orders with named columns, payments with alerts, conflicts about mails."""
    client.create_model("orders", features={"type": "named", "warmup": 60}, kernel={"type": "rbf"})
    rng = random.Random(1)
    orders = [
        {
            "channel": CLIENTS[k % 3],
            "amount": round(rng.lognormvariate(3, 1), 2),
            "days": rng.randrange(30),
            "note": f"n{k}",
        }
        for k in range(400)
    ]
    client.learn(
        "orders", [{"x": x, "y": "back" if x["days"] > 20 and x["channel"] == "web" else "kept"} for x in orders]
    )
    client.create_model("payments", **BODY, costs=COSTS, capacity={"fraud": {"most": 5, "per": "1d"}})
    client.learn_rows("payments", *stream(400))
    client.decide("payments", [{"id": f"p{k}", "x": x} for k, x in enumerate(stream(200, seed=1)[0].tolist())])
    client.create_model(
        "mails", features={"type": "named"}, kernel={"type": "rbf"}, labels={"overlap": 2, "explore": 0}
    )
    mails = [("Your invoice of May", 2, "ham"), ("You have won", 7, "spam")]
    client.learn("mails", [{"x": {"subject": s, "links": n}, "y": y} for s, n, y in mails])
    client.offer("mails", [{"id": "mail-3", "x": {"subject": "Last reminder", "links": 5}}])
    for annotator, label in (("ann", "ham"), ("bob", "spam")):
        (question,) = client.query("mails", n=1, annotator=annotator)["queries"]
        client.learn("mails", [{"id": question["id"], "y": label, "lease": question["lease"]}])
    more = [f"Offer {k}" for k in range(1, 20)]  # each tab leases some
    client.offer("mails", [{"id": subject, "x": {"subject": subject, "links": 3}} for subject in more])


def to_top(page, title):
    """Scroll to a fold. The charts above it have grown since the page scrolled to it."""
    page.get_by_role("heading", name=title, exact=True).evaluate("it => it.scrollIntoView()")


def start(tab, _mode):
    tab.open("", "table.models").get_by_role("link", name=f"{MODEL} contradicts").wait_for()


def model(tab, _mode):
    tab.open(f"models/{MODEL}", ".chart canvas").get_by_text("live", exact=True).wait_for()


def columns(tab, _mode):
    page = tab.open("models/orders/watch/columns", ".chart canvas")
    page.get_by_role("group", name="Columns").get_by_role("rowheader", name="channel").wait_for()
    to_top(page, "Columns")


def settings(tab, _mode):
    page = tab.open(f"models/{MODEL}/watch/settings", ".chart canvas")
    page.get_by_role("button", name="Change C", exact=True).wait_for()
    to_top(page, "Settings")


def decide(tab, _mode):
    tab.open("models/payments/decide", ".chart canvas").get_by_role("region", name="Alerts").wait_for()


def label(tab, mode):
    page = tab.label(MODEL, f"annotator-{mode}")
    labels = {f"unlabelled-{k - STREAMED}": label for k, (_, label) in enumerate(digits())}
    for _ in range(4):
        tab.answer(str(labels[tab.question()]))
    page.get_by_text("predictions in the pool.").wait_for()


def conflicts(tab, _mode):
    page = tab.open("models/mails/label", "form.sign-in")
    page.fill("form.sign-in input", "eve")
    page.click("text=Begin")
    page.get_by_role("region", name="Conflicts").get_by_role("button", name="spam bob").wait_for()


def suspects(tab, _mode):
    tab.open(f"models/{MODEL}/suspects", ".suspect .neighbours canvas")


def data(tab, _mode):
    page = tab.open("data", ".drop")
    lines = [f"{1 + k % 28}.5.2026;{k % 9},5;Customer {k};{CLIENTS[k % 3]};{k % 3 > 0}\n" for k in range(120)]
    body = ("day;amount;customer;channel;sent back\n" + "".join(lines)).encode()
    page.set_input_files("input[type=file]", {"name": "orders.csv", "mimeType": "text/csv", "buffer": body})
    page.get_by_role("button", name="Use customer").wait_for()


def sign_in(tab, _mode):
    page = tab.open("", "input[name=key]")
    page.fill("input[name=key]", "hinged_wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("Ask the person who sent you this address for a new key").wait_for()


def people(tab, _mode):
    page = tab.open("", "input[name=key]")
    page.fill("input[name=key]", tab.key)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="People").click()
    page.get_by_role("heading", name="each role may do").wait_for()


GUARDED = (sign_in, people)  # the views of a server with keys
VIEWS = (start, model, columns, settings, decide, label, conflicts, suspects, data, *GUARDED)


def picture(page, **options):
    page.wait_for_timeout(500)  # until charts and buttons have their widths, and the answers of the server are shown
    return Image.open(io.BytesIO(page.screenshot(**options))).convert("RGB")


def save(image, path):
    """Store a picture with few colours."""
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def beside(pictures):
    """Join pictures of one height from left to right."""
    whole = Image.new("RGB", (sum(one.width for one in pictures) + GAP * (len(pictures) - 1), HEIGHT), "#8a9591")
    at = 0
    for one in pictures:
        whole.paste(one, (at, 0))
        at += one.width + GAP
    return whole


def main(folder, look=lambda page: None):
    """Make the pictures. look: what to do with each page that is in a picture."""
    with (
        tempfile.TemporaryDirectory() as data,
        RunningServer(Path(data) / "data") as server,
        sync_playwright() as playwright,
        Client(server.url) as client,
    ):
        keys = Path(data) / "keys.json"
        for name, role in (("ann", "annotator"), ("shop", "writer")):
            create_key(keys, name, role, ("orders", "mails"))
        key = create_key(keys, "me", "admin")
        teach(client)
        furnish(client)
        browser = playwright.chromium.launch(executable_path=executable(), args=list(ARGUMENTS))

        def shot(url, show, mode, options, **clip):
            tab = Tab(browser, url, **options)
            tab.key = key
            show(tab, mode)
            taken = picture(tab.page, **clip)
            look(tab.page)
            tab.close()
            assert tab.wrong == []
            return taken

        save(shot(server.url, model, "light", README, clip=ACCURACY), folder / "page-accuracy.png")
        with RunningServer(Path(data) / "guarded", keys_file=keys) as guarded:
            for show in VIEWS:
                url = (guarded if show in GUARDED else server).url
                taken = [shot(url, show, mode, options) for mode, options in MODES.items()]
                save(beside(taken), folder / f"view-{show.__name__.replace('_', '-')}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
