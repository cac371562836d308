#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/bench_peers as far as it needs no PyTorch: bench_peers_test.py LOSSGRID [ARGUMENT...].

Arguments, bundles, the sampler, reports, and a run on a machine without PyTorch, which a stub makes
of this one.
"""

import gzip
import io
import json
import os
import subprocess
import sys
import unittest
from contextlib import redirect_stderr
from unittest import mock

sys.dont_write_bytecode = True
from bench_peers_parts import GOLDEN, SCRIPT, Scratch, bench_peers, lossgrid

from peers import report as reports
from peers.bundle import IGNORED, BadInput, Bundle
from peers.losses import PEERS, chunks_of_torch
from peers.sampling import Rule, quantile, stderr_ratio_of_median, take_samples


class Arguments(unittest.TestCase):
    def refusal(self, *arguments):
        said = io.StringIO()
        with mock.patch.object(sys, "argv", ["bench_peers", *arguments]), redirect_stderr(said):
            with self.assertRaises(SystemExit) as ended:
                bench_peers.parse_arguments()
        self.assertEqual(ended.exception.code, 64)
        self.assertEqual(said.getvalue().count("\n"), 1)
        return said.getvalue()

    def test_one_line_and_64(self):
        for arguments, message in (
                ([], "BUNDLE"),
                (["b", "--device", "tpu"], "tpu"),
                (["b", "--peers", "ligr"], "--peers: unknown 'ligr'; did you mean 'liger'?"),
                (["b", "--peers", "cce,cce"], "--peers has 'cce' twice"),
                (["b", "--cache", "warm"], "--cache: unknown 'warm'"),
                (["b", "--min-samples", "1"], "--min-samples must lie in [2, 1000]"),
                (["b", "--max-seconds", "0"], "--max-seconds must lie in (0, 1e6]"),
                (["b", "--target-stderr", "1.5"], "--target-stderr in (0, 1]"),
                (["b", "--threads", "0"], "--threads must be at least 1"),
                (["b", "--beside", "r.json", "--cache", "cold"], "--beside takes cache")):
            self.assertIn(message, self.refusal(*arguments))

    def test_peers_may_have_their_prefix(self):
        with mock.patch.object(sys, "argv", ["bench_peers", "b", "--peers", "peer/cce,torch"]):
            found = bench_peers.parse_arguments()
        self.assertEqual([peer.name for peer in found.peers], ["torch", "cce"])
        self.assertEqual(found.caches, ["hot"])


class Bundles(Scratch):
    def test_targets_are_shifted_within_sequences_and_masked(self):
        for path in sorted(GOLDEN.glob("nll_*.safetensors")):
            bundle = Bundle(str(path))
            metrics = json.loads(bundle._metadata["expected_metrics"])
            self.assertEqual(bundle.valid_tokens, metrics["num_unmasked_tokens"], path.name)
            ids = bundle._numbers("input_ids")
            for row, target in enumerate(bundle.targets):
                if target != IGNORED:
                    self.assertEqual(target, ids[row + 1])
                    self.assertEqual(bundle.place(row)[0], bundle.place(row + 1)[0])
            self.assertEqual(bundle.case_text, f"bundle {path.stem}")

    def test_an_exported_case_names_itself(self):
        path = self.folder / "b.safetensors"
        lossgrid("export", "--case", "lens=5+0+8 vocab=24 hidden=4 dtype=bf16", "--out", path)
        bundle = Bundle(str(path))
        self.assertEqual(bundle.case_text, "lens=5+0+8 vocab=24 hidden=4 dtype=bf16")
        self.assertEqual((bundle.tokens, bundle.vocab, bundle.hidden, bundle.dtype),
                         (13, 24, 4, "bf16"))
        self.assertEqual(bundle.place(4), (0, 4))
        self.assertEqual(bundle.place(5), (2, 0))

    def refusal(self, content):
        path = self.folder / "bad.safetensors"
        path.write_bytes(content)
        with self.assertRaises(BadInput) as refused:
            Bundle(str(path))
        return str(refused.exception)

    def test_what_breaks_a_rule_is_named(self):
        good = (GOLDEN / "nll_basic.safetensors").read_bytes()
        length = int.from_bytes(good[:8], "little")

        def edited(old, new):
            header = good[8:8 + length].decode()
            self.assertIn(old, header)
            header = header.replace(old, new, 1).encode()
            return len(header).to_bytes(8, "little") + header + good[8 + length:]

        for content, message in (
                (b"", "0 bytes are no safetensors file"),
                (b"\xff" * 16, "a header of 18446744073709551615 bytes"),
                (good[:-8], "do not hold"),
                (edited("[40, 96]", "[40, 95]"), "do not hold F32 [40, 95]"),
                (edited("{", "["), "its header is none of safetensors"),
                (edited("lossgrid.bundle/1", "lossgrid.bundle/9"), "__metadata__.format"),
                (edited('\\"nll\\"', '\\"dpo\\"'), "the objective is not nll"),
                (edited('"logits"', '"logit"'), "tensor hidden is missing"),
                (edited('"objective"', '"global_valid_toks": "99", "objective"'),
                 "global_valid_toks = 99")):
            said = self.refusal(content)
            self.assertTrue(said.startswith(str(self.folder)), said)
            self.assertIn(message, said)
        with self.assertRaises(BadInput):
            Bundle(str(self.folder / "nowhere.safetensors"))


class FakeItem:
    """Takes so many ns on a clock of its own."""

    def __init__(self, log, name, ns):
        self._log, self._name, self._ns, self.steps = log, name, ns, len(ns)

    def prepare(self, step):
        self._log.append(("prepare", self._name, step))

    def run(self, step):
        self._log.append(("run", self._name, step))
        return self._ns[step]

    def finish(self, step):
        self._log.append(("finish", self._name, step))


class Sampling(unittest.TestCase):
    def test_statistics_are_those_of_lossgrid(self):
        z = 2.5758293035489004
        self.assertEqual(quantile([4, 1, 3, 2], 0.5), 2.5)
        self.assertEqual(quantile([10, 20, 30], 0.2), 14)
        for last, spread, middle in ((10, 9, 5.5), (25, 12, 13), (100, 25, 50.5)):
            self.assertAlmostEqual(stderr_ratio_of_median(range(1, last + 1)),
                                   spread / (2 * z) / middle)

    def sampled(self, rule, tick_ns):
        """Two items of which the first has two parts; the clock moves `tick_ns` a call."""
        log, now = [], [0]

        def clock_ns():
            now[0] += tick_ns
            return now[0]

        items = [FakeItem(log, "a", (7, 8)), FakeItem(log, "b", (9,))]
        return log, take_samples(items, rule, lambda call: call(), clock_ns)

    def test_every_round_has_everything_once(self):
        log, samples = self.sampled(Rule(min_samples=12), tick_ns=15_000_000)
        self.assertEqual(samples.by_item, [[[7] * 12, [8] * 12], [[9] * 12]])
        self.assertEqual((samples.rounds, samples.stopped_by), (12, "target"))
        self.assertEqual(samples.warm_up_rounds, 2)
        runs = [entry[1:] for entry in log if entry[0] == "run"]
        rounds = [runs[k:k + 3] for k in range(0, len(runs), 3)]
        self.assertEqual(len(rounds), 14)
        self.assertEqual({tuple(sorted(one)) for one in rounds},
                         {(("a", 0), ("a", 1), ("b", 0))})
        self.assertEqual(len({tuple(one) for one in rounds}), 2)  # in either order
        self.assertEqual([entry[0] for entry in log].count("finish"), 3)
        self.assertEqual(sum(entry[0] == "finish" for entry in log[-9:]), 3)

    def test_the_time_or_the_number_of_samples_ends_it(self):
        _, late = self.sampled(Rule(max_seconds=1), tick_ns=600_000_000)
        self.assertEqual((late.stopped_by, late.rounds), ("time_budget", 3))
        _, many = self.sampled(Rule(max_samples=5), tick_ns=30_000_000)
        self.assertEqual((many.stopped_by, many.rounds), ("most_samples", 5))


class Reports(Scratch):
    def made_rows(self, bundle, cache, slow):
        """A record of two peers as if it had been measured."""
        items = [FakeItem([], "", ()) for _ in range(2)]
        for item, peer in zip(items, PEERS):
            item.peer, item.phases, item.wrong = peer, ("forward_backward",), ""
        ceilings = [FakeItem([], "", ()) for _ in range(3)]
        for item, name in zip(ceilings, ("read", "copy", "update")):
            item.name, item.bytes, item.flops = name, 1000, 0
        samples = mock.Mock(rounds=11, warm_up_rounds=1, stopped_by="target", by_item=[
            [[1000 * factor + k for k in range(11)]] for factor in (slow, 2 * slow, 1, 1, 1)])
        record = reports.timing_record(bundle, cache, Rule(), {
            "cores": 2, "threads_per_rank": 2, "last_level_cache_bytes": 1 << 20})
        reports.fill_timing(record, bundle, items, ceilings, samples, 4)
        return record

    def test_rows_come_into_the_timings_of_lossgrid(self):
        ours, path = self.folder / "ours.json", self.folder / "b.safetensors"
        case = "lens=5+8 vocab=24"
        lossgrid("export", "--case", case, "--out", path)
        lossgrid("bench", "--case", case, "--impl", "per_sequence,fused", "--cache", "hot,cold",
                 "--max-seconds", "0.02", "--report", ours, "--quiet")
        bundle, report = Bundle(str(path)), bench_peers.read_beside(str(ours))
        places = bench_peers.places_in(str(ours), report, bundle, "cpu")
        self.assertEqual([report["timings"][k]["cache"] for k in places], ["hot", "cold"])
        theirs = report["timings"][0]
        baseline = theirs["rows"][2]
        self.assertEqual((baseline["implementation"], baseline["phase"]),
                         ("per_sequence", "forward_backward"))
        report["timings"][0] = reports.put_beside(theirs, self.made_rows(bundle, "hot", 3))
        row = report["timings"][0]["rows"][-1]
        self.assertEqual(row["implementation"], "peer/torch_compile")
        self.assertEqual(row["median_ns"], 6005)
        self.assertEqual(row["speedup"], baseline["median_ns"] / 6005)
        merged = self.folder / "all.json"
        reports.finish_report(report, 0, True)
        reports.write_report(str(merged), report)
        lossgrid("validate", merged)
        for text in (lossgrid("export", merged, "--to", "markdown"), reports.table_of(theirs)):
            for name in ("per_sequence", "fused", "peer/torch", "peer/torch_compile"):
                self.assertIn(name, text)
        with self.assertRaisesRegex(BadInput, "has rows of peers"):
            bench_peers.places_in(str(merged), report, bundle, "cpu")
        with self.assertRaisesRegex(BadInput, "it times no case 'bundle nll_basic'"):
            bench_peers.places_in(str(ours), report,
                                  Bundle(str(GOLDEN / "nll_basic.safetensors")), "cpu")

    def test_alone_speedups_are_ratios_within_rounds(self):
        record = self.made_rows(Bundle(str(GOLDEN / "nll_basic.safetensors")), "hot", 3)
        self.assertEqual([row["speedup"] for row in record["rows"]], [1.0, 3005 / 6005])
        size = 40 * 96 * 4
        self.assertEqual(record["rows"][0]["rank_bytes"], 2 * size)
        self.assertAlmostEqual(record["rows"][0]["ceiling_ratio"],
                               1005 * 2 * size / 1000 / 3005)
        self.assertEqual(record["status"], "timed")

    def test_phases_count_the_least_that_they_need(self):
        logits = mock.Mock(tokens=3, vocab=5, hidden=0)
        self.assertEqual(reports.least_work(logits, "forward", 2), (30, 0, 0))
        self.assertEqual(reports.least_work(logits, "backward", 2), (30, 30, 0))
        self.assertEqual(reports.least_work(logits, "forward_backward", 4), (60, 60, 0))
        hidden = mock.Mock(tokens=3, vocab=5, hidden=7)
        for phase, products in (("forward", 1), ("backward", 2), ("forward_backward", 3)):
            self.assertEqual(reports.least_work(hidden, phase, 2), (0, 0, products * 210))

    def test_the_ceiling_is_that_of_what_is_written(self):
        bundle = Bundle(str(GOLDEN / "nll_basic.safetensors"))
        column = [10] * 11
        ceilings = {name: (mock.Mock(bytes=1, flops=0), column)
                    for name in ("read", "copy", "update")}
        for peer, phase, ceiling in ((PEERS[0], "forward", "read"), (PEERS[0], "backward", "copy"),
                                     (PEERS[3], "forward_backward", "update")):
            row = reports.row_record(bundle, mock.Mock(peer=peer, wrong=""), phase, column,
                                     ceilings, 4)
            self.assertEqual((row["ceiling"], row["status"]), (ceiling, "unstable"))

    def test_what_is_no_report_of_timings_is_refused(self):
        path = self.folder / "r.json"
        for text in ("", "[]", "{}", '{"schema": "lossgrid.report/1"}'):
            path.write_text(text)
            with self.assertRaisesRegex(BadInput, "r.json: it is no "):
                bench_peers.read_beside(str(path))

    def test_packed_reports_are_written_and_read(self):
        path = self.folder / "r.json.gz"
        report = {"schema": "lossgrid.report/1.1", "run": {"exit_code": 0}, "timings": []}
        reports.write_report(str(path), report)
        self.assertEqual(json.loads(gzip.decompress(path.read_bytes())), report)
        self.assertEqual(bench_peers.read_beside(str(path)), report)
        path.write_bytes(path.read_bytes()[:-9])
        with self.assertRaisesRegex(BadInput, "r.json.gz: it is no JSON"):
            bench_peers.read_beside(str(path))
        report["schema"] = "lossgrid.report/1.2"
        reports.write_report(str(path), report)
        with self.assertRaisesRegex(BadInput, "it is no report with timings"):
            bench_peers.read_beside(str(path))


class WithoutPyTorch(Scratch):
    def run_script(self, *arguments):
        (self.folder / "torch.py").write_text("raise ImportError('not on this machine')\n")
        return subprocess.run([sys.executable, str(SCRIPT), *map(str, arguments)],
                              capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, "PYTHONPATH": str(self.folder)})

    def test_everything_is_skipped_and_the_report_says_why(self):
        path = self.folder / "new/peers.json"
        ended = self.run_script(GOLDEN / "nll_basic.safetensors",
                                GOLDEN / "nll_linear.safetensors", "--cache", "hot,cold",
                                "--report", path)
        reason = "PyTorch cannot be imported: not on this machine"
        self.assertEqual(ended.returncode, 77, ended.stderr)
        self.assertEqual(ended.stderr, f"bench_peers: skipped, {reason}\n")
        lossgrid("validate", path)
        report = json.loads(path.read_text())
        self.assertEqual(report["run"]["exit_code"], 77)
        self.assertEqual(report["summary"]["skipped"], 2 * len(PEERS))
        self.assertEqual({trial["reason"] for trial in report["trials"]}, {reason})
        self.assertEqual([(timing["cache"], timing["status"]) for timing in report["timings"]],
                         2 * [("hot", "skipped"), ("cold", "skipped")])
        lossgrid("html", path)
        self.assertIn(reason, lossgrid("export", path, "--to", "junit"))

    def test_bad_input_is_one_line_and_65(self):
        ended = self.run_script(GOLDEN / "dpo_sum.safetensors")
        self.assertEqual(ended.returncode, 65)
        self.assertRegex(ended.stderr, r"^bench_peers: .*dpo_sum.safetensors: the objective .*\n$")


class Chunks(unittest.TestCase):
    def test_are_those_of_the_default_of_torch(self):
        bundle = mock.Mock(tokens=8192, hidden=4096, vocab=131072)
        self.assertEqual(chunks_of_torch(bundle), 32)
        bundle = mock.Mock(tokens=768, hidden=256, vocab=4096)
        self.assertEqual(chunks_of_torch(bundle), 12)


if __name__ == "__main__":
    unittest.main()
