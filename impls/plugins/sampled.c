/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-probabilities of a policy that samples from a part of its vocabulary: the softmax of the
 * transformed logits over the ids of the sampling mask, over all of them where there is none. The
 * calls are those of vocab_parallel.c. */
#include <stdlib.h>

#include "elements.h"

/* State of a pack on a rank. */
typedef struct {
  const lossgrid_context* context;
  int64_t rows;
  double* max;  /* [rows] of the kept ids of the whole vocabulary */
  double* sums; /* [3 rows]: sums of exp(z - max), z of the targets, targets that are left out */
} sampled_state;

static int is_kept(const lossgrid_inputs* inputs, int64_t row, int64_t column) {
  const DLTensor* mask = inputs->sampling_mask;
  if (mask == NULL) return 1;
  const uint8_t* data = (const uint8_t*)mask->data + mask->byte_offset;
  return data[row * mask->strides[0] + column * mask->strides[1]];
}

/* Returns z of a logit, -inf of one that is not kept. */
static double kept_logit(const sampled_state* state, const lossgrid_inputs* inputs, int64_t row,
                         int64_t column) {
  const lossgrid_problem* problem = state->context->problem;
  const double x = problem->logit_scale * load(inputs->logits, row, column);
  const double cap = problem->logit_softcap;
  if (isinf(x) || !is_kept(inputs, row, column)) return -INFINITY;
  return (cap > 0 ? cap * tanh(x / cap) : x) / problem->temperature;
}

/* Returns dz / d logit. */
static double slope(const lossgrid_problem* problem, double z) {
  const double factor = problem->logit_scale / problem->temperature;
  if (problem->logit_softcap == 0 || isinf(z)) return factor;
  const double share = z * problem->temperature / problem->logit_softcap;
  return factor * (1 - share * share);
}

/* Returns the column of the target of a row, -1 if another rank has it. */
static int64_t target_column(const sampled_state* state, int64_t row) {
  const lossgrid_problem* problem = state->context->problem;
  const int64_t id = ((const int64_t*)state->context->labels->data)[row];
  return id >= problem->vocab_start && id < problem->vocab_end ? id - problem->vocab_start : -1;
}

/* Returns 1 for a row without a log-probability: its target is left out, or all ids are. */
static int is_filtered(const sampled_state* state, int64_t row) {
  return state->sums[2 * state->rows + row] > 0 || state->sums[row] == 0;
}

static int forward(void* plan, const lossgrid_inputs* inputs, lossgrid_outputs* outputs,
                   int needs_gradient, lossgrid_error* error) {
  sampled_state* state = plan;
  const lossgrid_communicator* tp = state->context->tp;
  const int64_t rows = state->rows;
  const int64_t columns = inputs->logits->shape[1];
  (void)needs_gradient;
  for (int64_t row = 0; row < rows; ++row) {
    double max = -INFINITY;
    for (int64_t c = 0; c < columns; ++c) max = fmax(max, kept_logit(state, inputs, row, c));
    state->max[row] = max;
  }
  int code = reduce(tp, state->max, rows, LOSSGRID_MAX, error);
  if (code != LOSSGRID_OK) return code;
  for (int64_t row = 0; row < rows; ++row) {
    double* sums = state->sums + row;
    const int64_t target = target_column(state, row);
    if (isinf(state->max[row])) state->max[row] = 0; /* no id is kept */
    sums[0] = 0;
    for (int64_t c = 0; c < columns; ++c) {
      sums[0] += exp(kept_logit(state, inputs, row, c) - state->max[row]);
    }
    sums[rows] = target < 0 ? 0 : kept_logit(state, inputs, row, target);
    sums[2 * rows] = target >= 0 && !is_kept(inputs, row, target);
  }
  code = reduce(tp, state->sums, 3 * rows, LOSSGRID_SUM, error);
  float* logprobs = outputs->logprobs->data;
  for (int64_t row = 0; row < rows; ++row) {
    const double* sums = state->sums + row;
    logprobs[row] =
        is_filtered(state, row) ? 0 : (float)(sums[rows] - state->max[row] - log(sums[0]));
  }
  return code;
}

static int backward(void* plan, const lossgrid_inputs* inputs, const lossgrid_upstream* upstream,
                    const lossgrid_gradients* gradients, lossgrid_error* error) {
  const sampled_state* state = plan;
  const float* of_logprobs = upstream->logprobs->data;
  (void)error;
  for (int64_t row = 0; row < state->rows; ++row) {
    const int64_t target = target_column(state, row);
    for (int64_t c = 0; c < inputs->logits->shape[1]; ++c) {
      double gradient = 0;
      if (!is_filtered(state, row) && is_kept(inputs, row, c)) {
        const double z = kept_logit(state, inputs, row, c);
        const double p = exp(z - state->max[row]) / state->sums[row];
        gradient = of_logprobs[row] * ((c == target) - p) * slope(state->context->problem, z);
      }
      store(gradients->logits, row, c, gradient);
    }
  }
  return LOSSGRID_OK;
}

static void destroy(void* plan) {
  sampled_state* state = plan;
  state->context->release(state->context, state->max);
  state->context->release(state->context, state->sums);
  free(state);
}

static int make_plan(void* user, const lossgrid_context* context, void** plan,
                     lossgrid_error* error) {
  (void)user;
  sampled_state* state = calloc(1, sizeof(sampled_state));
  if (state == NULL) return LOSSGRID_OUT_OF_MEMORY;
  const size_t bytes = (size_t)context->problem->own_rows * sizeof(double);
  state->context = context;
  state->rows = context->problem->own_rows;
  state->max = context->allocate(context, bytes, "row_max");
  state->sums = context->allocate(context, 3 * bytes, "row_sums");
  if (state->max == NULL || state->sums == NULL) {
    destroy(state);
    fail(error, "no memory for the rows");
    return LOSSGRID_OUT_OF_MEMORY;
  }
  *plan = state;
  return LOSSGRID_OK;
}

static int supports(void* user, const lossgrid_problem* problem, char* reason, size_t size,
                    lossgrid_error* error) {
  (void)user;
  (void)error;
  if (problem->dtype.bits == 64) snprintf(reason, size, "float64 is not written");
  if (problem->device.device_type != kDLCPU) snprintf(reason, size, "runs on processors");
  return LOSSGRID_OK;
}

static const lossgrid_description* describe(void* user) {
  static const lossgrid_description description = {
      .struct_size = sizeof(lossgrid_description),
      .name = "c_sampled",
      .summary = "the softmax over the ids that the sampler could have drawn",
      .takes = "transforms,sampling_mask,layouts"};
  (void)user;
  return &description;
}

LOSSGRID_EXPORT const lossgrid_plugin* lossgrid_plugin_entry(void) {
  static const lossgrid_implementation implementation = {.struct_size = sizeof(implementation),
                                                         .describe = describe,
                                                         .supports = supports,
                                                         .plan = make_plan,
                                                         .forward = forward,
                                                         .backward = backward,
                                                         .destroy = destroy};
  static const lossgrid_implementation* const all[] = {&implementation};
  static const lossgrid_plugin plugin = {LOSSGRID_PLUGIN_ABI_VERSION, sizeof(lossgrid_plugin), all,
                                         1};
  return &plugin;
}
