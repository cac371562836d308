// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/pack_findings.h"

#include <bit>

#include <fmt/format.h>

#include "harness/core/hash.h"

namespace lossgrid {
namespace {

std::uint64_t value_bits(double value, std::uint64_t seed) {
  return mix_bits(std::bit_cast<std::uint64_t>(value) ^ mix_bits(seed));
}

}  // namespace

void PackFindings::add_invariant(const InvariantEntry& invariant, bool holds,
                                 const std::string& detail) {
  invariants.push_back({invariant.name,
                        holds ? Invariant::Status::passed : Invariant::Status::failed,
                        holds ? std::string() : detail});
}

void PackFindings::add_not_run(const InvariantEntry& invariant, const std::string& reason) {
  invariants.push_back({invariant.name, Invariant::Status::not_run, reason});
}

std::string describe_misplaced(std::int64_t count, const ElementPlace& first) {
  std::string text = fmt::format("{} elements, first: rank {}", count, first.rank);
  if (first.sequence >= 0) text += fmt::format(", sequence {}", first.sequence);
  if (first.token >= 0) text += fmt::format(", token {}", first.token);
  if (first.vocab_id >= 0) text += fmt::format(", vocab id {}", first.vocab_id);
  return text;
}

std::uint64_t fingerprint_result(const ObjectiveResult& result) {
  std::uint64_t bits = value_bits(result.loss, 0);
  std::uint64_t index = 1;
  for (const auto& [name, metric] : result.metrics) {
    bits += value_bits(metric.value().value_or(0.0), index++);
  }
  return bits;
}

}  // namespace lossgrid
