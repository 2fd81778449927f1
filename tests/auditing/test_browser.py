"""The page in a real browser: loads nothing, fits its width, can be read, printed and used by keyboard."""

import os
import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from tests.auditing.course import HOSTILE

FOUND = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
REQUIRED = "TASKSHIM_BROWSER_REQUIRED"
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MS = 240_000
WIDTHS = (360, 1280)
SCHEMES = ("light", "dark")

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(FOUND is None and REQUIRED not in os.environ, reason="there is no browser"),
]

OVERFLOWING = """() => {
  const wide = document.documentElement.scrollWidth - innerWidth;
  const out = [...document.body.querySelectorAll('*:not(.skip)')]
    .filter(one => !one.closest('.scroll') || one.matches('.scroll'))
    .filter(one => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1)
    .map(one => one.outerHTML.slice(0, 80));
  return wide > 0 ? [`${wide}px`, ...out] : out;
}"""
FOCUS = """() => {
  const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
  const name = one.getAttribute('aria-labelledby') || one.textContent;
  return {
    what: `${one.tagName} ${one.getAttribute('href')} ${name}`,
    ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
    seen: box.width > 0 && box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight,
  };
}"""


@pytest.fixture(scope="module")
def browser():
    assert FOUND is not None, f"{REQUIRED} is set, but there is no browser"
    with sync_playwright() as playwright, playwright.chromium.launch(
        executable_path=FOUND, args=QUIET
    ) as browser:  # fmt: skip
        yield browser


@pytest.fixture(scope="module")
def address(migration_page, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(migration_page, "utf-8")
    return path.as_uri()


@pytest.fixture
def opened(browser, address):
    """Open the page without a network; what it asks for or complains of fails the test."""
    contexts, asked, said = [], [], []

    def open_(width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(address)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert set(asked) == {address}
    assert said == []


def open_all(page):
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_everybody_can_read_it(opened, width, scheme):
    page = opened(width, scheme)
    open_all(page)
    found = Axe().run(page, options={"resultTypes": ["violations"]})
    assert found.violations_count == 0, found.generate_report()


def test_dark_is_dark_and_light_is_light(opened):
    shades = [
        opened(scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in SCHEMES
    ]
    assert shades == ["rgb(255, 255, 255)", "rgb(20, 21, 23)"]


@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_the_width(opened, width):
    page = opened(width)
    assert page.evaluate(OVERFLOWING) == []
    open_all(page)
    assert page.evaluate(OVERFLOWING) == []


def test_it_is_put_together_well(opened):
    page = opened()
    assert page.evaluate(
        "() => [...document.querySelectorAll('[id]')].map(one => one.id)"
        ".filter((id, at, all) => all.indexOf(id) !== at)"
    ) == []  # fmt: skip
    assert page.evaluate(
        "() => [...document.querySelectorAll('a[href^=\"#\"]')].map(one => one.getAttribute('href'))"
        ".filter(to => !document.querySelector(to))"
    ) == []  # fmt: skip
    assert page.evaluate("document.querySelectorAll('script, img, iframe, link[rel=stylesheet]').length") == 0
    assert page.locator("table").count() == page.locator("table > caption").count() > 10
    for figure in page.locator("figure svg[role=img]").all():
        assert figure.evaluate("one => one.querySelector('title').textContent.length") > 10
        assert figure.evaluate("one => one.querySelector('desc').textContent.length") > 10


def test_the_sheet_of_styles_is_the_one_that_is_allowed(opened):
    """The policy names it by its hash: if that did not fit, the page would be bare."""
    assert opened().evaluate("getComputedStyle(document.querySelector('.facts')).display") == "grid"


def test_what_is_put_in_does_not_run(browser, address):
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        page.goto(address)
        page.evaluate(
            """() => {
              const one = document.createElement('script');
              one.textContent = 'document.title = "run"';
              document.body.append(one);
            }"""
        )
        assert page.title() != "run"


def test_what_a_client_stated_is_shown_as_text(opened):
    page = opened()
    start = HOSTILE.partition("\u202e")[0]
    assert page.locator("#off table tbody th", has_text=start).count() == 1


def test_it_is_used_by_keyboard(opened):
    page = opened()
    page.keyboard.press("Tab")
    first = page.evaluate(FOCUS)
    assert first == {"what": "A #main Skip to the report", "ring": True, "seen": True}
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_every_stop_of_the_keyboard_is_seen(opened):
    page = opened()
    stops = page.evaluate(
        "() => [...document.querySelectorAll('a[href], summary, [tabindex=\"0\"]')]"
        ".filter(one => one.checkVisibility()).length"
    )
    reached = []
    for _ in range(stops):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUS))
    assert len({stop["what"] for stop in reached}) == stops > 20
    assert [stop for stop in reached if not stop["ring"] or not stop["seen"]] == []


def test_what_is_folded_opens_by_keyboard(opened):
    page = opened()
    table = page.locator("table[data-table=days]")
    assert not table.is_visible()
    page.locator("summary", has_text="day by day").first.focus()
    page.keyboard.press("Enter")
    assert table.is_visible()
    page.keyboard.press("Enter")
    assert not table.is_visible()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_is_printed_whole_and_on_white(opened, scheme):
    page = opened(scheme=scheme)
    assert page.pdf(format="A4").startswith(b"%PDF-")
    page.set_viewport_size({"width": 688, "height": 1000})  # what is left of A4 between the margins
    page.emulate_media(media="print", color_scheme=scheme)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not page.locator("nav").is_visible()
    assert page.get_by_text("the median of the slopes between any two days").is_visible()
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate(
        "() => [...document.querySelectorAll('.scroll')]"
        ".filter(one => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)"
        ".map(one => `${one.getAttribute('aria-labelledby')} ${one.scrollWidth - one.clientWidth}`)"
    ) == []  # fmt: skip
