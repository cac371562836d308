// SPDX-License-Identifier: Apache-2.0
// Runs the tests in every process of an MPI job: test_mpi [--segment_bytes=N] [GoogleTest flags].
// Rank 0 prints as usual, the others their failures; the exit code is the worst of all.
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "session.h"

namespace lossgrid {
namespace {

MpiSession* the_session = nullptr;

class FailuresOnly : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", session().rank(),
                 result.file_name() == nullptr ? "?" : result.file_name(), result.line_number(),
                 result.message());
  }
};

int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string key = "--segment_bytes=";
  std::size_t segment_bytes = kMpiSegmentBytes;
  for (const char* argument : std::span(argv, static_cast<std::size_t>(argc)).subspan(1)) {
    const std::string text = argument;
    if (text.starts_with(key)) segment_bytes = std::stoul(text.substr(key.size()));
  }
  MpiSession session(argc, argv, segment_bytes);
  the_session = &session;
  if (session.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly);
  }
  std::int32_t failed = RUN_ALL_TESTS();
  run_mpi_ranks(
      session, session.size(),
      [&](Communicator& world) { world.all_reduce(std::span(&failed, 1), ReduceOp::max); },
      kLongDeadline);
  return session.finish(failed);
}

}  // namespace

MpiSession& session() {
  return *the_session;
}

}  // namespace lossgrid

int main(int argc, char** argv) {
  return lossgrid::run_tests(argc, argv);
}
