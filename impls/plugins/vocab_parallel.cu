// SPDX-License-Identifier: Apache-2.0
// A plugin in CUDA: log-probabilities of the own rows from vocabulary-parallel float32 logits. The
// kernels run on the stream of the context; collectives come after all work on it.
#include <cfloat>
#include <cstdint>
#include <cstdio>

#include <cuda_runtime.h>

#include "lossgrid/plugin.h"

namespace {

constexpr int kThreads = 256;

// Rows of logits on a rank, and the ids of their columns.
struct Rows {
  const float* logits;
  int64_t stride;
  int64_t columns;
  const int64_t* labels;
  int64_t first_id;
};

// Reduces one value of each thread of a block; thread 0 has the result.
template <typename F>
__device__ double reduce(double value, F combine) {
  __shared__ double values[kThreads];
  values[threadIdx.x] = value;
  for (int width = kThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) {
      values[threadIdx.x] = combine(values[threadIdx.x], values[threadIdx.x + width]);
    }
  }
  return values[0];
}

__global__ void row_max(Rows rows, double* max) {
  const float* row = rows.logits + blockIdx.x * rows.stride;
  double most = -INFINITY;
  for (int64_t c = threadIdx.x; c < rows.columns; c += kThreads)
    most = fmax(most, static_cast<double>(row[c]));
  most = reduce(most, [](double a, double b) { return a > b ? a : b; });
  if (threadIdx.x == 0) max[blockIdx.x] = most;
}

// Writes sums of exp(x - max), and behind them the logits of the targets.
__global__ void row_sums(Rows rows, const double* max, double* sums) {
  const float* row = rows.logits + blockIdx.x * rows.stride;
  double sum = 0;
  for (int64_t c = threadIdx.x; c < rows.columns; c += kThreads)
    sum += exp(row[c] - max[blockIdx.x]);
  sum = reduce(sum, [](double a, double b) { return a + b; });
  if (threadIdx.x != 0) return;
  const int64_t target = rows.labels[blockIdx.x] - rows.first_id;
  sums[blockIdx.x] = sum;
  sums[gridDim.x + blockIdx.x] = target >= 0 && target < rows.columns ? row[target] : 0;
}

__global__ void finish(int64_t rows, const double* max, const double* sums, float* logprobs) {
  const int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (row < rows) logprobs[row] = static_cast<float>(sums[rows + row] - max[row] - log(sums[row]));
}

__global__ void gradient(Rows rows, const double* max, const double* sums, const float* upstream,
                         float* out) {
  const float* row = rows.logits + blockIdx.x * rows.stride;
  const int64_t target = rows.labels[blockIdx.x] - rows.first_id;
  for (int64_t c = threadIdx.x; c < rows.columns; c += kThreads) {
    const double p = exp(row[c] - max[blockIdx.x]) / sums[blockIdx.x];
    out[blockIdx.x * rows.stride + c] =
        static_cast<float>(upstream[blockIdx.x] * ((c == target ? 1 : 0) - p));
  }
}

struct Plan {
  const lossgrid_context* context;
  double* max;
  double* sums;
};

int fail(lossgrid_error* error, const char* text) {
  std::snprintf(error->text, sizeof(error->text), "%s", text);
  return LOSSGRID_ERROR;
}

int launched(lossgrid_error* error) {
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? LOSSGRID_OK : fail(error, cudaGetErrorString(status));
}

cudaStream_t stream_of(const Plan& plan) {
  return static_cast<cudaStream_t>(plan.context->stream);
}

unsigned rows_of(const Plan& plan) {
  return static_cast<unsigned>(plan.context->problem->own_rows);
}

Rows rows_of(const Plan& plan, const DLTensor* logits) {
  return {static_cast<const float*>(logits->data), logits->strides[0], logits->shape[1],
          static_cast<const int64_t*>(plan.context->labels->data),
          plan.context->problem->vocab_start};
}

int supports(void*, const lossgrid_problem* problem, char* reason, size_t size, lossgrid_error*) {
  if (problem->device.device_type != kDLCUDA) std::snprintf(reason, size, "runs on GPUs");
  if (problem->dtype.code != kDLFloat || problem->dtype.bits != 32) {
    std::snprintf(reason, size, "takes float32 alone");
  }
  return LOSSGRID_OK;
}

void destroy(void* plan) {
  auto* own = static_cast<Plan*>(plan);
  own->context->release(own->context, own->max);
  own->context->release(own->context, own->sums);
  delete own;
}

int make_plan(void*, const lossgrid_context* context, void** plan, lossgrid_error* error) {
  const size_t bytes = static_cast<size_t>(context->problem->own_rows) * sizeof(double);
  auto* own = new Plan{context, nullptr, nullptr};
  own->max = static_cast<double*>(context->allocate(context, bytes, "row_max"));
  own->sums = static_cast<double*>(context->allocate(context, 2 * bytes, "row_sums"));
  if (own->max == nullptr || own->sums == nullptr) {
    destroy(own);
    fail(error, "no memory for the rows");
    return LOSSGRID_OUT_OF_MEMORY;
  }
  *plan = own;
  return LOSSGRID_OK;
}

int forward(void* plan, const lossgrid_inputs* inputs, lossgrid_outputs* outputs, int,
            lossgrid_error* error) {
  const Plan& own = *static_cast<Plan*>(plan);
  const lossgrid_communicator* tp = own.context->tp;
  const Rows rows = rows_of(own, inputs->logits);
  const unsigned count = rows_of(own);
  if (count == 0) return LOSSGRID_OK;
  row_max<<<count, kThreads, 0, stream_of(own)>>>(rows, own.max);
  if (tp->all_reduce(tp, own.max, count, LOSSGRID_F64, LOSSGRID_MAX) != LOSSGRID_OK) {
    fail(error, tp->error_text(tp));
    return LOSSGRID_COMMUNICATION;
  }
  row_sums<<<count, kThreads, 0, stream_of(own)>>>(rows, own.max, own.sums);
  if (tp->all_reduce(tp, own.sums, 2 * size_t{count}, LOSSGRID_F64, LOSSGRID_SUM) != LOSSGRID_OK) {
    fail(error, tp->error_text(tp));
    return LOSSGRID_COMMUNICATION;
  }
  finish<<<(count + kThreads - 1) / kThreads, kThreads, 0, stream_of(own)>>>(
      count, own.max, own.sums, static_cast<float*>(outputs->logprobs->data));
  return launched(error);
}

int backward(void* plan, const lossgrid_inputs* inputs, const lossgrid_upstream* upstream,
             const lossgrid_gradients* gradients, lossgrid_error* error) {
  const Plan& own = *static_cast<Plan*>(plan);
  if (rows_of(own) == 0) return LOSSGRID_OK;
  gradient<<<rows_of(own), kThreads, 0, stream_of(own)>>>(
      rows_of(own, inputs->logits), own.max, own.sums,
      static_cast<const float*>(upstream->logprobs->data),
      static_cast<float*>(gradients->logits->data));
  return launched(error);
}

const lossgrid_description* describe(void*) {
  static const lossgrid_description description = [] {
    lossgrid_description all{};
    all.struct_size = sizeof(all);
    all.name = "cuda_vocab_parallel";
    all.summary = "one block a row, two all-reduces over TP";
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
