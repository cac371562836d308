// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/heap_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "reports/record/check_record.h"

namespace lossgrid {
namespace {

const RegisteredInvariant kHeapInvariant{
    {.name = kMemoryFromDevice,
     .condition = "plan, forward and backward take no row or more from the heap, where no device "
                  "accounts for it",
     .place = 20}};

}  // namespace

std::size_t least_heap_bytes(const LossProblem& problem) {
  constexpr std::int64_t kPlanBytes = 4096;
  constexpr std::int64_t kTokenBytes = 64;
  std::int64_t row = problem.width();
  if (problem.from_hidden()) row = std::min(row, problem.head.hidden);
  return static_cast<std::size_t>(
      std::max({row * problem.element_bytes(), kTokenBytes * problem.rows(), kPlanBytes}));
}

HeapCheck::HeapCheck(const LossProblem& problem, const ImplementationTraits& traits,
                     std::int64_t rank)
    : least_bytes_(least_heap_bytes(problem)), rank_(rank) {
  if (traits.is_external) not_run_ = "loaded code may take memory from anywhere";
  if (traits.plays_back) not_run_ = "plays back what another program computed";
}

void HeapCheck::note(const std::string& phase, const HeapWatch& heap) {
  if (heap.allocations() == 0 || !found_.empty()) return;
  found_ = fmt::format(
      "rank {} {}: the heap gave {} times {} bytes or more, at most {}, that no device accounts "
      "for",
      rank_, phase, heap.allocations(), least_bytes_, heap.largest_bytes());
}

void HeapCheck::add_to(PackFindings& findings) const {
  if (!not_run_.empty()) return findings.add_not_run(kHeapInvariant, not_run_);
  findings.add_invariant(kHeapInvariant, found_.empty(), found_);
}

}  // namespace lossgrid
