// SPDX-License-Identifier: Apache-2.0
// Tests of kept logits: the bits of their source, each row made once.
#include "harness/problem/values/kept_logits.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

constexpr std::int64_t kKeptRows = 3;
constexpr std::int64_t kKeptVocab = 700;

/// Counts the rows that it makes.
class CountedLogits final : public LogitsSource {
 public:
  explicit CountedLogits(const CaseSpec& spec)
      : source_(make_random_logits(spec, std::vector<std::int32_t>(kKeptRows, 5))) {}

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    ++reads;
    source_->read(token, begin, out);
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    ++reads;
    source_->read(token, begin, out);
  }

  mutable std::atomic<int> reads = 0;

 private:
  std::shared_ptr<const LogitsSource> source_;
};

template <typename Real>
void expect_same_bits(const LogitsSource& kept, const LogitsSource& source) {
  for (const std::int64_t begin : {0, 1, 512, 690}) {
    for (std::int64_t row = 0; row < kKeptRows; ++row) {
      std::vector<Real> got(
          static_cast<std::size_t>(std::min<std::int64_t>(100, kKeptVocab - begin)));
      std::vector<Real> want(got.size());
      kept.read(row, begin, std::span<Real>(got));
      source.read(row, begin, std::span<Real>(want));
      EXPECT_EQ(got, want) << "row " << row << " from " << begin;
    }
  }
}

TEST(KeptLogits, HaveTheBitsOfTheirSourceAndReadItOnce) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    CaseSpec spec;
    spec.vocab = kKeptVocab;
    spec.dtype = dtype;
    const auto source = std::make_shared<const CountedLogits>(spec);
    const auto kept = keep_logits(source, kKeptRows, kKeptVocab, dtype);
    ASSERT_NE(kept.get(), source.get());
    const auto plain = make_random_logits(spec, std::vector<std::int32_t>(kKeptRows, 5));
    expect_same_bits<float>(*kept, *plain);
    expect_same_bits<double>(*kept, *plain);
    EXPECT_EQ(source->reads, kKeptRows);
  }
}

TEST(KeptLogits, ThreadsMakeARowOnce) {
  CaseSpec spec;
  spec.vocab = kKeptVocab;
  const auto source = std::make_shared<const CountedLogits>(spec);
  const auto kept = keep_logits(source, kKeptRows, kKeptVocab, DType::f32);
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] {
      std::vector<float> row(kKeptVocab);
      for (std::int64_t t = 0; t < kKeptRows; ++t) kept->read(t, 0, std::span<float>(row));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(source->reads, kKeptRows);
}

TEST(KeptLogits, LargeOnesAreMadeAgain) {
  CaseSpec spec;
  spec.vocab = kKeptVocab;
  const auto source = std::make_shared<const CountedLogits>(spec);
  const std::int64_t most = kMostKeptBytes / 4 / kKeptVocab;
  EXPECT_NE(keep_logits(source, most, kKeptVocab, DType::f32).get(), source.get());
  EXPECT_EQ(keep_logits(source, most + 1, kKeptVocab, DType::f32).get(), source.get());
  EXPECT_EQ(keep_logits(source, most / 2 + 1, kKeptVocab, DType::f64).get(), source.get());
}

}  // namespace
}  // namespace lossgrid
