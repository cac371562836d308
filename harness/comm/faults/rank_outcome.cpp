// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/faults/rank_outcome.h"

#include <algorithm>
#include <new>
#include <utility>

#include "harness/comm/faults/fault_injection.h"
#include "harness/comm/faults/flight_recorder.h"

namespace lossgrid {
namespace {

RankOutcome failed(ErrorCode code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');  // messages are one line
  return {.code = code, .message = std::move(message)};
}

RankOutcome failed(const Error& error) {
  RankOutcome outcome = failed(error.code(), error.what());
  outcome.detail = error.detail();
  outcome.cause = error.cause();
  return outcome;
}

/// Returns the distance of a failure from its cause.
int distance(const RankOutcome& outcome) {
  if (outcome.cause == Cause::collective) return 1;
  return outcome.cause == Cause::others ? 2 : 0;
}

}  // namespace

bool RanksOutcome::all_ok() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const RankOutcome& r) { return r.ok; });
}

bool RanksOutcome::any_hung() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const RankOutcome& r) { return !r.finished; });
}

bool RanksOutcome::is_the_last() const {
  return any_hung() || std::any_of(ranks.begin(), ranks.end(), [](const RankOutcome& r) {
           return r.code == ErrorCode::device_lost;
         });
}

RankOutcome outcome_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return failed(error);
  } catch (const std::bad_alloc&) {
    return failed(ErrorCode::not_enough_memory, "out of memory");
  } catch (const std::exception& error) {
    return failed(ErrorCode::rank_failed, error.what());
  } catch (const RankLeft&) {
  } catch (...) {
    return failed(ErrorCode::rank_failed, "an exception that is no std::exception");
  }
  return {.ok = true};
}

RankOutcome outcome_of(FlightRecorder& recorder, const std::function<void()>& body) {
  const FlightRecorderScope scope(recorder);
  RankOutcome outcome = outcome_of(body);
  recorder.finish(outcome.ok ? RankEnd::returned : RankEnd::threw);
  return outcome;
}

int cause_among(const std::vector<RankOutcome>& ranks, int first) {
  if (first < 0) return first;
  int nearest = first;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].ok || ranks[r].code == ErrorCode::aborted) continue;
    if (distance(ranks[r]) < distance(ranks[static_cast<std::size_t>(nearest)])) {
      nearest = static_cast<int>(r);
    }
  }
  return nearest;
}

void blame(RankOutcome& outcome, ErrorCode code, const std::string& message) {
  if (!outcome.ok && outcome.code != ErrorCode::aborted) return;
  outcome.ok = false;
  outcome.code = code;
  outcome.message = message;
}

}  // namespace lossgrid
