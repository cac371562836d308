// SPDX-License-Identifier: Apache-2.0
// Products of all kinds against a plain float64 loop. Any order of float32 sums keeps the bound for
// values of both signs; a single wrong, missing or bf16-rounded term breaks it. Memory beyond the
// rows is NaN where it must not be read, and a mark where it must not be written.
#include "harness/device/gemm.h"

#include <cmath>
#include <cstring>
#include <latch>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/device/device.h"
#include "harness/device/kernel/rank_threads.h"

namespace lossgrid {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMark = -12345.0f;
constexpr std::int64_t kPadding = 3;

struct Shape {
  std::int64_t m, n, k;
};
constexpr Shape kOddShapes[] = {{1, 1, 1}, {3, 5, 7}, {1, 300, 33}, {300, 1, 33}, {65, 17, 129}};

float uniform(std::uint32_t& state) {  // [-1, 1]
  state = state * 1664525 + 1013904223;
  return static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
}

/// Makes op(M) [rows, columns], with `padding` NaNs after every stored row.
class Factor {
 public:
  Factor(DType dtype, std::int64_t rows, std::int64_t columns, bool transposed,
         std::int64_t padding, std::uint32_t seed)
      : dtype_(dtype), stride_((transposed ? rows : columns) + padding), transposed_(transposed) {
    const std::int64_t stored_rows = transposed ? columns : rows;
    for (std::int64_t i = 0; i < stored_rows * stride_; ++i) {
      const bool padded = i % stride_ >= stride_ - padding;
      const float value = padded ? kNan : uniform(seed);
      bf16_.emplace_back(value);
      f32_.push_back(dtype == DType::bf16 ? static_cast<float>(bf16_.back()) : value);
    }
  }

  double at(std::int64_t row, std::int64_t column) const {
    return f32_[static_cast<std::size_t>(transposed_ ? column * stride_ + row
                                                     : row * stride_ + column)];
  }
  Matrix matrix() const {
    const void* data = dtype_ == DType::bf16 ? static_cast<const void*>(bf16_.data()) : f32_.data();
    return {dtype_, data, stride_, transposed_};
  }

 private:
  DType dtype_;
  std::int64_t stride_;
  bool transposed_;
  std::vector<bf16> bf16_;
  std::vector<float> f32_;
};

struct Variant {
  DType a, b;
  bool transpose_a = false, transpose_b = false;
  std::int64_t padding = 0;
  float alpha = 1;
  bool accumulate = false;
};

/// Returns c of the product, with `padding` marks after every row; the workspace is just large
/// enough.
std::vector<float> multiply(const Shape& shape, const Variant& variant, const Factor& a,
                            const Factor& b, std::vector<float> c) {
  const auto floats = static_cast<std::size_t>(
      cpu_kernels().gemm_workspace_floats(variant.a, variant.b, shape.n, shape.k));
  std::vector<float> workspace(floats + 1, kMark);
  cpu_kernels().gemm({shape.m, shape.n, shape.k, a.matrix(), b.matrix(), c.data(),
                      shape.n + variant.padding, variant.alpha, variant.accumulate},
                     std::span(workspace).first(floats));
  EXPECT_EQ(workspace.back(), kMark);
  return c;
}

Factor make_a(const Shape& shape, const Variant& variant) {
  return {variant.a, shape.m, shape.k, variant.transpose_a, variant.padding, 1};
}
Factor make_b(const Shape& shape, const Variant& variant) {
  return {variant.b, shape.k, shape.n, variant.transpose_b, variant.padding, 2};
}

/// Makes the initial c: values to accumulate on, else NaN, which must not be read.
std::vector<float> initial_c(const Shape& shape, const Variant& variant) {
  const std::int64_t stride = shape.n + variant.padding;
  std::vector<float> c(static_cast<std::size_t>(shape.m * stride), kMark);
  std::uint32_t seed = 3;
  for (std::int64_t i = 0; i < shape.m * stride; ++i) {
    if (i % stride < shape.n) {
      c[static_cast<std::size_t>(i)] = variant.accumulate ? uniform(seed) : kNan;
    }
  }
  return c;
}

void expect_right(const Shape& shape, const Variant& variant) {
  SCOPED_TRACE(testing::Message() << shape.m << "x" << shape.n << "x" << shape.k << " "
                                  << name(variant.a) << (variant.transpose_a ? "^T " : " ")
                                  << name(variant.b) << (variant.transpose_b ? "^T" : "")
                                  << " padding " << variant.padding << " alpha " << variant.alpha
                                  << " accumulate " << variant.accumulate);
  const Factor a = make_a(shape, variant);
  const Factor b = make_b(shape, variant);
  const std::vector<float> before = initial_c(shape, variant);
  const std::vector<float> c = multiply(shape, variant, a, b, before);
  const std::int64_t stride = shape.n + variant.padding;
  for (std::int64_t i = 0; i < shape.m * stride; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t row = i / stride;
    const std::int64_t column = i % stride;
    if (column >= shape.n) {
      ASSERT_EQ(c[at], kMark) << "behind row " << row;
      continue;
    }
    double expected = variant.accumulate ? before[at] : 0;
    double magnitude = std::abs(expected);
    for (std::int64_t k = 0; k < shape.k; ++k) {
      const double term = variant.alpha * a.at(row, k) * b.at(k, column);
      expected += term;
      magnitude += std::abs(term);
    }
    ASSERT_NEAR(c[at], expected, 4 * unit_roundoff(DType::f32) * magnitude)
        << "row " << row << " column " << column;
  }
}

void expect_all_variants_right(DType a, DType b) {
  for (const Shape& shape : kOddShapes) {
    for (unsigned bits = 0; bits < 32; ++bits) {
      expect_right(shape, {.a = a,
                           .b = b,
                           .transpose_a = (bits & 1) != 0,
                           .transpose_b = (bits & 2) != 0,
                           .padding = (bits & 4) != 0 ? kPadding : 0,
                           .alpha = (bits & 8) != 0 ? 0.5f : 1.0f,
                           .accumulate = (bits & 16) != 0});
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

std::vector<Variant> variants_of_all_kinds() {
  std::vector<Variant> variants{{DType::f32, DType::f32}, {DType::f32, DType::bf16}};
  if (bf16_gemm_rates().native_supported) variants.push_back({DType::bf16, DType::bf16});
  return variants;
}

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

/// Tests with one thread, unless a test sets more, because threads of small products mostly wait
/// for each other.
class GemmTest : public testing::Test {
 protected:
  static constexpr int kAllThreads = std::numeric_limits<int>::max();
  GemmTest() { set_rank_threads(1); }
  ~GemmTest() override { set_rank_threads(kAllThreads); }
};

TEST_F(GemmTest, Float32) {
  expect_all_variants_right(DType::f32, DType::f32);
}

TEST_F(GemmTest, Float32TimesBf16) {
  expect_all_variants_right(DType::f32, DType::bf16);
}

TEST_F(GemmTest, NativeBf16) {
  if (!bf16_gemm_rates().native_supported) {
    GTEST_SKIP() << gemm_library() << " has no native product of bf16 matrices";
  }
  expect_all_variants_right(DType::bf16, DType::bf16);
}

// Two panels along n, and two along k; the last panel is shorter.
TEST_F(GemmTest, PanelsJoin) {
  set_rank_threads(kAllThreads);
  for (const Shape& shape : {Shape{2, 2700, 400}, Shape{2, 400, 2700}}) {
    for (const bool transpose : {false, true}) {
      expect_right(shape, {.a = DType::f32,
                           .b = DType::bf16,
                           .transpose_a = transpose,
                           .transpose_b = !transpose,
                           .padding = kPadding,
                           .alpha = 0.5f,
                           .accumulate = transpose});
    }
  }
}

TEST_F(GemmTest, WorkspaceIsAPanel) {
  const auto floats = cpu_kernels().gemm_workspace_floats;
  EXPECT_EQ(floats(DType::f32, DType::bf16, 10, 20), 200);
  EXPECT_EQ(floats(DType::f32, DType::bf16, 32768, 1024), 1 << 20);
  EXPECT_EQ(floats(DType::f32, DType::bf16, 2700, 400), 2621 * 400);
  EXPECT_EQ(floats(DType::f32, DType::bf16, 100000, 200000), 16 * 100000);
  EXPECT_EQ(floats(DType::f32, DType::bf16, 0, 20), 0);
  EXPECT_EQ(floats(DType::f32, DType::f32, 32768, 1024), 0);
  EXPECT_EQ(floats(DType::bf16, DType::bf16, 32768, 1024), 0);
}

TEST_F(GemmTest, EmptyExtents) {
  for (Variant variant : variants_of_all_kinds()) {
    variant.padding = kPadding;
    for (const bool accumulate : {false, true}) {
      variant.accumulate = accumulate;
      expect_right({0, 4, 5}, variant);
      expect_right({4, 0, 5}, variant);
      expect_right({4, 5, 0}, variant);  // c := 0, or stays
    }
  }
}

TEST_F(GemmTest, ImpossibleArgumentsAreErrors) {
  std::vector<float> values(100);
  const Matrix square{DType::f32, values.data(), 5};
  const auto code = [](const Gemm& product,
                       std::span<float> workspace) -> std::optional<ErrorCode> {
    try {
      cpu_kernels().gemm(product, workspace);
      return std::nullopt;
    } catch (const Error& error) {
      return error.code();
    }
  };
  const Gemm right{2, 3, 5, square, square, values.data() + 50, 5};
  EXPECT_EQ(code(right, {}), std::nullopt);
  const auto expect_error = [&](auto change) {
    Gemm wrong = right;
    change(wrong);
    EXPECT_EQ(code(wrong, {}), ErrorCode::internal);
  };
  expect_error([](Gemm& g) { g.m = -1; });
  expect_error([](Gemm& g) { g.a.stride = 4; });
  expect_error([](Gemm& g) { g.b.stride = 2; });
  expect_error([](Gemm& g) { g.stride = 2, g.k = 0; });
  expect_error([](Gemm& g) { g.b.transposed = true, g.b.stride = 4; });
  expect_error([](Gemm& g) { g.a.dtype = DType::bf16; });
  expect_error([](Gemm& g) { g.b.dtype = DType::bf16; });  // without a workspace
  expect_error([](Gemm& g) { g.a.dtype = g.b.dtype = DType::f64; });
}

// Shapes whose rows and columns, or k, are divided among threads.
TEST_F(GemmTest, ThreadsShareOneProduct) {
  set_rank_threads(kAllThreads);
  for (const Shape& shape : {Shape{130, 200, 50}, Shape{8, 8, 20000}}) {
    for (Variant variant : variants_of_all_kinds()) {
      variant.padding = kPadding;
      variant.transpose_b = true;
      variant.accumulate = true;
      expect_right(shape, variant);
    }
  }
}

TEST_F(GemmTest, RunsGiveTheSameBits) {
  set_rank_threads(kAllThreads);
  for (const Shape& shape : {Shape{65, 400, 300}, Shape{16, 16, 20000}}) {
    for (const Variant& variant : variants_of_all_kinds()) {
      const Factor a = make_a(shape, variant);
      const Factor b = make_b(shape, variant);
      const std::vector<float> zero(static_cast<std::size_t>(shape.m * shape.n));
      const std::vector<float> first = multiply(shape, variant, a, b, zero);
      for (int run = 0; run < 5; ++run) {
        EXPECT_TRUE(same_bits(multiply(shape, variant, a, b, zero), first)) << name(variant.b);
      }
    }
  }
}

// Every caller has different values, so that no result can pass for another caller's.
TEST_F(GemmTest, ConcurrentCallsGiveTheBitsOfOne) {
  constexpr unsigned kCallers = 4;
  static constexpr Shape kShape{33, 200, 150};
  for (const Variant& variant : variants_of_all_kinds()) {
    std::latch alone_done(kCallers);
    std::mutex alone;
    std::vector<int> same(kCallers, 1);
    const auto call = [&](unsigned caller) {
      set_rank_threads(1);
      const Factor a = make_a(kShape, variant);
      const Factor b(variant.b, kShape.k, kShape.n, false, 0, caller);
      const std::vector<float> zero(kShape.m * kShape.n);
      const auto product = [&] { return multiply(kShape, variant, a, b, zero); };
      const std::vector<float> expected = (std::lock_guard(alone), product());
      alone_done.arrive_and_wait();
      for (int run = 0; run < 200; ++run) same[caller] &= same_bits(product(), expected);
    };
    std::vector<std::thread> threads;
    for (unsigned caller = 0; caller < kCallers; ++caller) threads.emplace_back(call, caller);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(same, std::vector<int>(kCallers, 1)) << name(variant.a) << " x " << name(variant.b);
  }
}

TEST(Bf16GemmRates, FasterIsTheHigherRate) {
  EXPECT_EQ((Bf16GemmRates{true, 2e9, 1e9}.faster()), Bf16Gemm::native);
  EXPECT_EQ((Bf16GemmRates{true, 1e9, 2e9}.faster()), Bf16Gemm::converted);
  EXPECT_EQ((Bf16GemmRates{false, 0, 1e9}.faster()), Bf16Gemm::converted);
}

TEST_F(GemmTest, RatesAreMeasuredOnce) {
  const Bf16GemmRates rates = bf16_gemm_rates();
  EXPECT_GT(rates.converted_flops, 0);
  EXPECT_EQ(rates.native_flops > 0, rates.native_supported);
  EXPECT_EQ(bf16_gemm_rates().converted_flops, rates.converted_flops);
}

TEST(GemmLibrary, NamesVersionAndInstructions) {
  EXPECT_TRUE(gemm_library().starts_with("oneDNN 2.")) << gemm_library();
  EXPECT_EQ(gemm_library().find("cpu_isa"), std::string::npos) << gemm_library();
}

TEST(Gemm, LargeProductsAreRightWhicheverKernelMakesThem) {
  // Large enough for the primitive with a transposed b, or a transposed a and a long sum.
  struct Shape {
    std::int64_t m, n, k;
    bool a_transposed, b_transposed;
  };
  for (const Shape& shape :
       {Shape{256, 512, 640, false, true}, Shape{160, 320, 1500, true, false}}) {
    std::vector<float> a(static_cast<std::size_t>(shape.m * shape.k));
    std::vector<float> b(static_cast<std::size_t>(shape.k * shape.n));
    for (std::size_t k = 0; k < a.size(); ++k) a[k] = static_cast<float>(k % 13) - 6;
    for (std::size_t k = 0; k < b.size(); ++k) b[k] = static_cast<float>(k % 7) - 3;
    std::vector<float> c(static_cast<std::size_t>(shape.m * shape.n), 2.0f);
    Gemm product{};
    product.m = shape.m;
    product.n = shape.n;
    product.k = shape.k;
    product.a = {DType::f32, a.data(), shape.a_transposed ? shape.m : shape.k, shape.a_transposed};
    product.b = {DType::f32, b.data(), shape.b_transposed ? shape.k : shape.n, shape.b_transposed};
    product.c = c.data();
    product.stride = shape.n;
    product.alpha = 0.5f;
    product.accumulate = true;
    cpu_kernels().gemm(product, {});
    for (std::int64_t i = 0; i < shape.m; i += 37) {
      for (std::int64_t j = 0; j < shape.n; j += 41) {
        double want = 0;
        for (std::int64_t k = 0; k < shape.k; ++k) {
          want += static_cast<double>(a[shape.a_transposed ? k * shape.m + i : i * shape.k + k]) *
                  static_cast<double>(b[shape.b_transposed ? j * shape.k + k : k * shape.n + j]);
        }
        EXPECT_EQ(c[i * shape.n + j], 2 + 0.5 * want) << i << ' ' << j;  // small whole numbers
      }
    }
  }
}

TEST(Kernels, AddAddsEveryElement) {
  for (const std::int64_t count : {0, 1, 100, 100000}) {
    std::vector<float> values(static_cast<std::size_t>(count), 3.0f);
    std::vector<float> sum(values.size() + 1, 4.0f);
    cpu_kernels().add(values.data(), count, sum.data(), nullptr);
    for (std::int64_t k = 0; k < count; ++k) ASSERT_EQ(sum[k], 7) << k;
    EXPECT_EQ(sum.back(), 4);
  }
}

}  // namespace
}  // namespace lossgrid
