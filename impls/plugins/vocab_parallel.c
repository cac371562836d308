/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin in C: log-probabilities of the own rows from vocabulary-parallel logits in float32 or
 * bfloat16. Forward: one all-reduce over TP for the maxima of the rows, one for their sums and
 * target logits. The backward communicates nothing. */
#include <stdlib.h>

#include "elements.h"

/* State of a pack on a rank. Arrays have an element for each own row. */
typedef struct {
  const lossgrid_context* context;
  int64_t rows;
  double* max;  /* over the whole vocabulary */
  double* sums; /* [2 rows]: sums of exp(x - max), then logits of the targets */
} plan_state;

static int supports(void* user, const lossgrid_problem* problem, char* reason, size_t size,
                    lossgrid_error* error) {
  (void)user;
  (void)error;
  if (problem->dtype.bits == 64) snprintf(reason, size, "float64 is not written");
  if (problem->device.device_type != kDLCPU) snprintf(reason, size, "runs on processors");
  return LOSSGRID_OK;
}

static int cost(void* user, const lossgrid_problem* problem, lossgrid_cost* out,
                lossgrid_error* error) {
  (void)user;
  (void)error;
  const int64_t row_bytes = (int64_t)sizeof(double);
  const lossgrid_cost_call reductions = {"tp", "all_reduce", 2, 3 * row_bytes * problem->own_rows};
  out->forward.peak_bytes = out->backward.peak_bytes = 0; /* all is allocated by the plan */
  out->forward.call_count = 1;
  out->forward.calls[0] = reductions;
  out->backward.call_count = 0;
  return LOSSGRID_OK;
}

static void destroy(void* plan) {
  plan_state* state = plan;
  state->context->release(state->context, state->max);
  state->context->release(state->context, state->sums);
  free(state);
}

static int make_plan(void* user, const lossgrid_context* context, void** plan,
                     lossgrid_error* error) {
  (void)user;
  plan_state* state = calloc(1, sizeof(plan_state));
  if (state == NULL) return LOSSGRID_OUT_OF_MEMORY;
  const size_t bytes = (size_t)context->problem->own_rows * sizeof(double);
  state->context = context;
  state->rows = context->problem->own_rows;
  state->max = context->allocate(context, bytes, "row_max");
  state->sums = context->allocate(context, 2 * bytes, "row_sums");
  if (state->max == NULL || state->sums == NULL) {
    destroy(state);
    fail(error, "no memory for the rows");
    return LOSSGRID_OUT_OF_MEMORY;
  }
  *plan = state;
  return LOSSGRID_OK;
}

/* Returns the column of the target of a row, -1 if another rank has it. */
static int64_t target_column(const plan_state* state, int64_t row) {
  const lossgrid_problem* problem = state->context->problem;
  const int64_t id = ((const int64_t*)state->context->labels->data)[row];
  return id >= problem->vocab_start && id < problem->vocab_end ? id - problem->vocab_start : -1;
}

static int forward(void* plan, const lossgrid_inputs* inputs, lossgrid_outputs* outputs,
                   int needs_gradient, lossgrid_error* error) {
  plan_state* state = plan;
  const lossgrid_communicator* tp = state->context->tp;
  const DLTensor* logits = inputs->logits;
  const int64_t columns = logits->shape[1];
  double* targets = state->sums + state->rows;
  (void)needs_gradient;
  for (int64_t row = 0; row < state->rows; ++row) {
    double max = -INFINITY;
    for (int64_t c = 0; c < columns; ++c) max = fmax(max, load(logits, row, c));
    state->max[row] = max;
  }
  if (tp->all_reduce(tp, state->max, (size_t)state->rows, LOSSGRID_F64, LOSSGRID_MAX) != 0) {
    fail(error, tp->error_text(tp));
    return LOSSGRID_COMMUNICATION;
  }
  for (int64_t row = 0; row < state->rows; ++row) {
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += exp(load(logits, row, c) - state->max[row]);
    const int64_t target = target_column(state, row);
    state->sums[row] = sum;
    targets[row] = target < 0 ? 0 : load(logits, row, target);
  }
  if (tp->all_reduce(tp, state->sums, 2 * (size_t)state->rows, LOSSGRID_F64, LOSSGRID_SUM) != 0) {
    fail(error, tp->error_text(tp));
    return LOSSGRID_COMMUNICATION;
  }
  float* logprobs = outputs->logprobs->data;
  for (int64_t row = 0; row < state->rows; ++row) {
    logprobs[row] = (float)(targets[row] - state->max[row] - log(state->sums[row]));
  }
  return LOSSGRID_OK;
}

static int backward(void* plan, const lossgrid_inputs* inputs, const lossgrid_upstream* upstream,
                    const lossgrid_gradients* gradients, lossgrid_error* error) {
  const plan_state* state = plan;
  const DLTensor* logits = inputs->logits;
  const float* of_logprobs = upstream->logprobs->data;
  (void)error;
  for (int64_t row = 0; row < state->rows; ++row) {
    const int64_t target = target_column(state, row);
    for (int64_t c = 0; c < logits->shape[1]; ++c) {
      const double p = exp(load(logits, row, c) - state->max[row]) / state->sums[row];
      store(gradients->logits, row, c, of_logprobs[row] * ((c == target) - p));
    }
  }
  return LOSSGRID_OK;
}

static const lossgrid_description* describe(void* user) {
  static const lossgrid_description description = {
      .struct_size = sizeof(lossgrid_description),
      .name = "c_vocab_parallel",
      .summary = "two all-reduces over TP, sums in double",
      .inputs = "logits",
      .returns = "logprobs",
      .rows = "shard",
  };
  (void)user;
  return &description;
}

const lossgrid_plugin* lossgrid_plugin_entry(void) {
  static const lossgrid_implementation implementation = {
      .struct_size = sizeof(lossgrid_implementation),
      .describe = describe,
      .supports = supports,
      .cost = cost,
      .plan = make_plan,
      .forward = forward,
      .backward = backward,
      .destroy = destroy,
  };
  static const lossgrid_implementation* const all[] = {&implementation};
  static const lossgrid_plugin plugin = {LOSSGRID_PLUGIN_ABI_VERSION, sizeof(lossgrid_plugin), all,
                                         1};
  return &plugin;
}
