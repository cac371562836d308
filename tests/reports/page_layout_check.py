#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows pages of reports in narrow and wide windows, light and dark, as
page_layout_check.py PAGE.html...

Nothing may be cut off or scroll sideways: not the page, and nothing in it, with the details of its
rows closed and open. Prints elements that are, and ends with 1 if there are any.
"""
import signal
import sys

from browser import Browser, Page

WIDTHS = (1500, 420)
SCHEMES = ("light", "dark")

# A control scrolls its own text, and a chart is drawn into the box that it gets.
TOO_WIDE = """(() => {
    const right = document.documentElement.clientWidth;
    const wide = [];
    if (document.documentElement.scrollWidth > right) wide.push('the page');
    for (const node of document.querySelectorAll('body *')) {
        if (['SELECT', 'OPTION', 'INPUT', 'CANVAS'].includes(node.tagName)) continue;
        const box = node.getBoundingClientRect();
        const style = getComputedStyle(node);
        const name = `${node.tagName}.${node.className} "${node.textContent.slice(0, 30)}"`;
        if (box.width > 0 && (box.right > right + 0.5 || box.left < -0.5)) {
            wide.push(name + ' from ' + box.left + ' to ' + box.right);
        } else if (style.overflowX !== 'visible' && node.scrollWidth > node.clientWidth + 1) {
            wide.push(name + ' scrolls or cuts ' + node.scrollWidth + ' in ' + node.clientWidth);
        } else if (style.display !== 'inline' && node.clientWidth > 0 &&
                   node.scrollWidth > node.clientWidth + 1) {
            wide.push(name + ' is wider than its box');
        }
    }
    return wide;
})()"""

OPEN_ALL = """(() => {
    document.querySelectorAll('.opener[aria-expanded=false]').forEach((button) => button.click());
    document.querySelectorAll('details').forEach((details) => { details.open = true; });
})()"""


def too_wide(page):
    """Yields elements that do not fit, by window."""
    for opened in (False, True):
        if opened:
            page.value(OPEN_ALL)
        for width in WIDTHS:
            for scheme in SCHEMES:
                page.show(width, scheme)
                found = page.value(TOO_WIDE)
                if found:
                    yield (f"{width} px, {scheme}, {'open' if opened else 'closed'}: "
                           f"{len(found)} do not fit: {'; '.join(found[-5:])}")


def main(*paths):
    signal.alarm(240)
    browser = Browser()
    wrong = []
    try:
        for path in paths:
            page = Page(browser, path)
            if not page.is_drawn:
                wrong.append(f"{path}: it does not draw itself")
                continue
            wrong += [f"{path}: {what}" for what in too_wide(page)]
            wrong += [f"{path}: {message}" for message in page.messages()]
    finally:
        browser.close()
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
