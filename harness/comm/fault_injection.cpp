// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/fault_injection.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <set>
#include <thread>
#include <vector>

#include "harness/comm/forwarding_communicator.h"
#include "harness/core/error.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

constexpr int kExitOfAbort = 134;  // what a shell shows for SIGABRT

FaultKind parse_kind(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, FaultKind>, 4> kKinds{
      {{"throw", FaultKind::throws},
       {"hang", FaultKind::hangs},
       {"leave", FaultKind::leaves},
       {"die", FaultKind::dies}}};
  std::vector<std::string> names;
  for (const auto& [name, kind] : kKinds) {
    if (name == text) return kind;
    names.emplace_back(name);
  }
  throw Error(ErrorCode::usage, unknown_name_message("kind of fault", text, names));
}

class FaultyCommunicator final : public ForwardingCommunicator {
 public:
  template <typename Inner>
  FaultyCommunicator(Inner&& inner, FaultInjector& injector)
      : ForwardingCommunicator(std::forward<Inner>(inner)), injector_(&injector) {}

 private:
  void before(Collective collective, std::size_t /*payload_bytes*/) override {
    injector_->before_call(lossgrid::name(collective));
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> inner) override {
    return std::make_unique<FaultyCommunicator>(std::move(inner), *injector_);
  }

  FaultInjector* injector_;
};

}  // namespace

Fault parse_fault(std::string_view text) {
  Fault fault;
  std::set<std::string> seen;
  const auto integer = [&](const std::string& value, const char* what, int low) {
    try {
      return static_cast<int>(parse_integer(value, what, low, std::numeric_limits<int>::max()));
    } catch (const Error& error) {
      throw Error(ErrorCode::usage, fmt::format("fault '{}': {}", text, error.what()));
    }
  };
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (!seen.insert(key).second) {
      throw Error(ErrorCode::usage, fmt::format("fault '{}' has '{}' twice", text, key));
    }
    if (key == "rank") {
      fault.rank = integer(value, "rank", 0);
    } else if (key == "call") {
      fault.call = integer(value, "call", 1);
    } else if (key == "kind") {
      fault.kind = parse_kind(value);
    } else {
      const std::vector<std::string> known{"rank", "call", "kind"};
      throw Error(ErrorCode::usage, unknown_name_message("key of a fault", key, known));
    }
  }
  for (const char* key : {"rank", "kind"}) {
    if (!seen.contains(key)) {
      throw Error(ErrorCode::usage, fmt::format("fault '{}' lacks '{}='", text, key));
    }
  }
  return fault;
}

void FaultInjector::before_call(std::string_view what) {
  if (world_rank_ != fault_.rank || ++calls_ != fault_.call) return;
  switch (fault_.kind) {
    case FaultKind::throws:
      throw Error(ErrorCode::rank_failed,
                  fmt::format("injected failure before {} (call {})", what, fault_.call));
    case FaultKind::hangs:
      // Touches nothing that others own: the thread is left behind.
      while (true) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    case FaultKind::leaves:
      throw RankLeaves{};
    case FaultKind::dies:
      std::_Exit(kExitOfAbort);
  }
}

std::unique_ptr<Communicator> inject_faults(Communicator& inner, FaultInjector& injector) {
  return std::make_unique<FaultyCommunicator>(inner, injector);
}

}  // namespace lossgrid
