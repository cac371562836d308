// SPDX-License-Identifier: Apache-2.0
// FlushDenormals: a scope in which denormal numbers count as zero, as operands and as results, in
// float and double arithmetic of this thread. Processors take a hundred cycles for each of them,
// and probabilities below 1.2e-38 do not matter. No effect on processors other than x86.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace lossgrid {

class FlushDenormals {
 public:
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
#if defined(__SSE2__)
  FlushDenormals() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero);
  }
  ~FlushDenormals() {
    _mm_setcsr(before_);
  }

 private:
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kDenormalsAreZero = 0x0040;
  unsigned before_;
#else
  FlushDenormals() {}  // not defaulted: else compilers take the scope for an unused variable
#endif
};

}  // namespace lossgrid
