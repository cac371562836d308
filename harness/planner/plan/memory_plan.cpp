// SPDX-License-Identifier: Apache-2.0
#include "harness/planner/plan/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "harness/core/error.h"
#include "harness/core/process/available_memory.h"
#include "harness/core/text.h"

namespace lossgrid {

std::int64_t rank_data_bytes(const LossProblem& problem) {
  // Places and log-probabilities by row; a row of the truth.
  std::int64_t host = 80 * problem.rows() + 16 * problem.vocab;
  if (problem.from_hidden()) {
    // Gradients of weight and bias between packs, and sums in float64 with the earlier contents.
    constexpr std::int64_t kMostCompared = std::int64_t{1} << 24;
    const std::int64_t elements = problem.weight_elements() + problem.bias_elements();
    host += 4 * elements + 16 * std::min(elements, kMostCompared);
  }
  return problem.input_bytes() + problem.gradient_bytes() + host;
}

std::int64_t workspace_bytes(const LossProblem& problem, const LossImplementation& implementation) {
  const Cost cost = implementation.cost(problem);
  return std::max(
      {cost.plan.workspace_bytes, cost.forward.workspace_bytes, cost.backward.workspace_bytes});
}

std::int64_t trial_rank_bytes(const LossProblem& problem,
                              const LossImplementation& implementation) {
  return rank_data_bytes(problem) + workspace_bytes(problem, implementation);
}

namespace {

std::int64_t case_tokens(const CaseSpec& spec) {
  const std::vector<std::int64_t> lengths = case_lengths(spec);
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

}  // namespace

std::int64_t case_memory_bytes(const CaseSpec& spec) {
  const std::int64_t tokens = case_tokens(spec);
  // Ids, masks, inputs, truth of the row; and the tape of an objective, some sixty nodes a token.
  constexpr double kHostBytesPerToken = 8192;
  // In floating point, because the products may far exceed 64 bits.
  const auto rows = static_cast<double>(tokens);
  const auto vocab = static_cast<double>(spec.vocab);
  const auto hidden = static_cast<double>(spec.hidden);
  const auto element = static_cast<double>(size_of(spec.dtype));
  // Logits and their gradient; or hidden states and weight, both in the harness's form and in the
  // form for ranks, and their gradients, for the weight in float32.
  const double tensors = spec.hidden == 0
                             ? rows * vocab * 2 * element
                             : hidden * (rows * (4 + 2 * element) + vocab * (4 + element + 4));
  const double teacher = static_cast<double>(spec.teacher_hidden) * (rows + vocab) * (4 + element);
  const double bytes = rows * kHostBytesPerToken + tensors + teacher;
  return static_cast<std::int64_t>(std::min(bytes, 0x1p62));
}

namespace {

/// Returns the elements of hidden states and weight of a teacher.
double teacher_elements(const CaseSpec& spec, double rows) {
  return (rows + static_cast<double>(spec.vocab)) * static_cast<double>(spec.teacher_hidden);
}

/// Returns the elements of the logits, or of hidden states and weight.
double bundle_elements(const CaseSpec& spec, double rows) {
  const auto vocab = static_cast<double>(spec.vocab);
  return spec.hidden == 0 ? rows * vocab : (rows + vocab) * static_cast<double>(spec.hidden);
}

}  // namespace

std::int64_t bundle_file_bytes(const CaseSpec& spec, bool with_truth) {
  const auto rows = static_cast<double>(case_tokens(spec));
  const double inputs = bundle_elements(spec, rows);
  double bytes =
      (inputs + teacher_elements(spec, rows)) * static_cast<double>(size_of(spec.dtype)) +
      8 * rows;  // ids and mask
  if (with_truth) bytes += (inputs + 2 * rows) * sizeof(double);
  return static_cast<std::int64_t>(std::min(bytes, 0x1p62));
}

std::int64_t bundle_memory_bytes(const CaseSpec& spec, bool with_truth) {
  const auto rows = static_cast<double>(case_tokens(spec));
  const double inputs = bundle_elements(spec, rows);
  // From hidden states and weight: the truth and four further numbers for the bounds.
  const double truths = spec.hidden == 0 ? 1 : 6;
  double bytes =
      2 * (inputs + teacher_elements(spec, rows)) * static_cast<double>(size_of(spec.dtype));
  if (with_truth) bytes += inputs * (truths + 2) * sizeof(double);
  return static_cast<std::int64_t>(
      std::min(static_cast<double>(case_memory_bytes(spec)) + bytes, 0x1p62));
}

namespace {

std::optional<SkipReason> shortage(std::int64_t need_bytes, std::int64_t have_bytes,
                                   const char* place) {
  if (need_bytes <= have_bytes) return std::nullopt;
  return SkipReason{fmt::format("not enough memory: needs {} ({} bytes), {} has {} ({} bytes)",
                                format_bytes(need_bytes), need_bytes, place,
                                format_bytes(have_bytes), have_bytes)};
}

}  // namespace

std::optional<SkipReason> memory_shortage(std::int64_t need_bytes) {
  // Every machine that runs the harness has this much. Reading the free memory, from some ten files
  // of the system, took a fifth of the time of a suite of small cases.
  constexpr std::int64_t kNeverShort = std::int64_t{1} << 24;
  if (need_bytes <= kNeverShort) return std::nullopt;
  return shortage(need_bytes, available_memory_bytes(), "this machine");
}

std::int64_t fullest_device_bytes(const std::vector<std::int64_t>& rank_bytes,
                                  std::size_t devices) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  std::vector<std::int64_t> of_device(std::max<std::size_t>(1, devices), 0);
  for (std::size_t rank = 0; rank < rank_bytes.size(); ++rank) {
    std::int64_t& bytes = of_device[rank % of_device.size()];
    bytes += std::min(rank_bytes[rank], kMost - bytes);
  }
  return *std::max_element(of_device.begin(), of_device.end());
}

std::optional<SkipReason> memory_shortage(Backend backend, const RanksMemory& need, bool gpu_each) {
  const std::vector<std::int64_t>& bytes = need.rank_bytes;
  const BackendTraits& traits = traits_of(backend);
  if (!traits.is_gpu) return memory_shortage(fullest_device_bytes(bytes, 1));
  const std::size_t gpus = gpu_each ? bytes.size() : describe_devices(backend).size();
  if (auto reason =
          shortage(fullest_device_bytes(bytes, gpus), traits.free_gpu_bytes(), "the GPU")) {
    return reason;
  }
  const std::vector<std::int64_t> host_bytes(bytes.size(), need.rank_host_bytes);
  return memory_shortage(fullest_device_bytes(host_bytes, 1));
}

}  // namespace lossgrid
