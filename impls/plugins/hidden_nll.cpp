// SPDX-License-Identifier: Apache-2.0
// A plugin in C++: -log p from float32 hidden states and weight and bias of the lm_head, for all
// rows of the pack. Every rank computes its own rows, [block, own ids] logits at a time, and
// gathers the results over CP; the backward takes the part of the rank ("own_part"). Rows of the
// pack stand in the order of positions, which ranks exchange once.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <stdexcept>

#include "lossgrid/plugin.h"

namespace {

void check(const lossgrid_communicator* group, int code) {
  if (code != LOSSGRID_OK) throw std::runtime_error(group->error_text(group));
}

// Memory of the host, counted by it.
template <typename T>
class Array {
 public:
  Array(const lossgrid_context* context, int64_t size, const char* tag)
      : context_(context),
        data_(static_cast<T*>(
            context->allocate(context, static_cast<size_t>(size) * sizeof(T), tag))) {
    if (data_ == nullptr) throw std::bad_alloc();
  }
  ~Array() { context_->release(context_, data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T& operator[](int64_t i) { return data_[i]; }
  T* data() { return data_; }

 private:
  const lossgrid_context* context_;
  T* data_;
};

float& at(const DLTensor* tensor, int64_t row, int64_t column) {
  return static_cast<float*>(tensor->data)[row * tensor->strides[0] + column * tensor->strides[1]];
}

float& element(const DLTensor* vector, int64_t i) {
  return static_cast<float*>(vector->data)[i];
}

class Plan {
 public:
  explicit Plan(const lossgrid_context* context)
      : context_(context),
        problem_(*context->problem),
        block_(problem_.options[0].as_int),
        ids_(problem_.vocab_end - problem_.vocab_start),
        logits_(context, block_ * std::max<int64_t>(1, ids_), "logits_block"),
        max_(context, problem_.own_rows, "row_statistics"),
        sums_(context, 2 * problem_.own_rows, "row_statistics"),
        own_(context, problem_.own_rows, "nll"),
        gathered_(context, problem_.padded_tokens, "nll"),
        positions_(context, problem_.padded_tokens, "positions"),
        grad_hidden_(context, problem_.own_rows * problem_.hidden, "grad_hidden_sum") {
    const lossgrid_communicator* cp = context->cp;
    check(cp, cp->all_gather(cp, context->positions->data, positions_.data(),
                             static_cast<size_t>(problem_.own_rows), LOSSGRID_I64));
  }

  void forward(const lossgrid_inputs& inputs, const lossgrid_outputs& outputs) {
    const lossgrid_communicator* tp = context_->tp;
    const int64_t rows = problem_.own_rows;
    for_each_block(inputs, [&](int64_t row, const double* logits) {
      max_[row] = -std::numeric_limits<double>::infinity();
      for (int64_t v = 0; v < ids_; ++v) max_[row] = std::max(max_[row], logits[v]);
    });
    check(tp,
          tp->all_reduce(tp, max_.data(), static_cast<size_t>(rows), LOSSGRID_F64, LOSSGRID_MAX));
    for_each_block(inputs, [&](int64_t row, const double* logits) {
      sums_[row] = 0;
      for (int64_t v = 0; v < ids_; ++v) sums_[row] += std::exp(logits[v] - max_[row]);
      const int64_t target = target_of(row);
      sums_[rows + row] = target < 0 ? 0 : logits[target];
    });
    check(tp, tp->all_reduce(tp, sums_.data(), 2 * static_cast<size_t>(rows), LOSSGRID_F64,
                             LOSSGRID_SUM));
    for (int64_t row = 0; row < rows; ++row) {
      own_[row] = static_cast<float>(max_[row] + std::log(sums_[row]) - sums_[rows + row]);
    }
    const lossgrid_communicator* cp = context_->cp;
    check(cp, cp->all_gather(cp, own_.data(), gathered_.data(), static_cast<size_t>(rows),
                             LOSSGRID_F32));
    float* nll = static_cast<float*>(outputs.logprobs->data);
    for (int64_t k = 0; k < problem_.padded_tokens; ++k) nll[positions_[k]] = gathered_[k];
  }

  void backward(const lossgrid_inputs& inputs, const lossgrid_upstream& upstream,
                const lossgrid_gradients& gradients) {
    const auto* of_nll = static_cast<const float*>(upstream.logprobs->data);
    const auto* positions = static_cast<const int64_t*>(context_->positions->data);
    const int64_t hidden = problem_.hidden;
    for (int64_t k = 0; k < problem_.own_rows * hidden; ++k) grad_hidden_[k] = 0;
    for (int64_t v = 0; v < ids_; ++v) {
      for (int64_t h = 0; h < hidden; ++h) at(gradients.weight, v, h) = 0;
      if (gradients.bias != nullptr) element(gradients.bias, v) = 0;
    }
    for_each_block(inputs, [&](int64_t row, const double* logits) {
      const double g = of_nll[positions[row]] / problem_.temperature;
      const int64_t target = target_of(row);
      for (int64_t v = 0; v < ids_; ++v) {
        const double of_logit =
            g * (std::exp(logits[v] - max_[row]) / sums_[row] - (v == target ? 1 : 0));
        if (gradients.bias != nullptr) {
          element(gradients.bias, v) += static_cast<float>(of_logit);
        }
        for (int64_t h = 0; h < hidden; ++h) {
          grad_hidden_[row * hidden + h] += of_logit * at(inputs.weight, v, h);
          at(gradients.weight, v, h) += static_cast<float>(of_logit * at(inputs.hidden, row, h));
        }
      }
    });
    const lossgrid_communicator* tp = context_->tp;
    check(tp,
          tp->all_reduce(tp, grad_hidden_.data(), static_cast<size_t>(problem_.own_rows * hidden),
                         LOSSGRID_F64, LOSSGRID_SUM));
    for (int64_t row = 0; row < problem_.own_rows; ++row) {
      for (int64_t h = 0; h < hidden; ++h) {
        at(gradients.hidden, row, h) = static_cast<float>(grad_hidden_[row * hidden + h]);
      }
    }
  }

 private:
  // Calls f(row, its logits on this rank) for all own rows.
  template <typename F>
  void for_each_block(const lossgrid_inputs& inputs, const F& f) {
    for (int64_t begin = 0; begin < problem_.own_rows; begin += block_) {
      const int64_t end = std::min(begin + block_, problem_.own_rows);
      for (int64_t row = begin; row < end; ++row) {
        double* logits = logits_.data() + (row - begin) * ids_;
        for (int64_t v = 0; v < ids_; ++v) {
          double sum = inputs.bias != nullptr ? element(inputs.bias, v) : 0;
          for (int64_t h = 0; h < problem_.hidden; ++h) {
            sum += static_cast<double>(at(inputs.hidden, row, h)) * at(inputs.weight, v, h);
          }
          logits[v] = sum / problem_.temperature;
        }
      }
      for (int64_t row = begin; row < end; ++row) f(row, logits_.data() + (row - begin) * ids_);
    }
  }

  int64_t target_of(int64_t row) const {
    const int64_t id = static_cast<const int64_t*>(context_->labels->data)[row];
    return id >= problem_.vocab_start && id < problem_.vocab_end ? id - problem_.vocab_start : -1;
  }

  const lossgrid_context* context_;
  const lossgrid_problem& problem_;
  const int64_t block_;
  const int64_t ids_;
  Array<double> logits_;
  Array<double> max_;
  Array<double> sums_;  // of exp(x - max), then logits of the targets
  Array<float> own_;
  Array<float> gathered_;
  Array<int64_t> positions_;  // of the gathered rows
  Array<double> grad_hidden_;
};

// Exceptions stay on this side of the interface.
template <typename F>
int guarded(lossgrid_error* error, const F& f) {
  try {
    f();
    return LOSSGRID_OK;
  } catch (const std::bad_alloc&) {
    std::snprintf(error->text, sizeof(error->text), "no memory");
    return LOSSGRID_OUT_OF_MEMORY;
  } catch (const std::exception& exception) {
    std::snprintf(error->text, sizeof(error->text), "%s", exception.what());
    return LOSSGRID_ERROR;
  }
}

int supports(void*, const lossgrid_problem* problem, char* reason, size_t size, lossgrid_error*) {
  if (problem->dtype.code != kDLFloat || problem->dtype.bits != 32) {
    std::snprintf(reason, size, "takes float32 alone");
  } else if (problem->sequence_parallel != 0) {
    std::snprintf(reason, size, "takes all rows on every TP rank");
  } else if (problem->device.device_type != kDLCPU) {
    std::snprintf(reason, size, "runs on processors");
  }
  return LOSSGRID_OK;
}

int make_plan(void*, const lossgrid_context* context, void** plan, lossgrid_error* error) {
  return guarded(error, [&] { *plan = new Plan(context); });
}

int forward(void* plan, const lossgrid_inputs* inputs, lossgrid_outputs* outputs, int,
            lossgrid_error* error) {
  return guarded(error, [&] { static_cast<Plan*>(plan)->forward(*inputs, *outputs); });
}

int backward(void* plan, const lossgrid_inputs* inputs, const lossgrid_upstream* upstream,
             const lossgrid_gradients* gradients, lossgrid_error* error) {
  return guarded(error,
                 [&] { static_cast<Plan*>(plan)->backward(*inputs, *upstream, *gradients); });
}

void destroy(void* plan) {
  delete static_cast<Plan*>(plan);
}

const lossgrid_description* describe(void*) {
  static const lossgrid_option options[] = {{"block", "int", "4", "4,1,3"}};
  static const lossgrid_description description = [] {
    lossgrid_description all{};
    all.struct_size = sizeof(all);
    all.name = "cpp_hidden_nll";
    all.summary = "rows of the pack from hidden states, one gather over CP";
    all.inputs = "hidden";
    all.returns = "nll";
    all.rows = "pack";
    all.takes = "bias,layouts";
    all.options = options;
    all.option_count = 1;
    return all;
  }();
  return &description;
}

}  // namespace

extern "C" const lossgrid_plugin* lossgrid_plugin_entry(void) {
  static const lossgrid_implementation implementation = [] {
    lossgrid_implementation all{};
    all.struct_size = sizeof(all);
    all.describe = describe;
    all.supports = supports;
    all.plan = make_plan;
    all.forward = forward;
    all.backward = backward;
    all.destroy = destroy;
    return all;
  }();
  static const lossgrid_implementation* const table[] = {&implementation};
  static const lossgrid_plugin plugin{LOSSGRID_PLUGIN_ABI_VERSION, sizeof(lossgrid_plugin), table,
                                      1};
  return &plugin;
}
