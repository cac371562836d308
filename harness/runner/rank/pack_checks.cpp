// SPDX-License-Identifier: Apache-2.0
// Ranges are checked apart from the truth: a truth that is wrong in the same way as an
// implementation would hide a positive log-probability. Fingerprints are sums over rows, so that
// they do not depend on how rows are split.
#include "harness/runner/rank/pack_checks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/core/stage_clock.h"
#include "harness/core/text.h"
#include "harness/verify/checks/output_checks.h"
#include "harness/verify/truth/bounds.h"

namespace lossgrid {
namespace {

const RegisteredInvariant kLogprobsNonpositive{
    {.name = "logprobs_nonpositive",
     .condition = "log-probabilities are at most 0; not run for heads without a vocabulary",
     .place = 1}};
const RegisteredInvariant kEntropyInRange{
    {.name = "entropy_in_range",
     .condition = "entropies are in [0, ln V]; not run for heads without a vocabulary",
     .place = 2}};
const RegisteredInvariant kInputsUnmodified{
    {.name = "inputs_unmodified",
     .condition =
         "inputs keep their bits, unless the implementation declares that it overwrites them",
     .place = 5}};

constexpr const char* kNoVocabulary = "a head without a vocabulary has no probabilities";
constexpr const char* kNotGiven = "the implementation does not return it";

}  // namespace

TokenPlaces place_tokens(const Problem& problem, const LossProblem& loss_problem, int cp_rank,
                         LogprobScope scope) {
  const std::vector<std::int64_t>& cu_padded = loss_problem.batch.cu_seqlens_padded;
  const std::vector<std::int64_t> own = cp_rows(cu_padded, loss_problem.grid, cp_rank);
  TokenPlaces places;
  if (scope == LogprobScope::pack) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(loss_problem.rows()));
    std::iota(all.begin(), all.end(), 0);
    places.rows = place_rows(problem, cu_padded, all);
    places.own = own;
  } else {
    places.rows = place_rows(problem, cu_padded, own);
    places.own.resize(own.size());
    std::iota(places.own.begin(), places.own.end(), 0);
  }
  return places;
}

void PackChecks::check(const LossOutputs& outputs, const RankTensors& tensors,
                       PackFindings& findings) const {
  findings.result = outputs.result;
  findings.owned_labels = outputs.owned_labels;
  findings.checks = check_tokens(problem, truth.truth, places.rows, outputs.tokens, given,
                                 truth.serial_adds, rank);
  if (given.logprobs && !findings.checks.front().passed())
    describe_failed_logprobs(outputs, findings);
  describe_failed_entropies(outputs, findings);
  check_ranges(outputs, findings);
  check_gradients(tensors, findings);
  fingerprint(outputs, tensors, findings);
}

void PackChecks::describe_failed_logprobs(const LossOutputs& outputs,
                                          PackFindings& findings) const {
  const Grid& grid = loss_problem.grid;
  LogprobRows rows{places.rows, {places.own}, grid.tp, grid.tp_rank(static_cast<int>(rank))};
  if (places.own.size() < places.rows.size()) {  // rows of other CP ranks too
    rows.by_cp_rank.clear();
    for (int cp_rank = 0; cp_rank < grid.cp; ++cp_rank) {
      rows.by_cp_rank.push_back(cp_rows(loss_problem.batch, grid.cp, cp_rank));
    }
  }
  findings.failed_logprobs =
      look_at_logprobs(problem, truth.truth, rows, outputs.tokens.logprobs, truth.serial_adds);
}

void PackChecks::describe_failed_entropies(const LossOutputs& outputs,
                                           PackFindings& findings) const {
  const bool failed =
      std::any_of(findings.checks.begin(), findings.checks.end(),
                  [](const Check& check) { return check.name() == "entropy" && !check.passed(); });
  if (!failed) return;
  const Grid& grid = loss_problem.grid;
  findings.failed_entropies = look_at_entropies(
      problem, truth.truth, places.rows, grid.tp, grid.tp_rank(static_cast<int>(rank)),
      outputs.tokens.terms[RowTerm::entropy], truth.serial_adds);
}

/// Adds the invariants log p <= 0 and 0 <= H <= ln V, whatever the truth is.
void PackChecks::check_ranges(const LossOutputs& outputs, PackFindings& findings) const {
  // Adds the invariant that `holds` is true for the value of every row that has a truth.
  const auto check_rows = [&](const InvariantEntry& invariant, bool is_given,
                              std::span<const float> values, const auto& holds) {
    if (problem.spec.head != Head::lm) return findings.add_not_run(invariant, kNoVocabulary);
    if (!is_given) return findings.add_not_run(invariant, kNotGiven);
    for (std::size_t k = 0; k < places.rows.size(); ++k) {
      const RowPlace& place = places.rows[k];
      if (place.row < 0 || !has_logprob(problem, truth.truth.rows[place.row])) continue;
      if (holds(truth.truth.rows[place.row], values[k])) continue;
      findings.add_invariant(invariant, false,
                             fmt::format("rank {}, sequence {}, token {}: {}", rank, place.sequence,
                                         place.offset, values[k]));
      return;
    }
    findings.add_invariant(invariant, true, "");
  };
  check_rows(kLogprobsNonpositive, given.logprobs, outputs.tokens.logprobs,
             [&](const RowTruth& row, double x) {
               return x <= positive_logprob_bound(row, truth.serial_adds);
             });
  if (!loss_problem.row_statistics()) return;
  const double most = std::log(static_cast<double>(problem.spec.vocab));
  check_rows(kEntropyInRange, given.entropy, outputs.tokens.terms[RowTerm::entropy],
             [&](const RowTruth& row, double x) {
               const double bound = entropy_bound(row, truth.serial_adds);
               return x >= -bound && x <= most + bound;
             });
}

void PackChecks::check_gradients(const RankTensors& tensors, PackFindings& findings) const {
  if (given.gradients) return tensors.check(truth, findings);
  for (const InvariantEntry& invariant : tensors.gradient_invariants()) {
    findings.add_not_run(invariant, kNotGiven);
  }
}

void PackChecks::check_memory(bool inputs_as_before, Device& device, PackFindings& findings,
                              const std::string& changed) {
  const std::vector<std::string> broken = device.take_broken_guards();
  findings.add_invariant(kGuardBandsIntact, broken.empty(),
                         fmt::format("written outside of: {}", join(broken, ", ")));
  findings.add_invariant(kInputsUnmodified, inputs_as_before,
                         changed.empty() ? "the implementation wrote to its inputs"
                                         : "the function changed " + changed +
                                               ", which its declaration does not allow");
}

void PackChecks::fingerprint(const LossOutputs& outputs, const RankTensors& tensors,
                             PackFindings& findings) const {
  const StageScope scope(Stage::bits);
  const TokenOutputs tokens = given.only_given(outputs.tokens);
  for (const std::span<float> column : tokens.columns()) {
    findings.output_bits = mix_bits(findings.output_bits);
    for (std::size_t k = 0; k < column.size(); ++k) {
      findings.output_bits += value_fingerprint(column, k);
    }
  }
  if (given.logprobs) {
    for (const std::int64_t k : places.own) {
      findings.own_logprob_bits += value_fingerprint(tokens.logprobs, static_cast<std::size_t>(k));
    }
  }
  if (given.gradients) findings.gradient_bits = tensors.gradient_bits(truth.truth);
  if (!given.grad_hidden) findings.gradient_bits.erase("grad_hidden");
}

/// Returns 0 for rows that take no part in the loss: they may hold anything.
std::uint64_t PackChecks::value_fingerprint(std::span<const float> values, std::size_t k) const {
  const std::int64_t row = places.rows[k].row;
  if (row < 0 || !truth.truth.rows[row].valid) return 0;
  return mix_bits(std::bit_cast<std::uint32_t>(values[k]) ^
                  mix_bits(static_cast<std::uint64_t>(problem.whole_row(row))));
}

}  // namespace lossgrid
