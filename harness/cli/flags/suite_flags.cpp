// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/flags/suite_flags.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "harness/cli/command.h"
#include "harness/cli/flags/cases_flag.h"
#include "harness/cli/flags/machine_flag.h"
#include "harness/cli/flags/rank_limit.h"
#include "harness/cli/flags/trial_choice.h"
#include "harness/cli/session.h"
#include "harness/core/text.h"
#include "harness/loss/registry.h"
#include "harness/runner/rank/trial_setup.h"
#include "harness/runner/run.h"

namespace lossgrid {
namespace {

std::vector<CaseSpec> with_seeds(const std::vector<CaseSpec>& cases, int seeds) {
  std::vector<CaseSpec> all;
  for (int k = 0; k < seeds; ++k) {
    for (CaseSpec spec : cases) {
      spec.seed += static_cast<std::uint64_t>(k);
      if (k > 0) spec.name += fmt::format(" seed={}", spec.seed);
      all.push_back(spec);
    }
  }
  return all;
}

/// Returns the default implementations of cases without a suite.
const std::vector<std::string>& implementations_for(const std::vector<CaseSpec>& cases) {
  return default_implementations(std::all_of(cases.begin(), cases.end(),
                                             [](const CaseSpec& spec) { return spec.hidden > 0; }));
}

/// Splits a suite with cases both from logits and from hidden states in two, so that an
/// implementation that takes one kind of cases has no trials with the other kind.
std::vector<Suite> split_by_inputs(const std::vector<Suite>& suites) {
  std::vector<Suite> out;
  for (const Suite& suite : suites) {
    Suite parts[] = {suite, suite};  // from logits, from hidden states
    for (const bool hidden : {false, true}) {
      std::erase_if(parts[hidden].cases,
                    [&](const CaseSpec& spec) { return (spec.hidden > 0) != hidden; });
      std::erase_if(parts[hidden].implementations, [&](const std::string& name) {
        return inputs_mismatch(*make_implementation(name), hidden).has_value();
      });
    }
    if (parts[0].cases.empty() || parts[1].cases.empty()) {
      out.push_back(suite);
      continue;
    }
    for (Suite& part : parts) {
      if (!part.implementations.empty()) out.push_back(std::move(part));
    }
  }
  return out;
}

TimingRequest requested_timing(const TimingFlags& flags, const Suite& suite) {
  TimingRequest timing = suite.timing.value_or(TimingRequest{});
  timing.implementations = suite.implementations;
  if (!flags.caches.empty()) {
    timing.caches.clear();
    for (const std::string& text : parse_list(flags.caches)) {
      const CacheMode cache = parse_cache_mode(text, "--cache");
      if (std::find(timing.caches.begin(), timing.caches.end(), cache) != timing.caches.end()) {
        throw_bad_input("--cache has '{}' twice", text);
      }
      timing.caches.push_back(cache);
    }
  }
  const auto among = [&](const std::string& name) {
    return std::find(suite.implementations.begin(), suite.implementations.end(), name) !=
           suite.implementations.end();
  };
  if (!flags.baseline.empty()) {
    if (!among(flags.baseline)) {
      throw_bad_input("--baseline {} is not among the implementations", flags.baseline);
    }
    timing.baseline = flags.baseline;
  } else if (!among(timing.baseline)) {
    timing.baseline.clear();  // --impl does not name the baseline
  }
  if (flags.min_samples > 0) timing.min_samples = flags.min_samples;
  if (flags.max_seconds > 0) timing.max_seconds = flags.max_seconds;
  if (flags.target_stderr > 0) timing.target_stderr = flags.target_stderr;
  if (flags.order_seed >= 0) timing.order_seed = static_cast<std::uint64_t>(flags.order_seed);
  return timing;
}

}  // namespace

AfterFailure after_failure(const SuiteFlags& flags) {
  return flags.no_retry ? AfterFailure::keep : AfterFailure::run_again;
}

std::vector<Suite> requested_suites(const std::string& command, const SuiteFlags& flags,
                                    const TimingFlags& timing, const SuiteModes& modes) {
  load_requested(flags.load, flags.timeout_s);
  std::vector<Suite> suites = chosen_suites(command, flags);
  if (!flags.suite.empty()) suites = split_by_inputs(suites);
  for (Suite& suite : suites) {
    if (suite.implementations.empty()) suite.implementations = implementations_for(suite.cases);
    suite.cases = with_seeds(suite.cases, flags.seeds);
    suite.backend = parse_backend(flags.backend.backend, "--backend: ");
    const bool timed = modes.bench == SuiteModes::Bench::always ||
                       (modes.bench == SuiteModes::Bench::where_asked && suite.timing);
    suite.timing = timed ? std::optional(requested_timing(timing, suite)) : std::nullopt;
    if (modes.verify) suite.implementations = with_offered_values(suite.implementations);
    for (CaseSpec& spec : suite.cases) {
      if (spec.name.empty()) spec.name = format_case(spec);
    }
  }
  return flags.trials.empty() ? suites : only_listed_trials(suites, flags.trials);
}

void add_trial_flags(CLI::App& command, SuiteFlags& flags) {
  command.add_option("--suite", flags.suite,
                     "suite by name (see lossgrid list suites), file or folder");
  add_cases_flag(command);
  const std::string default_case =
      flags.default_case.empty()
          ? ""
          : fmt::format("; without --suite and --case: \"{}\"", flags.default_case);
  command.add_option("--case", flags.cases,
                     "a case as \"key=value ...\"; key=[a,b] sweeps; may be repeated "
                     "(keys: lossgrid list keys" +
                         default_case + ")");
  command.add_option("--impl", flags.implementations,
                     "implementations, comma separated, with options as name:option=value "
                     "(default: the suite's; of cases " +
                         join(default_implementations(false), ", ") +
                         "; where every case starts from hidden states " +
                         join(default_implementations(true), ", ") + ")");
  add_load_flags(command, flags.load);
  command.add_option(
      "--grid", flags.grids,
      "process grids, comma separated: tp2cp4,tp1cp2dp2pp2,tp2cp2sp (default: the suite's, or "
      "tp1cp1)");
  command.add_option("--seeds", flags.seeds, "run every case with this many seeds from its own on")
      ->check(CLI::Range(1, 10000));
  command
      .add_option("--max-ranks", flags.max_ranks,
                  fmt::format("refuse grids with more ranks (default: as many threads as memory "
                              "allows, up to {}; {} processes)",
                              kMostRanks, kMostProcesses))
      ->check(CLI::Range(1, kMostRanks));
  command
      .add_option("--threads-per-rank", flags.threads_per_rank,
                  "threads that compute for a rank (default: the cores divided by the ranks)")
      ->check(CLI::Range(1, 4096));
  command
      .add_option("--timeout", flags.timeout_s,
                  "deadline of one trial, or of one timed iteration, in seconds (default 300)")
      ->check(CLI::Range(0.001, 1e6));
}

void add_suite_flags(CLI::App& command, SuiteFlags& flags) {
  add_trial_flags(command, flags);
  command.add_option("--report", flags.report,
                     "write the JSON report here (.json.gz: packed); finished trials go to "
                     "FILE.partial.jsonl while the run goes on; Ctrl-C, SIGTERM or SIGHUP end it "
                     "with the report of what is done, once more at once");
  command.add_option("--resume", flags.resume,
                     "take over what this report, or what a run that did not end left of it, has "
                     "passed or failed, and run only the rest");
  command.add_flag("--no-retry", flags.no_retry,
                   "with --resume: also take over what ended by an error, a deadline or a crash");
  command.add_flag("--stop-at-failure", flags.stop_at_failure,
                   "end after the first trial that does not pass; the others are not_run");
  add_machine_flag(command, flags.machine, "show times predicted for this machine beside measured");
  add_transport_flag(command, flags.transport);
  add_backend_flags(command, flags.backend);
  add_recording_flags(command, flags.recording);
  add_inject_flag(command, flags.inject);
  command.add_flag("--quiet", flags.quiet, "print only the summary and what did not pass");
}

void add_timing_flags(CLI::App& command, TimingFlags& flags) {
  command.add_option(
      "--cache", flags.caches,
      "what caches hold before a timed phase, comma separated: hot (what was there), "
      "cold (nothing of use); of a GPU its L2 (default: the suite's, or hot)");
  command.add_option("--baseline", flags.baseline,
                     "the implementation that speed-ups are over (default: the suite's, or "
                     "per_sequence, or the first that is built in, or the first)");
  command.add_option("--min-samples", flags.min_samples, "samples of each phase (default 10)")
      ->check(CLI::Range(2, 1000));
  command
      .add_option("--max-seconds", flags.max_seconds,
                  "end the samples of a case on a grid after this time (default 30)")
      ->check(CLI::Range(0.001, 1e6));
  command
      .add_option("--target-stderr", flags.target_stderr,
                  "or before, once the standard error of every median is below this part of it "
                  "(default 0.01)")
      ->check(CLI::Range(1e-6, 1.0));
  command
      .add_option("--order-seed", flags.order_seed,
                  "seed of the random order of implementations in each round (default 1)")
      ->check(CLI::Range(0, 2147483647));
}

}  // namespace lossgrid
