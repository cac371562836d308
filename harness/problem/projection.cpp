// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/projection.h"

#include <utility>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

class ProjectedLogits final : public LogitsSource {
 public:
  explicit ProjectedLogits(std::shared_ptr<const Projection> projection)
      : projection_(std::move(projection)) {}

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    read_as(token, begin, out);
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    read_as(token, begin, out);
  }

 private:
  template <typename Out>
  void read_as(std::int64_t token, std::int64_t begin, std::span<Out> out) const {
    const std::int64_t size = projection_->size;
    const float* hidden = projection_->hidden.data() + token * size;
    const float* weight = projection_->weight.data() + begin * size;
    for (Out& logit : out) {
      double sum = 0;
      for (std::int64_t k = 0; k < size; ++k) {
        sum += static_cast<double>(hidden[k]) * static_cast<double>(weight[k]);
      }
      logit = static_cast<Out>(static_cast<float>(sum));
      weight += size;
    }
  }

  std::shared_ptr<const Projection> projection_;
};

void require_size(const Projection& projection, std::span<const double> grad_logits) {
  const auto elements = static_cast<std::size_t>(projection.tokens * projection.vocab);
  if (grad_logits.size() == elements) return;
  throw Error(ErrorCode::internal, fmt::format("a gradient of {} elements for logits of {}",
                                               grad_logits.size(), elements));
}

void add_scaled(double factor, const float* row, std::int64_t size, double* sum) {
  for (std::int64_t k = 0; k < size; ++k) sum[k] += factor * static_cast<double>(row[k]);
}

}  // namespace

std::shared_ptr<const LogitsSource> make_projected_logits(
    std::shared_ptr<const Projection> projection) {
  return std::make_shared<ProjectedLogits>(std::move(projection));
}

std::vector<double> grad_hidden(const Projection& projection, std::span<const double> grad_logits) {
  require_size(projection, grad_logits);
  const std::int64_t size = projection.size;
  std::vector<double> grad(projection.hidden.size(), 0.0);
  for (std::int64_t t = 0; t < projection.tokens; ++t) {
    for (std::int64_t v = 0; v < projection.vocab; ++v) {
      add_scaled(grad_logits[t * projection.vocab + v], projection.weight.data() + v * size, size,
                 grad.data() + t * size);
    }
  }
  return grad;
}

std::vector<double> grad_weight(const Projection& projection, std::span<const double> grad_logits) {
  require_size(projection, grad_logits);
  const std::int64_t size = projection.size;
  std::vector<double> grad(projection.weight.size(), 0.0);
  for (std::int64_t t = 0; t < projection.tokens; ++t) {
    for (std::int64_t v = 0; v < projection.vocab; ++v) {
      add_scaled(grad_logits[t * projection.vocab + v], projection.hidden.data() + t * size, size,
                 grad.data() + v * size);
    }
  }
  return grad;
}

}  // namespace lossgrid
