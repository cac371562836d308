# SPDX-License-Identifier: Apache-2.0
"""Changes of sources that are compiled all at once, each behind a switch: a list of texts and of others in
their place, in which a word is true while the change is chosen at run time."""

import concurrent.futures
import json
import os
import shutil
import sys


def read_changes(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def changed_sources(changes, word, switch, root, owner):
    """Returns {path: text} with all changes; `switch` makes of a change the expression that stands for `word`.
    Ends at a text that does not stand in its source once."""
    texts = {}
    for one in changes:
        path = one["file"]
        if path not in texts:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                texts[path] = file.read()
        if texts[path].count(one["old"]) != 1:
            sys.exit(f"{owner}: {path} has the text of '{one['name']}' {texts[path].count(one['old'])} "
                     "times, not once")
        texts[path] = texts[path].replace(one["old"], one["new"].replace(word, switch(one)))
    return texts


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_if_changed(path, text):
    """Leaves a file that has this text as it is, with its time."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    write(path, text)


def clear_unless(folder, overlay, paths):
    """Removes all that is in `folder` if `overlay` has other files than `paths`, which would be included."""
    there = {os.path.relpath(os.path.join(parent, name), overlay)
             for parent, _, names in os.walk(overlay) for name in names}
    if there - set(paths):
        shutil.rmtree(folder)


def compile_sources(build, sources, folder, header, jobs=1):
    """Compiles every unit of `build` that is made of one of `sources`, with the text `header` before it, unless
    its object is newer than all of them. Returns {unit: object below `folder`}."""
    made_below = os.path.join(folder, "objects")
    overlay = os.path.join(made_below, "overlay")
    clear_unless(made_below, overlay, sources)
    for path, text in sources.items():
        write_if_changed(os.path.join(overlay, path), text)
    header_path = os.path.join(folder, "switch.h")
    write_if_changed(header_path, header)
    made_of = {}
    for path in sources:
        for unit in build.units_of.get(path, []):
            made_of.setdefault(unit, [header_path, build.original(unit)]).append(os.path.join(overlay, path))

    def compiled(unit):
        made = os.path.join(made_below, unit)
        if os.path.exists(made) and os.path.getmtime(made) > max(map(os.path.getmtime, made_of[unit])):
            return made
        print(f"compiles {unit}", flush=True)
        build.compile_with(unit, overlay, header_path, made)
        return made

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return dict(zip(made_of, pool.map(compiled, made_of)))
