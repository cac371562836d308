#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/bench_peers with PyTorch: bench_peers_gradients_test.py LOSSGRID [ARGUMENT...].

The bounds take what is right and nothing else, and whole runs. Ends with 77 where PyTorch cannot be
imported.
"""

import io
import json
import os
import subprocess
import sys
import unittest
from contextlib import redirect_stdout
from dataclasses import replace
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts"))

from peers.torch_python import change_to_torch

change_to_torch()

from bench_peers_parts import GOLDEN, SCRIPT, Scratch, bench_peers, lossgrid
from peers.bundle import IGNORED, BadInput, Bundle
from peers.losses import PEERS

try:
    import torch
except ImportError as error:
    print(f"skipped, PyTorch cannot be imported: {error}")
    sys.exit(77)


class Gradients(Scratch):
    def ratios(self, path, change, **declared):
        """Names of the checks that fail for eager PyTorch with `change`d loss and gradients."""
        from peers.timing import Case, Device, PeerItem
        bundle = Bundle(str(path))
        case = Case(Device(torch, "cpu"), bundle)
        item = PeerItem(PEERS[0], PEERS[0].make(torch, bundle), case)
        item.prepare(item.steps - 1)
        item.run(item.steps - 1)
        gradients = dict(zip(case.inputs, item._gradients))
        loss = item._value.detach()
        loss = change(loss, gradients, case) or loss
        declared = {"rounds_logits": bundle.hidden > 0, "chunk_adds": 0, **declared}
        checks = case.truth.check_loss(loss, declared["rounds_logits"])
        checks += case.truth.check_gradients(gradients, **declared)
        for check in checks:
            if not check["passed"] and check["worst"] is not None:
                self.assertGreater(check["beyond_bound"], 0)
        return {check["name"] for check in checks if not check["passed"]}

    def bundles(self):
        wide = self.folder / "bf16.safetensors"
        lossgrid("export", "--case",
                 "lens=40+24 mask=ragged vocab=512 hidden=64 dtype=bf16", "--out", wide)
        return [GOLDEN / f"nll_{name}.safetensors" for name in
                ("basic", "bf16_vocab_edges", "linear", "odd_vocab_offset")] + [wide]

    def test_right_ones_pass_and_wrong_ones_fail(self):
        def each(edit):
            def change(_, gradients, case):
                for name in gradients:
                    gradients[name] = edit(gradients[name].clone(), case)
            return change

        def no_last_column(gradient, case):
            if not case.bundle.hidden:
                gradient[:, -1] = 0
            elif gradient.shape[0] == case.bundle.vocab:
                gradient[-1] = 0
            return gradient

        def ignored_row(gradient, case):
            if gradient.shape[0] == case.bundle.tokens:
                gradient[case.bundle.targets.index(IGNORED)] = 1e-30
            return gradient

        def scaled(gradient, case):  # 0.4 % is invisible in one element of bf16
            return (gradient.double() * 1.004).to(gradient.dtype)

        def divided_by_all(gradient, case):
            return gradient * (case.bundle.valid_tokens / case.bundle.tokens)

        mutants = {
            "nothing": (lambda *_: None, False),
            "zero": (each(lambda gradient, _: torch.zeros_like(gradient)), True),
            "not finite": (each(lambda gradient, _: gradient / 0), True),
            "last column": (each(no_last_column), True),
            "ignored row": (each(ignored_row), True),
            "scale": (each(scaled), True),
            "denominator": (each(divided_by_all), True),
            "loss": (lambda loss, *_: loss * 1.01, True),
        }
        for path in self.bundles():
            for name, (change, is_wrong) in mutants.items():
                with self.subTest(f"{path.name}: {name}"):
                    self.assertEqual(bool(self.ratios(path, change)), is_wrong)

    def test_a_truncated_gradient_fails_where_a_rounded_one_passes(self):
        def truncated(_, gradients, case):
            dz = case.truth._rows(slice(0, case.bundle.tokens))["dz"].float()
            bits = dz.view(torch.int32) & -65536
            gradients["logits"] = bits.view(torch.float32).bfloat16()

        path = GOLDEN / "nll_bf16_vocab_edges.safetensors"
        self.assertIn("grad_logits", self.ratios(path, truncated))

    def test_rounded_logits_have_to_be_declared(self):
        path = self.folder / "large.safetensors"
        for values in ("offset", "overflow"):
            lossgrid("export", "--case", f"lens=40+24 mask=all vocab=512 hidden=64 dtype=bf16 "
                     f"values={values}", "--out", path)
            self.assertEqual(self.ratios(path, lambda *_: None), set())
            failed = self.ratios(path, lambda *_: None, rounds_logits=False)
            self.assertLessEqual({"loss", "grad_hidden", "grad_weight"}, failed)

    def test_sums_of_chunks_in_bf16_have_to_be_declared(self):
        def change(_, gradients, case):
            hidden = case.inputs["hidden"].detach().double()
            weight = case.inputs["weight"].detach().double()
            total = torch.zeros_like(gradients["weight"])
            truth = case.truth._rows(slice(0, case.bundle.tokens))["dz"]
            for row in range(case.bundle.tokens):  # a chunk each
                total += (truth[row:row + 1].T @ hidden[row:row + 1]).bfloat16()
            gradients["weight"] = total
            self.assertEqual(weight.shape, total.shape)

        path = self.bundles()[-1]
        self.assertIn("grad_weight", self.ratios(path, change))
        self.assertNotIn("grad_weight", self.ratios(path, change, chunk_adds=64))

    def test_an_expected_result_that_is_not_the_inputs_is_refused(self):
        content = bytearray((GOLDEN / "nll_basic.safetensors").read_bytes())
        bundle = Bundle(str(GOLDEN / "nll_basic.safetensors"))
        content[bundle._data + bundle._entries["expected.loss"]["data_offsets"][0] + 3] ^= 0xFF
        path = self.folder / "wrong.safetensors"
        path.write_bytes(content)
        with self.assertRaisesRegex(BadInput, "expected.loss is not what the inputs give"):
            self.ratios(path, lambda *_: None)

    def test_what_is_wrong_or_raises_is_told_and_not_timed(self):
        def make_wrong(*_):
            def loss(inputs, targets):
                return 1.01 * PEERS[0].make(torch, None)(inputs, targets)
            return loss

        def make_raising(*_):
            raise RuntimeError("no kernel\nfor this")

        path = self.folder / "peers.json"
        peers = [PEERS[0], replace(PEERS[0], name="wrong", make=make_wrong),
                 replace(PEERS[0], name="raising", make=make_raising)]
        flags = [str(GOLDEN / "nll_basic.safetensors"), "--device", "cpu", "--max-seconds", "0.05",
                 "--report", str(path)]
        with mock.patch.object(sys, "argv", ["bench_peers", *flags]):
            arguments = bench_peers.parse_arguments()
        for chosen, code in ((peers[:2], 10), (peers, 14), (peers[1:2], 10)):
            arguments.peers = chosen
            with redirect_stdout(io.StringIO()) as said:
                self.assertEqual(bench_peers.Run(arguments).go(), code)
            lossgrid("validate", path)
            report = json.loads(path.read_text())
            statuses = {trial["implementation"]: trial["status"] for trial in report["trials"]}
            self.assertEqual(statuses, {f"peer/{peer.name}": {"wrong": "failed",
                                                             "raising": "error"}.get(
                peer.name, "passed") for peer in chosen})
            self.assertLessEqual({row["implementation"] for row in report["timings"][0]["rows"]},
                                 {"peer/torch"})
            self.assertIn("skipped: peer/wrong: failed: loss: ratio", said.getvalue())
            self.assertEqual("peer/raising: error: no kernel for this" in said.getvalue(),
                             code == 14)

    def test_a_run_is_a_report(self):
        path = self.folder / "peers.json"
        ended = subprocess.run(
            [sys.executable, str(SCRIPT), str(GOLDEN / "nll_basic.safetensors"), "--device", "cpu",
             "--peers", "torch,liger", "--cache", "hot,cold", "--max-seconds", "0.05", "--report",
             str(path)], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        lossgrid("validate", path)
        report = json.loads(path.read_text())
        self.assertEqual([trial["status"] for trial in report["trials"]], ["passed", "skipped"])
        for timing in report["timings"]:
            self.assertEqual([row["phase"] for row in timing["rows"]],
                             ["forward", "backward", "forward_backward"])


if __name__ == "__main__":
    unittest.main()
