/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of DLTensors in float32 and bfloat16, and the text of an error, for the examples in C.
 */
#ifndef LOSSGRID_PLUGINS_ELEMENTS_H_
#define LOSSGRID_PLUGINS_ELEMENTS_H_

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lossgrid/plugin.h"

static inline int fail(lossgrid_error* error, const char* text) {
  snprintf(error->text, sizeof(error->text), "%s", text);
  return LOSSGRID_ERROR;
}

static inline double load(const DLTensor* tensor, int64_t row, int64_t column) {
  const int64_t at = row * tensor->strides[0] + column * tensor->strides[1];
  const char* data = (const char*)tensor->data + tensor->byte_offset;
  if (tensor->dtype.code == kDLFloat) return ((const float*)data)[at];
  const uint32_t word = (uint32_t)((const uint16_t*)data)[at] << 16; /* bfloat16 */
  float value;
  memcpy(&value, &word, sizeof(value));
  return value;
}

static inline void store(const DLTensor* tensor, int64_t row, int64_t column, double value) {
  const int64_t at = row * tensor->strides[0] + column * tensor->strides[1];
  char* data = (char*)tensor->data + tensor->byte_offset;
  const float single = (float)value;
  if (tensor->dtype.code == kDLFloat) {
    ((float*)data)[at] = single;
    return;
  }
  uint32_t word;
  memcpy(&word, &single, sizeof(word));
  word = isnan(single) ? word | 0x400000u : word + 0x7fffu + (word >> 16 & 1u); /* to even */
  ((uint16_t*)data)[at] = (uint16_t)(word >> 16);
}

/* All-reduces `count` doubles. */
static inline int reduce(const lossgrid_communicator* group, double* data, int64_t count, int op,
                         lossgrid_error* error) {
  if (group->all_reduce(group, data, (size_t)count, LOSSGRID_F64, op) == 0) return LOSSGRID_OK;
  fail(error, group->error_text(group));
  return LOSSGRID_COMMUNICATION;
}

#endif
