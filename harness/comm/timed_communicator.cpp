// SPDX-License-Identifier: Apache-2.0
// Collectives of a rank follow each other, so one start time is enough.
#include "harness/comm/timed_communicator.h"

#include "harness/comm/forwarding_communicator.h"

namespace lossgrid {
namespace {

class TimedCommunicator final : public ForwardingCommunicator {
 public:
  template <typename Inner>
  TimedCommunicator(Inner&& inner, std::int64_t& total_ns, ClockNs clock)
      : ForwardingCommunicator(std::forward<Inner>(inner)),
        total_ns_(&total_ns),
        clock_(std::move(clock)) {}

 private:
  void before(Collective /*collective*/, std::size_t /*payload_bytes*/) override {
    start_ns_ = clock_();
  }
  void after(Collective /*collective*/) override { *total_ns_ += clock_() - start_ns_; }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> inner) override {
    return std::make_unique<TimedCommunicator>(std::move(inner), *total_ns_, clock_);
  }

  std::int64_t* total_ns_;
  ClockNs clock_;
  std::int64_t start_ns_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> time_calls(Communicator& inner, std::int64_t& total_ns,
                                         ClockNs clock) {
  return std::make_unique<TimedCommunicator>(inner, total_ns, std::move(clock));
}

}  // namespace lossgrid
