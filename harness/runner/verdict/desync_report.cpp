// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/desync_report.h"

#include <string>

namespace lossgrid {
namespace {

constexpr const char* kReturned = "returned";
constexpr const char* kThrew = "threw";
constexpr const char* kWaiting = "waiting";
constexpr const char* kBusy = "busy";
constexpr const char* kHangs = "hangs";
constexpr const char* kSilent = "silent";

std::string state_of(const RankOutcome& outcome) {
  if (!outcome.finished) return outcome.trace.known ? kHangs : kSilent;
  const bool by_itself = outcome.cause == Cause::own;
  if (outcome.busy || (by_itself && outcome.code == ErrorCode::timeout)) return kBusy;
  if (outcome.trace.end == RankEnd::returned) return kReturned;
  // These come from other ranks: the rank was woken, or the calls do not match. Any other exception
  // in a call is the rank's own.
  if (by_itself) return kThrew;
  const bool by_others = outcome.code == ErrorCode::aborted || outcome.code == ErrorCode::timeout ||
                         outcome.code == ErrorCode::rank_failed;
  return outcome.trace.in_collective() && by_others ? kWaiting : kThrew;
}

std::string state_of(const RankTrace& trace) {
  if (!trace.known) return kSilent;
  if (trace.end == RankEnd::returned) return kReturned;
  if (trace.in_collective()) return kWaiting;
  return trace.end == RankEnd::threw ? kThrew : kBusy;
}

RankRecord record_of(std::size_t rank, const RankTrace& trace, const std::string& state) {
  RankRecord record;
  record.rank = static_cast<std::int64_t>(rank);
  record.state = state;
  record.phase = std::string(name(trace.phase));
  for (const TracedCall& call : trace.calls) record.collectives.push_back(describe(call));
  return record;
}

}  // namespace

std::vector<RankRecord> desync_report(const RanksOutcome& outcome) {
  std::vector<RankRecord> records;
  for (std::size_t r = 0; r < outcome.ranks.size(); ++r) {
    const RankOutcome& rank = outcome.ranks[r];
    records.push_back(record_of(r, rank.trace, state_of(rank)));
    records.back().message = rank.message;
    records.back().detail = rank.detail;
  }
  return records;
}

std::vector<RankRecord> desync_report(const std::vector<RankTrace>& left_behind) {
  std::vector<RankRecord> records;
  for (std::size_t r = 0; r < left_behind.size(); ++r) {
    records.push_back(record_of(r, left_behind[r], state_of(left_behind[r])));
  }
  return records;
}

std::int64_t rank_that_died(const std::vector<RankRecord>& ranks) {
  std::int64_t only = -1;
  for (const RankRecord& rank : ranks) {
    if (rank.state != kBusy && rank.state != kSilent) continue;
    if (only >= 0) return -1;
    only = rank.rank;
  }
  return only;
}

}  // namespace lossgrid
