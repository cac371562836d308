// SPDX-License-Identifier: Apache-2.0
#include "harness/core/rank_observer.h"

namespace lossgrid {
namespace {

thread_local RankObserver* observer_of_thread = nullptr;

}  // namespace

RankObserver* rank_observer() noexcept {
  return observer_of_thread;
}

ObserverScope::ObserverScope(RankObserver& observer) noexcept : outer_(observer_of_thread) {
  observer_of_thread = &observer;
}

ObserverScope::~ObserverScope() {
  observer_of_thread = outer_;
}

}  // namespace lossgrid
