// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/faults/fault_injection.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>

#include <unistd.h>

#include "harness/comm/forwarding_communicator.h"
#include "harness/core/error.h"

namespace lossgrid {
namespace {

constexpr int kExitCode = 3;  // none of ExitCode, and of no launcher

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

void FaultInjector::before_call(std::string_view collective) {
  if (!waits_ || fault_.phase != RankPhase::none || ++calls_ != fault_.call) return;
  fire();
  strike(fmt::format("before {} (call {})", collective, fault_.call));
}

void FaultInjector::at_phase(RankPhase phase) {
  const bool is_left_to_caller =
      fault_.kind == FaultKind::nan || fault_.kind == FaultKind::device_loss;
  if (is_left_to_caller || !fires_now(fault_.kind, phase)) return;
  strike(fmt::format("in {}", name(phase)));
}

bool FaultInjector::injects_nan(RankPhase phase) {
  return fires_now(FaultKind::nan, phase);
}

bool FaultInjector::injects_device_loss(RankPhase phase) {
  return fires_now(FaultKind::device_loss, phase);
}

bool FaultInjector::fires_now(FaultKind kind, RankPhase phase) {
  if (!waits_ || fault_.phase != phase || fault_.kind != kind) return false;
  fire();
  return true;
}

void FaultInjector::fire() {
  waits_ = false;
  *fault_.has_fired = true;
}

void FaultInjector::strike(const std::string& place) {
  switch (fault_.kind) {
    case FaultKind::exception:
      throw Error(ErrorCode::rank_failed, "injected failure " + place);
    case FaultKind::hang:
      // Uses nothing that others own, as the thread is left behind.
      while (true) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    case FaultKind::leave:
      throw RankLeft{};
    case FaultKind::exit:
      std::_Exit(kExitCode);
    case FaultKind::segfault:
      std::signal(SIGSEGV, SIG_DFL);  // MPI and sanitizers have handlers of their own
      std::raise(SIGSEGV);
      return;
    case FaultKind::kill:
      ::kill(::getpid(), SIGKILL);
      return;
    case FaultKind::out_of_memory:
      throw std::bad_alloc();
    case FaultKind::device_loss:
    case FaultKind::nan:
      return;
  }
}

std::unique_ptr<Communicator> inject_faults(Communicator& inner, FaultInjector& injector) {
  return std::make_unique<FaultyCommunicator>(inner, injector);
}

}  // namespace lossgrid
