#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the verdicts that pages of reports show at once, as page_verdict_check.py PAGES.json

PAGES.json lists pages with the facts that each has to show: {"path", "kind" of the banner, "lines" of words
that the banner has, "commands" that can be copied from it, "cells" of the summary by
"IMPLEMENTATION GRID" as [kind, text], "rows" that a click on the cell "pick" leaves of those in the
table; "drawn": the rows of a long table that are drawn at a time}. Prints problems, and ends with 1
if there are any.
"""
import colorsys
import json
import signal
import sys
from pathlib import Path

from browser import Browser, Page, texts

CELLS = """Object.fromEntries([...document.querySelectorAll('table.overview tbody tr')].flatMap(
    (row) => [...row.querySelectorAll('td')].filter((cell) => cell.querySelector('button')).map(
        (cell) => {
            const button = cell.querySelector('button');
            const glyph = button.querySelector('.glyph').textContent;
            return [row.querySelector('th').textContent + ' ' + cell.dataset.label,
                    [button.className.replace('overview-cell ', ''),
                     button.textContent.replace(glyph, ''), glyph]];
        })))"""
BACKGROUND = """getComputedStyle(document.querySelector(%s)).backgroundColor
    .match(/\\d+/g).map(Number)"""


def is_red(page, selector):
    """True for the hue of red; orange and amber are not."""
    rgb = page.value(BACKGROUND % json.dumps(selector))
    hue, _, saturation = colorsys.rgb_to_hsv(*(part / 255 for part in rgb[:3]))
    return saturation > 0.1 and min(hue, 1 - hue) < 15 / 360


def click(page, cell):
    implementation, grid = cell.rsplit(" ", 1)
    page.value(f"""[...document.querySelectorAll('table.overview tbody tr')]
        .find((row) => row.querySelector('th').textContent === {json.dumps(implementation)})
        .querySelector('td[data-label={grid}] button').click()""")


def clicks(page, expected):
    """Yields problems with the cells as filters."""
    count = "document.querySelector('#trials .count').textContent"
    pressed = "document.querySelectorAll('.overview-cell[aria-pressed=true]').length"
    everything = page.value(count)
    implementation, grid = expected["pick"].rsplit(" ", 1)
    for way_back in ("the cell again", "the toolbar"):
        click(page, expected["pick"])
        rows = page.value(texts("#trials table.data tbody tr"))
        if len(rows) != expected["rows"] or page.value(pressed) != 1:
            yield f"a click shows {len(rows)} rows with {page.value(pressed)} cells pressed"
        if not all(implementation in row and grid in row for row in rows):
            yield f"a click on {expected['pick']} shows {rows}"
        if way_back == "the cell again":
            click(page, expected["pick"])
        else:
            page.value("document.querySelector('#trials .chosen').click()")
        if page.value(count) != everything or page.value(pressed) != 0:
            yield f"{way_back} leaves {page.value(count)}"
    others = [cell for cell in expected["cells"] if cell != expected["pick"]]
    if others:  # another cell replaces the first
        click(page, expected["pick"])
        click(page, others[0])
        rows = page.value(texts("#trials table.data tbody tr"))
        if page.value(pressed) != 1 or not all(others[0].split()[0] in row for row in rows):
            yield f"a click on {others[0]} after another shows {rows}"
        click(page, others[0])


def drawn_at_a_time(page, drawn):
    """Yields problems with the parts in which a long table is drawn."""
    for parts in (1, 2):
        rows = len(page.value(texts("#trials table.data tbody tr")))
        if rows != parts * drawn:
            yield f"{rows} rows are drawn in {parts} parts"
        page.value("document.querySelector('#trials .more button').click()")


def wrong_with(page, expected):
    """Yields facts that the page does not show as expected."""
    banner = page.value("document.querySelector('.banner').className")
    if banner != "banner " + expected["kind"]:
        yield f"the class of the banner is {banner}"
    lines = page.value(texts(".banner p"))
    for line in expected["lines"]:
        if line not in lines:
            yield f"the banner does not have '{line}', but {lines}"
    commands = page.value("[...document.querySelectorAll('.banner .command code')]"
                          ".map((code) => code.innerText)")
    if commands != expected["commands"]:
        yield f"the banner offers {commands}"
    page.value("""(() => {
        window.copied = [];
        navigator.clipboard ??= {};
        navigator.clipboard.writeText = (text) => { copied.push(text); return Promise.resolve(); };
        document.querySelectorAll('.banner .command button').forEach((button) => button.click());
    })()""")
    if page.value("copied") != expected["commands"]:
        yield f"the buttons copy {page.value('copied')}"
    cells = page.value(CELLS)
    for place, (kind, text) in expected["cells"].items():
        if cells.get(place, [])[:2] != [kind, text]:
            yield f"the cell {place} is {cells.get(place)}, not {[kind, text]}"
    if not all(glyph.strip() for _, _, glyph in cells.values()):
        yield f"a cell has no glyph: {cells}"
    halted = [kind for kind, _, _ in cells.values() if kind == "halted"]
    for scheme in ("light", "dark"):
        page.show(1500, scheme)
        for selector, has_to_be in ((".banner", expected["kind"] == "bad"),
                                    (".overview-cell.halted", bool(halted))):
            if has_to_be and not is_red(page, selector):
                yield f"{selector} is not red in {scheme}"
    if expected.get("drawn"):
        yield from drawn_at_a_time(page, expected["drawn"])
    if expected.get("pick") in cells:
        yield from clicks(page, expected)


def main(pages):
    signal.alarm(240)
    browser = Browser()
    wrong = []
    try:
        for expected in json.loads(Path(pages).read_text()):
            page = Page(browser, expected["path"])
            if page.is_drawn:
                found = list(wrong_with(page, expected)) + page.messages()
            else:
                found = ["it does not draw itself", *page.messages()]
            wrong += [f"{expected['path']}: {what}" for what in found]
    finally:
        browser.close()
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
