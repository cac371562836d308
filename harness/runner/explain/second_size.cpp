// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/explain/second_size.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "harness/core/hash.h"
#include "harness/core/text.h"
#include "harness/loss/registry.h"
#include "harness/runner/rank/trial_setup.h"
#include "harness/runner/verdict/failure_facts.h"
#include "harness/verify/diagnosis/scale_suspects.h"

namespace lossgrid {
namespace {

constexpr int kLargest = 5;  // ranks along an axis

/// Number of axes with the size that they had, and then of ranks: the fewer the better.
struct GridCost {
  int kept = 0;
  int ranks = 0;
  auto operator<=>(const GridCost&) const = default;
};

/// Returns the sizes that an axis may have.
std::vector<int> sizes_of_axis(int size) {
  if (size == 1) return {1};
  std::vector<int> sizes(kLargest - 1);
  std::iota(sizes.begin(), sizes.end(), 2);
  return sizes;
}

bool are_distinct(std::vector<int> sizes) {
  std::erase(sizes, 1);
  std::sort(sizes.begin(), sizes.end());
  return std::adjacent_find(sizes.begin(), sizes.end()) == sizes.end();
}

/// Returns lengths of a number of sequences that the objective takes.
std::vector<std::int64_t> draw_lengths(std::int64_t sequences, std::uint64_t seed) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < sequences; ++i) {
    lengths.push_back(
        4 + static_cast<std::int64_t>(mix_bits(seed * 1000 + static_cast<std::uint64_t>(i)) % 9));
  }
  return lengths;
}

/// Returns the number of pairs of suspects with the same value.
int coincidences(const TrialSizes& sizes) {
  std::vector<double> values;
  for (const ScaleSuspect& suspect : scale_suspects(sizes)) values.push_back(suspect.value);
  std::sort(values.begin(), values.end());
  int alike = 0;
  for (std::size_t k = 1; k < values.size(); ++k) {
    alike += values[k] - values[k - 1] <= 4e-3 * values[k] ? 1 : 0;
  }
  return alike;
}

/// True if a key names sequences one by one, so that other lengths need another value.
bool is_by_sequence(const std::string& bits) {
  return bits.find_first_not_of("01+") == std::string::npos;
}

std::int64_t other_count(std::int64_t microbatches, const Grid& grid) {
  if (microbatches == 1) return 1;
  for (const std::int64_t count : {3, 5, 7}) {
    if (count != microbatches && count != grid.tp && count != grid.cp && count != grid.dp) {
      return count;
    }
  }
  return 2;
}

double other_number(double number, double first, double second) {
  return std::abs(number - first) > 0.2 ? first : second;
}

}  // namespace

Grid second_grid(const Grid& grid, int most_ranks) {
  Grid best = grid;
  GridCost cost{4, std::numeric_limits<int>::max()};
  if (grid.is_dynamic() || grid.pp > 1) return grid;
  for (const int tp : sizes_of_axis(grid.tp)) {
    for (const int cp : sizes_of_axis(grid.cp)) {
      for (const int dp : sizes_of_axis(grid.dp)) {
        const int ranks = tp * cp * dp;
        if (ranks > most_ranks || !are_distinct({tp, cp, dp})) continue;
        const auto kept = [](int size, int before) { return size > 1 && size == before ? 1 : 0; };
        const GridCost own{kept(tp, grid.tp) + kept(cp, grid.cp) + kept(dp, grid.dp), ranks};
        if (own >= cost) continue;
        cost = own;
        best.tp = tp;
        best.cp = cp;
        best.dp = dp;
      }
    }
  }
  return best;
}

CaseSpec with_other_sizes(const CaseSpec& spec, const Grid& grid, int number) {
  const CaseSpec unset;
  CaseSpec other = spec;
  other.name.clear();
  other.seqs = unset.seqs;
  other.seq_len = unset.seq_len;
  other.global_valid_toks = other.global_valid_seqs = 0;
  other.seed = spec.seed + 1 + static_cast<std::uint64_t>(number);
  other.poison = Poison::none;
  if (is_by_sequence(spec.mask) || spec.mask == "sparse" || spec.mask == "prompt16") {
    other.mask = unset.mask;
  }
  if (is_by_sequence(spec.sample_mask)) other.sample_mask = unset.sample_mask;
  constexpr std::int64_t kMostColumns = 512;
  if (spec.vocab > kMostColumns && spec.hidden_values != HiddenValues::one_hot) {
    other.vocab = std::max({std::int64_t{120}, spec.top_k, spec.teacher_topk});
  }
  other.hidden = std::min<std::int64_t>(spec.hidden, 64);
  other.teacher_hidden = std::min<std::int64_t>(spec.teacher_hidden, 64);
  if (other.vocab > 1 && other.vocab % grid.tp != 0) {  // functions may need equal shards
    other.vocab += grid.tp - other.vocab % grid.tp;
  }
  if (spec.hidden_values == HiddenValues::one_hot) other.hidden = other.vocab;
  if (spec.temperature != 1) other.temperature = other_number(spec.temperature, 1.3, 1.7);
  if (spec.logit_scale != 1) other.logit_scale = other_number(spec.logit_scale, 0.6, 0.35);
  if (spec.logit_softcap != 0) other.logit_softcap = 1.25 * spec.logit_softcap;
  other.microbatches = other_count(spec.microbatches, grid);

  const ObjectiveNeeds needs = make_objective(spec.objective, spec.statistics)->needs();
  const std::int64_t unit =
      std::lcm(needs.sequences_per_unit, std::max<std::int64_t>(1, needs.group_size));
  const std::int64_t packs = other.microbatches * grid.dp;
  int best = std::numeric_limits<int>::max();
  CaseSpec chosen = other;
  constexpr std::uint64_t kTries = 40;
  for (std::uint64_t k = 0; k < kTries && best > 0; ++k) {
    const std::int64_t units =
        std::max<std::int64_t>(unit > 1 ? 3 : 5, packs + 2) + static_cast<std::int64_t>(k % 5);
    std::vector<std::string> texts;
    for (const std::int64_t length :
         draw_lengths(units * unit, k + 100 * static_cast<std::uint64_t>(number + 1))) {
      texts.push_back(std::to_string(length));
    }
    other.lens = join(texts, "+");
    const Problem problem = make_problem(other);
    TrialSizes sizes{scale_sizes(problem, grid),
                     grid.tp,
                     problem.denominators.valid_tokens,
                     problem.sequences(),
                     other.temperature,
                     problem.tokens(),
                     packs == 1 ? layout_of(problem, grid).padded_tokens() : 0,
                     other.logit_scale};
    add_counts(problem, sizes);
    const int alike = coincidences(sizes);
    if (alike >= best) continue;
    best = alike;
    chosen = other;
  }
  return chosen;
}

}  // namespace lossgrid
