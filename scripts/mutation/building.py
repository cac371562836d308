# SPDX-License-Identifier: Apache-2.0
"""A build of a copy of the sources in which single objects are replaced: a mutant costs the compilation
of its unit and the links of the programs that are run."""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys


class DoesNotCompile(Exception):
    pass


class Build:
    """`folder`/source is the copy, `folder`/build what CMake makes of it."""

    def __init__(self, root, folder, configure):
        self.source = os.path.join(folder, "source")
        self.build = os.path.join(folder, "build")
        self.configure_options = configure
        self._copy(root, folder)

    def _copy(self, root, folder):
        """Brings the copy up to date; files that did not change keep their times."""
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root,
                                capture_output=True, text=True, check=True).stdout
        paths = {path for path in listed.split("\0") if os.path.isfile(os.path.join(root, path))}
        for path in paths:
            old, new = os.path.join(root, path), os.path.join(self.source, path)
            if not os.path.exists(new) or _content(old) != _content(new):
                os.makedirs(os.path.dirname(new), exist_ok=True)
                shutil.copy(old, new)
        for path in _files_below(self.source):
            if path not in paths:
                os.remove(os.path.join(self.source, path))

    def make(self, programs, log):
        """Builds the original programs and reads how it was done."""
        with open(log, "w", encoding="utf-8") as file:
            for command in (["cmake", *self.configure_options, "-B", self.build],
                            ["cmake", "--build", self.build, "--target", *programs]):
                if subprocess.run(command, cwd=self.source, stdout=file, stderr=file).returncode != 0:
                    sys.exit(f"mutate: the sources do not build: {log}")
        self.read(programs)

    def read(self, programs):
        """Reads how programs were built."""
        with open(os.path.join(self.build, "compile_commands.json"), encoding="utf-8") as file:
            entries = json.load(file)
        self.commands = {self._object(entry): entry for entry in entries}
        self.links = {program: self._link(program) for program in programs}
        self.linked = {program: self._linked_objects(program) for program in programs}
        self.units_of = self._read_dependencies(set().union(*self.linked.values()))

    def _object(self, entry):
        words = shlex.split(entry["command"])
        return words[words.index("-o") + 1]

    def _ninja(self, *arguments):
        return subprocess.run(["ninja", "-C", self.build, *arguments], capture_output=True, text=True,
                              check=True).stdout

    def _link(self, program):
        """Returns the words of a program's link command, without the shell's."""
        lines = [line for line in self._ninja("-t", "commands", program).splitlines() if " -o " in line]
        words = shlex.split(lines[-1].replace(": && ", "", 1).removesuffix(" && :"))
        return words

    def _linked_objects(self, program):
        """Returns the objects of a program and of the libraries that it links."""
        return {line.split(":")[0].strip() for line in self._ninja("-t", "inputs", program).splitlines()
                if line.endswith(".o")}

    def _read_dependencies(self, linked):
        """Returns the objects of programs that are made of a source: {path in the repository: [object]}."""
        units, current = {}, None
        for line in self._ninja("-t", "deps").splitlines():
            if line and not line.startswith(" "):
                current = line.split(":")[0]
            elif line and current in linked:
                path = os.path.realpath(os.path.join(self.build, line.strip()))
                if path.startswith(self.source + os.sep):
                    units.setdefault(os.path.relpath(path, self.source), []).append(current)
        return units

    def original(self, unit):
        return os.path.join(self.build, unit)

    def program(self, name):
        words = self.links[name]
        return os.path.join(self.build, words[words.index("-o") + 1])

    def compile(self, unit, overlay, made):
        """Compiles a unit to `made` with the files of `overlay` in the place of those of the copy, which
        are included by their paths from the root."""
        entry = self.commands[unit]
        words = shlex.split(entry["command"])
        path = os.path.relpath(entry["file"], self.source)
        replaced = os.path.join(overlay, path)
        words[words.index("-o") + 1] = made
        if os.path.exists(replaced):
            words = [replaced if word == entry["file"] else word for word in words]
        first_flag = next(k for k, word in enumerate(words) if word.startswith("-"))
        words[first_flag:first_flag] = ["-I" + overlay, f"-ffile-prefix-map={overlay}={self.source}"]
        os.makedirs(os.path.dirname(made), exist_ok=True)
        ended = subprocess.run(words, cwd=entry["directory"], capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            errors = [line for line in ended.stderr.splitlines() if "error:" in line]
            raise DoesNotCompile((errors or [ended.stderr])[0].partition("error:")[2].strip())

    def link(self, program, replaced, made):
        """Links a program with objects of `replaced`, {unit: path}, in the place of the original ones.
        Returns False if it has none of them."""
        replaced = {unit: path for unit, path in replaced.items() if unit in self.linked[program]}
        if not replaced:
            return False
        words = [replaced.get(word, word) for word in self.links[program]]
        words[words.index("-o") + 1] = made
        # An object that stands before the archives is taken instead of the one in them.
        inside = [path for unit, path in replaced.items() if path not in words]
        first_object = next(k for k, word in enumerate(words) if word.endswith(".o"))
        words[first_object:first_object] = inside
        subprocess.run(words, cwd=self.build, check=True)
        return True


class BuiltTree(Build):
    """A build that is there, of the sources themselves: nothing in it is changed. Its objects may be made
    of several sources (unity builds)."""

    def __init__(self, root, build, programs):
        self.source = root
        self.build = build
        self.read(programs)

    def compile_with(self, unit, overlay, header, made):
        """Compiles a unit to `made` with the sources and headers of `overlay` in the place of those of the tree,
        and `header` before them."""
        entry = self.commands[unit]
        with open(entry["file"], encoding="utf-8") as file:
            text = original = file.read()
        for path in _files_below(overlay):
            text = text.replace(f'"{os.path.join(self.source, path)}"', f'"{os.path.join(overlay, path)}"')
        own = os.path.join(overlay, os.path.relpath(entry["file"], self.source))
        if not os.path.exists(own) and text == original:  # headers alone change; it may include others beside it
            own = entry["file"]
        elif not os.path.exists(own):
            own = made + ".cpp"
            os.makedirs(os.path.dirname(made), exist_ok=True)
            with open(own, "w", encoding="utf-8") as file:
                file.write(text)
        words = [own if word == entry["file"] else word for word in shlex.split(entry["command"])]
        words[words.index("-o") + 1] = made
        first_flag = next(k for k, word in enumerate(words) if word.startswith("-"))
        words[first_flag:first_flag] = ["-I" + overlay]
        os.makedirs(os.path.dirname(made), exist_ok=True)
        ended = subprocess.run([*words, "-Wno-error", "-include", header], cwd=entry["directory"], capture_output=True,
                               text=True, check=False)
        if ended.returncode != 0:
            raise DoesNotCompile(ended.stderr)


def digest(*paths):
    """Returns a number of the contents of files."""
    return hashlib.sha256(b"".join(map(_content, paths))).hexdigest()[:16]


def same_content(one, other):
    return _content(one) == _content(other)


def _content(path):
    with open(path, "rb") as file:
        return file.read()


def _files_below(folder):
    return [os.path.relpath(os.path.join(parent, name), folder)
            for parent, _, names in os.walk(folder) for name in names]
