// SPDX-License-Identifier: Apache-2.0
#include "fibers/fibers.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "harness/core/error.h"
#include "harness/core/philox.h"
#include "harness/core/process/sanitizers.h"
#include "harness/device/kernel/block_sums.h"

#if LOSSGRID_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if LOSSGRID_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace lossgrid {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;
constexpr unsigned kInNoOrder = 1;  // of __tsan_switch_to_fiber

bool same(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         std::strcmp(a.file_name(), b.file_name()) == 0;
}

bool same(const WaitPlace& a, const WaitPlace& b) {
  return same(a.at, b.at) && same(a.outer, b.outer);
}

std::string text_of(const std::source_location& place) {
  const std::string_view file = place.file_name();
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), place.line());
}

}  // namespace

struct Fibers::State {
  enum class Step { ready, at_barrier, at_shuffle, ended };

  struct Fiber {
    ucontext_t context;
    void* stack = MAP_FAILED;
    void* watched = nullptr;  // the sanitizer's name
    void* fake_stack = nullptr;
    Step step = Step::ready;
    WaitPlace place;
    int barriers = 0;  // of this launch
  };

  Fiber fibers[kBlockThreads];
  ucontext_t scheduler;
  void* watched_scheduler = nullptr;
  void* fake_stack = nullptr;
  const void* scheduler_stack = nullptr;
  std::size_t scheduler_stack_bytes = 0;
  bool begun = false;  // contexts of the fibers stand
  int current = 0;
  const std::function<void(int)>* body = nullptr;
  char start = 0;  // addresses for the sanitizer: of the launch,
  char end = 0;    // of its end
  char barriers[2] = {};
  char parked = 0;  // of fibers that are left behind

  ~State() {
    for (Fiber& fiber : fibers) {
      if (fiber.stack != MAP_FAILED) munmap(fiber.stack, kStackBytes);
#if LOSSGRID_TSAN
      if (fiber.watched != nullptr) __tsan_destroy_fiber(fiber.watched);
#endif
    }
  }

  void begin() {
    if (begun) return;
    begun = true;
    for (Fiber& fiber : fibers) {
      if (fiber.stack == MAP_FAILED) {
        fiber.stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (fiber.stack == MAP_FAILED) {
          throw Error(ErrorCode::not_enough_memory, "no memory for the stack of a fiber");
        }
      }
#if LOSSGRID_TSAN
      if (fiber.watched == nullptr) fiber.watched = __tsan_create_fiber(0);
#endif
      fiber.fake_stack = nullptr;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack;
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = nullptr;
      const auto address = reinterpret_cast<std::uintptr_t>(this);
      makecontext(&fiber.context, reinterpret_cast<void (*)()>(&State::live), 2,
                  static_cast<unsigned>(address), static_cast<unsigned>(address >> 32));
    }
  }

  /// Code of a fiber: a body a launch, for ever.
  LOSSGRID_UNWATCHED static void live(unsigned low, unsigned high) {
    auto* state = reinterpret_cast<State*>(static_cast<std::uintptr_t>(low) |
                                           static_cast<std::uintptr_t>(high) << 32);
    state->arrive();
    for (;;) {
      state->acquire(&state->start);
      (*state->body)(state->current);
      state->release(&state->end);
      state->fibers[state->current].step = Step::ended;
      state->leave();
    }
  }

  void acquire([[maybe_unused]] char* what) {
#if LOSSGRID_TSAN
    __tsan_acquire(what);
#endif
  }
  void release([[maybe_unused]] char* what) {
#if LOSSGRID_TSAN
    __tsan_release(what);
#endif
  }

  /// Runs a fiber until it leaves.
  LOSSGRID_UNWATCHED void resume(int thread) {
    current = thread;
    Fiber& fiber = fibers[thread];
#if LOSSGRID_TSAN
    __tsan_switch_to_fiber(fiber.watched, kInNoOrder);
#endif
#if LOSSGRID_ASAN
    __sanitizer_start_switch_fiber(&fake_stack, fiber.stack, kStackBytes);
#endif
    swapcontext(&scheduler, &fiber.context);
#if LOSSGRID_ASAN
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  }

  /// Goes back to the scheduler, until the fiber is resumed.
  LOSSGRID_UNWATCHED void leave() {
    Fiber& fiber = fibers[current];
#if LOSSGRID_TSAN
    __tsan_switch_to_fiber(watched_scheduler, kInNoOrder);
#endif
#if LOSSGRID_ASAN
    __sanitizer_start_switch_fiber(&fiber.fake_stack, scheduler_stack, scheduler_stack_bytes);
#endif
    swapcontext(&fiber.context, &scheduler);
    arrive();
  }

  LOSSGRID_UNWATCHED void arrive() {
#if LOSSGRID_ASAN
    __sanitizer_finish_switch_fiber(fibers[current].fake_stack, &scheduler_stack,
                                    &scheduler_stack_bytes);
#endif
  }

  /// Returns 0 and 1 in turn to each thread.
  LOSSGRID_UNWATCHED int next_barrier() {
    return fibers[current].barriers++ % 2;
  }

  LOSSGRID_UNWATCHED void wait(Step step, const WaitPlace& place) {
    release(&parked);
    fibers[current].step = step;
    fibers[current].place = place;
    leave();
  }

  /// Returns the number of threads in [begin, end) that wait as the first one does, at its place.
  int waiting(Step step, int begin, int end) const {
    int count = 0;
    for (int k = begin; k < end; ++k) {
      const Fiber& fiber = fibers[k];
      count += fiber.step == step && same(fiber.place, fibers[begin].place) ? 1 : 0;
    }
    return count;
  }

  void let_go(int begin, int end) {
    for (int k = begin; k < end; ++k) fibers[k].step = Step::ready;
  }

  /// Lets whole warps go on whose threads have all come. Returns true if there was one.
  bool let_warps_go() {
    bool any = false;
    for (int begin = 0; begin < kBlockThreads; begin += kWarpThreads) {
      if (waiting(Step::at_shuffle, begin, begin + kWarpThreads) < kWarpThreads) continue;
      let_go(begin, begin + kWarpThreads);
      any = true;
    }
    return any;
  }

  bool is_ready(int thread) const {
    return fibers[thread].step == Step::ready;
  }
  bool any_ready() const {
    return std::any_of(std::begin(fibers), std::end(fibers),
                       [](const Fiber& fiber) { return fiber.step == Step::ready; });
  }
  bool all_ended() const {
    return std::all_of(std::begin(fibers), std::end(fibers),
                       [](const Fiber& fiber) { return fiber.step == Step::ended; });
  }

  /// Returns the places where threads are, with their numbers.
  std::string places() const {
    std::map<std::string, int> threads;
    for (const Fiber& fiber : fibers) {
      std::string place = "have ended";
      if (fiber.step != Step::ended) {
        place = fmt::format("wait at a {} ({}, from {})",
                            fiber.step == Step::at_barrier ? "barrier" : "shuffle",
                            text_of(fiber.place.at), text_of(fiber.place.outer));
      }
      ++threads[place];
    }
    std::string text;
    for (const auto& [place, count] : threads) {
      text += fmt::format("{}{} threads {}", text.empty() ? "" : ", ", count, place);
    }
    return text;
  }
};

Fibers::Fibers() : state_(std::make_unique<State>()) {}
Fibers::~Fibers() = default;

Fibers& Fibers::of_this_thread() {
  thread_local Fibers fibers;
  return fibers;
}

void Fibers::run(std::uint64_t seed, const std::function<void(int)>& body) {
  State& state = *state_;
  state.begin();
#if LOSSGRID_TSAN
  state.watched_scheduler = __tsan_get_current_fiber();
#endif
  state.body = &body;
  state.let_go(0, kBlockThreads);
  for (State::Fiber& fiber : state.fibers) fiber.barriers = 0;
  state.release(&state.start);
  const RandomStream random(seed, 0);
  int order[kBlockThreads];
  std::iota(std::begin(order), std::end(order), 0);
  for (std::uint64_t turn = 0; !state.all_ended(); ++turn) {
    for (std::uint32_t k = kBlockThreads - 1; k > 0; --k) {
      std::swap(order[k], order[random.below(k + 1, turn, k)]);
    }
    // Some warps stay behind, while others go on from shuffle to shuffle.
    const std::uint32_t held_back = random.block(turn, kBlockThreads)[0];
    bool any = false;
    for (const int thread : order) {
      if ((held_back >> thread / kWarpThreads & 1) != 0 || !state.is_ready(thread)) continue;
      state.resume(thread);
      any = true;
    }
    if (state.let_warps_go() || any || state.any_ready()) continue;
    if (state.all_ended()) break;
    if (state.waiting(State::Step::at_barrier, 0, kBlockThreads) < kBlockThreads) {
      state.begun = false;  // the fibers are left where they are
      state.acquire(&state.end);
      state.acquire(&state.parked);
      throw Error(ErrorCode::internal, state.places());
    }
    state.let_go(0, kBlockThreads);
  }
  state.acquire(&state.end);
}

LOSSGRID_UNWATCHED int Fibers::thread() const {
  return state_->current;
}

/// A thread that is still to leave a barrier must not learn of what others do on their way to the
/// next one, which has an address of its own.
void Fibers::wait_for_block(const WaitPlace& place) {
  char* barrier = &state_->barriers[state_->next_barrier()];
  state_->release(barrier);
  state_->wait(State::Step::at_barrier, place);
  state_->acquire(barrier);
}

void Fibers::wait_for_warp(const WaitPlace& place) {
  state_->wait(State::Step::at_shuffle, place);
}

}  // namespace lossgrid
