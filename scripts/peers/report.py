# SPDX-License-Identifier: Apache-2.0
"""Rows, trials and the report (reports/schema/report-1.schema.json) as lossgrid writes them."""

import gzip
import json
import os
import platform
import zlib
from datetime import datetime, timezone

from peers.sampling import FEWEST_DISTINCT, median, quantile, stderr_ratio_of_median

STATUSES = ("passed", "failed", "skipped", "error", "timeout", "crashed", "out_of_memory",
            "not_run")
TIMING_STATUSES = ("timed", "skipped", "unstable", "above_ceiling", "failed", "timeout", "error",
                   "crashed", "out_of_memory")
GRID = "tp1cp1"


def utc_now():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def summary_of(samples_ns):
    return {"samples_ns": samples_ns, "median_ns": round(median(samples_ns)),
            "p20_ns": round(quantile(samples_ns, 0.2)), "p80_ns": round(quantile(samples_ns, 0.8)),
            "stderr_ratio": stderr_ratio_of_median(samples_ns)}


def median_of_ratios(above, below):
    return median([a / b for a, b in zip(above, below)])


# Trials -------------------------------------------------------------------------------------------

def trial_record(bundle, implementation, device, status, reason, checks=(), details=None,
                 reproduce=""):
    return {
        "id": f"{bundle.case_text}|{GRID}|{implementation}|{device}",
        "case": {"name": bundle.name, "parameters": parameters_of(bundle)},
        "grid": {"tp": 1, "cp": 1, "dp": 1, "pp": 1, "sp": False},
        "implementation": implementation, "details": details or {}, "backend": device,
        "transport": "thread", "status": status, "reason": reason, "first_failed_rank": None,
        "rank_states": [],
        "batch": {"tokens": bundle.tokens, "padded_tokens": bundle.tokens,
                  "valid_tokens": bundle.valid_tokens, "microbatches": 1},
        "chunks": 0, "metrics": {}, "metric_reductions": {}, "branches": {},
        "checks": list(checks), "relative_l2": {}, "invariants": [], "determinism": [],
        "memory": [], "communication": [], "times": [], "fingerprints": {},
        "reproduce": reproduce,
    }


def parameters_of(bundle):
    if bundle.case_text.startswith("bundle "):
        return {"bundle": bundle.name}
    return dict(word.split("=", 1) for word in bundle.case_text.split(" "))


# Timings ------------------------------------------------------------------------------------------

def ceiling_record(item, samples_ns):
    out = {"name": item.name, **summary_of(samples_ns)}
    out["rank_bytes"], out["rank_flops"] = item.bytes or None, item.flops or None
    out["rate_per_second"] = (item.bytes + item.flops) / (out["median_ns"] * 1e-9)
    return out


def least_work(bundle, phase, element_bytes):
    """(bytes read, bytes written, operations) that a phase needs at the least: logits are read once
    and their gradient is written once; of the three products of an LM head forward has one."""
    if bundle.hidden:
        products = {"forward": 1, "backward": 2, "forward_backward": 3}[phase]
        return 0, 0, products * 2 * bundle.tokens * bundle.hidden * bundle.vocab
    size = bundle.tokens * bundle.vocab * element_bytes
    return size, 0 if phase == "forward" else size, 0


def row_record(bundle, item, phase, samples_ns, ceilings, element_bytes):
    """`ceilings`: (item, samples) by name, of the same rounds."""
    read, written, flops = least_work(bundle, phase, element_bytes)
    if bundle.hidden:
        name, per_round = "gemm", [min(ns * flops / c.flops for (c, _), ns in zip(
            ceilings.values(), column)) for column in zip(*(s for _, s in ceilings.values()))]
    else:
        name = "read" if not written else "update" if item.peer.writes_logits else "copy"
        ceiling, column = ceilings[name]
        per_round = [ns * (read + written) / ceiling.bytes for ns in column]
    out = {"implementation": f"peer/{item.peer.name}", "phase": phase, "status": "timed",
           "reason": "", **summary_of(samples_ns)}
    seconds = out["median_ns"] * 1e-9
    distinct = len(set(samples_ns))
    if item.wrong:
        out["status"] = "failed"
        out["reason"] = "outputs of the last timed iteration: " + item.wrong
    elif distinct < FEWEST_DISTINCT:
        out["status"] = "unstable"
        out["reason"] = f"{distinct} distinct samples, fewer than {FEWEST_DISTINCT}"
    out.update({
        "speedup": None, "rank_bytes": read + written or None, "rank_flops": flops or None,
        "bytes_per_second": (read + written) / seconds if read else None,
        "flops_per_second": flops / seconds if flops else None,
        "useful_flops_per_second":
            flops / seconds if flops and phase == "forward_backward" else None,
        "tokens_per_second": bundle.tokens / seconds, "ceiling": name,
        "ceiling_ratio": median_of_ratios(per_round, samples_ns), "ceiling_judged": False,
        "communication_ratio": 0.0,
        "rank_times": [{"rank": 0, "median_ns": out["median_ns"], "communication_ns": 0,
                        "kernel_ns": out["median_ns"], "samples_ns": samples_ns,
                        "communication_samples_ns": [0] * len(samples_ns)}],
        "straggler": None})
    return out


def timing_record(bundle, cache, rule, about_device):
    """Without rows, skipped. `about_device`: cores, threads_per_rank, last_level_cache_bytes."""
    return {
        "case": {"name": bundle.name, "text": bundle.case_text}, "grid": GRID, "cache": cache,
        "baseline": "peer/torch", "no_speedup_reason": "", "status": "skipped",
        "reason": "no peer can be timed", "representative": True, "representative_reason": "",
        **about_device, "order_seed": rule.order_seed, "min_samples": rule.min_samples,
        "max_seconds": rule.max_seconds, "target_stderr_ratio": rule.target_stderr,
        "warm_up_rounds": 0, "rounds": 0, "stopped_by": None, "tokens": bundle.tokens,
        "useful_flops": 6.0 * bundle.tokens * bundle.hidden * bundle.vocab, "rows": [],
        "skipped": [], "ceilings": [], "ceiling_details": "", "all_reduce": []}


def fill_timing(record, bundle, items, ceiling_items, samples, element_bytes):
    columns = samples.by_item
    ceilings = {item.name: (item, steps[0])
                for item, steps in zip(ceiling_items, columns[len(items):])}
    record.update({"warm_up_rounds": samples.warm_up_rounds, "rounds": samples.rounds,
                   "stopped_by": samples.stopped_by, "ceiling_details": "PyTorch's",
                   "ceilings": [ceiling_record(*pair) for pair in ceilings.values()]})
    for item, steps in zip(items, columns):
        for phase, column in zip(item.phases, steps):
            record["rows"].append(
                row_record(bundle, item, phase, column, ceilings, element_bytes))
    baseline = {row["phase"]: row["samples_ns"] for row in record["rows"]
                if row["implementation"] == record["baseline"]}
    for row in record["rows"]:
        if row["phase"] in baseline:
            row["speedup"] = median_of_ratios(baseline[row["phase"]], row["samples_ns"])
    if not baseline:
        record["no_speedup_reason"] = f"{record['baseline']} was not timed"
    take_status(record)


def take_status(record):
    """That of the worst row."""
    worst = max(record["rows"], key=lambda row: TIMING_STATUSES.index(row["status"]))
    record["status"] = worst["status"]
    record["reason"] = "" if worst["status"] == "timed" else (
        f"{worst['implementation']} {worst['phase']}: {worst['reason']}")


def put_beside(theirs, ours):
    """Rows of peers into the record of lossgrid for the same case, grid and cache. Speed-ups are
    over its baseline: ratios of medians of two processes; shares of ceilings stay those of the
    peers' own rounds."""
    theirs["skipped"] += ours["skipped"]
    if not ours["rows"]:
        return theirs
    if not theirs["rows"]:  # lossgrid could not time it
        ours["skipped"] = theirs["skipped"]
        return ours
    baseline = {row["phase"]: row["median_ns"] for row in theirs["rows"]
                if row["implementation"] == theirs["baseline"]}
    for row in ours["rows"]:
        row["speedup"] = (baseline[row["phase"]] / row["median_ns"]
                          if row["phase"] in baseline else None)
    rates = ", ".join(f"{c['name']} {c['rate_per_second'] / 1e9:.4g} G/s" for c in ours["ceilings"])
    theirs["ceiling_details"] += (
        f"; peer/ in a process of their own, {ours['rounds']} rounds, beside PyTorch's: {rates}")
    theirs["rows"] += ours["rows"]
    take_status(theirs)
    return theirs


# The report ---------------------------------------------------------------------------------------

VERSIONS = ("lossgrid.report/1", "lossgrid.report/1.1")


def read_text(path):
    """Of a report, unpacked if it begins as gzip does. Raises OSError, and ValueError for what is
    damaged or no UTF-8."""
    with open(path, "rb") as file:
        data = file.read()
    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"it is a damaged gzip file: {error}") from error
    return data.decode("utf-8")


def proc_value(path, key):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(key):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return ""


def environment(libraries):
    """`libraries`: versions by name, "gpu" among them."""
    memory = proc_value("/proc/meminfo", "MemTotal").split(" ")[0]
    return {"tool": {}, "peers": libraries,
            "host": {"cpu_model": proc_value("/proc/cpuinfo", "model name"),
                     "cpus": os.cpu_count() or 1, "memory_total_bytes": int(memory or 0) * 1024,
                     "kernel": platform.release(), "architecture": platform.machine()},
            "variables": {name: os.environ[name] for name in ("OMP_NUM_THREADS",)
                          if name in os.environ}}


def new_report(arguments, started, libraries):
    return {"schema": "lossgrid.report/1",
            "run": {"command": "bench", "arguments": arguments, "suite": "", "started_utc": started,
                    "ended_utc": None, "status": "complete", "exit_code": 0, "stages_ns": None},
            "environment": environment(libraries), "summary": {}, "trials": [],
            "tables": {"grad_weight_error_by_chunks": [], "peak_memory": []},
            "timings": [], "meter": []}


def finish_report(report, exit_code, complete):
    report["run"]["status"] = "complete" if complete else "partial"
    report["run"]["ended_utc"] = utc_now()
    report["run"]["exit_code"] = exit_code
    report["summary"] = {"trials": len(report["trials"]),
                         **{status: sum(trial["status"] == status for trial in report["trials"])
                            for status in STATUSES}}


def write_report(path, report):
    data = (json.dumps(report, indent=1, allow_nan=False) + "\n").encode("utf-8")
    temporary = f"{path}.{os.getpid()}.tmp"
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    try:
        with open(temporary, "wb") as file:
            file.write(gzip.compress(data, mtime=0) if str(path).endswith(".gz") else data)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


def table_of(record):
    """The rows as `lossgrid bench` prints them."""
    products = record["useful_flops"] > 0
    lines = [("implementation", "phase", "median ms", "p20..p80", "n",
              "GFLOP/s" if products else "GB/s", "ceiling", "speedup")]

    def ms(ns):
        digits = 3 if ns < 10e6 else 2 if ns < 100e6 else 1 if ns < 1000e6 else 0
        return f"{ns / 1e6:.{digits}f}"

    short = {"forward": "fwd", "backward": "bwd", "forward_backward": "both"}
    for row in record["rows"]:
        rate = row["flops_per_second" if products else "bytes_per_second"]
        lines.append((
            row["implementation"], short[row["phase"]], ms(row["median_ns"]),
            f"{ms(row['p20_ns'])}..{ms(row['p80_ns'])}", str(len(row["samples_ns"])),
            f"{rate / 1e9:.1f}" if rate else "-",
            f"{row['ceiling_ratio']:.0%} {row['ceiling']}" if row["ceiling_ratio"] else "-",
            f"{row['speedup']:.2f}x" if row["speedup"] else "-"))
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    text = f"{record['case']['text']}\n  on {record['grid']}, cache {record['cache']}"
    text += f", speedup over {record['baseline']}\n" if record["rows"] else (
        f": {record['status']}: {record['reason']}\n")
    for line in lines if record["rows"] else ():
        cells = [cell.ljust(width) if k < 2 else cell.rjust(width)
                 for k, (cell, width) in enumerate(zip(line, widths))]
        text += "  " + "  ".join(cells).rstrip() + "\n"
    for skipped in record["skipped"]:
        text += f"  skipped: {skipped['implementation']}: {skipped['reason']}\n"
    return text
