// SPDX-License-Identifier: Apache-2.0
// Runs of the executable with implementations in Python. The interpreter, with PyTorch, comes from
// the virtual environment build/venv of the source folder, or from tests/warm_python in its place.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "harness/core/skip_reason.h"
#include "process.h"

namespace lossgrid {

inline const std::string kFreshPython = LOSSGRID_SOURCE_DIR "/build/venv/bin/python";
inline const std::string kPython = LOSSGRID_SOURCE_DIR "/tests/warm_python/python3";
inline const std::string kExamples = LOSSGRID_SOURCE_DIR "/python/examples/";

/// Returns the reason why implementations in Python cannot run here; nullopt if they can.
inline std::optional<SkipReason> no_torch() {
  const std::string find =
      "import importlib.util as i, sys; sys.exit(i.find_spec('torch') is None)";
  const int status =
      std::system(fmt::format("'{}' -c \"{}\" 2>/dev/null", kFreshPython, find).c_str());
  if (status == 0) return std::nullopt;
  return SkipReason{fmt::format("{} has no PyTorch, or is not there", kFreshPython)};
}

/// Returns the "trials", "timings" or "mutants" of a report.
inline nlohmann::ordered_json records_of(const std::string& report, const char* key) {
  return full_report(report).at(key);
}

/// Test that is skipped without PyTorch.
class WithTorch : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = no_torch()) GTEST_SKIP() << reason->text;
  }

  /// Runs `command` (run, bench, ...) on loaded `files`, by `python`.
  ProcessResult run_loaded(const std::string& command, const std::vector<std::string>& files,
                           const std::string& arguments,
                           const std::string& python = kPython) const {
    std::string load;
    for (const std::string& file : files) load += fmt::format(" --load '{}'", file);
    return run_lossgrid(scratch_,
                        fmt::format("{}{} --python '{}' {}", command, load, python, arguments));
  }

  /// Writes a file in the scratch folder and returns its path. `text` follows the imports that
  /// implementations need and a right vocabulary-parallel function.
  std::string write_python(const std::string& name, const std::string& text) const {
    const std::string path = scratch_.file(name);
    write_all(path, fmt::format(R"(import os
import sys
sys.path.insert(0, "{}")
import lossgrid
import torch
import torch.distributed as dist
from vocab_parallel import VocabParallelLogprob


def right(logits, batch):
    return VocabParallelLogprob.apply(logits, batch.labels, batch.vocab_start, batch.tp.group)

)",
                                kExamples) +
                        text);
    return path;
  }

  const ScratchFolder scratch_;
};

}  // namespace lossgrid
