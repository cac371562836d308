// SPDX-License-Identifier: Apache-2.0
// FlushDenormals: a scope in which denormal numbers count as zero, as operands and as results, in
// float and double arithmetic of this thread. Processors take up to a hundred cycles for each
// denormal number, and probabilities below 1.2e-38 do not matter. The scope sets control bits of
// x86 (MXCSR: DAZ, FTZ) or 64-bit Arm (FPCR: FZ); it has no effect on other processors.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace lossgrid {

class FlushDenormals {
 public:
  FlushDenormals() : before_(control()) { set_control(before_ | kFlush); }
  ~FlushDenormals() { set_control(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE2__)
  using Control = std::uint32_t;
  static constexpr Control kFlush = 0x8040;
  static Control control() {
    return _mm_getcsr();
  }
  static void set_control(Control control) {
    _mm_setcsr(control);
  }
#elif defined(__aarch64__)
  using Control = std::uint64_t;
  static constexpr Control kFlush = 1 << 24;
  static Control control() {
    Control control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    return control;
  }
  // Counts as a write of all memory, so that the compiler keeps arithmetic on memory in the scope.
  static void set_control(Control control) {
    asm volatile("msr fpcr, %0" ::"r"(control) : "memory");
  }
#else
  using Control = std::uint32_t;
  static constexpr Control kFlush = 0;
  static Control control() {
    return 0;
  }
  static void set_control(Control /*control*/) {}
#endif

  Control before_;
};

}  // namespace lossgrid
