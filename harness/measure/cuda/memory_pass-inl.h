// SPDX-License-Identifier: Apache-2.0
// Passes over memory as code of a block: every thread loads four vectors of 16 bytes before it uses
// the first one, and blocks are small, so that the last block ends soon after the others. In the
// persistent variant a thread loads eight vectors, and there are as many blocks as the GPU runs at
// once.
#pragma once

#include "harness/device/kernel/portable.h"
#include "harness/measure/cuda/cuda_memory_pass.h"

namespace lossgrid {

struct alignas(kVectorBytes) PassVector {
  std::uint32_t words[4];
};

/// Loads a vector; with kStream it is marked as first to leave the caches.
template <bool kStream>
LOSSGRID_KERNEL PassVector load_vector(const PassVector* from) {
#ifdef __CUDACC__
  const auto* vector = reinterpret_cast<const uint4*>(from);
  const uint4 x = kStream ? __ldcs(vector) : *vector;
  return {{x.x, x.y, x.z, x.w}};
#else
  return *from;
#endif
}
template <bool kStream>
LOSSGRID_KERNEL void store_vector(const PassVector& x, PassVector* to) {
#ifdef __CUDACC__
  const uint4 vector = make_uint4(x.words[0], x.words[1], x.words[2], x.words[3]);
  if (kStream) {
    __stcs(reinterpret_cast<uint4*>(to), vector);
  } else {
    *reinterpret_cast<uint4*>(to) = vector;
  }
#else
  *to = x;
#endif
}

/// kPieces: number of pieces from which a thread loads at once.
template <MemoryKernel kKernel, bool kStream, int kPieces>
struct MemoryPassKernel {
  CudaMemoryPass pass;
  std::int64_t pieces;
  std::int64_t blocks;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    const auto sums = block.each([&](int thread) {
      std::uint32_t sum = 0;
      for (std::int64_t p = block.index(); p < pieces; p += kPieces * blocks)
        sum += sweep(p, thread);
      return sum;
    });
    if constexpr (kKernel == MemoryKernel::read) {
      const std::uint32_t whole = block.reduce(
          sums, std::uint32_t{0}, [](std::uint32_t a, std::uint32_t b) { return a + b; });
      block.one([&] {
        pass.sums[block.index()] = whole;
        for (std::int64_t p = block.index() + blocks; p < pieces; p += blocks) pass.sums[p] = 0;
      });
    }
  }

 private:
  static constexpr std::uint32_t kSignBit = 0x80000000u;
  static constexpr int kVectors = kPieces * kVectorsATurn;

  /// Returns the place of vector k of a thread, in `piece` and the following pieces of the block.
  LOSSGRID_KERNEL std::int64_t place(std::int64_t piece, int thread, int k) const {
    return ((piece + k / kVectorsATurn * blocks) * kVectorsATurn + k % kVectorsATurn) *
               kBlockThreads +
           thread;
  }

  /// Processes the part of a thread in kPieces pieces. Returns the sum of its reads.
  LOSSGRID_KERNEL std::uint32_t sweep(std::int64_t piece, int thread) const {
    const void* source = kKernel == MemoryKernel::update ? pass.to : pass.from;
    const auto* from = static_cast<const PassVector*>(source);
    auto* to = static_cast<PassVector*>(pass.to);
    const std::int64_t count = pass.bytes / kVectorBytes;
    PassVector x[kVectors];
    for (int k = 0; k < kVectors; ++k) {
      const std::int64_t v = place(piece, thread, k);
      x[k] = v < count ? load_vector<kStream>(from + v) : PassVector{};
    }
    std::uint32_t sum = 0;
    for (int k = 0; k < kVectors; ++k) {
      const std::int64_t v = place(piece, thread, k);
      for (std::uint32_t& word : x[k].words) {
        sum += word;
        if constexpr (kKernel == MemoryKernel::update) word ^= kSignBit;
      }
      if constexpr (kKernel != MemoryKernel::read) {
        if (v < count) store_vector<kStream>(x[k], to + v);
      }
    }
    const std::int64_t behind = pieces - 1 - piece;  // pieces after this one
    const bool has_last = behind % blocks == 0 && behind / blocks < kPieces;
    return has_last && thread == 0 ? sum + sweep_rest(count * kVectorBytes) : sum;
  }

  /// Processes the bytes after the last whole vector.
  LOSSGRID_KERNEL std::uint32_t sweep_rest(std::int64_t begin) const {
    const auto* from = static_cast<const unsigned char*>(pass.from);
    auto* to = static_cast<unsigned char*>(pass.to);
    std::uint32_t sum = 0;
    if constexpr (kKernel == MemoryKernel::copy) {
      for (std::int64_t k = begin; k < pass.bytes; ++k) to[k] = from[k];
    } else {
      for (std::int64_t k = begin; k + 4 <= pass.bytes; k += 4) {
        if constexpr (kKernel == MemoryKernel::read) {
          sum += *reinterpret_cast<const std::uint32_t*>(from + k);
        } else {
          *reinterpret_cast<std::uint32_t*>(to + k) ^= kSignBit;
        }
      }
    }
    return sum;
  }
};

template <MemoryKernel kKernel, typename Launcher>
void launch_pass_of(Launcher& launch, const CudaMemoryPass& pass) {
  const std::int64_t pieces = piece_count(pass.bytes);
  if (pass.variant == MemoryVariant::persistent) {
    MemoryPassKernel<kKernel, true, 2> kernel{pass, pieces, pieces};
    const std::int64_t at_once = launch.blocks_at_once(kernel);
    if (at_once < pieces) kernel.blocks = at_once;
    launch(kernel, kernel.blocks, 0);
  } else if (pass.variant == MemoryVariant::streaming) {
    launch(MemoryPassKernel<kKernel, true, 1>{pass, pieces, pieces}, pieces, 0);
  } else {
    launch(MemoryPassKernel<kKernel, false, 1>{pass, pieces, pieces}, pieces, 0);
  }
}

/// Launches all variants but `library`. A Launcher is called with a kernel, its blocks and their
/// bytes of shared memory.
template <typename Launcher>
void launch_memory_pass(Launcher& launch, const CudaMemoryPass& pass) {
  switch (pass.kernel) {
    case MemoryKernel::copy:
      return launch_pass_of<MemoryKernel::copy>(launch, pass);
    case MemoryKernel::update:
      return launch_pass_of<MemoryKernel::update>(launch, pass);
    default:
      return launch_pass_of<MemoryKernel::read>(launch, pass);
  }
}

}  // namespace lossgrid
