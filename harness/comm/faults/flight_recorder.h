// SPDX-License-Identifier: Apache-2.0
// FlightRecorder: the phase of a rank and a ring of its last collectives, kept while it runs, so
// that others can find out its position if it throws, hangs or dies. Costs some stores a call, no
// lock, no allocation: the transports keep it for every run. Written by the thread of the rank
// alone; any thread may read at any time, and skips an entry that is being written.
//
// With LOSSGRID_BREADCRUMBS=DIR in the environment the record of rank 5 is DIR/rank00005.crumbs, a
// memory-mapped file: the kernel keeps its contents if the process is killed. The file is a
// FlightRecorderPage in the byte order of the machine, made anew at the begin of every run of
// ranks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/comm/faults/rank_trace.h"

namespace lossgrid {

inline constexpr std::size_t kRecordedCalls = 16;
/// The environment variable that names the folder.
inline constexpr const char* kFlightRecorderVariable = "LOSSGRID_BREADCRUMBS";

/// One recorded call. Words are atomic for readers in other threads.
struct RecordedCallSlot {
  std::atomic<std::uint64_t> order;   // of the call in the run, from 1; 0: empty or being written
  std::atomic<std::uint64_t> number;  // within its communicator, from 1
  std::atomic<std::uint64_t> count;   // elements
  // From the lowest bit: operation (8: a Collective, or kCollectives for a split), dtype (8), op +
  // 1 (8), root + 1 (32), done (1).
  std::atomic<std::uint64_t> call;
  std::array<std::atomic<std::uint64_t>, 2> communicator;  // its name, cut off at 16 bytes
};

/// Record of one rank: the contents of its file.
struct FlightRecorderPage {
  std::atomic<std::uint64_t> format;  // kFlightRecorderFormat once all else is there
  std::atomic<std::uint64_t> run;     // of this process, from 1; the same in all processes of a job
  std::atomic<std::uint64_t> ranks;   // of the run
  std::atomic<std::uint64_t> rank;
  std::atomic<std::uint64_t> phase;    // a RankPhase
  std::atomic<std::uint64_t> end;      // a RankEnd
  std::atomic<std::uint64_t> entered;  // collectives; the last is in slot (entered - 1) % 16
  std::array<RecordedCallSlot, kRecordedCalls> slots;
};
inline constexpr std::uint64_t kFlightRecorderFormat = 0x31424D555243474C;  // "LGCRUMB1" in memory
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(FlightRecorderPage) == (7 + 6 * kRecordedCalls) * sizeof(std::uint64_t));

class FlightRecorder {
 public:
  /// Makes the recorder of `rank` in the `run`-th run of this process, which has `ranks` ranks; in
  /// the folder of the environment variable if it is set, else in memory. Throws io with the file.
  FlightRecorder(std::uint64_t run, int ranks, int rank);
  /// Makes it in `directory`, which is made if it is missing; in memory if that is "".
  FlightRecorder(std::uint64_t run, int ranks, int rank, const std::string& directory);

  void enter_phase(RankPhase phase) { store(page_->phase, static_cast<std::uint64_t>(phase)); }
  void finish(RankEnd end) { store(page_->end, static_cast<std::uint64_t>(end)); }

  /// Records that the rank enters a call. No operation: a split.
  void enter(std::optional<Collective> operation, std::size_t count, DType dtype,
             std::optional<ReduceOp> op, std::optional<int> root, std::uint64_t number,
             std::string_view communicator);
  /// Records that the rank has left the last call. Not called for a call that throws.
  void leave();

  RankTrace trace() const;

 private:
  static void store(std::atomic<std::uint64_t>& word, std::uint64_t value) {
    word.store(value, std::memory_order_release);
  }
  RecordedCallSlot& last() { return page_->slots[(entered_ - 1) % kRecordedCalls]; }

  std::shared_ptr<FlightRecorderPage> page_;
  std::uint64_t entered_ = 0;
};

/// Makes a decorator that forwards to `inner` and records every collective and split, also of
/// communicators split off it. Calls are numbered from 1, as in the messages of transports, so it
/// has to see all of them. Both outlive the decorator.
std::unique_ptr<Communicator> record_calls(Communicator& inner, FlightRecorder& recorder);

/// Scope in which `recorder` is that of this thread, for enter_phase().
class FlightRecorderScope {
 public:
  explicit FlightRecorderScope(FlightRecorder& recorder);
  ~FlightRecorderScope();
  FlightRecorderScope(const FlightRecorderScope&) = delete;
  FlightRecorderScope& operator=(const FlightRecorderScope&) = delete;

 private:
  FlightRecorder* outer_;
};

/// Sets the phase in the recorder of this thread, and reports it to the observer of this thread
/// (harness/core/rank_observer.h); nothing if there is neither.
void enter_phase(RankPhase phase);

/// Reads the records of the newest run in `directory`: one for each of its ranks, by rank. Ranks
/// without a complete file of that run are not `known`. Empty without any file. Runs are counted
/// from the start of a process, so a directory serves one start only.
std::vector<RankTrace> read_flight_records(const std::string& directory);

}  // namespace lossgrid
