// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/groups.h"

#include <utility>

namespace lossgrid {

void set_groups(Problem& problem, std::vector<std::int64_t> groups, std::int64_t count) {
  problem.groups = std::move(groups);
  problem.group_count = count;
  problem.group_tokens.clear();
  Denominators& counts = problem.denominators;
  counts.trained_groups = 0;
  counts.all_groups = count;
  if (count == 0) return;
  const std::vector<std::uint8_t> valid = problem.row_valid();
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(count), 0);
  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    for (std::int64_t t = problem.cu_seqlens[i]; t < problem.cu_seqlens[i + 1]; ++t) {
      tokens[problem.groups[i]] += valid[t];
    }
  }
  for (const std::int64_t group : problem.groups) problem.group_tokens.push_back(tokens[group]);
  for (const std::int64_t of_group : tokens) counts.trained_groups += of_group > 0 ? 1 : 0;
}

void set_neighbour_groups(Problem& problem, std::int64_t size) {
  std::vector<std::int64_t> groups;
  if (size > 0) {
    for (std::int64_t i = 0; i < problem.sequences(); ++i) groups.push_back(i / size);
  }
  const std::int64_t count = groups.empty() ? 0 : groups.back() + 1;
  set_groups(problem, std::move(groups), count);
}

}  // namespace lossgrid
