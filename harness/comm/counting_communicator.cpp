// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/counting_communicator.h"

#include "harness/comm/forwarding_communicator.h"

namespace lossgrid {
namespace {

class CountingCommunicator final : public ForwardingCommunicator {
 public:
  template <typename Inner>
  CountingCommunicator(Inner&& inner, CollectiveCounts& counts)
      : ForwardingCommunicator(std::forward<Inner>(inner)), counts_(&counts) {}

 private:
  void before(Collective collective, std::size_t payload_bytes) override {
    counts_->add(collective, 1, static_cast<std::int64_t>(payload_bytes));
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> inner) override {
    return std::make_unique<CountingCommunicator>(std::move(inner), *counts_);
  }

  CollectiveCounts* counts_;
};

}  // namespace

CollectiveCount CollectiveCounts::total() const {
  CollectiveCount sum;
  for (const CollectiveCount& entry : by_operation) {
    sum.calls += entry.calls;
    sum.payload_bytes += entry.payload_bytes;
  }
  return sum;
}

std::unique_ptr<Communicator> count_calls(Communicator& inner, CollectiveCounts& counts) {
  return std::make_unique<CountingCommunicator>(inner, counts);
}

}  // namespace lossgrid
