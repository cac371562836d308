#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens pages of reports in headless Chromium, as page_check.py FULL.html FULL.json OTHER.html...

All of them have to draw themselves without a message on the console and without a request. FULL,
which has every section, is used as well: filter, sorting, heat map, dark mode, download. The last
page is also opened with a defect that has to be noticed. Prints problems, and ends with 1 if there
are any.
"""
import base64
import gzip
import itertools
import json
import re
import signal
import sys
from pathlib import Path

from browser import Browser, Page, texts


def facts(path):
    """Returns the facts that a page has beside its report."""
    packed = re.search(r'id="context-data"[^>]*>([^<]*)<', Path(path).read_text())
    return json.loads(gzip.decompress(base64.b64decode(packed.group(1))))


def missing_numbers(page, report, columns):
    """Yields numbers of timed rows without a column, and columns that are empty."""
    heads = page.value(texts("#timings table.data th"))
    rows = [row for timing in report["timings"] for row in timing["rows"]]
    if not columns or "median" not in heads:
        yield f"the timings have the columns {heads} for {columns}"
    for column in columns:
        is_known = any(row.get(column["key"]) is not None for row in rows)
        if is_known != (column["title"] in heads):
            yield f"the timings have the columns {heads} for {column}"


def use(page, report):
    """Yields problems in the use of the page."""
    rows = texts("#trials table.data tbody tr")
    counts = texts("#trials .count")

    def search(words):
        page.value(f"""(() => {{
            const field = document.querySelector('#trials input[type=search]');
            field.value = {json.dumps(words)};
            field.dispatchEvent(new Event('input'));
        }})()""")
        return page.value(rows)

    total = len(report["trials"])
    found = search("CP_LOCAL skipped")
    wanted = [t for t in report["trials"]
              if t["implementation"] == "cp_local" and t["status"] == "skipped"]
    if not wanted or len(found) != len(wanted) or not all("skipped" in row for row in found):
        yield f"the filter shows {found}"
    if page.value(counts) != [f"{len(wanted)} of {total} rows"]:
        yield f"the filter counts {page.value(counts)}"
    if search("nothing has this") != [] or len(search("")) != total:
        yield "the filter does not empty and fill the table"

    page.value("document.querySelector('#verdict button.tile').click()")  # the worst status
    if not 0 < len(page.value(rows)) < total:
        yield "a tile of the verdict does not filter"
    page.value("""(() => {
        const status = document.querySelector('#trials select');
        status.value = '';
        status.dispatchEvent(new Event('change'));
        [...document.querySelectorAll('#trials table.data th button')]
            .find((b) => b.textContent === 'grid').click();
    })()""")
    grids = page.value(texts("#trials table.data tbody td:nth-child(3)"))
    order = page.value("document.querySelector('#trials table.data th:nth-child(3)').ariaSort")
    if len(set(grids)) < 2 or grids != sorted(grids) or order != "ascending":
        yield f"sorted by grid ({order}): {grids}"
    page.value("document.querySelectorAll('#trials .opener').forEach((b) => b.click())")
    if len(page.value(texts("#trials article"))) != total:
        yield "not every row opens"
    page.value("document.querySelectorAll('#trials .toolbar input[type=checkbox]')"
               ".forEach((box) => box.click())")
    if not 0 < len(page.value(rows)) < total:
        yield "grids do not fold"

    heat = texts("#grids td.heat")
    seen = [page.value(heat)]
    for button in range(1, page.value("document.querySelectorAll('#grids .toggle button').length")):
        page.value(f"document.querySelectorAll('#grids .toggle button')[{button}].click()")
        seen.append(page.value(heat))
    if len(seen) < 4 or any(a == b for a, b in itertools.combinations(seen, 2)):
        yield f"the heat map shows {seen}"

    theme = ("[document.documentElement.dataset.theme, "
             "getComputedStyle(document.body).backgroundColor]")
    themes = []
    for scheme in ("light", "dark"):
        page.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.wait_for(f"document.documentElement.dataset.theme === '{scheme}'", seconds=5)
        themes.append(page.value(theme))
    page.value("document.getElementById('theme').click()")  # light, whatever the system prefers
    themes.append(page.value(theme))
    light, dark, chosen = themes
    if dark[0] != "dark" or dark[1] == light[1] or chosen != light:
        yield f"light, dark and chosen light are {themes}"

    blank = page.value("""[...document.querySelectorAll('canvas')].filter((canvas) =>
        !canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)
    ).map((canvas) => canvas.ariaLabel)""")
    if blank:
        yield f"nothing is drawn in {blank}"
    page.value("""(() => {
        URL.createObjectURL = (blob) => { window.offered = blob.text(); return 'about:blank#'; };
        HTMLAnchorElement.prototype.click = () => {};
        document.getElementById('download').click();
    })()""")
    page.wait_for("window.offered !== undefined")
    if json.loads(page.value("window.offered")) != report:
        yield "the download is not the report"
    if page.value("document.images.length + (window.hacked ? 1 : 0)") != 0:
        yield "text of the report became an element"
    page.value("document.querySelectorAll('#trials input[type=checkbox]')[0].click()")
    if not any("<img" in row for row in search("<img")):
        yield "hostile text is not shown"
    search("")


SPOILERS = {
    "an error": "throw new Error('planted');",
    "a message": "console.error('planted');",
    "a request": "fetch('http://127.0.0.1:9/');",
    "an image": "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/'}));",
    "a handler": "document.body.insertAdjacentHTML('beforeend', '<p onclick=\"x()\">');",
}


def main(full, full_report, *others):
    signal.alarm(240)
    browser = Browser()
    wrong = []
    try:
        for path in (full, *others):
            page = Page(browser, path)
            if not page.is_drawn:
                wrong.append(f"{path}: it does not draw itself")
            if path == full and page.is_drawn:
                report = json.loads(Path(full_report).read_text())
                found = [*missing_numbers(page, report, facts(path)["number_columns"]),
                         *use(page, report)]
                wrong += [f"{path}: {what}" for what in found]
            wrong += [f"{path}: {message}" for message in page.messages()]
        for name, script in SPOILERS.items():
            spoilt = Path(full).with_name("spoilt.html")
            spoilt.write_text(Path(others[-1]).read_text().replace(
                "</body>", f'<script nonce="lossgrid">{script}</script></body>'))
            page = Page(browser, spoilt)
            page.wait_for("false", seconds=2)
            if not page.messages():
                wrong.append(f"{name} in a page goes unnoticed")
    finally:
        browser.close()
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
