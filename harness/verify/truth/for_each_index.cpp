// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/for_each_index.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lossgrid {

void for_each_index(std::int64_t count, int threads,
                    const std::function<void(std::int64_t)>& body) {
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    try {
      for (std::int64_t i = next++; i < count; i = next++) body(i);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (std::int64_t i = 1; i < std::min<std::int64_t>(threads, count); ++i) {
    others.emplace_back(work);
  }
  work();
  for (std::thread& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);
}

int threads_for(std::int64_t numbers, int threads) {
  constexpr std::int64_t kNumbersOfThread = 2000;
  return static_cast<int>(std::clamp<std::int64_t>(numbers / kNumbersOfThread, 1, threads));
}

}  // namespace lossgrid
