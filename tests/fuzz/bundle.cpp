// SPDX-License-Identifier: Apache-2.0
// Bundles: a file that is taken and written is read back the same.
#include "harness/problem/bundle/bundle.h"

#include <bit>
#include <span>
#include <vector>

#include <fcntl.h>

#include "fuzz/memory_file.h"

namespace lossgrid {
namespace {

/// Returns the bits of all logits, as ranks read them.
std::vector<std::uint64_t> logit_bits(const Problem& problem) {
  const auto vocab = static_cast<std::size_t>(problem.spec.vocab);
  std::vector<float> as_float(vocab);
  std::vector<double> row(vocab);
  std::vector<std::uint64_t> bits;
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    problem.logits->read(t, 0, std::span<float>(as_float));
    problem.logits->read(t, 0, std::span<double>(row));
    for (const double value : row) bits.push_back(std::bit_cast<std::uint64_t>(value));
  }
  return bits;
}

/// Writes the bundle into a pipe and reads it from there.
Bundle copy_of(const Bundle& bundle) {
  constexpr int kCapacity = 1 << 20;
  int ends[2];
  require(::pipe(ends) == 0, "no pipe");
  require(::fcntl(ends[1], F_SETPIPE_SZ, kCapacity) >= kCapacity, "a small pipe");
  const auto path = [&](int end) { return "/proc/self/fd/" + std::to_string(ends[end]); };
  write_bundle(path(1), bundle.problem, bundle.expected);
  ::close(ends[1]);
  Bundle copy = read_bundle(path(0));
  ::close(ends[0]);
  return copy;
}

}  // namespace
}  // namespace lossgrid

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lossgrid;
  const MemoryFile file(data, size);
  const auto bundle = taken([&] { return read_bundle(file.path()); });
  if (!bundle) return 0;
  const Bundle copy = copy_of(*bundle);
  const Problem& from = bundle->problem;
  const Problem& to = copy.problem;
  require(to.spec == from.spec, "a written bundle has the same case");
  require(to.lengths == from.lengths && to.input_ids == from.input_ids,
          "a written bundle has the same tokens");
  require(to.token_mask == from.token_mask && to.sample_mask == from.sample_mask,
          "a written bundle has the same masks");
  require(logit_bits(to) == logit_bits(from), "a written bundle has the same logits");
  require(copy.expected.has_value() == bundle->expected.has_value(),
          "a written bundle has the same results");
  return 0;
}
