// SPDX-License-Identifier: Apache-2.0
// Policies of the gate: every pattern that is taken can be matched.
#include "reports/change/policy.h"

#include "fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lossgrid;
  const MemoryFile file(data, size);
  const auto policy = taken([&] { return read_policy(file.path()); });
  if (!policy) return 0;
  Subject subject;
  subject.case_name = subject.case_text = "vocab=96 lens=5+8";
  subject.grid = "tp2cp1";
  for (const PolicyRule& rule : policy->rules) rule.subjects.matches(subject);
  for (const KnownIssue& issue : policy->known_issues) issue.subjects.matches(subject);
  return 0;
}
