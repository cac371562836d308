// SPDX-License-Identifier: Apache-2.0
// A slot is a sequence lock whose words are all atomic: its order is 0 while it is written, and a
// reader takes it only when the order is the same before and after.
#include "harness/comm/faults/flight_recorder.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/comm/call_signature.h"
#include "harness/core/error.h"
#include "harness/core/rank_observer.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostRanks = 1 << 20;  // larger values: not a file of this program
constexpr std::uint64_t kSplit = kCollectives;
constexpr int kDtypeBit = 8;
constexpr int kOpBit = 16;
constexpr int kRootBit = 24;
constexpr std::uint64_t kDone = std::uint64_t{1} << 56;

thread_local FlightRecorder* recorder_of_thread = nullptr;

std::uint64_t load(const std::atomic<std::uint64_t>& word) {
  return word.load(std::memory_order_acquire);
}

std::string path_of(const std::string& directory, int rank) {
  return fmt::format("{}/rank{:05}.crumbs", directory, rank);
}

std::string directory_of_environment() {
  const char* directory = std::getenv(kFlightRecorderVariable);
  return directory == nullptr ? "" : directory;
}

/// Maps the file. Returns null with errno set on failure.
std::shared_ptr<FlightRecorderPage> map_file(const std::string& path, bool writable) {
  const int file = writable ? ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)
                            : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  constexpr auto kBytes = static_cast<::off_t>(sizeof(FlightRecorderPage));
  struct stat about {};
  const bool whole = writable ? ::ftruncate(file, kBytes) == 0
                              : ::fstat(file, &about) == 0 && about.st_size >= kBytes;
  void* memory = MAP_FAILED;
  if (whole) {
    memory = ::mmap(nullptr, sizeof(FlightRecorderPage),
                    writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
  }
  const int error = errno;
  ::close(file);  // the mapping stays
  errno = error;
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<FlightRecorderPage*>(memory),
          [](FlightRecorderPage* page) { ::munmap(page, sizeof(FlightRecorderPage)); }};
}

std::shared_ptr<FlightRecorderPage> make_page(const std::string& directory, int rank) {
  if (directory.empty()) return std::make_shared<FlightRecorderPage>();
  std::error_code error;
  fs::create_directories(directory, error);
  const std::string path = path_of(directory, rank);
  std::shared_ptr<FlightRecorderPage> page = map_file(path, true);
  if (page == nullptr) {
    throw Error(ErrorCode::io, fmt::format("cannot write {} ({}): {}", path,
                                           kFlightRecorderVariable, std::strerror(errno)));
  }
  page->format = 0;  // invalid until the record of the new run is there
  new (page.get()) FlightRecorderPage();
  return page;
}

CallSignature signature_of(std::uint64_t call, std::uint64_t count) {
  CallSignature signature;
  const std::uint64_t operation = call & 0xFF;
  const std::uint64_t op = (call >> kOpBit) & 0xFF;
  const std::uint64_t root = (call >> kRootBit) & 0xFFFFFFFF;
  if (operation != kSplit) signature.collective = static_cast<Collective>(operation);
  signature.count = count;
  signature.dtype = static_cast<DType>((call >> kDtypeBit) & 0xFF);
  if (op > 0) signature.op = static_cast<ReduceOp>(op - 1);
  if (root > 0) signature.root = static_cast<int>(root - 1);
  return signature;
}

std::optional<TracedCall> read_slot(const RecordedCallSlot& slot, std::uint64_t order) {
  if (load(slot.order) != order) return std::nullopt;
  const std::uint64_t call = load(slot.call);
  std::array<char, 17> communicator{};
  const std::array<std::uint64_t, 2> words{load(slot.communicator[0]), load(slot.communicator[1])};
  std::memcpy(communicator.data(), words.data(), sizeof(words));
  TracedCall traced{describe(signature_of(call, load(slot.count))), communicator.data(),
                    load(slot.number), (call & kDone) != 0};
  if (load(slot.order) != order) return std::nullopt;
  return traced;
}

RankTrace trace_of(const FlightRecorderPage& page) {
  RankTrace trace;
  trace.known = true;
  trace.rank = static_cast<int>(load(page.rank));
  trace.phase = static_cast<RankPhase>(load(page.phase));
  trace.end = static_cast<RankEnd>(load(page.end));
  const std::uint64_t entered = load(page.entered);
  for (std::uint64_t order = entered - std::min<std::uint64_t>(entered, kRecordedCalls) + 1;
       order <= entered; ++order) {
    auto call = read_slot(page.slots[(order - 1) % kRecordedCalls], order);
    if (call) trace.calls.push_back(std::move(*call));
  }
  return trace;
}

}  // namespace

FlightRecorder::FlightRecorder(std::uint64_t run, int ranks, int rank)
    : FlightRecorder(run, ranks, rank, directory_of_environment()) {}

FlightRecorder::FlightRecorder(std::uint64_t run, int ranks, int rank, const std::string& directory)
    : page_(make_page(directory, rank)) {
  store(page_->run, run);
  store(page_->ranks, static_cast<std::uint64_t>(ranks));
  store(page_->rank, static_cast<std::uint64_t>(rank));
  store(page_->format, kFlightRecorderFormat);
}

void FlightRecorder::enter(std::optional<Collective> operation, std::size_t count, DType dtype,
                           std::optional<ReduceOp> op, std::optional<int> root,
                           std::uint64_t number, std::string_view communicator) {
  std::array<std::uint64_t, 2> name{};
  std::memcpy(name.data(), communicator.data(), std::min(communicator.size(), sizeof(name)));
  std::uint64_t call = operation ? static_cast<std::uint64_t>(*operation) : kSplit;
  call |= static_cast<std::uint64_t>(dtype) << kDtypeBit;
  if (op) call |= (static_cast<std::uint64_t>(*op) + 1) << kOpBit;
  if (root) call |= (static_cast<std::uint64_t>(*root) + 1) << kRootBit;
  ++entered_;
  RecordedCallSlot& slot = last();
  store(slot.order, 0);
  store(slot.number, number);
  store(slot.count, count);
  store(slot.call, call);
  store(slot.communicator[0], name[0]);
  store(slot.communicator[1], name[1]);
  store(slot.order, entered_);
  store(page_->entered, entered_);
}

void FlightRecorder::leave() {
  RecordedCallSlot& slot = last();
  store(slot.call, slot.call.load(std::memory_order_relaxed) | kDone);
}

RankTrace FlightRecorder::trace() const {
  return trace_of(*page_);
}

FlightRecorderScope::FlightRecorderScope(FlightRecorder& recorder) : outer_(recorder_of_thread) {
  recorder_of_thread = &recorder;
}

FlightRecorderScope::~FlightRecorderScope() {
  recorder_of_thread = outer_;
}

void enter_phase(RankPhase phase) {
  if (recorder_of_thread != nullptr) recorder_of_thread->enter_phase(phase);
  if (RankObserver* observer = rank_observer()) observer->begin_phase(name(phase));
}

std::vector<RankTrace> read_flight_records(const std::string& directory) {
  std::vector<RankTrace> traces;
  std::uint64_t newest = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() != ".crumbs") continue;
    const std::shared_ptr<FlightRecorderPage> page = map_file(entry.path().string(), false);
    if (page == nullptr || load(page->format) != kFlightRecorderFormat) continue;
    const std::uint64_t run = load(page->run);
    const std::uint64_t ranks = load(page->ranks);
    const std::uint64_t rank = load(page->rank);
    if (run < newest || rank >= ranks || ranks > kMostRanks) continue;
    if (run > newest) {
      newest = run;
      traces.assign(ranks, {});
      for (std::size_t r = 0; r < ranks; ++r) traces[r].rank = static_cast<int>(r);
    }
    if (rank < traces.size()) traces[rank] = trace_of(*page);
  }
  return traces;
}

}  // namespace lossgrid
